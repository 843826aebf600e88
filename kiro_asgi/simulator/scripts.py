"""Scripts: what the simulated service sends, step by step, faults included.

A script is a tuple of steps.  Steps that are bytes (`Event`, `ExceptionFrame`, `RawBytes`, `TornFrame`,
`CorruptChecksum`, `Repeat`) go out in order; the others say how to behave.  `Head` is the response's head, implied
before the first byte where it is left out, so that ``(Stall(),)`` is silence before the first byte and ``(Head(),
Stall())`` silence after the head.  A script that ends without `Reset`, `CloseEarly`, `HalfClose` or `Stall`
completes the response properly.

    >>> simulator.enqueue(answer(*text("Hel", "lo")))  # an ordinary answer
    >>> simulator.enqueue((*text("Hel"), Reset()))  # a connection that breaks in the middle
    >>> simulator.enqueue(answer(*text("Hello"), head=Head(layout=Layout(write=1))))  # one byte a write
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.wire.eventstream import encode_frame

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
JSON: Final = "application/json"


@frozen
class Layout:
    """How a body is cut on its way out."""

    chunk: int = 0
    """Bytes an HTTP chunk, across frames; 0: every step is a chunk of its own."""

    write: int = 0
    """Bytes a socket write; 0: every chunk is one write."""


@frozen
class Head:
    """Status line and headers."""

    status: int = 200
    content_type: str = EVENT_STREAM
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None
    """``Content-Length``; ``None``: chunked."""

    layout: Layout = field(factory=Layout)


@frozen
class Event:
    """One event frame."""

    type: str
    payload: Mapping[str, Any]


@frozen
class ExceptionFrame:
    """One exception frame; the service ends the stream after it."""

    name: str
    message: str
    reason: str | None = None


@frozen
class RawBytes:
    """Bytes as they are."""

    data: bytes = field(repr=False)


@frozen
class CorruptChecksum:
    """A frame with one flipped bit in a checksum."""

    frame: Event | ExceptionFrame
    which: str = "message"
    """``message`` or ``prelude``."""


@frozen
class TornFrame:
    """The beginning of a frame; what follows in the script decides how the connection ends."""

    frame: Event | ExceptionFrame
    keep: int | None = None
    """How many bytes are sent, negative counting from the end; ``None``: half."""


@frozen
class Repeat:
    """The same frame many times over, encoded once."""

    frame: Event | RawBytes
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


ByteStep = Event | ExceptionFrame | RawBytes | CorruptChecksum | TornFrame | Repeat
Step = ByteStep | Head | Pause | Stall | Reset | CloseEarly | HalfClose
Script = tuple[Step, ...]

BYTE_STEPS: Final = (Event, ExceptionFrame, RawBytes, CorruptChecksum, TornFrame, Repeat)
"""The steps that `encode` knows."""


def _frame(kind: str, name: str, payload: Mapping[str, Any]) -> bytes:
    headers = {":message-type": kind, f":{kind}-type": name, ":content-type": JSON}
    return encode_frame(headers, json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def _corrupt(data: bytes, which: str) -> bytes:
    place = 8 if which == "prelude" else len(data) - 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def encode(step: Step) -> bytes:
    """The bytes of a step in `BYTE_STEPS`; of a `Repeat`, those of one round."""
    match step:
        case Event(name, payload):
            return _frame("event", name, payload)
        case ExceptionFrame(name, message, reason):
            return _frame("exception", name, {"message": message, "reason": reason})
        case RawBytes(data):
            return data
        case CorruptChecksum(frame, which):
            return _corrupt(encode(frame), which)
        case TornFrame(frame, keep):
            data = encode(frame)
            return data[: len(data) // 2 if keep is None else keep]
        case Repeat(frame, _):
            return encode(frame)
        case _:
            raise AssertionError(f"{step!r} has no bytes")


Action = Head | bytes | Pause | Stall | Reset | CloseEarly | HalfClose


def _pieces(step: Step) -> Iterator[bytes]:
    data = encode(step)
    for _ in range(step.times if type(step) is Repeat else 1):
        yield data


def _full_chunks(pending: bytearray, size: int) -> Iterator[bytes]:
    while len(pending) >= size:
        yield bytes(pending[:size])
        del pending[:size]


def lay_out(script: Script) -> Iterator[Action]:
    """Turn *script* into actions, in order; each ``bytes`` is one HTTP chunk and never empty.

    Chunks do not reach over a step that is not bytes: what is there goes out before a pause begins or a connection
    breaks.
    """
    chunk = 0
    pending = bytearray()
    for step in script:
        if isinstance(step, BYTE_STEPS):
            for data in _pieces(step):
                pending += data
                if pending:
                    yield from _full_chunks(pending, chunk or len(pending))
            continue
        if pending:
            yield bytes(pending)
            pending.clear()
        if isinstance(step, Head):
            chunk = step.layout.chunk
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
    return tuple(part for step in script for part in ((step, Pause(seconds)) if isinstance(step, Event) else (step,)))
