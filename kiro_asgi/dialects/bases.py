"""Bases of client APIs: a subclass says what is its own, and no more.

An answer is values, which are written as JSON and framed as server-sent events or as lines; bytes among them go out as
they are.  `JsonDialect` reads requests into attrs classes, too: a value of a wrong type is refused with its place, and
a member that no class declares becomes a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

from attrs import define, evolve, field, frozen

from kiro_asgi.dialects.base import (
    JSON,
    DialectTraits,
    Encoder,
    ErrorReply,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
)
from kiro_asgi.dialects.errors import error_headers, message_of
from kiro_asgi.dialects.manifest import ANSWER, DialectOptions
from kiro_asgi.dialects.pieces import dump_value
from kiro_asgi.dialects.schema import BodyShape, shaped
from kiro_asgi.dialects.structure import StrictConverter, Tagged, make_converter, read_json, structure
from kiro_asgi.dialects.unread import Beside
from kiro_asgi.errors import ConfigError, KiroAsgiError
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    MessageEnd,
    MessageStart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)
from kiro_asgi.model.message import Message, ToolCallBlock
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.json import JsonError, dumps, loads
from kiro_asgi.wire.sse import encode_comment, encode_sse

R = TypeVar("R")


def _line(data: bytes) -> bytes:
    return data + b"\n"


@frozen
class Framing:
    """How the values of a streamed answer become bytes."""

    media_type: bytes
    frame: Callable[[bytes], bytes] = _line
    """From the JSON of one value, which is one line."""

    heartbeat: bytes = b""
    """Bytes between two values that clients skip; empty where there are none."""


SERVER_SENT_EVENTS: Final = Framing(b"text/event-stream", partial(encode_sse, ""), encode_comment())
"""An event without a name for each value."""

JSON_LINES: Final = Framing(b"application/x-ndjson")
"""A line for each value."""


def call_arguments(call: ToolCallBlock) -> Mapping[str, Any] | None:
    """The arguments of a complete call as an object; ``None`` where the call was cut or is no JSON, which the answer's
    end reports."""
    try:
        found = loads(call.input or "{}")
    except JsonError:
        return None
    return found if isinstance(found, dict) else None


@define
class AnswerWriter:
    """Base of the words of one streamed answer.

    Each method gives the values that the stream has for a part of the answer; bytes go out as they are.  A method that
    a subclass does not define gives none, but for `refusal`.
    """

    meta: ResponseMeta
    """Its ``options`` are those of the `ParsedRequest`: the request itself in a `JsonDialect`."""

    def begin(self) -> Iterable[Any]:
        """The answer begins."""
        return ()

    def text(self, text: str) -> Iterable[Any]:
        """Some text of the answer."""
        return ()

    def refusal(self, text: str) -> Iterable[Any]:
        """Some text by which the model declines to answer: as other text."""
        return self.text(text)

    def thinking(self, text: str) -> Iterable[Any]:
        """Some thinking."""
        return ()

    def call(self, call: ToolCallBlock, arguments: Mapping[str, Any]) -> Iterable[Any]:
        """A complete call of a tool."""
        return ()

    def end(self, end: MessageEnd) -> Iterable[Any]:
        """The answer is complete."""
        return ()


@define
class _AnswerEncoder:
    """The stage from events to the bytes of one streamed answer."""

    _writer: AnswerWriter
    _framing: Framing
    _broken: Callable[[KiroAsgiError], Iterable[Any]]
    _call: BlockStart | None = field(init=False, default=None)
    """The call that is open."""

    _arguments: list[str] = field(init=False, factory=list)

    @property
    def heartbeat(self) -> bytes:
        """Bytes that keep the connection alive."""
        return self._framing.heartbeat

    def feed(self, items: Iterable[Event], /) -> Iterator[bytes]:
        """Frames, one for each value."""
        for item in items:
            yield from map(self._frame, self._values(item))

    def flush(self) -> Iterator[bytes]:
        """Nothing: the end of an answer is an event."""
        return iter(())

    def error(self, error: KiroAsgiError) -> list[bytes]:
        """The ending of a stream that cannot go on."""
        return [*map(self._frame, self._broken(error))]

    def _frame(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else self._framing.frame(dumps(value))

    def _values(self, item: Event) -> Iterable[Any]:
        writer = self._writer
        match item:
            case TextDelta(text):
                return writer.text(text)
            case ThinkingDelta(text):
                return writer.thinking(text)
            case RefusalDelta(text):
                return writer.refusal(text)
            case BlockStart(_, BlockKind.TOOL_CALL):
                self._call, self._arguments = item, []
            case ToolInputDelta(json):
                self._arguments.append(json)
            case BlockEnd() if self._call is not None:
                return self._whole_call(self._call)
            case MessageStart():
                return writer.begin()
            case MessageEnd():
                return writer.end(item)
        return ()

    def _whole_call(self, opened: BlockStart) -> Iterable[Any]:
        self._call = None
        call = ToolCallBlock(opened.call_id, opened.name, "".join(self._arguments) or "{}")
        arguments = call_arguments(call)
        return () if arguments is None else self._writer.call(call, arguments)


class SimpleDialect:
    """Base of a client API; see `kiro_asgi.dialects.Dialect`.

    A subclass has a name, `parse`, `writer` and `whole`.  As its construction takes the options, the class itself can
    be the manifest's ``make``.  Where requests differ from path to path, it has an ``at`` (`RoutedDialect`) that gives
    an instance of another subclass.

    Raises:
        ConfigError: The subclass lacks something that it must have.
    """

    name: str
    """That of its manifest."""

    framing: Framing = SERVER_SENT_EVENTS
    """Of streamed answers."""

    body_type: bytes = JSON
    """Content type of all others."""

    needed: ClassVar[tuple[str, ...]] = ("name", "parse", "writer", "whole")
    """What a subclass must have."""

    def __init__(self, options: DialectOptions = DialectOptions()) -> None:  # noqa: B008 - a frozen value
        mine = type(self)
        base = next(it for it in mine.__mro__ if it in (JsonDialect, SimpleDialect))
        if lacking := [it for it in self.needed if getattr(mine, it, None) is getattr(base, it, None)]:
            raise ConfigError(f"dialects: {mine.__name__} has no {' and no '.join(lacking)}; define it in the class")
        self.options = options

    @property
    def traits(self) -> DialectTraits:
        """Content types."""
        return DialectTraits(stream_type=self.framing.media_type, body_type=self.body_type)

    # A subclass has these.

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request.

        Raises:
            RequestError: It cannot be answered: see `invalid`, `missing` and `unsupported`, which name the place.
        """
        raise NotImplementedError(f"{type(self).__name__}.parse")

    def writer(self, meta: ResponseMeta) -> AnswerWriter:
        """Make the words of one streamed answer."""
        raise NotImplementedError(f"{type(self).__name__}.writer")

    def whole(self, message: Message, meta: ResponseMeta) -> Any:
        """The value that a collected answer is."""
        raise NotImplementedError(f"{type(self).__name__}.whole")

    # A subclass may have its own of these.

    def envelope(self, error: KiroAsgiError) -> Any:
        """The value that reports an error."""
        return {"error": {"message": message_of(error), "code": error.code or None, "param": error.param or None}}

    def broken(self, error: KiroAsgiError) -> Iterable[Any]:
        """The values that end a stream that has begun and cannot go on: the same as before an answer."""
        return [self.envelope(error)]

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """Parts of a request that no service receives: none."""
        return ()

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        return ResponseMeta(f"{self.name}_{token()}", parsed.prompt.model, created, parsed.options)

    def encoder(self, meta: ResponseMeta) -> Encoder:
        """A fresh encoder for one streamed answer."""
        return _AnswerEncoder(self.writer(meta), self.framing, self.broken)

    def render(self, message: Message, meta: ResponseMeta) -> Iterator[bytes]:
        """The body of a collected answer, in pieces."""
        value = self.whole(message, meta)
        return iter((value,)) if isinstance(value, bytes) else dump_value(value)

    def error(self, error: KiroAsgiError, request_id: str) -> ErrorReply:
        """The HTTP answer to an error before the first byte, with its own status."""
        value, headers = self.envelope(error), tuple(error_headers(error, error.status))
        return ErrorReply(
            error.status, value if isinstance(value, bytes) else dumps(value), headers, self.traits.body_type
        )

    def parse_count(self, body: bytes, /) -> Prompt:
        """Read a request for a token count: as any other.

        Raises:
            RequestError: As of `parse`.
        """
        return self.parse(body).prompt

    def render_count(self, tokens: int, /) -> bytes:
        """The body of the answer."""
        return dumps({"tokens": tokens})


class JsonDialect(SimpleDialect, Generic[R]):
    """Base of a client API whose requests are JSON objects; see `SimpleDialect`.

    A subclass has `request` and `prompt` in the place of `parse`.  The request itself comes back as the options of the
    answer.
    """

    request: type[R]
    """The attrs class that requests are read into: strictly, so a number is no string, and ``null`` stands only where a
    field may be ``None``.  A member without a default is required."""

    unions: Sequence[tuple[Tagged, str]] = ()
    """Every union of several classes in it, and the name of the rule by which objects of other kinds, which are read as
    `Raw`, are left out; empty where `prompt` refuses them."""

    needed = ("name", "request", "prompt", "writer", "whole")
    _converter: ClassVar[StrictConverter]
    _beside: ClassVar[Beside]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "request"):
            cls._converter = make_converter(*(evolve(union, rule=rule) for union, rule in cls.unions))
            cls._beside = Beside(getattr(cls, "name", ""))

    @property
    def bodies(self) -> Mapping[str, BodyShape]:
        """The body of a request for an answer."""
        return shaped({ANSWER: self.request}, [union for union, _ in self.unions])

    def prompt(self, request: R, headers: RequestHeaders) -> Prompt:
        """Turn a request into a prompt.

        Raises:
            RequestError: It cannot be answered: see `invalid`, `missing` and `unsupported`, which name the place.
        """
        raise NotImplementedError(f"{type(self).__name__}.prompt")

    def streams(self, request: R) -> bool:
        """Whether the answer is to come as it is made: by the request's ``stream``."""
        return getattr(request, "stream", False) is True

    def parse(self, body: bytes, headers: RequestHeaders = (), /) -> ParsedRequest:
        """Read a request.

        Raises:
            RequestError: Not JSON, not of the class, or refused by `prompt`; ``param`` names the place.
        """
        request = structure(body, self.request, converter=self._converter)
        return ParsedRequest(self.prompt(request, headers), self.streams(request), request)

    def notes(self, body: bytes, parsed: ParsedRequest) -> tuple[Note, ...]:
        """A note for every member that no class declares."""
        notes = Notes()
        self._beside.note(notes, parsed.options, read_json(body))
        return notes.found()
