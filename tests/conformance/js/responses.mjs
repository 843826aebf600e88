// The OpenAI SDK and its Responses API.

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { all, given, report } from "./report.mjs";

const connect = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: given.key, maxRetries: 0, timeout: 20_000 });

const client = connect(given.gateway);
const asked = (input, more) => ({ model: given.model, input, store: false, ...more });
const thinking = { model: given.native, reasoning: { effort: "high" } };
const tools = [...given.responsesTools, { type: "custom", name: "apply_patch" }];

await report("create", () => client.responses.create(asked("sim:text")));

await report("stream", async () => {
  const events = await all(await client.responses.create(asked("sim:text", { stream: true })));
  return events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
});

for (const [content, more] of [
  ["sim:text", {}],
  ["sim:unicode", {}],
  ["sim:count=300", {}],
  ["sim:length", {}],
  ["sim:filtered", {}],
  ["sim:parallel", { tools }],
  ["sim:tool=apply_patch", { tools }],
  ["sim:thinking", thinking],
  ["sim:thinking sim:bytes", { ...thinking, reasoning: { summary: "auto" } }],
  ["sim:redacted", thinking],
  ["sim:tool=web_search", { tools: [{ type: "web_search" }] }],
]) {
  await report(`helper ${content}`, async () => {
    const streamed = await client.responses.stream(asked(content, more)).finalResponse();
    const whole = await client.responses.create(asked(content, more));
    return { streamed, whole };
  });
}

await report("parse", async () => {
  const City = z.object({ name: z.string(), population: z.number(), sights: z.array(z.string()) });
  const format = { text: { format: zodTextFormat(City, "city") } };
  const whole = await client.responses.parse(asked("Tell me about Oslo", format));
  const streamed = await client.responses.stream(asked("Tell me about Oslo", format)).finalResponse();
  return { whole: whole.output_parsed, streamed: streamed.output_parsed };
});

for (const marker of given.broken) {
  await report(`broken ${marker}`, async () =>
    all(await connect(given.impatient).responses.create(asked(`sim:${marker}`, { stream: true }))),
  );
}
