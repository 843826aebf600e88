"""Answers in JSON: server-sent events whose data is JSON, JSON lines, and whole documents."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.errors import AnswerTooLarge, UpstreamProtocolError
from kiro_asgi.failures.report import is_told, names_failure, report_in
from kiro_asgi.limits import BODY_BYTES, EVENT_BYTES
from kiro_asgi.model.events import Delta, Notice
from kiro_asgi.stages.base import Pipeline, Stage
from kiro_asgi.wire.json import JsonError
from kiro_asgi.wire.json_pieces import JsonPieces
from kiro_asgi.wire.sse import SseDecoder

DONE: Final = "[DONE]"
"""Data of the event by which some services end a stream; it is not JSON."""

HALF: Final = Notice("text.half")
"""Half of a character came whose other half never did."""

_OBJECT: Final = b"{"
"""How a line begins by which a server breaks off a stream: an object without the name of its field."""

_OPENINGS: Final = ("{", "[{", '"')
"""How JSON begins; what does, and is none, is a piece of an answer that was damaged."""

_NOT_UTF_8: Final = "not UTF-8"
"""Detail of a notice."""


@frozen
class JsonEvent:
    """One event."""

    name: str
    value: Mapping[str, Any]
    """Empty where `done`."""

    done: bool = False
    """Whether it is the sentinel at the end."""


@define
class JsonEvents:
    """The stage from bytes to events.  Anything but a JSON object is skipped, with a notice.

    So is an event that is not UTF-8, which JSON has to be: with U+FFFD in it, it could be read, but as something that
    the model never wrote.  A failure that is told in plain text, or in a list, is an event like any other report.

    Source: https://www.rfc-editor.org/rfc/rfc8259#section-8.1
    """

    also_data: frozenset[bytes] = frozenset()
    """As of `SseDecoder`."""

    _lines: SseDecoder = field(init=False)
    _json: JsonPieces = field(init=False, factory=JsonPieces)

    def __attrs_post_init__(self) -> None:
        self._lines = SseDecoder(also_data=self.also_data, bare=_OBJECT)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """The events that *items* complete."""
        for event in self._lines.feed(items):
            if event.data.strip() == DONE:
                yield JsonEvent(event.event, {}, done=True)
                continue
            try:
                value = None if event.damaged else self._json.loads(event.data)
            except JsonError:
                value = event.data
            if type(value) is dict:
                yield JsonEvent(event.event, value)
            elif report := _report(event.event, value):
                yield JsonEvent(event.event, report)
            else:
                yield Notice("event.undecodable", _NOT_UTF_8 if event.damaged else "")

    def flush(self) -> Iterator[JsonEvent | Notice]:
        """The last event, where only its empty line is missing: half an object is no event."""
        yield from (item for item in self.feed((b"\n\n",)) if isinstance(item, JsonEvent))
        if not self._json.is_whole:
            yield HALF


def _report(name: str, value: Any) -> Mapping[str, Any] | None:
    """The report of a failure that is no object, in an event of that *name*."""
    if type(value) is list and value and type(value[0]) is dict:
        return report_in(value[0], name)
    if type(value) is str and value and not value.startswith(_OPENINGS) and (names_failure(name) or is_told(value)):
        return {"error": {"message": value}}
    return None


@define
class WholeBody:
    """Gather the body of an answer that is one JSON document; a subclass reads it in its `flush`.

    Raises:
        AnswerTooLarge: It has more than `kiro_asgi.limits.BODY_BYTES`.
    """

    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[JsonEvent | Notice]:
        """Gather *items*; yield nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"the answer has more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()


@define
class JsonLines:
    """The stage from bytes to objects, one a line (NDJSON).  Anything but a JSON object is skipped, with a notice.

    Raises:
        UpstreamProtocolError: Code ``json_lines.too_large``: a line of more than `kiro_asgi.limits.EVENT_BYTES`.
    """

    max_line: int = EVENT_BYTES
    _json: JsonPieces = field(init=False, factory=JsonPieces)
    _line: bytearray = field(init=False, factory=bytearray)
    """The beginning of a line that has not ended."""

    def feed(self, items: Iterable[bytes], /) -> Iterator[Mapping[str, Any] | Notice]:
        """The objects of the lines that *items* complete."""
        for chunk in items:
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self._extend(end)
                line, self._line = self._line, bytearray()
                if line and not line.isspace():
                    yield self._read(line)
            self._extend(rest)

    def flush(self) -> Iterator[Mapping[str, Any] | Notice]:
        """The last line, where only its end is missing: half an object is no value."""
        yield from (item for item in self.feed((b"\n",)) if not isinstance(item, Notice))
        if not self._json.is_whole:
            yield HALF

    def _extend(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > self.max_line:
            raise UpstreamProtocolError(
                f"a line of the answer has more than {self.max_line} bytes", code="json_lines.too_large"
            )

    def _read(self, line: bytearray) -> Mapping[str, Any] | Notice:
        try:
            value = self._json.loads(bytes(line))
        except JsonError:
            value = None
        return value if type(value) is dict else Notice("line.undecodable")


@define
class StreamOrDocument:
    """Read a stream, or one document: the first byte decides, and nothing is emitted before it."""

    document: Callable[[], Stage[bytes, JsonEvent | Notice]]
    """Makes the stage from the bytes of a document to events."""

    stream: Callable[[], Stage[bytes, JsonEvent | Notice]]
    """Makes the stage from the bytes of a stream to events."""

    decoder: Callable[[], Stage[JsonEvent | Notice, Delta]]
    """Makes the stage from either's events to deltas."""

    _head: bytes = field(init=False, default=b"")
    _inner: Stage[bytes, Delta] | None = field(init=False, default=None)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """The deltas of the bytes."""
        return self._begin(items) if self._inner is None else self._inner.feed(items)

    def _begin(self, items: Iterable[bytes]) -> Iterator[Delta]:
        chunks = iter(items)
        for chunk in chunks:
            self._head = (self._head + chunk).lstrip(b"\r\n")
            # An empty head, or the beginning of a byte order mark, does not decide yet.
            if not BOM_UTF8.startswith(self._head):
                self._inner = self._choose()
                yield from self._inner.feed(chain((self._head,), chunks))

    def flush(self) -> Iterator[Delta]:
        """The deltas that are left."""
        inner = self._inner or self._choose()
        yield from inner.flush()

    def _choose(self) -> Stage[bytes, Delta]:
        is_document = self._head.removeprefix(BOM_UTF8).startswith(b"{")
        return Pipeline(self.document() if is_document else self.stream(), self.decoder())
