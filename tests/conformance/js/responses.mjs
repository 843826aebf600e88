// The OpenAI SDK and its Responses API.

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { ResponsesWS } from "openai/resources/responses/ws";
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

await report("websocket", async () => {
  const socket = new ResponsesWS(client);
  const told = socket.stream();
  const turn = async (input, more) => {
    socket.send({ type: "response.create", ...asked(input, more) });
    for (;;) {
      const { error, message } = (await told.next()).value;
      if (error) return error.error.error; // of the SDK's error, the frame; of that, what it says
      if (message?.type === "response.completed") return message.response;
    }
  };
  const first = await turn("sim:tool=now", { tools });
  const call = first.output.find((item) => item.type === "function_call");
  const output = [{ type: "function_call_output", call_id: call.call_id, output: "noon" }];
  const second = await turn(output, { previous_response_id: first.id, tools });
  const missing = await turn("And now?", { previous_response_id: "resp_0" });
  const last = await turn("sim:text");
  socket.send({ type: "response.create", ...asked("sim:count=400 sim:slow=0.05") });
  while ((await told.next()).value.message?.type !== "response.output_text.delta");
  socket.close();
  const torn = new ResponsesWS(client, { reconnect: { onReconnecting: () => {}, initialDelay: 10 } });
  const cut = torn.stream();
  const until = async (found) => {
    for (;;) {
      const { value, done } = await cut.next();
      if (done || found(value)) return value;
    }
  };
  torn.send({ type: "response.create", ...asked("sim:count=400 sim:slow=0.05") });
  await until(({ message }) => message?.type === "response.output_text.delta");
  torn.socket.platformSocket.terminate(); // without a closing handshake, as a network does it
  await until(({ type }) => type === "reconnected");
  torn.send({ type: "response.create", ...asked("sim:text") });
  const again = (await until(({ message }) => message?.type === "response.completed")).message.response;
  torn.close();
  return { second, missing, last, again };
});

for (const marker of given.broken) {
  await report(`broken ${marker}`, async () =>
    all(await connect(given.impatient).responses.create(asked(`sim:${marker}`, { stream: true }))),
  );
}
