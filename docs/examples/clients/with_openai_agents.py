"""OpenAI's Agents SDK, by the Responses API."""

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url="http://127.0.0.1:8000/v1", api_key="choose-a-key")
agent = Agent("Assistant", model=OpenAIResponsesModel("claude-sonnet-4.5", client))

print(Runner.run_sync(agent, "Hello there").final_output)
