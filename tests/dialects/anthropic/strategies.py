"""Random answers: every stream of events that the grammar of `kiro_asgi.model.events` allows."""

from __future__ import annotations

import json
from typing import Any

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

HOSTILE = st.lists(
    st.sampled_from(
        ["\r", "\n", "\r\n", "\x00", "\x0b", "\x85", "\u2028", "\u2029", '"', "\\", "\n\ndata: {}\n\n", "é😀"]
    )
).map("".join)
"""Text made of what could end a line, a string or an event."""

TEXT = st.text() | HOSTILE
COUNT = st.integers(1, 10**6)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, st.integers(0, 10))

OBJECTS = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(st.booleans() | st.none(), max_size=2), max_size=3)


def _pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({place % (len(text) + 1) for place in cuts})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


PIECES = st.builds(_pieces, TEXT, st.lists(st.integers(0, 100), max_size=3))

Body = tuple[BlockKind, dict[str, Any], list[Event]]


@st.composite
def text_blocks(draw: st.DrawFn) -> Body:
    return BlockKind.TEXT, {}, [TextDelta(piece) for piece in draw(PIECES)]


@st.composite
def thinking_blocks(draw: st.DrawFn) -> Body:
    pieces: list[Event] = [ThinkingDelta(piece) for piece in draw(PIECES)]
    signature = draw(st.none() | TEXT)
    return BlockKind.THINKING, {}, [*pieces, *([] if signature is None else [SignatureDelta(signature)])]


@st.composite
def redacted_blocks(draw: st.DrawFn) -> Body:
    return BlockKind.REDACTED_THINKING, {"data": draw(TEXT)}, []


@st.composite
def tool_blocks(draw: st.DrawFn) -> Body:
    value = draw(OBJECTS)
    text = json.dumps(value, ensure_ascii=draw(st.booleans())) if value else draw(st.sampled_from(["", "{}"]))
    cuts = draw(st.lists(st.integers(0, 100), max_size=3))
    names = {"call_id": draw(TEXT), "name": draw(TEXT)}
    return BlockKind.TOOL_CALL, names, [ToolInputDelta(piece) for piece in _pieces(text, cuts)]


CALLS = st.builds(
    ServerCall, TEXT, TEXT, st.sampled_from(["web_search", "web_fetch", "code_execution", "weather"]), OBJECTS
)
OUTPUTS = st.builds(
    ToolOutput,
    st.lists(st.builds(SearchHit, TEXT, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    TEXT,
    st.sampled_from(["", "unavailable", "max_uses_exceeded", "another"]),
)


def server_blocks() -> st.SearchStrategy[Body]:
    calls = CALLS.map(lambda call: (BlockKind.SERVER_CALL, {"value": call}, []))
    results = st.builds(ServerResult, CALLS, OUTPUTS)
    return calls | results.map(lambda result: (BlockKind.SERVER_RESULT, {"value": result}, []))


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    kinds = text_blocks() | thinking_blocks() | redacted_blocks() | tool_blocks() | server_blocks()
    bodies = draw(st.lists(kinds, max_size=5))
    events: list[Event] = [MessageStart(Usage(input_tokens=draw(COUNT)))]
    for index, (kind, fields, pieces) in enumerate(bodies):
        events += [BlockStart(index, kind, **fields), *pieces, BlockEnd(index)]
    sequence = draw(st.none() | TEXT)
    return [*events, MessageEnd(draw(st.sampled_from(StopReason)), sequence, draw(USAGE))]
