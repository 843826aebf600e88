// @google/genai asks as its users do; each line of the output is one question and what was seen of the answer.
import { readFileSync } from "node:fs";
import { GoogleGenAI } from "@google/genai";

const given = JSON.parse(readFileSync(0, "utf8"));
const ai = new GoogleGenAI({ apiKey: given.key, httpOptions: { baseUrl: given.base } });
const { model } = given;
const tools = [{ functionDeclarations: [{ name: "now", description: "Tell the time." }] }];

async function report(name, ask) {
  let seen;
  try {
    seen = { name, value: await ask() };
  } catch (thrown) {
    seen = { name, thrown: { name: thrown.name, status: thrown.status ?? null } };
  }
  console.log(JSON.stringify(seen));
}

async function streamed(contents) {
  let text = "";
  let last;
  for await (last of await ai.models.generateContentStream({ model, contents })) text += last.text ?? "";
  return [text, last.candidates[0].finishReason, last.usageMetadata.totalTokenCount > 0];
}

await report("collected", async () => (await ai.models.generateContent({ model, contents: given.text })).text);
await report("streamed", () => streamed(given.text));
await report("counted", async () => (await ai.models.countTokens({ model, contents: "hello" })).totalTokens > 0);
await report("listed", async () => (await ai.models.list()).page.some((each) => each.name === `models/${model}`));
await report("called", async () => {
  const chat = ai.chats.create({ model, config: { tools } });
  const { functionCalls } = await chat.sendMessage({ message: given.call });
  const response = { output: "noon" };
  const parts = functionCalls.map(({ id, name }) => ({ functionResponse: { id, name, response } }));
  return [functionCalls.map(({ name }) => name), (await chat.sendMessage({ message: parts })).text];
});
await report("broken", () => streamed(given.broken));
await report("unknown", () => ai.models.generateContent({ model: "nonesuch", contents: given.text }));
