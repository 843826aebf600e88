"""Telling the model of cut answers in the body of a request, for those who send it somewhere themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiro_asgi.dialects.recovery import blocks_of, reminded, reply_from, texts_of
from kiro_asgi.model.prompt import Part, Role, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, Reminder


def inject_truncation_recovery(body: Mapping[str, Any], records: Mapping[str, CutAnswer]) -> dict[str, Any]:
    """A copy of *body* with a notice for every record that one of its answers matches; nothing else is changed.

    A notice goes in front of the content of the ``tool`` message that answers the call which was cut, or is a ``user``
    message of its own behind the answer and its results.
    """
    return reminded(body, records, _turns, _tell)


def _turns(messages: list[Any]) -> Iterator[tuple[int, Turn]]:
    """Messages as the dialect reads them, by their index: the system's count as the user's once others have spoken."""
    begun = False
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            yield index, Turn(Role.ASSISTANT, (*_texts(message), *_calls(message)))
        elif role == "tool":
            yield index, Turn(Role.USER, (ToolResult(str(message.get("tool_call_id"))),))
        elif role == "user" or (begun and role in ("system", "developer")):
            yield index, Turn(Role.USER, tuple(_texts(message)))
        begun = begun or role in ("assistant", "tool", "user")


def _texts(message: Mapping[str, Any]) -> Iterator[Part]:
    yield from texts_of(message.get("content"), "text", "refusal")
    yield from texts_of([message], "refusal")


def _calls(message: Mapping[str, Any]) -> Iterator[Part]:
    for call in blocks_of(message.get("tool_calls")):
        called = call.get("function") or call.get("custom")
        if isinstance(called, Mapping):
            yield ToolCallPart(str(call.get("id")), str(called.get("name")), {})


def _tell(messages: list[Any], at: int, reminder: Reminder) -> None:
    results = [index for index in reply_from(messages, at) if messages[index].get("role") == "tool"]
    if not reminder.call_id:
        behind = results[-1] + 1 if results else at
        messages.insert(behind, {"role": "user", "content": reminder.text})
        return
    for index in results:
        if messages[index].get("tool_call_id") == reminder.call_id:
            messages[index] = {**messages[index], "content": _prefixed(reminder.text, messages[index].get("content"))}
            return
    messages.insert(at, {"role": "tool", "tool_call_id": reminder.call_id, "content": reminder.text})


def _prefixed(text: str, content: Any) -> list[Any]:
    return [{"type": "text", "text": text}, *blocks_of(content)]
