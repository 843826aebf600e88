"""A replayed exchange as JSON: its steps in three columns, all of one step, and its answer.

Bytes from a service are linked to the frames in them.  The answer is as its client sees it: text, thinking, tool calls
with what was mended, and why it ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from operator import attrgetter
from struct import Struct
from typing import Any, Final
from zlib import crc32

import attrs
from attrs import define, field, frozen

from kiro_asgi import errors
from kiro_asgi.inspector.sentences import of_error, of_notice
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    MessageEnd,
    RefusalDelta,
    SignatureDelta,
    Stop,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolInputDelta,
)
from kiro_asgi.replay import Replay, Step
from kiro_asgi.tapes import Line, Tape
from kiro_asgi.tapes.format import TapeAttempt
from kiro_asgi.tapes.masking import is_event_stream
from kiro_asgi.wire.eventstream import CHECKSUM_SIZE, LENGTHS_SIZE, OVERHEAD, PRELUDE_SIZE, Frame
from kiro_asgi.wire.json import JsonError, loads
from kiro_asgi.wire.sse import ServerSentEvent

_LABEL: Final = 80
"""Characters of a step's label."""

_HEX_BYTES: Final = 16 * 1024
_TEXT: Final = 64 * 1024
"""Bytes, and characters, of one value that are shown."""

_BLOCK_TEXT: Final = 256 * 1024
"""Characters of a block that are shown."""

_WORDS_BYTES: Final = 8192
"""Bytes of a service's refusal that are shown."""

_PARTIAL: Final = 20
"""Calls that were not sent whole that are shown."""

_DEPTH: Final = 24
"""Levels of a value that are shown."""

_PRELUDE: Final = Struct(">III")
_CHECKSUM: Final = Struct(">I")


def steps_of(replay: Replay) -> Mapping[str, Any]:
    """All steps, a short row for each: kind, seconds, cause, stage, attempt, offset, bytes, label, stage that kept it.

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
        start = [step.kind[0], round(step.t, 6), step.cause, places[step.stage], attempts[-1], offset, size]
        rows.append([*start, _label(step.value), replay.kept.get(index, "")])
    more = {"dropped": replay.dropped, "missing": replay.missing}
    return {"derived": True, "stages": stages, "steps": rows, "events": list(replay.events), **more}


def recorded_steps(tape: Tape) -> Mapping[str, Any]:
    """Reads and sends of a call that cannot be replayed, or not yet, without the steps between them."""
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
    shown = dict(_bytes(step.value))
    if step.kind == "read":
        bounds = _frames_by_attempt(replay.tape).get(step.attempt, [])
        end = step.offset + len(step.value)
        shown["frames"] = [
            each.as_json for each in bounds if each.offset < end and each.offset + each.size > step.offset
        ]
    return shown


def _bytes(data: bytes) -> dict[str, Any]:
    text = data[: 4 * _TEXT].decode("utf-8", "replace")[:_TEXT]
    return {"size": len(data), "hex": data[:_HEX_BYTES].hex(), "text": text}


def _frame(replay: Replay, index: int) -> Mapping[str, Any]:
    """Bounds and checksums of a frame among those of its attempt."""
    steps = replay.steps
    if not isinstance(steps[index].value, Frame):
        return {}
    attempt = _attempt_of(replay, index)
    earlier = (place for place in range(index) if isinstance(steps[place].value, Frame))
    number = sum(_attempt_of(replay, place) == attempt for place in earlier)
    return {"frames": [each.as_json for each in _frames_by_attempt(replay.tape).get(attempt, [])[number : number + 1]]}


def _attempt_of(replay: Replay, index: int) -> int:
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
    def as_json(self) -> Mapping[str, Any]:
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
    return f"{type(value).__name__} {_member_words(value)}"[:_LABEL]


def _member_words(value: Any) -> str:
    """The members that are not empty, in a few words."""
    if not attrs.has(type(value)):
        return str(value)[:_LABEL] if isinstance(value, str | int | float) else ""
    words: list[str] = []
    for each in filter(attrgetter("repr"), attrs.fields(type(value))):
        part = getattr(value, each.name)
        if isinstance(part, Enum):
            words.append(str(part.value))
        elif isinstance(part, str) and part:
            words.append(part[:_LABEL])
        elif isinstance(part, int | float) and part:
            words.append(f"{each.name}={part}")
    return " ".join(words)


def as_value(value: Any, depth: int = 0) -> Any:
    """*value*, of any kind that stages hand on, as JSON; what is long or deep is cut, with a mark."""
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


@define
class _ShownBlock:
    """A block, as far as it has come."""

    start: BlockStart
    began: float
    ended: float | None = None
    text: list[str] = field(factory=list)
    signature: str = ""
    citations: list[Citation] = field(factory=list)


def answer_of(replay: Replay) -> Mapping[str, Any]:
    """The blocks of the last attempt that had any, and the end; no blocks where no events were decoded."""
    blocks: list[_ShownBlock] = []
    end: MessageEnd | None = None
    for step in _last_message(replay):
        match step.value:
            case BlockStart() as start:
                blocks.append(_ShownBlock(start, step.t))
            case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text) | ToolInputDelta(text) if blocks:
                blocks[-1].text.append(text)
            case SignatureDelta(value) if blocks:
                blocks[-1].signature = value
            case Citation() as citation if blocks:
                blocks[-1].citations.append(citation)
            case BlockEnd() if blocks:
                blocks[-1].ended = step.t
            case MessageEnd() as ending:
                end = ending
    came = _as_they_came(replay.steps)
    return {"blocks": [dict(_block_fields(block, came)) for block in blocks], "end": _ending(end, replay.steps)}


def _last_message(replay: Replay) -> list[Step]:
    """The events of the last message; each attempt that has content begins one."""
    last: list[Step] = []
    for index in replay.events:
        step = replay.steps[index]
        if isinstance(step.value, BlockStart) and step.value.index == 0:
            last = []
        last.append(step)
    return last


def _as_they_came(steps: Sequence[Step]) -> Mapping[str, str]:
    """Arguments of tool calls by their ids, before anything was mended."""
    pieces: dict[str, list[str]] = defaultdict(list)
    for step in steps:
        if isinstance(step.value, ToolCallFragment):
            pieces[step.value.call_id].append(step.value.input)
    return {call_id: "".join(found) for call_id, found in pieces.items()}


def partial_calls(replay: Replay) -> list[Mapping[str, Any]]:
    """Tool calls of which something came, and that the client was not sent whole; each with what came, and why."""
    found: dict[tuple[int, str], tuple[list[str], list[str]]] = {}
    whys: dict[str, str] = {}
    whole: set[str] = set()
    attempt = 0
    for step in replay.steps:
        attempt = step.attempt or attempt
        match step.value:
            case ToolCallFragment(call_id, name, text):
                names, pieces = found.setdefault((attempt, call_id), ([], []))
                names.append(name)
                pieces.append(text)
            case ToolCallCut(info) | ToolCallMalformed(info):
                whys[info.call_id] = info.reason
            case ToolCallEnd(call_id):
                whole.add(call_id)
    calls = (
        (call_id, next(filter(None, names), ""), "".join(pieces))
        for (_, call_id), (names, pieces) in found.items()
        if call_id not in whole
    )
    return [
        {
            "name": name,
            "arguments": text[:_BLOCK_TEXT],
            "bytes": len(text.encode(errors="replace")),
            "why": whys.get(it, ""),
        }
        for it, name, text in islice(calls, _PARTIAL)
    ]


def _block_fields(block: _ShownBlock, came: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    text = "".join(block.text)
    yield "kind", block.start.kind.value
    yield "began", round(block.began, 4)
    yield "ended", None if block.ended is None else round(block.ended, 4)
    if block.start.kind is BlockKind.TOOL_CALL:
        yield "name", block.start.name
        yield "id", block.start.call_id
        raw = came.get(block.start.call_id, text)
        try:
            value, valid = as_value(loads(text or "{}")), True
        except JsonError:
            value, valid = text[:_BLOCK_TEXT], False
        yield "valid", valid
        yield "input", value
        yield "came", raw[:_BLOCK_TEXT] if raw != text and raw else None
    elif block.start.value is not None:
        yield "value", as_value(block.start.value)
    else:
        yield "text", text[:_BLOCK_TEXT]
        yield "length", len(text)
        yield "sealed", bool(block.signature or block.start.data)
        yield "citations", [as_value(each) for each in block.citations]


def _ending(end: MessageEnd | None, steps: Sequence[Step]) -> Mapping[str, Any] | None:
    """Why the answer ended, and which stage reported it first; ``None`` for one that broke off."""
    if end is None:
        return None
    stops = [step for step in steps if isinstance(step.value, Stop) and step.value.reason is end.stop_reason]
    return {
        "reason": end.stop_reason.value,
        "sequence": end.stop_sequence,
        "said_by": stops[0].stage if stops else "",
        "notices": [{**as_value(each), "words": of_notice(each.code).cause} for each in end.notices],
        "cut": [as_value(each) for each in end.truncations],
        "malformed": [as_value(each) for each in end.malformed],
    }


_SAID: Final = (
    errors.UpstreamFault,
    errors.UpstreamThrottled,
    errors.UpstreamOverloaded,
    errors.UpstreamQuotaSpent,
    errors.UpstreamDenied,
    errors.UpstreamRejected,
)
"""Errors within an answer whose messages are the service's words."""


def _teller(name: str) -> str:
    """``message`` for an error of class *name* that the service told; ``found`` for one that the gateway found."""
    kind = getattr(errors, name, None)
    return "message" if isinstance(kind, type) and issubclass(kind, _SAID) else "found"


def attempts_of(tape: Tape) -> list[Mapping[str, Any]]:
    """The service's response to each attempt: status, and its own words where it was no answer.

    ``found`` is how the gateway says that an answer broke off, after so many ``bytes``; ``message`` are words that the
    service sent within it.
    """
    ends = {int(line.number("n")): line for line in tape.of("attempt.end")}
    return [dict(_attempt_fields(number, attempt, ends)) for number, attempt in enumerate(tape.attempts, 1)]


def _attempt_fields(number: int, attempt: TapeAttempt, ends: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    yield "number", number
    yield "upstream", attempt.plan.text("upstream")
    yield "model", attempt.plan.text("model")
    answer = attempt.answers[-1] if attempt.answers else None
    status = 0 if answer is None or answer.head is None else int(answer.head.number("status"))
    yield "status", status or None
    if answer is not None and status >= 300:
        words = b"".join(line.data for _, line in answer.reads)[:_WORDS_BYTES]
        yield "words", words.decode("utf-8", "backslashreplace")
    if answer is not None and answer.end is not None and answer.end.text("error"):
        yield _teller(answer.end.text("error")), answer.end.text("message") or None
        yield "bytes", sum(len(line.data) for _, line in answer.reads)
    if (end := ends.get(int(attempt.plan.number("n")))) is not None:
        yield "outcome", end.text("outcome")
        yield "error", end.text("error") or None
        yield "said", of_error(end.text("error"), end.text("code")).short if end.text("error") else None
        yield "code", end.text("code") or None
