"""Encodes a script in one format: an encoder makes bytes of its pieces.

Pauses, breaks and raw bytes of a script stay as they are, so the faults of the wire are the same in all formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from attrs import define, evolve, field

from kiro_asgi.simulator.pieces import (
    CONTEXT_FULL,
    AnswerEnd,
    CallPart,
    Charged,
    ContextUsed,
    Ending,
    Event,
    ExceptionFrame,
    Opened,
    Picture,
    Piece,
    Seal,
    Sealed,
    Searched,
    Thought,
    TokensUsed,
    Words,
)
from kiro_asgi.simulator.scripts import (
    CloseEarly,
    CorruptChecksum,
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

AnswerPart = (
    Words | Thought | Seal | Sealed | CallPart | Picture | Searched | AnswerEnd | TokensUsed | Event | ExceptionFrame
)
"""What an encoder is given: a piece of an answer, but for those that tell several things at once."""


def pieces_of(step: Step) -> tuple[AnswerPart, ...] | None:
    """Return what an encoder makes of *step*; ``None`` if it is no part of the answer."""
    match step:
        case Ending(reason, sequence, used):
            end = () if reason is None else (AnswerEnd(reason, sequence),)
            return end if used is None else (used, *end)
        case ContextUsed(percentage):
            return (AnswerEnd(CONTEXT_FULL),) if percentage >= 100 else ()
        case Charged() | Opened():
            return ()
        case ExceptionFrame():
            return (step,)
    return (step,) if isinstance(step, Piece) else None


SSE: Final = "text/event-stream"
BREAKS: Final = (Reset, CloseEarly, HalfClose, Stall)


class AnswerEncoder(Protocol):
    """Encodes one answer in one format: no bytes before the first piece, so that an empty script is silence."""

    content_type: str
    """Of a stream."""

    def encode(self, piece: AnswerPart) -> Iterator[bytes]:
        """Encode *piece*: the events that it adds to the stream."""
        ...

    def close(self) -> Iterator[bytes]:
        """The end of a stream; nothing unless there was a `AnswerEnd`."""
        ...

    def document(self, answer: CollectedAnswer) -> dict[str, Any]:
        """The whole answer in one document."""
        ...

    def error(self, failure: ExceptionFrame) -> Script:
        """The response where *failure* is the whole answer."""
        ...


@define
class AnswerBlock:
    """A part of a collected answer."""

    first: AnswerPart
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
    failure: ExceptionFrame | None = None

    def add(self, piece: AnswerPart) -> None:
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
            case ExceptionFrame():
                self.failure = piece
            case TokensUsed() | Event():
                pass

    def _call(self, call_id: str) -> AnswerBlock | None:
        calls = ((block, block.first) for block in self.blocks)
        return next((block for block, call in calls if isinstance(call, CallPart) and call.call_id == call_id), None)

    def _opened(self, piece: AnswerPart) -> AnswerBlock:
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
    if isinstance(step, Head) and step.content_type is None:
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


def _encoded(pieces: tuple[AnswerPart, ...], encoder: AnswerEncoder) -> Iterator[bytes]:
    for piece in pieces:
        yield from encoder.encode(piece)


def _collected(script: Script, encoder: AnswerEncoder) -> Script:
    """One document, after all pauses of the script; half of it where the script breaks off, or ends without a stop."""
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
    assert isinstance(head, Head) and isinstance(body, RawBytes)
    half = body.data[: len(body.data) // 2]
    begun = head if breaks else evolve(head, length=len(half))  # without a break its end is a clean one
    return (*_pauses(waits), begun, RawBytes(half), *breaks)


def _all_pieces(step: Step) -> Iterator[AnswerPart]:
    if isinstance(step, Repeat):
        for piece in pieces_of(step.frame) or ():
            yield Words(piece.text * step.times) if isinstance(piece, Words) else piece
    else:
        yield from pieces_of(step) or ()


def _pauses(steps: list[Step]) -> Script:
    return tuple(step for step in steps if not isinstance(step, Repeat | TornFrame | CorruptChecksum))
