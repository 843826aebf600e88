"""What many tests need: cutting bytes, running stages, writing Kiro frames."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kiro_asgi.stages.base import Stage
from kiro_asgi.wire.eventstream import encode_frame

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of *work*, which waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """*data* in pieces, cut at the given positions (taken modulo its length)."""
    places = sorted({place % (len(data) + 1) for place in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def byte_by_byte(data: bytes) -> list[bytes]:
    """*data*, one byte a piece."""
    return [data[i : i + 1] for i in range(len(data))]


def run(stage: Stage[Any, Any], items: Iterable[Any]) -> list[Any]:
    """Everything a stage yields for *items* fed in one go."""
    return [*stage.feed(items), *stage.flush()]


def run_apart(stage: Stage[Any, Any], items: Iterable[Any]) -> list[Any]:
    """Everything a stage yields for *items* fed one at a time."""

    def each() -> Iterator[Any]:
        for item in items:
            yield from stage.feed([item])
        yield from stage.flush()

    return list(each())


def kiro_event(event_type: str, payload: Any) -> bytes:
    """One event frame as the Kiro service writes it."""
    return encode_frame(
        {":message-type": "event", ":event-type": event_type, ":content-type": "application/json"},
        json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(),
    )


def kiro_exception(name: str, message: str, reason: str | None = None) -> bytes:
    """One exception frame as the Kiro service writes it."""
    return encode_frame(
        {":message-type": "exception", ":exception-type": name, ":content-type": "application/json"},
        json.dumps({"message": message, "reason": reason}).encode(),
    )


def kiro_stream(*events: tuple[str, Any]) -> bytes:
    """Several event frames in a row."""
    return b"".join(kiro_event(event_type, payload) for event_type, payload in events)


def kiro_text(pieces: Sequence[str], stop_reason: str | None = "END_TURN") -> bytes:
    """An ordinary text answer with its trailers."""
    trailer = [("metadataEvent", {"stopReason": stop_reason})] if stop_reason else []
    return kiro_stream(
        *(("assistantResponseEvent", {"content": piece}) for piece in pieces),
        *trailer,
        ("contextUsageEvent", {"contextUsagePercentage": 1.5}),
        ("meteringEvent", {"usage": 0.01, "unit": "credit", "unitPlural": "credits"}),
    )
