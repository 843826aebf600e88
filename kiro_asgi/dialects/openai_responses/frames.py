"""Frames of the Responses API over WebSocket: those that a client sends, and those that it gets.

A client's frame is a JSON object with a ``type``.  ``response.create`` has the fields of a request, and is answered
with the events of a stream, one to a frame: each frame is, byte for byte, the data of the server-sent event.  A request
that fails before its first event is answered with one ``error`` frame, which holds the status and the body that it
would have had over HTTP.  Clients take the first terminal event for the end of an answer, so there is one: where a
stream has an ``error`` event before ``response.failed``, only the latter is sent.

Sources: https://platform.openai.com/docs/guides/websocket-mode; https://www.openresponses.org/specification
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.dialects.errors import invalid, unsupported
from kiro_asgi.dialects.openai_responses.response import refusal
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.wire.json import dumps, loads
from kiro_asgi.wire.sse import SseDecoder

_FRAME: Final = "invalid_json"
"""Code of an error about a frame that is not even a JSON object with a type."""

_TYPE: Final = "type"
_GENERATE: Final = "generate"

_MOST_ECHO: Final = 60
"""Characters of a foreign word that are repeated."""


@frozen
class Create:
    """A request, which is answered when its turn comes."""

    value: dict[str, Any] = field(repr=False)
    """The body of the same request over HTTP, streamed."""

    size: int
    """Bytes of the frame."""

    generates: bool = True
    """Whether the model is to be asked; else the client only wants the input to be there for the next request."""

    @property
    def previous(self) -> str:
        """Id of the response that it goes on with; empty without one."""
        previous = self.value.get("previous_response_id")
        return previous if isinstance(previous, str) else ""


@frozen
class Aside:
    """A frame that is answered at once, whatever is under way, and does not disturb that."""

    reply: str = ""
    """Empty where no answer is expected."""


def read_frame(data: bytes) -> Create | Aside:
    """Read a client's frame.

    Raises:
        RequestError: It is none, or one that cannot be answered here; code ``invalid_json`` where it is no JSON object
            with a type.
    """
    value = read_json(data)
    kind = value.get(_TYPE) if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise RequestError("expected a JSON object with a type, such as response.create", code=_FRAME)
    if kind == "response.create":
        return _create(value, len(data))
    if kind not in _ASIDES:
        raise RequestError(f"unknown type of event: {kind[:_MOST_ECHO]!r}", code="unknown_event_type", param=_TYPE)
    answer = _ASIDES[kind](value)
    return Aside() if answer is None else Aside(dumps(answer).decode())


def _create(value: dict[str, Any], size: int) -> Create:
    """A request, without the fields that only WebSockets have."""
    if value.get("background"):
        raise unsupported("background", "not over WebSocket; leave it out, or POST the request")
    if value.get("stream_id") is not None:
        raise RequestError(
            "stream_id: requests of one WebSocket are answered one after the other; leave it out, or open another",
            code="invalid_stream_id",
            param="stream_id",
        )
    generate = value.get(_GENERATE)
    if not isinstance(generate, bool | None):
        raise invalid(_GENERATE, "expected true or false")
    options = value.get("prompt_cache_options")
    prewarms = isinstance(options, dict) and options.get("prewarm") is True
    body = {name: it for name, it in value.items() if name not in (_TYPE, _GENERATE, "background", "stream_id")}
    return Create({**body, "stream": True}, size, generate is not False and not prewarms)


def _refused_steer(value: Mapping[str, Any]) -> dict[str, Any]:
    error = _refusal("steering_not_supported", "an answer that has begun cannot be steered; send the input afterwards")
    steer = {"previous_response_id": _text(value, "previous_response_id"), "input": value.get("input", "")}
    return {"type": "response.steer.failed", "sequence_number": 0, "steer": steer, "error": error}


def _refused_interrupt(value: Mapping[str, Any]) -> dict[str, Any]:
    error = _refusal("interrupt_not_supported", "an answer is ended by closing the connection")
    return {"type": "response.interrupt.failed", "response_id": _text(value, "response_id"), "error": error}


def _refused_inject(value: Mapping[str, Any]) -> dict[str, Any]:
    error = _refusal("response_not_found", "nothing can be added to an answer that has begun")
    refused = {"response_id": _text(value, "response_id"), "input": value.get("input", [])}
    return {"type": "response.inject.failed", **refused, "error": error}


def _refusal(code: str, message: str) -> dict[str, str]:
    return {"type": "invalid_request_error", "code": code, "message": message}


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


_ASIDES: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any] | None]]] = MappingProxyType(
    {
        "response.steer": _refused_steer,
        "response.interrupt": _refused_interrupt,
        "response.inject": _refused_inject,
        "response.processed": lambda value: None,
    }
)
"""Type of a frame about an answer under way to its answer."""


def error_frame(error: KiroAsgiError) -> str:
    """The frame about a request that has failed before its first event."""
    reply = refusal(error)
    return _error_frame(reply.status, reply.headers, reply.body)


def _error_frame(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> str:
    """The answer over HTTP to a request that has failed, as a frame.  Clients want a code in each."""
    error = loads(body)["error"]
    shown = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name not in _OF_HTTP}
    frame = {"type": "error", "status": status, "error": {**error, "code": error["code"] or error["type"]}}
    return dumps({**frame, "headers": shown}).decode()


_OF_HTTP: Final = (b"content-type", b"content-length", b"connection")

_OK: Final = 200
_END: Final = b"\n\n"
_DATA: Final = b"\ndata: "
_ERROR: Final = "error"


@define
class AnswerFrames:
    """Makes frames of one answer as it goes out over HTTP: a stream of events, or an error."""

    _status: int
    _headers: Iterable[tuple[bytes, bytes]]
    _error: bytearray = field(init=False, factory=bytearray)
    """Body of an answer that is no stream."""

    _decoder: SseDecoder = field(init=False, factory=lambda: SseDecoder(max_event=sys.maxsize))
    """Reads bytes that are not whole events as we write them; other limits bound an answer."""

    _cut: bool = field(init=False, default=False)
    """Whether the decoder has the beginning of an event."""

    def feed(self, body: bytes) -> Iterator[str]:
        """The frames that *body* completes; in a stream, none for comments."""
        if self._status != _OK:
            self._error += body
        elif self._cut or b"\r" in body or not body.endswith(_END):
            self._cut = not body.endswith(_END)
            yield from self._decoded(body)
        else:
            for event in body[: -len(_END)].split(_END):
                head, found, data = event.partition(_DATA)
                if not found or b"\n" in data:
                    yield from self._decoded(event + _END)
                elif head != b"event: error":
                    yield data.decode("utf-8", "replace")

    def flush(self) -> Iterator[str]:
        """The error, where there is no stream."""
        if self._status != _OK:
            yield _error_frame(self._status, self._headers, bytes(self._error))

    def _decoded(self, data: bytes) -> Iterator[str]:
        return (event.data for event in self._decoder.feed((data,)) if event.event != _ERROR)
