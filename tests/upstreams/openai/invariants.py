"""What the API takes, as a checker that shares no code with what writes requests."""

from __future__ import annotations

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_body(body: Any) -> None:
    """Fail unless *body* is a request that OpenAI takes."""
    assert body["stream"] is True
    assert body["messages"], "no message"
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    assert len(names) == len(set(names))
    for tool in body.get("tools", ()):
        assert tool["type"] == "function"
        assert NAME.fullmatch(tool["function"]["name"])
        parameters = tool["function"]["parameters"]
        assert parameters["type"] == "object"
        assert isinstance(parameters["properties"], dict)
    assert "tools" in body or not {"tool_choice", "parallel_tool_calls"} & set(body)
    assert "tools" not in body or body["tools"]
    assert len(body.get("stop", ())) <= 4
    _check_messages(body["messages"])


def _check_messages(messages: list[Any]) -> None:
    due: list[str] = []
    for index, message in enumerate(messages):
        assert (message["role"] == "tool") == bool(due), "a result out of place, or a call without one"
        if message["role"] == "tool":
            assert message["tool_call_id"] == due.pop(0)
            assert isinstance(message["content"], str)
        elif message["role"] == "assistant":
            due = [_checked_call(call) for call in message.get("tool_calls", ())]
            assert len(due) == len(set(due))
            assert isinstance(message["content"], str) or (message["content"] is None and due)
        elif message["role"] == "system":
            assert index == 0
            assert message["content"]
        else:
            assert message["role"] == "user"
            _check_content(message["content"])
    assert not due, "a call without a result"


def _checked_call(call: Any) -> str:
    assert call["type"] == "function"
    assert NAME.fullmatch(call["function"]["name"])
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert 0 < len(call["id"]) <= 40
    return str(call["id"])


def _check_content(content: Any) -> None:
    if isinstance(content, str):
        return
    assert content, "an empty list of parts"
    for part in content:
        assert set(part) == {"type", {"text": "text", "image_url": "image_url", "file": "file"}[part["type"]]}
