"""Answers of the service as deltas: frames of a stream, or the document of an answer that is not streamed.

Frames of InvokeModel hold the events of a model's own API; for Claude these are read by who reads the Messages API.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and
API_runtime_InvokeModelWithResponseStream.html
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import AnswerTooLarge, NotTheUpstream
from kiro_asgi.limits import BODY_BYTES
from kiro_asgi.model.events import Delta, Notice
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.bedrock.errors import exception_fault, is_exception
from kiro_asgi.upstreams.bedrock.events import ConverseEvents
from kiro_asgi.upstreams.errors import clean, report_of
from kiro_asgi.upstreams.headers import JSON, essence, require_media_type
from kiro_asgi.upstreams.json_events import JsonEvent
from kiro_asgi.wire.eventstream import Frame, FrameDecoder
from kiro_asgi.wire.json import JsonError, dumps, loads
from kiro_asgi.wire.members import object_of, objects_of, text_of

__all__ = ["FRAMES", "WholeAnswer", "stages"]

FRAMES: Final = "application/vnd.amazon.eventstream"


@define
class Frames:
    """The stage from frames to deltas: of Converse, or of the Messages API where frames hold its events.

    Raises:
        KiroAsgiError: The error that a frame reports; as `ConverseEvents` besides, and as *messages*.
    """

    _messages: Callable[[], Stage[JsonEvent, Delta]]
    """Makes what reads the Messages API's events."""

    _inner: Stage[JsonEvent, Delta] | None = field(init=False, default=None)
    """What reads the events; the first frame says which."""

    def feed(self, items: Iterable[Frame], /) -> Iterator[Delta]:
        """What the frames say."""
        for frame in items:
            name, kind = _header(frame, ":event-type"), _header(frame, ":message-type")
            if kind in ("exception", "error") or is_exception(name):
                raise _exception(frame, name)
            try:
                value = loads(frame.payload) if frame.payload else {}
            except JsonError:
                value = None
            if type(value) is not dict:
                yield Notice("event.undecodable", clean(name)[:60])
            elif name == "chunk":
                yield from self._chunk(value)
            else:
                self._inner = self._inner or ConverseEvents()
                yield from self._inner.feed((JsonEvent(name, value),))

    def flush(self) -> Iterator[Delta]:
        """How the message ended."""
        yield from (self._inner or ConverseEvents()).flush()

    def _chunk(self, value: Mapping[str, Any]) -> Iterable[Delta]:
        """One event of the model's own API."""
        self._inner = self._inner or self._messages()
        try:
            event = loads(b64decode(text_of(value, "bytes"), validate=True))
        except (NoBase64, JsonError, ValueError):
            event = None
        if type(event) is not dict:
            return (Notice("event.undecodable", "chunk"),)
        return self._inner.feed((JsonEvent(text_of(event, "type"), event),))


def _header(frame: Frame, name: str) -> str:
    value = frame.headers.get(name)
    return value if type(value) is str else ""


def _exception(frame: Frame, event: str) -> Exception:
    name = _header(frame, ":exception-type") or _header(frame, ":error-code") or event
    return exception_fault(name, {"message": _header(frame, ":error-message"), **report_of(frame.payload)})


@define
class WholeAnswer:
    """The stage from the document of an answer that is not streamed to deltas; all of them come at the end.

    Raises:
        AnswerTooLarge: From `feed`: there is too much of it.
        NotTheUpstream: From `flush`: it is no answer.
    """

    _messages: Callable[[], Stage[JsonEvent, Delta]]
    _body: bytearray = field(init=False, factory=bytearray)

    def feed(self, items: Iterable[bytes], /) -> Iterator[Delta]:
        """Nothing."""
        for chunk in items:
            self._body += chunk
            if len(self._body) > BODY_BYTES:
                raise AnswerTooLarge(f"an answer of more than {BODY_BYTES} bytes", code="answer_too_large")
        yield from ()

    def flush(self) -> Iterator[Delta]:
        """The deltas."""
        answer = report_of(bytes(self._body))
        if text_of(answer, "type") == "message":
            reader = self._messages()
            yield from reader.feed((JsonEvent("message_start", {"type": "message_start", "message": answer}),))
            yield from reader.feed((JsonEvent("message_stop", {"type": "message_stop"}),))
        elif "stopReason" in answer:
            reader = ConverseEvents()
            yield from reader.feed(_unfolded(answer))
        elif message := text_of(answer, "message") or text_of(answer, "Message"):
            raise exception_fault(text_of(answer, "__type"), {"message": message})
        else:
            raise NotTheUpstream("the service answered with JSON that is no message", code="upstream.content_type")
        yield from reader.flush()


def _unfolded(answer: Mapping[str, Any]) -> Iterator[JsonEvent]:
    """The events that a whole answer of Converse stands for."""
    message = object_of(object_of(answer.get("output")).get("message"))
    for index, block in enumerate(objects_of(message.get("content"))):
        place = {"contentBlockIndex": index}
        for start, delta in _pieces(block):
            if start:
                yield JsonEvent("contentBlockStart", {**place, "start": start})
            yield JsonEvent("contentBlockDelta", {**place, "delta": delta})
        yield JsonEvent("contentBlockStop", place)
    yield JsonEvent("messageStop", answer)
    yield JsonEvent("metadata", answer)


def _pieces(block: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Start and delta of what a block holds."""
    for kind, value in block.items():
        match kind:
            case "toolUse":
                call = object_of(value)
                yield {kind: call}, {kind: {"input": dumps(call.get("input") or {}).decode()}}
            case "reasoningContent":
                reasoning = object_of(value)
                yield {}, {kind: {**reasoning, **object_of(reasoning.get("reasoningText"))}}
            case "citationsContent":
                cited = object_of(value)
                yield from (({}, {"text": text_of(each, "text")}) for each in objects_of(cited.get("content")))
                yield from (({}, {"citation": each}) for each in objects_of(cited.get("citations")))
            case _:
                yield {}, {kind: value}


def stages(content_type: str, messages: Callable[[], Stage[JsonEvent, Delta]]) -> tuple[Stage[Any, Any], ...]:
    """Fresh stages, bytes to `Delta`.

    Raises:
        NotTheUpstream: Code ``upstream.content_type``: no answer comes in this media type.
    """
    require_media_type(content_type, (FRAMES, JSON))
    return (WholeAnswer(messages),) if essence(content_type) == JSON else (FrameDecoder(), Frames(messages))
