"""Asking with Anthropic's client, and what the answer says."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import pytest

__all__ = ["EACH_MODE", "TOOL", "message_of", "result_of", "text_of"]

EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Final = {"name": "get_weather", "description": "Look up the weather.", "input_schema": SCHEMA}


def message_of(
    client: anthropic.Anthropic, model: str, asked: str | list[Any], *, stream: bool, **more: Any
) -> anthropic.types.Message:
    turns: Any = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    given: dict[str, Any] = {"model": model, "max_tokens": 4_000, "messages": turns, **more}
    if not stream:
        return client.messages.create(**given)
    with client.messages.stream(**given) as events:
        return events.get_final_message()


def text_of(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def result_of(call: anthropic.types.ToolUseBlock) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": f"Snow in {call.input['city']}"}
