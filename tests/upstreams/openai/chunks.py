"""Answers as servers send them, written briefly."""

from __future__ import annotations

import json
from typing import Any

from kiro_asgi.model.events import Delta, ModelName, Notice
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.opaque import SameApi
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.helpers import run

DONE = b"data: [DONE]\n\n"


def new_ids() -> Any:
    numbers = iter(range(1, 1000))
    return lambda: f"new{next(numbers)}"


def chunk(delta: Any = None, finish: Any = None, **fields: Any) -> dict[str, Any]:
    """One chunk with one choice."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], **fields}


def calling(*entries: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": [*entries]})


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """An entry of ``tool_calls``; what is ``None`` is absent."""
    function = {"name": name, "arguments": arguments}
    entry = {
        "index": index,
        "id": call_id,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {key: value for key, value in entry.items() if value is not None}


def sse(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def decoder(content_type: str = "text/event-stream") -> Pipeline[bytes, Delta]:
    return Pipeline(*OpenAIUpstream(new_id=new_ids()).decoder(content_type), SameApi("", ""))


def deltas(*values: Any, done: bool = True) -> list[Delta]:
    """What chunks say, without the model's name."""
    found = run(decoder(), [sse(*values) + DONE * done])
    return [delta for delta in found if type(delta) is not ModelName]


def notices(*values: Any) -> list[str]:
    return [delta.code for delta in deltas(*values) if isinstance(delta, Notice)]
