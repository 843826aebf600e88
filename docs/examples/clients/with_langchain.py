"""LangChain: one class for each API."""

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

KEY = "choose-a-key"
chat = ChatOpenAI(model="claude-sonnet-4.5", base_url="http://127.0.0.1:8000/v1", api_key=KEY)
responses = ChatOpenAI(
    model="claude-sonnet-4.5", base_url="http://127.0.0.1:8000/v1", api_key=KEY, use_responses_api=True
)
messages = ChatAnthropic(model="claude-sonnet-4-5", base_url="http://127.0.0.1:8000", api_key=KEY)

for model in (chat, responses, messages):
    print(model.invoke("Hello there").text)
