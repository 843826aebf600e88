"""What an answer says is what every client hears, streamed or collected, whoever gave it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.message import ToolCallBlock, fold
from kiro_asgi.stages.answer import Repairs, build_pipeline
from kiro_asgi.stages.citations import Citing
from kiro_asgi.streaming import OpenAIToAnthropicState
from kiro_asgi.testing.grammar import messages as anthropic_grammar
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.helpers import cut
from tests.regressions.crossing import (
    CLIENTS,
    MESSAGES,
    PLAN,
    RESPONSES,
    SSE,
    UPSTREAMS,
    Client,
    both_ways,
    each_client,
    each_upstream,
    heard,
)
from tests.regressions.speech import COUNTED, DONE, Call, Piece, Say, Think, event, spoken, stream

CALL = Call("c1", "f", {"a": 1})


# Order and content.

WORDS = st.text("ab é<>日\n", min_size=1, max_size=4)
CALLS = st.builds(Call, st.uuids().map(lambda known: f"c{known.hex[:9]}"), st.sampled_from("fg"), st.just({"a": "é"}))


@given(st.data(), st.lists(WORDS.map(Say) | WORDS.map(Think) | CALLS, min_size=1, max_size=6))
def test_streamed_and_collected_say_the_same(data: st.DataObject, pieces: list[Piece]) -> None:
    """§2.2-§2.4: neither way loses, adds or doubles anything, wherever the bytes are cut."""
    upstream = data.draw(st.sampled_from([*UPSTREAMS]))
    sent = stream(spoken(upstream, *pieces))
    chunks = cut(sent, data.draw(st.lists(st.integers(0, len(sent)), max_size=5)))
    for client in CLIENTS:
        streamed, collected = heard(client, True, upstream, chunks), heard(client, False, upstream, [sent])
        assert evolve(streamed, order=[]) == evolve(collected, order=[])
        assert streamed.order == collected.order or not collected.order
        said = (text for text in _said(pieces) if text.strip() or client is not MESSAGES)  # it takes none back
        assert streamed.text == "".join(said)
        assert streamed.thinking == "".join(piece.text for piece in pieces if isinstance(piece, Think))
        assert streamed.ids == [piece.id for piece in pieces if isinstance(piece, Call)]
        assert streamed.usage == COUNTED


def _said(pieces: list[Piece]) -> Iterator[str]:
    """The texts between what is no text."""
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, Say)):
        if is_text:
            yield "".join(piece.text for piece in group if isinstance(piece, Say))


@both_ways
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES], ids=lambda client: client.name)
@pytest.mark.parametrize("upstream", ["gemini", "anthropic"])
def test_everything_stands_where_the_model_put_it(upstream: str, client: Client, streamed: bool) -> None:
    """§2.3, §2.4: text behind a call is not moved into the text before it, and late thinking is not dropped."""
    sent = stream(spoken(upstream, Say("a"), CALL, Say("b"), Think("c"), evolve(CALL, id="c2", name="g"), Say("d")))

    assert heard(client, streamed, upstream, [sent]).order == ["text", "call", "text", "thinking", "call", "text"]


@each_client
def test_the_parts_of_one_event_keep_their_order(client: Client) -> None:
    """§2.2: calls, thinking and text are not sorted by kind."""
    parts = {"text": "a"}, {"text": "b", "thought": True}, {"functionCall": {"name": "f"}}, {"text": "c"}

    found = heard(client, True, "gemini", [stream([event(*parts, finish="STOP")])])
    assert found.order == ["text", "thinking", "call", "text"]


@each_upstream
@each_client
def test_an_answer_of_thinking_alone(client: Client, upstream: str) -> None:
    """§2.3: no text is invented for it, and no count."""
    found = heard(client, True, upstream, [stream(spoken(upstream, Think("hm")))])

    assert (found.thinking, found.text, found.usage) == ("hm", "", COUNTED)


TAGGED = "<think>hm</think>Use <think> here."


def test_tags_are_thinking_wherever_they_are_cut() -> None:
    """§2.2: a tag in two pieces is a tag; one in the text is text, and where nobody uses tags all of them are."""
    tagged = evolve(PLAN, thinking="as_reasoning_content", thinking_tags=("think",))
    for place in range(1, len(TAGGED)):
        sent = stream(spoken("openai", Say(TAGGED[:place]), Say(TAGGED[place:])))
        found = heard(MESSAGES, True, "openai", [sent], tagged)
        assert (found.thinking, found.text) == ("hm", "Use <think> here.")
    for upstream in UPSTREAMS:
        assert heard(MESSAGES, True, upstream, [stream(spoken(upstream, Say(TAGGED)))]).text == TAGGED


@both_ways
@each_client
def test_images_and_code_are_shown(client: Client, streamed: bool) -> None:
    """§2.2-§2.4: what a client has no words for is Markdown in its place, in a stream as well."""
    parts = (
        {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    )
    found = heard(client, streamed, "gemini", [stream([*map(event, parts), event(finish="STOP")])])

    assert found.text == "![image](data:image/png;base64,iVBO)\n```python\n1+1\n```\n\n```\n2\n```\n"


@both_ways
@each_client
def test_what_was_read_is_told_once(client: Client, streamed: bool) -> None:
    """§2.5: the report comes again with every event; it stands behind the answer, once, with every query."""
    read = {"webSearchQueries": ["x", "y"], "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}]}
    sent = [event({"text": word}, groundingMetadata=read) for word in ("a", "b")]
    plan = evolve(PLAN, citing=Citing("en", "", "m"))

    text = heard(client, streamed, "gemini", [stream([*sent, event(finish="STOP")])], plan).text
    assert text.startswith("ab\n\n---\n")
    assert text.count("x, y") == text.count("https://a.example") == 1


# Calls.


@both_ways
@each_client
@each_upstream
def test_equal_calls_are_two_calls(upstream: str, client: Client, streamed: bool) -> None:
    """§1.7, §2.2: the same function twice, with the same arguments, is called twice, each under an id of its own."""
    sent = stream(spoken(upstream, CALL, evolve(CALL, id="c2")))

    assert heard(client, streamed, upstream, [sent]).ids == ["c1", "c2"]


def test_equal_calls_are_two_calls_for_the_librarys_converter() -> None:
    """The same as in the gateway."""
    state = OpenAIToAnthropicState("m")
    sent = state.feed(stream(spoken("openai", CALL, evolve(CALL, id="c2")))) + state.finish()

    assert [block["id"] for block in anthropic_grammar.check(sent)["content"]] == ["c1", "c2"]


@pytest.mark.parametrize("upstream", [GeminiUpstream(), OpenAIUpstream()], ids=lambda upstream: upstream.name)
def test_equal_calls_without_ids(upstream: Upstream) -> None:
    """§1.7: in one answer they are two; in the next one they have other ids."""
    values = spoken(upstream.name, CALL, evolve(CALL, arguments={"b": 2}), CALL, end="call")
    sent = re.sub(rb'"id": "c1", ', b"", stream(values))
    if upstream.name == "gemini":
        call = {"functionCall": {"name": "f", "args": {}}}
        sent = stream([event(call, call, call, finish="STOP")])
    answers = [build_pipeline(upstream.decoder(SSE), PLAN) for _ in range(2)]
    blocks = [block for each in answers for block in fold([*each.feed([sent]), *each.flush()]).blocks]

    assert len({block.call_id for block in blocks if isinstance(block, ToolCallBlock)}) == len(blocks) == 6


@both_ways
@each_client
@each_upstream
def test_a_call_without_arguments(upstream: str, client: Client, streamed: bool) -> None:
    """§2.3, §3.9: it is told, with an empty object."""
    values = spoken(upstream, evolve(CALL, arguments={}))
    values = [value for value in values if value == DONE or value.get("delta", {}).get("type") != "input_json_delta"]
    if upstream == "gemini":
        del values[0]["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]

    assert heard(client, streamed, upstream, [stream(values)]).calls == [("f", {})]


ELEMENT = '<mcp__s__t>{"a": 1}</mcp__s__t>'
BRIDGED = evolve(PLAN, repairs=Repairs(schemas={"mcp__s__t": {}}, mcp_bridge=True))


@pytest.mark.parametrize(
    ("text", "shown", "calls"),
    [
        pytest.param(f"a {ELEMENT} b", "a  b", 1, id="around"),
        pytest.param(ELEMENT * 2, "", 2, id="twice"),
        pytest.param('a <mcp__s__t>{"a"', 'a <mcp__s__t>{"a"', 0, id="never-closed"),
        pytest.param("a <mc", "a <mc", 0, id="hardly-begun"),
        pytest.param(f"a `<mcp__s__t>` {ELEMENT}", "a `<mcp__s__t>` ", 1, id="mentioned"),
        pytest.param(f"```\n{ELEMENT}\n```", f"```\n{ELEMENT}\n```", 0, id="code"),
    ],
)
@each_upstream
def test_calls_in_the_text(upstream: str, text: str, shown: str, calls: int) -> None:
    """§2.6: however a call is cut into pieces of text, the client sees the call, and the text around it in order."""
    for place in range(len(text) + 1):
        pieces = [Say(piece) for piece in (text[:place], text[place:]) if piece]
        found = heard(MESSAGES, True, upstream, [stream(spoken(upstream, *pieces))], BRIDGED)
        assert (found.text, found.calls) == (shown, [("mcp__s__t", {"a": 1})] * calls)
        assert len(set(found.ids)) == calls
