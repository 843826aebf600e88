"""What the Messages API refuses, as a checker that shares no code with what writes requests.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

SIDES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}


def check_body(body: dict[str, Any]) -> None:
    """Fail where the service would answer 400."""
    assert body["model"] and body["stream"] is True
    assert type(body["max_tokens"]) is int and body["max_tokens"] >= 1
    assert all(block["type"] == "text" and block["text"].strip() for block in body.get("system", ()))
    assert all(sequence.strip() for sequence in body.get("stop_sequences", ()))
    _check_tools(body)
    _check_thinking(body)
    _check_messages(body["messages"])


def _check_tools(body: dict[str, Any]) -> None:
    names = [tool["name"] for tool in body.get("tools", ())]
    assert len(set(names)) == len(names)
    for tool in body.get("tools", ()):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"])
        assert tool.get("description", "d").strip()
        if not tool.get("type"):
            assert tool["input_schema"]["type"] == "object"
            assert not {"anyOf", "oneOf", "allOf"} & tool["input_schema"].keys()
    choice = body.get("tool_choice", {"type": "auto"})
    assert names or "tool_choice" not in body
    assert choice["type"] in ("auto", "any", "tool", "none")
    assert choice["type"] != "tool" or choice["name"] in names
    calls = [block["name"] for message in body["messages"] for block in message["content"] if "input" in block]
    assert names or not calls


def _check_thinking(body: dict[str, Any]) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    last = body["messages"][-1]
    if thinking["type"] == "disabled":
        return
    assert body.get("tool_choice", {}).get("type") not in ("any", "tool")
    assert not {"temperature", "top_p", "top_k"} & body.keys()
    assert last["role"] == "user"
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
        if last["content"][0]["type"] == "tool_result":
            assert body["messages"][-2]["content"][0]["type"].endswith("thinking")


def _check_messages(messages: list[dict[str, Any]]) -> None:
    assert messages[0]["role"] == "user"
    assert all(before["role"] != after["role"] for before, after in pairwise(messages))
    ids = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", each) for each in ids)
    for before, message in pairwise([{"content": []}, *messages]):
        assert message["content"]
        called = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert called == answered
        assert [block["type"] for block in message["content"]][: len(answered)] == ["tool_result"] * len(answered)
        for block in message["content"]:
            assert block["type"] in SIDES[message["role"]]
            _check_block(block)
    last = messages[-1]
    assert not any(block["type"] == "tool_use" for block in last["content"])
    if last["role"] == "assistant":
        assert last["content"][-1]["text"] == last["content"][-1]["text"].rstrip()
    assert all(message["content"][-1]["type"] not in ("thinking", "redacted_thinking") for message in messages)


def _check_block(block: dict[str, Any]) -> None:
    match block:
        case {"type": "text"}:
            assert block["text"].strip()
        case {"type": "tool_result"}:
            kinds = [inner["type"] for inner in block.get("content", ())]
            assert set(kinds) <= ({"text"} if block.get("is_error") else {"text", "image", "document"})
            for inner in block.get("content", ()):
                _check_block(inner)
        case {"type": "thinking"}:
            assert block["signature"]
        case {"type": "tool_use"}:
            assert isinstance(block["input"], dict)
        case {"source": {"type": "base64", "data": data, "media_type": kind}}:
            assert re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", data) and not len(data) % 4
            assert kind == "application/pdf" or kind in ("image/png", "image/jpeg", "image/gif", "image/webp")
        case {"source": {"type": "text", "data": data, "media_type": kind}}:
            assert kind == "text/plain"
