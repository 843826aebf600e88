"""An exchange that was done again, as JSON: its steps in three columns, and all of one step.

Bytes from a service are tied to the frames in them, so that whoever looks at one sees the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from struct import Struct
from typing import Any, Final
from zlib import crc32

import attrs
from attrs import frozen

from kiro_asgi.replay import Replay
from kiro_asgi.tapes import Line, Tape
from kiro_asgi.tapes.masking import is_event_stream
from kiro_asgi.wire.eventstream import CHECKSUM_SIZE, LENGTHS_SIZE, OVERHEAD, PRELUDE_SIZE, Frame
from kiro_asgi.wire.json import JsonError, loads
from kiro_asgi.wire.sse import ServerSentEvent

_LABEL: Final = 80
"""Characters that a step is told in."""

_HEX_BYTES: Final = 16 * 1024
_TEXT: Final = 64 * 1024
"""Bytes, and characters, of one value that are shown."""

_DEPTH: Final = 24
"""Levels of a value that are shown."""

_PRELUDE: Final = Struct(">III")
_CHECKSUM: Final = Struct(">I")


def steps_of(replay: Replay) -> Mapping[str, Any]:
    """All steps, a short row for each: kind, seconds, cause, stage, attempt, offset, bytes, words, who kept it.

    A cause is the index of a row, -1 for none.  Offset and size are those of bytes, and of a frame's bytes.  ``events``
    are the rows of which the client's stream is made.
    """
    stages = list(dict.fromkeys(step.stage for step in replay.steps))
    places = {stage: place for place, stage in enumerate(stages)}
    rows = []
    attempts: list[int] = []
    frames: dict[int, Iterator[_Bounds]] = {n: iter(found) for n, found in _frames_by_attempt(replay.tape).items()}
    for index, step in enumerate(replay.steps):
        attempts.append(step.attempt or (attempts[step.cause] if step.cause >= 0 else 0))
        offset, size = step.offset, len(step.value) if isinstance(step.value, bytes) else 0
        if isinstance(step.value, Frame) and (bounds := next(frames.get(attempts[-1], iter(())), None)) is not None:
            offset, size = bounds.offset, bounds.size
        told = [step.kind[0], round(step.t, 6), step.cause, places[step.stage], attempts[-1], offset, size]
        rows.append([*told, _label(step.value), replay.kept.get(index, "")])
    more = {"dropped": replay.dropped, "missing": replay.missing}
    return {"derived": True, "stages": stages, "steps": rows, "events": list(replay.events), **more}


def recorded_steps(tape: Tape) -> Mapping[str, Any]:
    """What was recorded and cannot be done again, or not yet: reads and sends, without what happened between them."""
    rows = []
    offsets: dict[int, int] = {}
    attempt = 0
    for line in tape.lines:
        attempt += line.kind == "plan"
        lane = {"up.bytes": attempt, "client.bytes": -1}.get(line.kind)
        if lane is not None:
            at = offsets.get(lane, 0)
            kind = "s" if lane < 0 else "r"
            rows.append([kind, round(line.t, 6), -1, 0, max(lane, 0), at, len(line.data), _label(line.data), ""])
            offsets[lane] = at + len(line.data)
    return {"derived": False, "stages": [""], "steps": rows, "events": [], "dropped": 0, "missing": 0}


def one_recorded(tape: Tape, index: int) -> Mapping[str, Any] | None:
    """All of one row of `recorded_steps`; ``None`` where there is no such row."""
    lines = [line for line in tape.lines if line.kind in ("up.bytes", "client.bytes")]
    return _bytes(lines[index].data) if 0 <= index < len(lines) else None


def one_step(replay: Replay, index: int) -> Mapping[str, Any] | None:
    """All of one step; ``None`` where there is no such step."""
    if not 0 <= index < len(replay.steps):
        return None
    step = replay.steps[index]
    if not isinstance(step.value, bytes):
        return {"type": type(step.value).__name__, "value": as_value(step.value), **_frame(replay, index)}
    told = dict(_bytes(step.value))
    if step.kind == "read":
        bounds = _frames_by_attempt(replay.tape).get(step.attempt, [])
        end = step.offset + len(step.value)
        told["frames"] = [each.told for each in bounds if each.offset < end and each.offset + each.size > step.offset]
    return told


def _bytes(data: bytes) -> dict[str, Any]:
    text = data[: 4 * _TEXT].decode("utf-8", "replace")[:_TEXT]
    return {"size": len(data), "hex": data[:_HEX_BYTES].hex(), "text": text}


def _frame(replay: Replay, index: int) -> Mapping[str, Any]:
    """Bounds and checksums of a frame among those of its attempt."""
    steps = replay.steps
    if not isinstance(steps[index].value, Frame):
        return {}
    attempt = _attempt(replay, index)
    earlier = (place for place in range(index) if isinstance(steps[place].value, Frame))
    number = sum(_attempt(replay, place) == attempt for place in earlier)
    return {"frames": [each.told for each in _frames_by_attempt(replay.tape).get(attempt, [])[number : number + 1]]}


def _attempt(replay: Replay, index: int) -> int:
    while index >= 0:
        step = replay.steps[index]
        if step.attempt:
            return step.attempt
        index = step.cause
    return 0


@frozen
class _Bounds:
    """Where a frame of an event stream lies, and its checksums."""

    offset: int
    size: int
    headers: int
    prelude: tuple[int, int]
    message: tuple[int, int]
    """Checksum as it was sent, and as it is computed."""

    @property
    def told(self) -> Mapping[str, Any]:
        return {
            "offset": self.offset,
            "size": self.size,
            "headers": self.headers,
            "prelude": [f"{each:08x}" for each in self.prelude],
            "message": [f"{each:08x}" for each in self.message],
        }


def _frames_by_attempt(tape: Tape) -> dict[int, list[_Bounds]]:
    """The frames of each attempt whose answer is an event stream, of several answers those of all."""
    found: dict[int, list[_Bounds]] = {}
    for number, attempt in enumerate(tape.attempts, 1):
        at = 0
        for answer in attempt.answers:
            data = b"".join(line.data for _, line in answer.reads)
            if answer.head is not None and _has_frames(answer.head):
                found.setdefault(number, []).extend(_bounds(data, at))
            at += len(data)
    return found


def _has_frames(head: Line) -> bool:
    return is_event_stream(head.header(b"content-type").decode("latin-1"))


def _bounds(data: bytes, start: int) -> Iterator[_Bounds]:
    at = 0
    while at + PRELUDE_SIZE <= len(data):
        size, headers, prelude = _PRELUDE.unpack_from(data, at)
        end = at + size
        if size < OVERHEAD or end > len(data):
            return
        (message,) = _CHECKSUM.unpack_from(data, end - CHECKSUM_SIZE)
        computed = crc32(data[at : at + LENGTHS_SIZE]), crc32(data[at : end - CHECKSUM_SIZE])
        yield _Bounds(start + at, size, headers, (prelude, computed[0]), (message, computed[1]))
        at = end


def _label(value: Any) -> str:
    """A step in a few words."""
    if isinstance(value, bytes):
        text = value[: 4 * _LABEL].decode("utf-8", "replace")[:_LABEL]
        return text if "\x00" not in text else value[: _LABEL // 3].hex(" ")
    if isinstance(value, Frame):
        kinds = [value.headers[name] for name in (":event-type", ":exception-type") if name in value.headers]
        return f"Frame {' '.join(map(str, kinds))} {value.payload[:_LABEL].decode('utf-8', 'replace')}"[:_LABEL]
    if isinstance(value, ServerSentEvent):
        return f"{value.event} {value.data[:_LABEL]}"[:_LABEL]
    return f"{type(value).__name__} {_telling(value)}"[:_LABEL]


def _telling(value: Any) -> str:
    """The members that say something, in a few words."""
    if not attrs.has(type(value)):
        return str(value)[:_LABEL] if isinstance(value, str | int | float) else ""
    words: list[str] = []
    for each in attrs.fields(type(value)):
        part = getattr(value, each.name)
        if isinstance(part, Enum):
            words.append(str(part.value))
        elif isinstance(part, str) and part:
            words.append(part[:_LABEL])
        elif isinstance(part, int | float) and part:
            words.append(f"{each.name}={part}")
    return " ".join(words)


def as_value(value: Any, depth: int = 0) -> Any:
    """*value*, of any kind that stages hand on, as JSON; what is long or deep is cut, and says so."""
    if depth == _DEPTH:
        return "…"
    if attrs.has(type(value)):
        found = ((each.name, getattr(value, each.name)) for each in attrs.fields(type(value)))
        return {name: as_value(part, depth + 1) for name, part in found}
    match value:
        case Mapping():
            return {str(name): as_value(part, depth + 1) for name, part in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_value(part, depth + 1) for part in value]
        case bytes():
            return _payload(value, depth)
        case Enum():
            return value.value
        case str():
            return value if len(value) <= _TEXT else f"{value[:_TEXT]}… and {len(value) - _TEXT} more characters"
        case None | bool() | int() | float():
            return value
    return str(value)


def _payload(data: bytes, depth: int) -> Any:
    """Bytes as what they are: JSON, text, or neither."""
    try:
        return as_value(loads(data), depth)
    except JsonError:
        return as_value(data.decode("utf-8", "backslashreplace"), depth)
