// The Anthropic SDK.

import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

import { all, given, report, user } from "./report.mjs";

const connect = (base, options) =>
  new Anthropic({ baseURL: base, apiKey: given.key, maxRetries: 0, timeout: 20_000, ...options });

const client = connect(given.gateway);
const impatient = connect(given.impatient);
const asked = (content, more) => ({ model: given.model, max_tokens: 1000, messages: user(content), ...more });
const tools = given.messagesTools;

await report("create", () => client.messages.create(asked("sim:text")));
await report("request-id", async () => (await client.messages.create(asked("sim:text")))._request_id);
await report("old version", () =>
  connect(given.gateway, { defaultHeaders: { "anthropic-version": "2023-06-01" } }).messages.create(asked("sim:text")),
);

await report("stream", async () => {
  const events = await all(await client.messages.create(asked("sim:text", { stream: true })));
  return events.map((event) => event.type);
});

for (const [content, more] of [
  ["sim:text", {}],
  ["sim:unicode", {}],
  ["sim:parallel", { tools }],
  ["sim:tool=now", { tools }],
  ["sim:thinking", { thinking: { type: "adaptive" } }],
  ["sim:redacted", {}],
  ["sim:text sim:bytes", { stop_sequences: ["answer"] }],
]) {
  await report(`helper ${content}`, async () => {
    const whole = await client.messages.create(asked(content, more));
    const streamed = await client.messages.stream(asked(content, more)).finalMessage();
    const beta = await client.beta.messages.stream(asked(content, more)).finalMessage();
    return { whole, streamed, beta };
  });
}

await report("parse", async () => {
  const City = z.object({ name: z.string(), population: z.number(), sights: z.array(z.string()) });
  const format = { output_config: { format: zodOutputFormat(City) } };
  return (await client.messages.parse(asked("Tell me about Oslo", format))).parsed_output;
});

await report("count", async () => ({
  plain: (await client.messages.countTokens({ model: given.model, messages: user("Hello") })).input_tokens,
  beta: (await client.beta.messages.countTokens({ model: given.model, messages: user("Hello") })).input_tokens,
}));

await report("models", async () => (await all(client.models.list())).map((model) => model.id));

for (const trouble of given.troubles) {
  const target = connect(trouble.impatient ? given.impatient : given.gateway, { apiKey: trouble.key });
  await report(`trouble ${trouble.name}`, () =>
    target.messages.create({ model: trouble.model, max_tokens: 99, messages: user(trouble.content) }),
  );
}

for (const marker of given.broken) {
  await report(`broken ${marker}`, async () =>
    all(await impatient.messages.create(asked(`sim:${marker}`, { stream: true }))),
  );
  await report(`broken helper ${marker}`, () => impatient.messages.stream(asked(`sim:${marker}`)).finalMessage());
}

const patient = connect(given.impatient, { maxRetries: 1 });
await report("retry passing", () => patient.messages.create(asked(given.retried.messages)));
await report("retry final", () => patient.messages.create(asked(given.final.messages)));
