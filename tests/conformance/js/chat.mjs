// The OpenAI SDK.

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { all, given, report, user } from "./report.mjs";

const connect = (base, options) =>
  new OpenAI({ baseURL: `${base}/v1`, apiKey: given.key, maxRetries: 0, timeout: 20_000, ...options });

const client = connect(given.gateway);
const impatient = connect(given.impatient);
const asked = (content, more) => ({ model: given.model, messages: user(content), ...more });
const tools = given.chatTools;

await report("create", () => client.chat.completions.create(asked("sim:text")));
await report("request-id", async () => (await client.chat.completions.create(asked("sim:text")))._request_id);

await report("stream", async () => {
  const chunks = await all(await client.chat.completions.create(asked("sim:text", { stream: true })));
  return chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("");
});

for (const content of ["sim:text", "sim:unicode", "sim:count=300", "sim:length", "sim:text sim:bytes"]) {
  await report(`helper ${content}`, async () => {
    const stream = client.chat.completions.stream(asked(content, { stream_options: { include_usage: true } }));
    const streamed = await stream.finalChatCompletion();
    const whole = await client.chat.completions.create(asked(content));
    return { streamed, usage: await stream.totalUsage(), whole };
  });
}

for (const content of ["sim:interleaved=1", "sim:parallel", "sim:tool=now"]) {
  await report(`tools ${content}`, () =>
    client.chat.completions.stream(asked(content, { tools })).finalChatCompletion(),
  );
}

await report("parse", async () => {
  const City = z.object({ name: z.string(), population: z.number(), sights: z.array(z.string()) });
  const format = { response_format: zodResponseFormat(City, "city") };
  const whole = await client.chat.completions.parse(asked("Tell me about Oslo", format));
  const streamed = await client.chat.completions.stream(asked("Tell me about Oslo", format)).finalChatCompletion();
  return { whole: whole.choices[0].message.parsed, streamed: streamed.choices[0].message.parsed };
});

await report("models", async () => (await all(client.models.list())).map((model) => model.id));

for (const trouble of given.troubles) {
  const target = connect(trouble.impatient ? given.impatient : given.gateway, { apiKey: trouble.key });
  await report(`trouble ${trouble.name}`, () =>
    target.chat.completions.create({ model: trouble.model, messages: user(trouble.content) }),
  );
}

for (const marker of given.broken) {
  await report(`broken ${marker}`, async () =>
    all(await impatient.chat.completions.create(asked(`sim:${marker}`, { stream: true }))),
  );
  await report(`broken helper ${marker}`, () =>
    impatient.chat.completions.stream(asked(`sim:${marker}`)).finalChatCompletion(),
  );
}

for (const model of given.embeddingModels) {
  await report(`embeddings ${model}`, async () => {
    const made = await client.embeddings.create({ model, input: ["a cat", "a dog"] });
    const numbers = await client.embeddings.create({ model, input: "a cat", encoding_format: "float" });
    return { model: made.model, vectors: made.data.map((each) => each.embedding), float: numbers.data[0].embedding };
  });
}

const patient = connect(given.impatient, { maxRetries: 1 });
await report("retry passing", () => patient.chat.completions.create(asked(given.retried.chat)));
await report("retry final", () => patient.chat.completions.create(asked(given.final.chat)));
