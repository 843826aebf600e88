"""LangChain's class for the Gemini API: text, a stream, and an agent with a tool."""

from __future__ import annotations

import json
import sys

from langchain.agents import create_agent
from langchain_google_genai import ChatGoogleGenerativeAI

GIVEN = json.load(sys.stdin)
chat = ChatGoogleGenerativeAI(model=GIVEN["model"], google_api_key=GIVEN["key"], base_url=GIVEN["base"])


def now() -> str:
    """Tell the time."""
    return "noon"


state = create_agent(chat, [now]).invoke({"messages": GIVEN["call"]})
values = {
    "collected": chat.invoke(GIVEN["text"]).text,
    "streamed": "".join(piece.text for piece in chat.stream(GIVEN["text"])),
    "agent": [each.text for each in state["messages"] if each.type == "tool"] + [state["messages"][-1].text],
}
for name, value in values.items():
    print(json.dumps({"name": name, "value": value}))
