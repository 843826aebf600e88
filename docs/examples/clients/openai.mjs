import OpenAI from "openai";

const client = new OpenAI({ baseURL: "http://127.0.0.1:8000/v1", apiKey: "choose-a-key" });
const response = await client.responses.create({ model: "claude-sonnet-4.5", input: "Hello there" });
console.log(response.output_text);
