"""Telling the model of cut answers in the body of a request, for those who send it somewhere themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.dialects.recovery import blocks_of, reminded, reply_from, texts_of
from kiro_asgi.model.prompt import Part, Role, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, Reminder


def inject_truncation_recovery(body: Mapping[str, Any], records: Mapping[str, CutAnswer]) -> dict[str, Any]:
    """A copy of *body* with a notice for every record that one of its answers matches; nothing else is changed.

    A notice goes in front of the content of the ``tool_result`` for the call that was cut, or is a block of text in the
    user's next message, behind its results.
    """
    return reminded(body, records, _turns, _tell)


def _turns(messages: list[Any]) -> Iterator[tuple[int, Turn]]:
    """Messages other than the system's, by their index."""
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role in ("user", "assistant"):
            yield index, Turn(Role(role), tuple(_parts(message.get("content"))))


def _parts(content: Any) -> Iterator[Part]:
    for block in blocks_of(content):
        match block.get("type"):
            case "text":
                yield from texts_of([block], "text")
            case "tool_use":
                yield ToolCallPart(str(block.get("id")), str(block.get("name")), {})
            case "tool_result":
                yield ToolResult(str(block.get("tool_use_id")))


def _tell(messages: list[Any], at: int, reminder: Reminder) -> None:
    """Into the result of the call that was cut, which it gets where it has none; else behind the last result."""
    note = {"type": "text", "text": reminder.text}
    place = at, 0
    for index in reply_from(messages, at):
        for position, block in enumerate(blocks_of(messages[index].get("content"))):
            if block.get("type") != "tool_result":
                continue
            if not reminder.call_id:
                place = index, position + 1
            elif block.get("tool_use_id") == reminder.call_id:
                told = {**block, "content": [note, *blocks_of(block.get("content"))], "is_error": True}
                _put(messages, index, position, told, replace=True)
                return
    result = {"type": "tool_result", "tool_use_id": reminder.call_id, "content": [note], "is_error": True}
    _put(messages, *place, result if reminder.call_id else note)


def _put(messages: list[Any], index: int, position: int, block: Any, *, replace: bool = False) -> None:
    blocks = list(blocks_of(messages[index].get("content")))
    blocks[position : position + replace] = [block]
    messages[index] = {**messages[index], "content": blocks}
