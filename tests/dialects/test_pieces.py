"""JSON in pieces is the JSON of the whole, and no more work than that."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, ResponseMeta
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.dialects.pieces import Literal, Pieces, compact, dump_array, dump_object, dump_text
from kiro_asgi.model.events import Event
from kiro_asgi.model.message import LONG, Message, RefusalBlock, TextBlock, ThinkingBlock, ToolCallBlock, replay
from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.wire.json import dumps, quote_bytes
from tests.growth import assert_linear

BORDERS = ('"', "\\", "\n", "\x00", "é", "😀", "\ud83d\ude00", "\ud83d", "\ude00", "\ud83d\ud83d\ude00", "\u2028")
"""What a cut must not change: escapes, characters of several bytes, pairs of surrogates, halves of them."""

LARGEST_PIECE = 8 * LONG
"""Bytes: a control character takes six."""

DIALECTS: dict[str, tuple[Dialect, Any]] = {
    "chat": (OpenAIChat(), ChatOptions()),
    "messages": (AnthropicMessages(), None),
    "responses": (OpenAIResponses(), ResponsesOptions(input_items=())),
}

each_dialect = pytest.mark.parametrize("name", DIALECTS)


@pytest.mark.parametrize("mark", BORDERS)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_long_text_is_cut_anywhere_and_stays_the_same(mark: str, before: int) -> None:
    """*mark* at the first border between pieces, and again and again behind it."""
    text = "x" * (LONG - before) + mark + "y" * (LONG - len(mark)) + mark * LONG
    pieces = [*dump_text(text)]

    assert b"".join(pieces) == dumps(text)
    assert len(pieces) > 4
    assert max(map(len, pieces)) <= LARGEST_PIECE


@given(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)) | st.sampled_from('"\\\x00\n'), max_size=40), st.data()
)
def test_a_text_that_comes_in_parts_is_the_whole_text(text: str, data: st.DataObject) -> None:
    """However it was cut, and however often it is looked at meanwhile."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    times = data.draw(st.sampled_from([1, 30, 100]))
    literal = Literal()
    for _ in range(times):
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            literal.add(quote_bytes(text[start:end]))
        if data.draw(st.booleans()):
            literal.pieces()

    assert literal.text() == text * times
    assert b"".join(literal.pieces()) == dumps(text * times)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda it: st.lists(it, max_size=3), max_leaves=5
)


@given(st.dictionaries(st.text(max_size=5), st.tuples(VALUES, st.booleans()), max_size=6))
def test_an_object_may_have_members_that_are_json_already(fields: dict[str, tuple[Any, bool]]) -> None:
    """In any place and number."""
    given_fields = {name: Pieces((dumps(value),)) if ready else value for name, (value, ready) in fields.items()}

    assert b"".join(dump_object(given_fields)) == dumps({name: value for name, (value, _) in fields.items()})


@given(st.lists(VALUES, max_size=4))
def test_an_array_is_that_of_its_items(items: list[Any]) -> None:
    """Of none, one and several."""
    assert b"".join(dump_array((dumps(item)[:1], dumps(item)[1:]) for item in items)) == dumps(items)


def test_short_pieces_become_one() -> None:
    """Long ones are not copied."""
    assert compact([b"a", b"b"]) == [b"ab"]
    assert compact([b"a" * LONG, b"b"]) == [b"a" * LONG, b"b"]


LONG_TEXT = ('word "\\ é😀\n' * LONG)[: 4 * LONG + 7]

BLOCKS = {
    "text": TextBlock(LONG_TEXT),
    "refusal": RefusalBlock(LONG_TEXT),
    "thinking": ThinkingBlock(LONG_TEXT, "signed"),
    "call": ToolCallBlock("c", "f", dumps({"a": LONG_TEXT}).decode()),
}


@each_dialect
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_long_block_is_compact_json_in_pieces(name: str, kind: str) -> None:
    """The body is written as a short one is, its text is all there, and no piece is longer than it has to be."""
    dialect, options = DIALECTS[name]
    pieces = [*dialect.render(Message((BLOCKS[kind],)), ResponseMeta("x", "m", 1, options))]
    body = b"".join(pieces)

    assert dumps(json.loads(body)) == body
    assert dumps(LONG_TEXT)[1:-1] in body or dumps(dumps(LONG_TEXT).decode())[3:-3] in body
    assert kind == "call" or max(map(len, pieces)) <= LARGEST_PIECE


def streamed(name: str, events: list[Event]) -> list[bytes]:
    """The pieces of a stream."""
    dialect, options = DIALECTS[name]
    encoder = dialect.encoder(ResponseMeta("x", "m", 1, options))
    return [*encoder.feed(events), *encoder.flush()]


@each_dialect
@pytest.mark.parametrize("kind", BLOCKS)
def test_events_with_long_text_are_compact_json_in_pieces(name: str, kind: str) -> None:
    """The same of a stream, whose events have the text whole or cut."""
    pieces = streamed(name, [*replay(Message((BLOCKS[kind],)))])
    lines = [line.removeprefix(b"data: ") for line in b"".join(pieces).splitlines() if line.startswith(b"data: {")]

    assert all(dumps(json.loads(line)) == line for line in lines)
    assert max(map(len, pieces)) <= 64 * LARGEST_PIECE


def test_what_is_repeated_is_the_same_bytes() -> None:
    """The end of a Responses stream says a text four times and holds it once."""
    pieces = streamed("responses", [*replay(Message((TextBlock("x" * 64 * LONG),)))])
    ended = [piece for piece in pieces if len(piece) > 2 * LONG]

    assert len(ended) == 4 * len({id(piece) for piece in ended})


def test_a_text_is_sealed_as_it_was() -> None:
    """Thinking in pieces is one text for its seal."""
    sealer = Sealer.create(b"key", "somebody")
    encoder = OpenAIResponses(sealer=sealer).encoder(ResponseMeta("resp_x", "m", 1, ResponsesOptions(input_items=())))
    for _ in encoder.feed(replay(Message((ThinkingBlock(LONG_TEXT, "signed"),)))):
        pass

    assert [*map(sealer.open, encoder.seals.values())] == [ThinkingPart(LONG_TEXT, "signed")]


def rendering(name: str, message: Callable[[int], Message]) -> Callable[[int], Callable[[], object]]:
    dialect, options = DIALECTS[name]

    def make(size: int) -> Callable[[], object]:
        answer = message(size)
        return lambda: [*dialect.render(answer, ResponseMeta("x", "m", 1, options))]

    return make


@each_dialect
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(lambda size: Message((TextBlock("x" * LONG * size),)), id="text"),
        pytest.param(lambda size: Message((ToolCallBlock("c", "f", "{}"),) * size), id="calls"),
        pytest.param(lambda size: Message((TextBlock("x"), ThinkingBlock("y")) * size), id="blocks"),
    ],
)
def test_rendering_grows_with_the_answer(name: str, message: Callable[[int], Message]) -> None:
    """Twice the answer, twice the work."""
    assert_linear(rendering(name, message), 50)
