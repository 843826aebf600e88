// The Vercel AI SDK: the same questions through each of its providers; `responses` is the default of OpenAI's.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { given, report } from "./report.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const place = { baseURL: `${given.base}/v1`, apiKey: given.key };
const openai = createOpenAI(place);
const anthropic = createAnthropic(place);

const thinking = {
  openai: { reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true },
  anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } },
};
const providers = {
  responses: { make: openai, options: thinking },
  unstored: { make: openai, options: { openai: { ...thinking.openai, store: false } } },
  chat: { make: openai.chat, options: {} },
  messages: { make: anthropic, options: thinking },
};

const tools = {
  get_weather: tool({
    description: "Look up current weather.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `4 C in ${city}`,
  }),
};

const steps = (result) =>
  result.map((step) => ({
    text: step.text,
    reasoning: step.reasoningText ?? null,
    calls: step.toolCalls.map(({ toolName, input }) => [toolName, input]),
    finish: step.finishReason,
    tokens: [step.usage.inputTokens, step.usage.outputTokens],
  }));

async function streamed(asked) {
  const result = streamText({ ...asked, onError: () => {} });
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  return steps(await result.steps);
}

const whole = async (asked) => steps((await generateText(asked)).steps);

for (const [name, { make, options }] of Object.entries(providers)) {
  const base = { model: make(given.model), maxOutputTokens: 4000, maxRetries: 0 };
  const thoughtful = { ...base, providerOptions: options };
  const tooled = { ...thoughtful, tools, stopWhen: stepCountIs(3) };
  for (const [way, ask] of Object.entries({ streamed, whole })) {
    await report(`${name} ${way} text`, () => ask({ ...base, prompt: "sim:text" }));
    await report(`${name} ${way} tools`, () => ask({ ...tooled, prompt: given.call }));
    await report(`${name} ${way} thinking`, () => ask({ ...thoughtful, prompt: "sim:thinking" }));
    await report(`${name} ${way} refused`, () => ask({ ...base, model: make("no-such-model"), prompt: "Sing." }));
  }
  await report(`${name} streamed broken`, () => streamed({ ...base, prompt: "sim:exception" }));
}
const completion = { model: openai.completion(given.model), maxRetries: 0 };
await report("completion streamed broken", () => streamed({ ...completion, prompt: "sim:exception" }));
