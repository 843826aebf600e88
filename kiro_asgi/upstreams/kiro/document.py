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


def events_of(document: Any) -> Iterator[Event]:
    """The events and exceptions of *document*, a JSON value; those with facts about the answer last."""
    rest, facts = deque([document]), []
    while rest:
        value = rest.popleft()
        if type(value) is dict:
            facts.append(value)
            yield from _content(value)
            value = [value[name] for name in WRAPPERS if name in value]
        if type(value) is list:
            rest.extendleft(reversed(value))
    for fields in facts:
        yield "messageMetadataEvent", fields
        yield "usageEvent" if "usage" in fields else "metadataEvent", fields


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
