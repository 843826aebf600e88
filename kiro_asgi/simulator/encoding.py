"""Encodes a script in another format than Kiro's: an event becomes neutral pieces, and an encoder makes bytes of them.

Two kinds of event, `search` and `picture`, are only for formats other than Kiro's.  Pauses, breaks and raw bytes of a
script stay as they are, so the faults of the wire are the same in all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from attrs import define, evolve, field, frozen

from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.scripts import (
    EVENT_STREAM,
    CloseEarly,
    CorruptChecksum,
    Event,
    ExceptionFrame,
    HalfClose,
    Head,
    RawBytes,
    Repeat,
    Reset,
    Script,
    Stall,
    Step,
    TornFrame,
    json_answer,
)

CONTEXT_FULL: Final = "CONTEXT_FULL"
"""Stop reason of an answer after which the context window has no room left."""


@frozen
class Words:
    """Answer text."""

    text: str


@frozen
class Thought:
    """Readable thinking."""

    text: str


@frozen
class Seal:
    """The signature of the thought before it."""

    signature: str


@frozen
class Sealed:
    """Thinking that is not readable."""

    data: str


@frozen
class CallPart:
    """A part of a tool call: its beginning, some of its arguments, or its end."""

    call_id: str
    name: str
    input: str = ""
    stop: bool = False


@frozen
class Picture:
    """An image, whole."""

    media_type: str
    data: str
    """Base64."""


@frozen
class Hit:
    """One result of a search."""

    url: str
    title: str


@frozen
class Searched:
    """A search by the service itself, which the text after it rests on."""

    query: str
    hits: tuple[Hit, ...]


@frozen
class AnswerEnd:
    """Why the answer ends."""

    reason: str
    """In Kiro's words, e.g. ``END_TURN``; unknown ones go out unchanged."""

    sequence: str = ""
    """The stop sequence that was met."""


@frozen
class TokensUsed:
    """Tokens of prompt and answer."""

    input: int
    """Without cached ones."""

    output: int
    cached: int = 0


@frozen
class Unknown:
    """An event that no client knows."""

    name: str
    payload: Mapping[str, Any]


@frozen
class Failure:
    """An error after the answer began."""

    name: str
    """In Kiro's words, e.g. ``ThrottlingException``."""

    message: str


Piece = Words | Thought | Seal | Sealed | CallPart | Picture | Searched | AnswerEnd | TokensUsed | Unknown | Failure


def search(query: str, *hits: Hit) -> Event:
    """The event of a search by the service itself."""
    return Event("searchEvent", {"query": query, "hits": [[hit.url, hit.title] for hit in hits]})


def picture(media_type: str, data: str) -> Event:
    """The event of an image, *data* in base64."""
    return Event("imageEvent", {"mediaType": media_type, "data": data})


def _reasoning(payload: Mapping[str, Any]) -> Iterator[Piece]:
    if "text" in payload:
        yield Thought(payload["text"])
    if "signature" in payload:
        yield Seal(payload["signature"])
    if "redactedContent" in payload:
        yield Sealed(payload["redactedContent"])


def _call(payload: Mapping[str, Any]) -> Iterator[Piece]:
    yield CallPart(payload["toolUseId"], payload["name"], payload.get("input", ""), payload.get("stop", False))


def _metadata(payload: Mapping[str, Any]) -> Iterator[Piece]:
    used = as_map(payload.get("tokenUsage"))
    if used:
        yield TokensUsed(used["uncachedInputTokens"], used["outputTokens"], used["cacheReadInputTokens"])
    if "stopReason" in payload:
        yield AnswerEnd(payload["stopReason"], payload.get("stopSequence", ""))


def _context(payload: Mapping[str, Any]) -> Iterator[Piece]:
    if payload["contextUsagePercentage"] >= 100:
        yield AnswerEnd(CONTEXT_FULL)


def _search(payload: Mapping[str, Any]) -> Iterator[Piece]:
    yield Searched(payload["query"], tuple(Hit(url, title) for url, title in payload["hits"]))


EVENTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Piece]]]] = {
    "assistantResponseEvent": lambda payload: iter((Words(payload["content"]),)),
    "reasoningContentEvent": _reasoning,
    "toolUseEvent": _call,
    "metadataEvent": _metadata,
    "contextUsageEvent": _context,
    "searchEvent": _search,
    "imageEvent": lambda payload: iter((Picture(payload["mediaType"], payload["data"]),)),
    "meteringEvent": lambda payload: iter(()),
    "initial-response": lambda payload: iter(()),
}
"""Event type to its pieces."""


def pieces_of(step: Step) -> tuple[Piece, ...] | None:
    """Return the pieces of *step*; ``None`` if it is no `Event` and no `ExceptionFrame`."""
    match step:
        case Event(name, payload):
            return tuple(EVENTS[name](payload)) if name in EVENTS else (Unknown(name, payload),)
        case ExceptionFrame(name, message):
            return (Failure(name, message),)
        case _:
            return None


SSE: Final = "text/event-stream"
BREAKS: Final = (Reset, CloseEarly, HalfClose, Stall)


class AnswerEncoder(Protocol):
    """Encodes one answer in one format: no bytes before the first piece, so that an empty script is silence."""

    content_type: str
    """Of a stream."""

    def encode(self, piece: Piece) -> Iterator[bytes]:
        """Encode *piece*: the events that it adds to the stream."""
        ...

    def close(self) -> Iterator[bytes]:
        """The end of a stream; nothing unless there was a `AnswerEnd`."""
        ...

    def document(self, answer: CollectedAnswer) -> dict[str, Any]:
        """The whole answer in one document."""
        ...

    def error(self, failure: Failure) -> Script:
        """The response where *failure* is the whole answer."""
        ...


@define
class AnswerBlock:
    """A part of a collected answer."""

    first: Piece
    """The whole of `Words` and `Thought`; a call without its arguments."""

    text: str = ""
    seal: str = ""
    done: bool = False
    """Whether a call has come to its end."""


@define
class CollectedAnswer:
    """An answer, whole."""

    blocks: list[AnswerBlock] = field(factory=list)
    stop: AnswerEnd | None = None
    failure: Failure | None = None

    def add(self, piece: Piece) -> None:
        """Take in one more piece."""
        match piece:
            case Words(text) | Thought(text):
                if not self.blocks or type(self.blocks[-1].first) is not type(piece):
                    self.blocks.append(AnswerBlock(piece))
                self.blocks[-1].text += text
            case CallPart(call_id, _, part, stop):
                block = self._call(call_id) or self._opened(piece)
                block.text += part
                block.done |= stop
            case Seal(signature):
                (self.blocks[-1] if self.blocks else self._opened(Thought(""))).seal = signature
            case Sealed() | Picture() | Searched():
                self._opened(piece)
            case AnswerEnd():
                self.stop = piece
            case Failure():
                self.failure = piece
            case TokensUsed() | Unknown():
                pass

    def _call(self, call_id: str) -> AnswerBlock | None:
        calls = ((block, block.first) for block in self.blocks)
        return next((block for block, call in calls if isinstance(call, CallPart) and call.call_id == call_id), None)

    def _opened(self, piece: Piece) -> AnswerBlock:
        self.blocks.append(AnswerBlock(piece))
        return self.blocks[-1]


def used_by(script: Script, prompt: int) -> TokensUsed:
    """Return the usage that *script* reports; else *prompt* tokens, and one more for every event."""
    pieces = [piece for step in script for piece in pieces_of(step) or ()]
    found = next((piece for piece in pieces if isinstance(piece, TokensUsed)), None)
    return found or TokensUsed(prompt, sum(map(_tokens, script)))


def _tokens(step: Step) -> int:
    if isinstance(step, Repeat):
        return step.times
    return sum(isinstance(piece, Words | Thought | CallPart) for piece in pieces_of(step) or ())


def encode_script(script: Script, encoder: AnswerEncoder, *, stream: bool) -> Script:
    """*script* with every event, and every piece, in the format of *encoder*."""
    if not any(pieces_of(step) is not None or isinstance(step, Repeat) for step in script):
        return tuple(_head(step, encoder) for step in script)
    return tuple(_streamed(script, encoder)) if stream else _collected(script, encoder)


def _head(step: Step, encoder: AnswerEncoder) -> Step:
    if isinstance(step, Head) and step.content_type == EVENT_STREAM:
        return evolve(step, content_type=encoder.content_type, headers=())
    return step


def _streamed(script: Script, encoder: AnswerEncoder) -> Iterator[Step]:
    if not any(isinstance(step, Head) for step in script):
        yield Head(content_type=encoder.content_type)
    for step in script:
        pieces = pieces_of(step)
        if pieces is not None:
            yield from map(RawBytes, _encoded(pieces, encoder))
            continue
        match step:
            case Repeat(frame, times) if not isinstance(frame, RawBytes):
                first, *again = (list(_encoded(pieces_of(frame) or (), encoder)) for _ in range(min(times, 2)))
                yield from map(RawBytes, first)
                yield from (Repeat(RawBytes(b"".join(data)), times - 1) for data in again)
            case TornFrame(frame, keep):
                data = b"".join(_encoded(pieces_of(frame) or (), encoder))
                yield RawBytes(data[: len(data) // 2 if keep is None else keep])
            case CorruptChecksum(frame):
                yield RawBytes(b"".join(_encoded(pieces_of(frame) or (), encoder)).replace(b"}", b")"))
            case _:
                yield _head(step, encoder)
    yield from map(RawBytes, encoder.close())


def _encoded(pieces: tuple[Piece, ...], encoder: AnswerEncoder) -> Iterator[bytes]:
    for piece in pieces:
        yield from encoder.encode(piece)


def _collected(script: Script, encoder: AnswerEncoder) -> Script:
    """One document, after all pauses of the script; broken off in the middle where the script breaks off."""
    answer = CollectedAnswer()
    waits: list[Step] = []
    breaks: list[Step] = []
    for step in script:
        for piece in _all_pieces(step):
            answer.add(piece)
        if isinstance(step, BREAKS):
            breaks.append(step)
        elif not isinstance(step, Head | RawBytes) and pieces_of(step) is None:
            waits.append(step)
    if answer.failure is not None:
        return (*_pauses(waits), *encoder.error(answer.failure))
    head, body = json_answer(200, encoder.document(answer))
    if answer.stop is not None and not breaks:
        return (*_pauses(waits), head, body)
    assert isinstance(body, RawBytes)
    ending = breaks or [CloseEarly()]
    return (*_pauses(waits), head, RawBytes(body.data[: len(body.data) // 2]), *ending)


def _all_pieces(step: Step) -> Iterator[Piece]:
    if isinstance(step, Repeat):
        for piece in pieces_of(step.frame) or ():
            yield Words(piece.text * step.times) if isinstance(piece, Words) else piece
    else:
        yield from pieces_of(step) or ()


def _pauses(steps: list[Step]) -> Script:
    return tuple(step for step in steps if not isinstance(step, Repeat | TornFrame | CorruptChecksum))
