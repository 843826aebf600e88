"""A whole answer in one JSON document, as the events that would have streamed it.

The service streams.  What stands before it may not: a relay that collects the answer, an older gateway.  They send the
events in a list, or what the events add up to: a message, with the facts about the answer beside it or around it::

    {"assistantResponseMessage": {"content": "…", "reasoningContent": {…}, "toolUses": [{…}]}, "stopReason": "END_TURN"}
    {"outputMessages": [{"content": "…"}], "usage": {"inputTokens": 3, "outputTokens": 4}, "stopReason": "END_TURN"}
    [{"assistantResponseEvent": {"content": "…"}}, {"metadataEvent": {"stopReason": "END_TURN"}}]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.wire.json import object_of, objects_of

Event = tuple[str, dict[str, Any]]
"""Type and payload."""

WRAPPERS: Final = ("events", "generateAssistantResponseResponse", "outputMessages", "assistantResponseMessage")
"""Members that hold events or messages, one or a list of them."""


NAMES: Final = ("Event", "Exception")
"""Ends of the names of a stream's members."""


MESSAGE: Final = "outputMessage"
"""In place of an event: another one of several messages begins, each of which is a text of its own."""


def is_whole(value: Mapping[str, Any]) -> bool:
    """Whether *value* is an answer, or an event by its name, and not the bare payload of one."""
    return any(name in value for name in WRAPPERS) or any(name.endswith(NAMES) for name in value)


def events_of(document: Any) -> Iterator[Event]:
    """The events and exceptions of *document*, a JSON value; those with facts about the answer last."""
    rest, facts, has_message = deque([(document, False)]), [], False
    while rest:
        value, is_message = rest.popleft()
        inner: list[tuple[Any, bool]] = []
        if type(value) is dict:
            facts.append(value)
            if has_message and is_message:
                yield MESSAGE, {}
            has_message |= is_message
            yield from _message(value) if is_message else _content(value)
            inner = [(value[name], name == "outputMessages") for name in WRAPPERS if name in value]
        elif type(value) is list:
            inner = [(each, is_message) for each in value]
        rest.extendleft(reversed(inner))
    for fields in facts:
        yield "messageMetadataEvent", fields
        yield "usageEvent" if "usage" in fields else "metadataEvent", fields


def _message(fields: Mapping[str, Any]) -> Iterator[Event]:
    """The events of one of several messages; a blank text is none."""
    said = fields.get("content")
    is_blank = type(said) is str and not said.strip()
    yield from _content({name: value for name, value in fields.items() if not (is_blank and name == "content")})


def _content(fields: Mapping[str, Any]) -> Iterator[Event]:
    """The events that *fields* are, and those of the message that they are."""
    for name, value in fields.items():
        if name.endswith(NAMES):
            yield name, dict(object_of(value))
    if thinking := object_of(fields.get("reasoningContent")):
        yield "reasoningContentEvent", dict(thinking)
    if "content" in fields:
        yield "assistantResponseEvent", dict(fields)
    for use in objects_of(fields.get("toolUses")):
        yield "toolUseEvent", {**use, "stop": True}
    if "toolUseId" in fields:
        yield "toolUseEvent", dict(fields)
