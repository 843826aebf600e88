// Threads of the Anthropic SDK.

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { given, report, user } from "./report.mjs";

const { messages } = new Anthropic({ baseURL: given.gateway, apiKey: given.key, maxRetries: 0, timeout: 20_000 }).beta;
const common = { model: given.model, max_tokens: 1000 };
const text = (message) => message.content.map((block) => block.text ?? "").join("");

const now = betaTool({
  name: "now",
  description: "Tell the time.",
  inputSchema: { type: "object", properties: {} },
  run: () => "noon",
});

async function runner(stream) {
  const running = messages.toolRunner({ ...common, messages: user(given.called), tools: [now], stream });
  for await (const turn of running) if (stream) await turn.finalMessage();
  return text(await running.done());
}

async function thread(stream) {
  const held = messages.thread({ ...common, unsupportedRequestBehavior: "continue_unthreaded" });
  let last;
  for (const content of [given.first, given.second]) {
    const [turn] = user(content);
    last = stream ? await held.stream(turn).finalMessage() : await held.send(turn);
  }
  return text(last);
}

async function told() {
  const [turn] = user(given.first);
  const error = await messages.thread(common).send(turn).catch((thrown) => thrown);
  return { status: error.status, details: error.error?.error?.details };
}

const questions = {
  "runner true": () => runner(true),
  "runner false": () => runner(false),
  "thread true": () => thread(true),
  "thread false": () => thread(false),
  told,
};

await report(given.question, questions[given.question]);
