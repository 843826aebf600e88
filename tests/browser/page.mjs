// Runs in the page: asks the gateway by both SDKs, and leaves what happened in window.report.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const gateway = new URLSearchParams(location.search).get("gateway");
const model = "claude-sonnet-4.5";
const messages = [{ role: "user", content: "sim:slow" }];

const openai = (apiKey) =>
  new OpenAI({ baseURL: `${gateway}/v1`, apiKey, maxRetries: 0, dangerouslyAllowBrowser: true });
const anthropic = (apiKey) =>
  new Anthropic({ baseURL: gateway, apiKey, maxRetries: 0, dangerouslyAllowBrowser: true });

async function pieces(stream, textOf) {
  const found = [];
  for await (const event of stream) {
    const text = textOf(event);
    if (text) found.push({ text, at: performance.now() });
  }
  return found;
}

const questions = {
  chat: async () =>
    pieces(
      await openai("k").chat.completions.create({ model, messages, stream: true }),
      (chunk) => chunk.choices[0]?.delta?.content,
    ),
  responses: async () =>
    pieces(
      await openai("k").responses.create({ model, input: "sim:slow", stream: true }),
      (event) => event.type === "response.output_text.delta" && event.delta,
    ),
  messages: async () =>
    pieces(
      await anthropic("k").messages.create({ model, messages, max_tokens: 1000, stream: true }),
      (event) => event.delta?.text,
    ),
  collected: async () => (await openai("k").responses.create({ model, input: "sim:text" }))._request_id,
  deleted: async () => {
    const made = await openai("k").responses.create({ model, input: "sim:text" });
    await openai("k").responses.delete(made.id);
    return made.id;
  },
  models: async () => (await anthropic("k").models.list()).data.length,
  "wrong key": () => openai("x").models.list(),
  "wrong key, messages": () => anthropic("x").messages.create({ model, messages, max_tokens: 9 }),
  "too long": () => openai("k").chat.completions.create({ model, messages: [{ role: "user", content: "x".repeat(40_000) }] }),
  "rate limit": () =>
    anthropic("k").messages.create({ model, messages: [{ role: "user", content: "sim:429" }], max_tokens: 9 }),
};

const report = {};
for (const [name, ask] of Object.entries(questions)) {
  try {
    report[name] = { value: await ask() };
  } catch (error) {
    const retry = error.headers?.get?.("x-should-retry") ?? null;
    report[name] = { error: error.constructor.name, status: error.status ?? null, id: error.requestID ?? null, retry };
  }
}
window.report = report;
