"""Pydantic AI, by Chat Completions."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="http://127.0.0.1:8000/v1", api_key="choose-a-key")
agent = Agent(OpenAIChatModel("claude-sonnet-4.5", provider=provider))

print(agent.run_sync("Hello there").output)
