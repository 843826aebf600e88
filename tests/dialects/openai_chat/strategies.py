"""Random answers: every stream of events that the grammar of `kiro_asgi.model.events` allows."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    MessageEnd,
    MessageStart,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    Usage,
)
from kiro_asgi.model.server_tools import SearchHit, ToolOutput

HOSTILE = st.text(st.sampled_from('\r\n\x00\x85\u2028\u2029\x0b"\\: {}[]dataevntDONE😀é'))
"""Text made of all that could end a line, a string or an event."""

TEXT = st.text() | HOSTILE

NAME = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True) | HOSTILE.filter(bool)

COUNT = st.integers(0, 10**7)

ARGUMENTS = st.dictionaries(TEXT, st.integers() | TEXT | st.none() | st.booleans(), max_size=3)


@st.composite
def _text(draw: st.DrawFn) -> tuple[BlockStart, list[Event]]:
    return BlockStart(0, BlockKind.TEXT), [TextDelta(piece) for piece in draw(st.lists(TEXT, min_size=1, max_size=4))]


@st.composite
def _thinking(draw: st.DrawFn) -> tuple[BlockStart, list[Event]]:
    pieces: list[Event] = [ThinkingDelta(piece) for piece in draw(st.lists(TEXT, max_size=4))]
    if draw(st.booleans()):
        pieces.append(SignatureDelta(draw(TEXT)))
    return BlockStart(0, BlockKind.THINKING), pieces


@st.composite
def _redacted(draw: st.DrawFn) -> tuple[BlockStart, list[Event]]:
    return BlockStart(0, BlockKind.REDACTED_THINKING, data=draw(TEXT)), []


@st.composite
def _tool_call(draw: st.DrawFn) -> tuple[BlockStart, list[Event]]:
    whole = json.dumps(draw(ARGUMENTS), ensure_ascii=False)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    deltas: list[Event] = [ToolInputDelta(whole[i:j]) for i, j in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    start = BlockStart(0, BlockKind.TOOL_CALL, f"call_{draw(NAME)}", draw(NAME))
    return start, [] if whole == "{}" and draw(st.booleans()) else deltas


_CALLS = st.builds(ServerCall, TEXT, TEXT, st.just("web_search"))

_OUTPUTS = st.builds(ToolOutput, st.lists(st.builds(SearchHit, TEXT, TEXT, TEXT), max_size=2).map(tuple), TEXT)


def _server_call() -> st.SearchStrategy[list[tuple[BlockStart, list[Event]]]]:
    return _CALLS.map(lambda call: [(BlockStart(0, BlockKind.SERVER_CALL, value=call), [])])


def _server_result() -> st.SearchStrategy[list[tuple[BlockStart, list[Event]]]]:
    """A result, and the text that says the same."""
    return st.builds(ServerResult, _CALLS, _OUTPUTS).map(
        lambda result: [
            (BlockStart(0, BlockKind.SERVER_RESULT, value=result), []),
            (BlockStart(0, BlockKind.TEXT), [TextDelta(result.output.told)]),
        ]
    )


def _alone(blocks: st.SearchStrategy[tuple[BlockStart, list[Event]]]) -> st.SearchStrategy[list[Any]]:
    return blocks.map(lambda block: [block])


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Whole answers: any blocks in any order, any stop reason."""
    events: list[Event] = [MessageStart()]
    kinds = _alone(_text() | _thinking() | _redacted() | _tool_call()) | _server_call() | _server_result()
    for index, (start, deltas) in enumerate(chain.from_iterable(draw(st.lists(kinds, max_size=5)))):
        events += [evolve(start, index=index), *deltas, BlockEnd(index)]
    usage = Usage(draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT), draw(COUNT))
    events.append(MessageEnd(draw(st.sampled_from(StopReason)), usage=usage))
    return events
