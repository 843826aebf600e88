"""Answers for encoders: whole streams of neutral events, and texts that try to break out of their frame."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import Any

from hypothesis import strategies as st

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    MessageEnd,
    MessageStart,
    RefusalDelta,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.signatures import DETAILS, marked

Body = tuple[BlockKind, dict[str, Any], list[Event]]
"""A block without its number: kind, what else its start says, and its deltas."""

HOSTILE = st.text(st.sampled_from('\r\n\x00\x85\u2028\u2029\x0b"\\: {}[]dataevntDONE😀é')) | st.lists(
    st.sampled_from(["\r\n", "\n\ndata: {}\n\n", "[DONE]"])
).map("".join)
"""Text made of all that could end a line, a string or an event."""

TEXT = HOSTILE | st.text(max_size=20)
COUNT = st.integers(1, 10**6)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, st.integers(0, 10))
ARGUMENTS = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(st.booleans() | st.none(), max_size=2), max_size=3)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True) | HOSTILE.filter(bool)

CALLS = st.builds(
    ServerCall, TEXT, TEXT, st.sampled_from(["web_search", "web_fetch", "code_execution", "weather"]), ARGUMENTS
)
OUTPUTS = st.builds(
    ToolOutput,
    st.lists(st.builds(SearchHit, TEXT, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    TEXT,
    st.sampled_from(["", "unavailable", "max_uses_exceeded", "another"]),
)


def _cut(text: str, cuts: list[int]) -> list[str]:
    places = sorted({place % (len(text) + 1) for place in cuts})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


CUTS = st.lists(st.integers(0, 100), max_size=3)
PIECES = st.builds(_cut, TEXT, CUTS)
TEXTS: st.SearchStrategy[Body] = PIECES.map(lambda pieces: (BlockKind.TEXT, {}, [*map(TextDelta, pieces)]))
REFUSALS: st.SearchStrategy[Body] = PIECES.map(lambda pieces: (BlockKind.REFUSAL, {}, [*map(RefusalDelta, pieces)]))
REDACTED: st.SearchStrategy[Body] = TEXT.map(lambda data: (BlockKind.REDACTED_THINKING, {"data": data}, []))
SERVER_CALLS: st.SearchStrategy[Body] = CALLS.map(lambda call: (BlockKind.SERVER_CALL, {"value": call}, []))


@st.composite
def _thinking(draw: st.DrawFn) -> Body:
    signature = draw(st.none() | TEXT | TEXT.map(partial(marked, "router", DETAILS)))
    deltas: list[Event] = [
        *map(ThinkingDelta, draw(PIECES)),
        *([] if signature is None else [SignatureDelta(signature)]),
    ]
    return BlockKind.THINKING, {}, deltas


@st.composite
def _tool_calls(draw: st.DrawFn) -> Body:
    value = draw(ARGUMENTS)
    text = json.dumps(value, ensure_ascii=draw(st.booleans())) if value else draw(st.sampled_from(["", "{}"]))
    names = {"call_id": f"call_{draw(NAMES)}", "name": draw(NAMES)}
    return BlockKind.TOOL_CALL, names, [*map(ToolInputDelta, _cut(text, draw(CUTS)))]


def _told(result: ServerResult) -> list[Body]:
    """A result, and the text that says the same."""
    return [
        (BlockKind.SERVER_RESULT, {"value": result}, []),
        (BlockKind.TEXT, {}, [TextDelta(result.output.told)]),
    ]


SOURCES = st.builds(Citation, st.integers(3, 30), st.integers(0, 3), TEXT, st.just("") | TEXT, TEXT)


@st.composite
def _cited(draw: st.DrawFn) -> list[Body]:
    """Texts with their sources, each the continuation of the one before; a citation follows a word."""
    bodies: list[Body] = []
    for number in range(draw(st.integers(1, 3))):
        pieces: list[Event] = [*map(TextDelta, ["x", *draw(PIECES)])]
        sources = draw(st.lists(SOURCES, max_size=2))
        bodies.append((BlockKind.TEXT, {"continues": number > 0}, [*pieces, *sources]))
    return bodies


BLOCKS = (
    (TEXTS | REFUSALS | _thinking() | REDACTED | _tool_calls() | SERVER_CALLS).map(lambda body: [body])
    | st.builds(ServerResult, CALLS, OUTPUTS).map(_told)
    | _cited()
)


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """Whole answers: any blocks in any order, any stop reason."""
    events: list[Event] = [MessageStart(Usage(input_tokens=draw(COUNT)))]
    for index, (kind, fields, deltas) in enumerate(chain.from_iterable(draw(st.lists(BLOCKS, max_size=5)))):
        events += [BlockStart(index, kind, **fields), *deltas, BlockEnd(index)]
    return [*events, MessageEnd(draw(st.sampled_from(StopReason)), draw(st.none() | TEXT), draw(USAGE))]
