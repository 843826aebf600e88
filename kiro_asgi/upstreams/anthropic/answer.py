"""From the media type of an answer to the stage that reads its events.

Some services answer whole although they were asked for a stream; a whole message is read as the events that it stands
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

from kiro_asgi.errors import AnswerTooLarge, NotTheUpstream
from kiro_asgi.limits import BODY_BYTES
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.anthropic.faults import event_fault
from kiro_asgi.upstreams.errors import report_of
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, essence, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents
from kiro_asgi.wire.members import text_of

__all__ = ["WholeMessage", "reader"]


@define
class WholeMessage:
    """The stage from the body of a whole message to the events that it stands for; all of them come at the end.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        KiroAsgiError: From `flush`: the error that the body reports, or that it is no message.
    """

    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent]:
        """Nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"an answer of more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()

    def flush(self) -> Iterator[JsonEvent]:
        """The events."""
        message = report_of(bytes(self._body))
        if type(message.get("error")) is dict:
            raise event_fault(message)
        if text_of(message, "type") != "message":
            raise NotTheUpstream("the service answered with JSON that is no message", code="upstream.content_type")
        yield JsonEvent("message_start", {"type": "message_start", "message": message})
        yield JsonEvent("message_stop", {"type": "message_stop"})


def reader(content_type: str) -> Stage[bytes, Any]:
    """A fresh stage, bytes to the events of a message.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, (EVENT_STREAM, JSON))
    return WholeMessage() if essence(content_type) == JSON else JsonEvents()
