"""From the media type of an answer to the stages that read it.

What is asked for is a stream.  Some servers answer with the whole message as one JSON document all the same, or give a
stream another type; so the first byte decides, and no line of a stream begins with a brace.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import AnswerTooLarge, UpstreamProtocolError
from kiro_asgi.limits import BODY_BYTES
from kiro_asgi.model.events import Delta, Notice
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent, JsonEvents
from kiro_asgi.upstreams.openai.events import ChunkDecoder
from kiro_asgi.upstreams.openai.faults import is_report, stream_fault
from kiro_asgi.wire.json import JsonError, loads
from kiro_asgi.wire.members import object_of

__all__ = ["AnswerDecoder", "WholeAnswer", "stages"]

ERRORS: Final = frozenset({b"error"})
"""Fields whose value is read as an event's data: llama.cpp breaks an answer off with a line ``error: {…}``."""

ACCEPTED: Final = (EVENT_STREAM, JSON, "text/plain", "application/octet-stream")


def stages(content_type: str, new_id: Callable[[], str], service: str) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`, for an answer of the upstream named *service*.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, ACCEPTED)
    return (AnswerDecoder(new_id, service),)


@define
class AnswerDecoder:
    """Read a stream, or one document; nothing is emitted before that is known."""

    new_id: Callable[[], str]
    service: str
    _head: bytes = field(init=False, default=b"")
    _inner: Stage[bytes, Delta] | None = field(init=False, default=None)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """What the bytes say."""
        return self._begin(items) if self._inner is None else self._inner.feed(items)

    def _begin(self, items: Iterable[bytes]) -> Iterator[Delta]:
        chunks = iter(items)
        for chunk in chunks:
            self._head = (self._head + chunk).lstrip(b"\r\n")
            if not BOM_UTF8.startswith(self._head):
                self._inner = self._choose()
                yield from self._inner.feed(chain((self._head,), chunks))

    def flush(self) -> Iterator[Delta]:
        """What is left."""
        inner = self._inner or self._choose()
        yield from inner.flush()

    def _choose(self) -> Stage[bytes, Delta]:
        is_document = self._head.removeprefix(BOM_UTF8).startswith(b"{")
        return Pipeline(WholeAnswer() if is_document else JsonEvents(ERRORS), ChunkDecoder(self.new_id, self.service))


@define
class WholeAnswer:
    """Read a document as the only event of a stream.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        UpstreamProtocolError: From `flush`: it is no answer.
        KiroAsgiError: From `flush`: the error that it reports.
    """

    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """Nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"an answer of more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """The event, and the end."""
        try:
            value = loads(bytes(self._body))
        except JsonError as error:
            raise UpstreamProtocolError(f"the upstream's answer is unreadable: {error}", code="stream.cut") from None
        if type(value) is not dict or type(value.get("choices")) is not list:
            if type(value) is dict and is_report(value):
                raise stream_fault(value)
            raise UpstreamProtocolError("the upstream's answer is no chat completion", code="answer.unreadable")
        for choice in value["choices"]:
            _number(object_of(object_of(choice).get("message")).get("tool_calls"))
        yield JsonEvent("message", value)
        yield JsonEvent("message", {}, done=True)


def _number(calls: Any) -> None:
    """Say of each of *calls* which it is, as a stream does: in a document each is whole, also where two have one id."""
    for number, call in enumerate(calls if type(calls) is list else ()):
        if type(call) is dict:
            call["index"] = number
