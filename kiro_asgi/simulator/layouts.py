"""Cut a script into what a connection does: send this chunk, wait, break off."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from kiro_asgi.simulator.scripts import (
    BYTE_STEPS,
    CloseEarly,
    Event,
    HalfClose,
    Head,
    Layout,
    Pause,
    Repeat,
    Reset,
    Script,
    Stall,
    Step,
    encode,
)

__all__ = ["Action", "lay_out", "paced", "with_layout"]

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
    """What to do, in order; each ``bytes`` is one HTTP chunk and never empty.

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
