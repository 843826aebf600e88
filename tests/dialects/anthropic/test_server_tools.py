"""Server tools in the Messages API: shapes that the official SDK validates, and what becomes of them in a history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic._models import validate_type
from anthropic.types import ContentBlock
from anthropic.types import Message as SdkMessage
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.anthropic.server_tools import render_server_block
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.model.events import SearchHit, ServerCall, ServerResult, StopReason, ToolOutput
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock, replay
from kiro_asgi.model.prompt import Part, Role, Text, ThinkingPart, ToolCallPart, ToolResult
from kiro_asgi.testing.grammar.messages import check
from tests.helpers import run

DIALECT = AnthropicMessages()
HEADING = ResponseMeta("msg_1", "m", 1)
CALL = ServerCall("tooluse_1", "web_search", "web_search", {"query": "q"})
FOUND = ToolOutput((SearchHit("t", "https://a/", "snippet", "2026-03-14"), SearchHit("u", "https://b/")))

ONE_LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def rendered(*blocks: Any) -> dict[str, Any]:
    """A collected answer, which its stream adds up to."""
    message = Message(blocks, StopReason.END)
    body: dict[str, Any] = json.loads(b"".join(DIALECT.render(message, HEADING)))
    assert check(b"".join(run(DIALECT.encoder(HEADING), replay(message)))) == body
    return body


def history(*content: dict[str, Any]) -> tuple[Part, ...]:
    """What an assistant's turn with this content holds."""
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": content}]
    request = {"model": "m", "max_tokens": 9, "messages": messages}
    turn = DIALECT.parse(json.dumps(request).encode()).prompt.turns[1]
    assert turn.role is Role.ASSISTANT
    return turn.parts


@pytest.mark.parametrize("kind", ["web_search", "web_fetch", "code_execution"])
@pytest.mark.parametrize("code", ["", "unavailable", "invalid_tool_input", "max_uses_exceeded", "of_our_own"])
def test_every_shape_is_one_that_the_sdk_knows(kind: str, code: str) -> None:
    """Success or not, call and result validate; a code that a kind does not have becomes one that it has."""
    call = ServerCall("tooluse_1", "n", kind, {"url": "https://a/"})
    for output in (ToolOutput(text="x", error_code=code), ToolOutput(FOUND.hits, error_code=code)):
        for block in (call, ServerResult(call, output)):
            value = render_server_block(block)
            assert validate_type(type_=ContentBlock, value=value).to_dict() == value


def test_usage_counts_what_was_found() -> None:
    """Searches that failed are not counted, and an answer without any says nothing about them."""
    failed, found = ServerResult(CALL, ToolOutput(error_code="unavailable")), ServerResult(CALL, FOUND)
    counts = [rendered(*blocks)["usage"].get("server_tool_use") for blocks in ([CALL], [CALL, failed], [CALL, found])]

    assert counts == [None, None, {"web_search_requests": 1, "web_fetch_requests": 0}]


def test_a_kind_without_a_shape_is_told_as_text() -> None:
    """Blocks that no client knows are left out, and the others are numbered as if they had never been."""
    call = ServerCall("c", "get_weather", "weather")
    body = rendered(
        TextBlock("a"),
        call,
        ServerResult(call, ToolOutput(text="sunny")),
        TextBlock("sunny"),
        ToolCallBlock("d", "f", "{}"),
    )

    assert [block["type"] for block in body["content"]] == ["text", "text", "tool_use"]
    assert validate_type(type_=SdkMessage, value=body).content[1].to_dict() == {"type": "text", "text": "sunny"}


@given(st.lists(st.builds(SearchHit, ONE_LINE, ONE_LINE, ONE_LINE, ONE_LINE), max_size=3).map(tuple))
def test_what_was_found_comes_back(hits: tuple[SearchHit, ...]) -> None:
    """The client echoes the blocks; the model reads the same words again, once."""
    output = ToolOutput(hits)
    content = rendered(TextBlock("a"), CALL, ServerResult(CALL, output), TextBlock(output.told))["content"]

    assert history(*content) == (
        Text("a"),
        ToolCallPart("srvtoolu_1", "web_search", {"query": "q"}),
        ToolResult("srvtoolu_1", (Text(output.told),)),
    )


def use(identity: str, *, server: bool = True) -> dict[str, Any]:
    return {"type": "server_tool_use" if server else "tool_use", "id": identity, "name": "f", "input": {}}


def found(identity: str, text: str) -> dict[str, Any]:
    return {"type": "code_execution_tool_result", "tool_use_id": identity, "content": {"type": "x", "stdout": text}}


def given_(identity: str, text: str) -> ToolResult:
    return ToolResult(identity, (Text(f'{{"type":"x","stdout":"{text}"}}'),))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            [use("a"), use("c", server=False), found("a", "1")],
            [ToolCallPart("a", "f", {}), given_("a", "1"), ToolCallPart("c", "f", {})],
            id="the-clients-call-last",
        ),
        pytest.param(
            [use("a"), use("b"), {"type": "text", "text": "t"}, found("b", "2"), found("a", "1")],
            [ToolCallPart("a", "f", {}), given_("a", "1"), ToolCallPart("b", "f", {}), given_("b", "2"), Text("t")],
            id="each-behind-its-call",
        ),
        pytest.param(
            [use("a"), found("a", "1"), use("b")],
            [ToolCallPart("a", "f", {}), given_("a", "1"), ToolCallPart("b", "f", {})],
            id="one-without-a-result",
        ),
        pytest.param(
            [
                {"type": "thinking", "thinking": "", "signature": "gemini.call:s"},
                use("c", server=False),
                use("a"),
                found("a", "1"),
            ],
            [
                ToolCallPart("a", "f", {}),
                given_("a", "1"),
                ThinkingPart(signature="gemini.call:s"),
                ToolCallPart("c", "f", {}),
            ],
            id="with-what-is-signed-for-it",
        ),
        pytest.param(
            [use("c", server=False), {"type": "text", "text": "t"}],
            [ToolCallPart("c", "f", {}), Text("t")],
            id="no-server-tool-no-change",
        ),
        pytest.param(
            [found("z", "1"), {"type": "text", "text": "t"}], [given_("z", "1"), Text("t")], id="result-without-a-call"
        ),
    ],
)
def test_results_stand_behind_their_calls(content: list[dict[str, Any]], expected: list[Part]) -> None:
    """As in a conversation: a result follows its call at once, and only what the client has to answer is left open."""
    assert history(*content) == tuple(expected)


@pytest.mark.parametrize(
    ("content", "text", "failed"),
    [
        pytest.param(
            {"type": "web_search_tool_result_error", "error_code": "unavailable"}, "unavailable", True, id="error"
        ),
        pytest.param(
            [{"type": "web_search_result", "title": "t", "url": "https://a/", "encrypted_content": "EqgfCioIARgB"}],
            "t\nhttps://a/",
            False,
            id="sealed-by-others",
        ),
        pytest.param(
            [{"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "plain.%"}],
            "t\nu",
            False,
            id="broken",
        ),
        pytest.param([{"type": "tool_reference", "tool_name": "f"}], "tool_reference", False, id="another-list"),
        pytest.param(None, "null", False, id="nothing"),
    ],
)
def test_results_of_other_servers(content: Any, text: str, failed: bool) -> None:
    """What can be read of them is kept."""
    (result,) = history({"type": "web_search_tool_result", "tool_use_id": "a", "content": content})

    assert isinstance(result, ToolResult)
    assert result.is_error is failed
    (part,) = result.parts
    assert isinstance(part, Text) and text in part.text


def page(sealed: str) -> dict[str, Any]:
    return {"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": sealed}


@pytest.mark.parametrize(
    ("seals", "kept"),
    [(["Eqgf"], True), (["Eqgf", "Eqgg"], True), (["Eqgf", "plain.YQ=="], False), ([""], False), ([], False)],
)
def test_a_sealed_result_keeps_its_block(seals: list[str], kept: bool) -> None:
    """If every page of it is sealed by the service that found it."""
    block = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [*map(page, seals)]}
    _, result = history(use("srvtoolu_1"), block)

    assert isinstance(result, ToolResult)
    assert result.block == (block if kept else None)


@pytest.mark.parametrize(
    ("citation", "kept"),
    [
        ({"type": "web_search_result_location", "encrypted_index": "Eo8B"}, True),
        ({"type": "web_search_result_location", "encrypted_index": ""}, False),
        ({"type": "char_location", "document_index": 0}, True),
        ("char_location", False),
    ],
)
def test_a_citation_stays_with_its_text(citation: Any, kept: bool) -> None:
    """One of a page that no service has sealed does not; nor does one of a text without a word."""
    block = {"type": "text", "text": "Deep.", "citations": [citation]}
    said, blank = history(block, {**block, "text": " "})

    assert isinstance(said, Text) and isinstance(blank, Text)
    assert (said.unread and said.unread.members) == ({"citations": [citation]} if kept else None)
    assert blank.unread is None


def test_an_id_of_the_service_stays() -> None:
    """What it gave its own call is not prefixed again."""
    call = ServerCall("srvtoolu_01A", "web_search", "web_search", {})

    assert render_server_block(call)["id"] == "srvtoolu_01A"
