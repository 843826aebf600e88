import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";

const apiKey = "choose-a-key";
const openai = createOpenAI({ baseURL: "http://127.0.0.1:8000/v1", apiKey });
const anthropic = createAnthropic({ baseURL: "http://127.0.0.1:8000/v1", apiKey });

for (const model of [openai("claude-sonnet-4.5"), openai.chat("claude-sonnet-4.5"), anthropic("claude-sonnet-4.5")]) {
  const { text } = await generateText({ model, prompt: "Hello there" });
  console.log(text);
}
