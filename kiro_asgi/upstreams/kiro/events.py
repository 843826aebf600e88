"""Frames to deltas.

A frame is an event, an exception or an error, says its ``:message-type``.  Events go through the table of
`kiro_asgi.upstreams.kiro.payloads`; the other two end the answer.

Nearly every event of an answer is a short piece of text whose payload is ``{"content":"…"}``, with or without the
model's name behind it.  A regular expression reads those at half the price; everything that is not plain ASCII
takes the JSON parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import NOTICES
from kiro_asgi.model.events import Delta, Notice, Stop, StopReason, TextDelta
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.kiro.faults import exception_fault
from kiro_asgi.upstreams.kiro.payloads import READERS, Payload, Reader, Seen, unwrap
from kiro_asgi.wire.eventstream import Frame, HeaderValue
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["EventDecoder"]

ENDINGS: Final = ("exception", "error")
"""Message types after which nothing comes."""

OUTPUT_LIMIT: Final = "ContentLengthExceededException"
"""The exception that is none: the answer has reached its greatest length, and what came before is good."""

_plain_text: Final = re.compile(rb'\{"content":"([ !#-\[\]-~]*+)"(?:,"modelId":"([ !#-\[\]-~]*+)")?+\}').fullmatch

_read_text: Final = READERS["assistantResponseEvent"]


@define
class EventDecoder:
    """Turn `Frame` objects into deltas.

    What cannot be understood is passed over with a `Notice`: the service adds event types unannounced.

    Raises:
        KiroAsgiError: An exception or error frame, or an event that reports a failure; which one it is, the tables of
            `kiro_asgi.upstreams.kiro.faults` say.
    """

    _seen: Seen = field(init=False, factory=Seen)
    _model: bytes = field(init=False, default=b"")
    """``_seen.model`` as it stands in a payload."""

    _headers: Mapping[str, HeaderValue] | None = field(init=False, default=None)
    """Those of the last event; frames with the same headers share one mapping."""

    _type: str = field(init=False, default="")
    _reader: Reader | None = field(init=False, default=None)
    _ended: bool = field(init=False, default=False)
    _unknown: set[str] = field(init=False, factory=set)
    _notices: int = field(init=False, default=0)

    def feed(self, items: Iterable[Frame], /) -> Iterator[Delta]:
        """What the frames say."""
        for frame in items:
            if frame.headers is not self._headers and not self._look_up(frame.headers):
                yield from self._end(frame)
            elif (
                self._reader is _read_text and (plain := _plain_text(frame.payload)) and plain[2] in (None, self._model)
            ):
                yield TextDelta(plain[1].decode())
            else:
                yield from self._read(frame.payload)

    def flush(self) -> Iterator[Delta]:
        """Nothing; whether an answer is complete is decided where all of it is known."""
        yield from ()

    def _look_up(self, headers: Mapping[str, HeaderValue]) -> bool:
        """Get ready for events with these headers; false if they are not those of an event, or come after the end."""
        if self._ended or headers.get(":message-type") in ENDINGS:
            return False
        event_type = headers.get(":event-type")
        self._headers = headers
        self._type = event_type if type(event_type) is str else ""
        self._reader = READERS.get(self._type)
        return True

    def _read(self, data: bytes) -> Iterable[Delta]:
        if self._reader is None:
            return self._pass_over_type()
        try:
            payload = loads(data) if data else {}
        except JsonError as error:
            return self._notice("event.undecodable", f"{self._type}: {error}")
        if type(payload) is not dict:
            return self._notice("event.undecodable", f"{self._type}: not an object")
        deltas = self._reader(unwrap(payload, self._type), self._seen)
        if self._reader is _read_text:
            self._model = self._seen.model.encode()
        return deltas

    def _pass_over_type(self) -> Iterable[Delta]:
        if self._type in self._unknown or self._notices >= NOTICES:
            return ()
        self._unknown.add(self._type)
        return self._notice("event.unknown", self._type)

    def _notice(self, code: str, detail: str) -> Iterable[Delta]:
        self._notices += 1
        return (Notice(code, clean(detail)),) if self._notices <= NOTICES else ()

    def _end(self, frame: Frame) -> Iterator[Delta]:
        if self._ended:
            return
        self._ended, self._headers = True, None
        name = _text_of(frame, ":exception-type") or _text_of(frame, ":error-code")
        if name == OUTPUT_LIMIT:
            yield Stop(StopReason.LENGTH)
        else:
            raise exception_fault(name, _report(frame, name))


def _text_of(frame: Frame, header: str) -> str:
    value = frame.headers.get(header)
    return value if type(value) is str else ""


def _report(frame: Frame, name: str) -> Payload:
    """The payload of an exception; an error has its message in a header instead."""
    try:
        payload: Any = loads(frame.payload)
    except JsonError:
        payload = None
    report = unwrap(payload, name) if type(payload) is dict else {}
    return {"message": _text_of(frame, ":error-message"), **report}
