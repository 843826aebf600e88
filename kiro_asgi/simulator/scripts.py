"""Scripts: what the simulated service sends, step by step, faults included, and short ways to write them.

A script is a tuple of steps.  Steps that become bytes (pieces of an answer, `ExceptionFrame`, `RawBytes`, `TornFrame`,
`CorruptChecksum`, `Repeat`) go out in order, each as the encoder of the service writes it; the others are behaviour.
`Head` is the response's head, implied before the first byte where it is left out, so that ``(Stall(),)`` is silence
before the first byte and ``(Head(), Stall())`` silence after the head.  A script that ends without `Reset`,
`CloseEarly`, `HalfClose` or `Stall` completes the response properly.

`answer` writes a whole one around `text`, `thinking`, `tool_call` …  Their order is that of services: reasoning first,
then text, tool calls one after the other; at the end the trailers (`Trailers`), every one of which may be missing.

    >>> simulator.enqueue(answer(*text("Hel", "lo")))  # an ordinary answer
    >>> simulator.enqueue((*text("Hel"), Reset()))  # a connection that breaks in the middle
    >>> simulator.enqueue(answer(*text("Hello"), head=Head(layout=Layout(write=1))))  # one byte a write
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.simulator.pieces import (
    CallPart,
    Charged,
    ContextUsed,
    Ending,
    ExceptionFrame,
    Piece,
    Seal,
    Thought,
    TokensUsed,
    Words,
)

JSON: Final = "application/json"


@frozen
class Layout:
    """Sizes of the pieces in which a body is sent."""

    chunk: int = 0
    """Bytes an HTTP chunk, across frames; 0: every step is a chunk of its own."""

    write: int = 0
    """Bytes a socket write; 0: every chunk is one write."""


@frozen
class Head:
    """Status line and headers."""

    status: int = 200
    content_type: str | None = None
    """``None`` for that of the format in which the script is encoded; empty for none."""

    headers: tuple[tuple[str, str], ...] = ()
    conversation: str = ""
    """Id of the conversation that it answers, for a service that names it in a header."""

    length: int | None = None
    """``Content-Length``; ``None``: chunked."""

    layout: Layout = field(factory=Layout)


@frozen
class RawBytes:
    """Bytes as they are."""

    data: bytes = field(repr=False)


@frozen
class CorruptChecksum:
    """A frame with one flipped bit in a checksum."""

    frame: Piece | ExceptionFrame
    which: str = "message"
    """``message`` or ``prelude``."""


@frozen
class TornFrame:
    """The beginning of a frame; what follows in the script decides how the connection ends."""

    frame: Piece | ExceptionFrame
    keep: int | None = None
    """Bytes that are sent, negative counting from the end; ``None``: half."""


@frozen
class Repeat:
    """The same frame many times over, encoded once."""

    frame: Piece | RawBytes
    times: int


@frozen
class Pause:
    """Silence for a while."""

    seconds: float


@frozen
class Stall:
    """Silence until the peer gives up."""


@frozen
class Reset:
    """Close with RST."""


@frozen
class CloseEarly:
    """Close with FIN, without completing the response."""


@frozen
class HalfClose:
    """FIN without completing the response; the other direction stays open until the peer closes."""


ByteStep = Piece | ExceptionFrame | RawBytes | CorruptChecksum | TornFrame | Repeat
Step = ByteStep | Head | Pause | Stall | Reset | CloseEarly | HalfClose
Script = tuple[Step, ...]

Action = Head | bytes | Pause | Stall | Reset | CloseEarly | HalfClose


def _full_chunks(pending: bytearray, size: int) -> Iterator[bytes]:
    while len(pending) >= size:
        yield bytes(pending[:size])
        del pending[:size]


def _bytes(step: RawBytes | Repeat) -> Iterator[bytes]:
    frame, times = (step.frame, step.times) if isinstance(step, Repeat) else (step, 1)
    assert isinstance(frame, RawBytes), f"{frame!r} is not encoded"
    for _ in range(times):
        yield frame.data


def lay_out(script: Script) -> Iterator[Action]:
    """Turn *script*, which a format has encoded, into actions, in order; each ``bytes`` is one HTTP chunk, never empty.

    Chunks do not reach over a step that is not bytes: what is there goes out before a pause begins or a connection
    breaks.
    """
    chunk = 0
    pending = bytearray()
    for step in script:
        if isinstance(step, RawBytes | Repeat):
            for data in _bytes(step):
                pending += data
                if pending:
                    yield from _full_chunks(pending, chunk or len(pending))
            continue
        if pending:
            yield bytes(pending)
            pending.clear()
        if isinstance(step, Head):
            chunk = step.layout.chunk
        assert isinstance(step, Action), f"{step!r} is not encoded"
        yield step
    if pending:
        yield bytes(pending)


def with_layout(script: Script, layout: Layout) -> Script:
    """The same script, cut differently."""
    if not any(isinstance(step, Head) for step in script):
        return (Head(layout=layout), *script)
    return tuple(evolve(step, layout=layout) if isinstance(step, Head) else step for step in script)


def paced(script: Script, seconds: float) -> Script:
    """The same script with a pause after every event."""
    return tuple(part for step in script for part in ((step, Pause(seconds)) if isinstance(step, Piece) else (step,)))


ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "ValidationException",
    401: "AccessDeniedException",
    402: "ServiceQuotaExceededException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    405: "ValidationException",
    413: "ValidationException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
"""Status to the exception that the service names in ``x-amzn-errortype``."""


SEALED: Final = "c2VhbGVk"
"""The one piece of sealed thinking that the simulated service gives, and takes back."""


@frozen
class Trailers:
    """What follows the content; ``None`` leaves a piece, or a part of it, out."""

    stop_reason: str | None = "END_TURN"
    """As of `AnswerEnd`."""

    input_tokens: int | None = 31
    """Without it the ending says nothing of tokens; without *stop_reason* either there is none."""

    output_tokens: int = 8
    context_percentage: float | None = 1.5
    credits: float | None = 0.0123

    def pieces(self) -> Iterator[Piece]:
        """In the usual order."""
        if self.stop_reason is not None or self.input_tokens is not None:
            used = None if self.input_tokens is None else TokensUsed(self.input_tokens, self.output_tokens)
            yield Ending(self.stop_reason, used=used)
        if self.context_percentage is not None:
            yield ContextUsed(self.context_percentage)
        if self.credits is not None:
            yield Charged(self.credits)


def answer(*steps: Step, trailers: Trailers | None = None, head: Head | None = None) -> Script:
    """A whole, complete answer."""
    return (Head() if head is None else head, *steps, *(Trailers() if trailers is None else trailers).pieces())


def words(sentence: str) -> list[str]:
    """*sentence* in small pieces, the way answers arrive; they join to exactly *sentence*."""
    return re.findall(r"\s*\S+(?:\s+\Z)?|\s+\Z", sentence)


def text(*pieces: str, model: str = "") -> tuple[Words, ...]:
    """Answer text in pieces."""
    return tuple(Words(piece, model) for piece in pieces)


def sign(thought: str) -> str:
    """The seal the simulated service puts on a thought, and checks when the thought comes back."""
    return base64.b64encode(hashlib.sha256(b"kiro-asgi simulator\0" + thought.encode()).digest()).decode()


def thinking(*pieces: str, signature: str | None = None) -> tuple[Thought | Seal, ...]:
    """Native reasoning: texts, then the signature (``""`` leaves it out)."""
    seal = sign("".join(pieces)) if signature is None else signature
    return (*map(Thought, pieces), *((Seal(seal),) if seal else ()))


def tagged_thinking(thought: str, tag: str = "thinking") -> tuple[Words, ...]:
    """Thinking as ordinary text between tags, followed by a blank line; the tags are cut in two."""
    opening, closing = f"<{tag}>", f"</{tag}>\n\n"
    return text(opening[:3], opening[3:], *words(thought), closing[:4], closing[4:])


def tool_id(seed: str, index: int = 0) -> str:
    """A tool-use id in the service's form, the same for the same *seed*."""
    digest = hashlib.sha256(f"{index}\0{seed}".encode()).digest()
    return "tooluse_" + base64.urlsafe_b64encode(digest).decode()[:22]


def conversation_id(seed: str) -> str:
    """A UUID-shaped id, the same for the same *seed*."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def tool_call(
    name: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", fragment: int = 9, stop: bool = True
) -> tuple[CallPart, ...]:
    """One tool call: its beginning, input in fragments of *fragment* characters, its end.

    *arguments* as a string are sent as they are, valid or not.  Without *stop* the call stays open.
    """
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    same = CallPart(call_id or tool_id(name + raw), name)
    middle = (evolve(same, input=raw[at : at + fragment]) for at in range(0, len(raw), fragment))
    return (same, *middle, *((evolve(same, stop=True),) if stop else ()))


def tool_calls_interleaved(*calls: Sequence[CallPart]) -> tuple[CallPart, ...]:
    """The parts of several calls, taken in turns."""
    longest = max(map(len, calls))
    return tuple(call[at] for at in range(longest) for call in calls if at < len(call))


def plain_answer(status: int, body: bytes, content_type: str, headers: tuple[tuple[str, str], ...] = ()) -> Script:
    """A response with a known length."""
    head = Head(status, content_type, headers, length=len(body))
    return (head, RawBytes(body)) if body else (head,)


def json_answer(status: int, document: Any, headers: tuple[tuple[str, str], ...] = ()) -> Script:
    """A JSON response."""
    return plain_answer(status, json.dumps(document).encode(), "application/json", headers)


def refusal(
    status: int, message: str, reason: str | None = None, *, retry_after: str = "", error_type: str = ""
) -> Script:
    """A refusal before the stream, as the service words it."""
    headers: tuple[tuple[str, str], ...] = (
        ("x-amzn-errortype", error_type or ERROR_TYPES.get(status, "InternalServerException")),
    )
    if retry_after:
        headers += (("retry-after", retry_after),)
    return json_answer(status, {"message": message, "reason": reason}, headers)
