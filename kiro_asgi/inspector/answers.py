"""The answer of a call as its client sees it: text, thinking, tool calls with what was mended, and why it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from kiro_asgi.inspector.steps import as_value
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
    ToolCallFragment,
    ToolInputDelta,
)
from kiro_asgi.replay import Replay, Step
from kiro_asgi.tapes.format import Tape, TapeAttempt
from kiro_asgi.wire.json import JsonError, loads

_TEXT: Final = 256 * 1024
"""Characters of a block that are shown."""

_WORDS_BYTES: Final = 8192
"""Bytes of a service's refusal that are shown."""


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
    """The blocks of the last attempt that had any, and the end; without blocks nothing was read as events."""
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
    return {"blocks": [dict(_told(block, came)) for block in blocks], "end": _ending(end, replay.steps)}


def _last_message(replay: Replay) -> list[Step]:
    """The events of the last message; each attempt that comes to anything begins one."""
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


def _told(block: _ShownBlock, came: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
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
            value, valid = text[:_TEXT], False
        yield "valid", valid
        yield "input", value
        yield "came", raw[:_TEXT] if raw != text and raw else None
    elif block.start.value is not None:
        yield "value", as_value(block.start.value)
    else:
        yield "text", text[:_TEXT]
        yield "length", len(text)
        yield "sealed", bool(block.signature or block.start.data)
        yield "citations", [as_value(each) for each in block.citations]


def _ending(end: MessageEnd | None, steps: Sequence[Step]) -> Mapping[str, Any] | None:
    """Why the answer ended, and which stage said so first; ``None`` for one that broke off."""
    if end is None:
        return None
    stops = [step for step in steps if isinstance(step.value, Stop) and step.value.reason is end.stop_reason]
    return {
        "reason": end.stop_reason.value,
        "sequence": end.stop_sequence,
        "said_by": stops[0].stage if stops else "",
        "notices": [as_value(each) for each in end.notices],
        "cut": [as_value(each) for each in end.truncations],
        "malformed": [as_value(each) for each in end.malformed],
    }


def attempts_of(tape: Tape) -> list[Mapping[str, Any]]:
    """What each attempt was told by the service: status, and its words where they were no answer."""
    ends = {int(line.number("n")): line for line in tape.of("attempt.end")}
    return [dict(_attempt(number, attempt, ends)) for number, attempt in enumerate(tape.attempts, 1)]


def _attempt(number: int, attempt: TapeAttempt, ends: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    yield "number", number
    yield "upstream", attempt.plan.text("upstream")
    yield "model", attempt.plan.text("model")
    answer = attempt.answers[-1] if attempt.answers else None
    status = 0 if answer is None or answer.head is None else int(answer.head.number("status"))
    yield "status", status or None
    if answer is not None and status >= 300:
        words = b"".join(line.data for _, line in answer.reads)[:_WORDS_BYTES]
        yield "words", words.decode("utf-8", "backslashreplace")
    if answer is not None and answer.end is not None:
        yield "message", answer.end.text("message") or None
    if (end := ends.get(int(attempt.plan.number("n")))) is not None:
        yield "outcome", end.text("outcome")
        yield "error", end.text("error") or None
        yield "code", end.text("code") or None
