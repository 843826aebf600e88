"""The grammar of `kiro_asgi.model.events`, as a checker that shares no code with the stage that obeys it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockMembers,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageMembers,
    MessageStart,
    OpaqueBlock,
    OpaqueEvent,
    RefusalDelta,
    ServerCall,
    ServerResult,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)

PIECES: Final[Mapping[BlockKind, type]] = {
    BlockKind.TEXT: TextDelta,
    BlockKind.REFUSAL: RefusalDelta,
    BlockKind.THINKING: ThinkingDelta,
    BlockKind.TOOL_CALL: ToolInputDelta,
}

VALUES: Final[Mapping[BlockKind, type]] = {
    BlockKind.SERVER_CALL: ServerCall,
    BlockKind.SERVER_RESULT: ServerResult,
    BlockKind.OPAQUE: OpaqueBlock,
}


def check_events(events: Iterable[Event]) -> MessageEnd:
    """Fail unless *events* are one whole, legal stream; its end.

    A call that the end reports as cut or malformed may hold any text: part of it may have been streamed.
    """
    stream = [*_without_members(events)]
    assert stream, "no event at all"
    assert type(stream[0]) is MessageStart, f"begins with {stream[0]}"
    end = stream[-1]
    assert isinstance(end, MessageEnd), f"ends with {end}"
    cut = {info.call_id for info in end.truncations} | {info.call_id for info in end.malformed}
    number, position = 0, 1
    while position < len(stream) - 1:
        position = _check_block(stream, position, number, cut)
        number += 1
    assert number, "a message without a block"
    _check_server_tools(stream)
    return end


def _without_members(events: Iterable[Event]) -> Iterator[Event]:
    """*events* without those that may stand between others, behind the start or, members of a block, within it."""
    block: BlockStart | None = None
    begun = False
    for event in events:
        if isinstance(event, MessageMembers | OpaqueEvent):
            assert begun, f"{event} before the start"
        elif isinstance(event, BlockMembers):
            assert block is not None and block.kind is event.kind, f"{event} in {block}"
        else:
            begun = True
            block = event if isinstance(event, BlockStart) else None if isinstance(event, BlockEnd) else block
            yield event


def _check_block(stream: list[Event], position: int, number: int, cut: set[str]) -> int:
    start = stream[position]
    assert isinstance(start, BlockStart), f"{start} outside of a block"
    assert start.index == number
    assert bool(start.call_id or start.name) <= (start.kind is BlockKind.TOOL_CALL)
    assert bool(start.data) <= (start.kind is BlockKind.REDACTED_THINKING)
    before = next((each.kind for each in reversed(stream[:position]) if isinstance(each, BlockStart)), None)
    assert not start.continues or before is start.kind is BlockKind.TEXT
    assert type(start.value) is VALUES.get(start.kind, type(None))
    position += 1
    pieces = []
    while type(stream[position]) is PIECES.get(start.kind):
        pieces.append(stream[position])
        position += 1
    while start.kind is BlockKind.TEXT and isinstance(cited := stream[position], Citation):
        assert cited.begins >= cited.ends >= 0
        position += 1
    if start.kind is BlockKind.THINKING and type(stream[position]) is SignatureDelta:
        position += 1
    if start.kind is BlockKind.TOOL_CALL and start.call_id not in cut:
        assert isinstance(
            json.loads("".join(piece.json for piece in pieces if isinstance(piece, ToolInputDelta))), dict
        )
    end = stream[position]
    assert isinstance(end, BlockEnd) and end.index == number, f"{end} in a block of {start.kind}"
    assert not end.phase or start.kind is BlockKind.TEXT
    return position + 1


def _check_server_tools(stream: list[Event]) -> None:
    """A result stands behind its call, and behind one that the model does not reword a text that says the same."""
    called: list[ServerCall] = []
    for position, event in enumerate(stream):
        if isinstance(event, BlockStart) and isinstance(event.value, ServerCall):
            called.append(event.value)
        elif isinstance(event, BlockStart) and isinstance(event.value, ServerResult):
            assert event.value.call in called
            if event.value.output.reworded:
                continue
            opened, *pieces = stream[position + 2 :]
            assert opened == BlockStart(event.index + 1, BlockKind.TEXT)
            texts = itertools.takewhile(lambda each: type(each) is TextDelta, pieces)
            told = "".join(piece.text for piece in texts if isinstance(piece, TextDelta))
            assert told == event.value.output.told
