from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Opaque,
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.model.understood import understood

DIALECT = AnthropicMessages()
HI = [{"role": "user", "content": "hi"}]
HI_TURN = Turn(Role.USER, (Text("hi"),))
LEAST = Prompt("m", (HI_TURN,), sampling=Sampling(max_tokens=10))


def body(**fields: Any) -> bytes:
    request = {"model": "m", "max_tokens": 10, "messages": HI, **fields}
    return json.dumps({key: value for key, value in request.items() if value is not ...}).encode()


def parse(**fields: Any) -> Prompt:
    """The request as a service of another API understands it."""
    return understood(DIALECT.parse(body(**fields)).prompt, "")


def parts(*blocks: Any) -> tuple[Part, ...]:
    (turn,) = parse(messages=[{"role": "user", "content": [*blocks]}]).turns
    return turn.parts


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse(**fields)
    assert caught.value.status == 400
    return caught.value


def test_the_least_request() -> None:
    """F040: the three required fields suffice; all else has its neutral value."""
    parsed = DIALECT.parse(body())

    assert parsed.prompt == LEAST
    assert parsed.stream is False


@pytest.mark.parametrize("value", [False, None, ...], ids=str)
def test_not_streaming(value: Any) -> None:
    """F005: only ``true`` streams."""
    assert DIALECT.parse(body(stream=value)).stream is False
    assert DIALECT.parse(body(stream=True)).stream is True


def test_no_tokens_at_all_is_a_warm_up() -> None:
    """``max_tokens: 0`` only fills a cache."""
    parsed = DIALECT.parse(body(max_tokens=0))

    assert parsed.prompt.sampling.max_tokens == 0


FORMAT = {"type": "json_schema", "schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"system": "s"}, {"system": ("s",)}, id="system-text"),
        pytest.param({"system": None}, {"system": ()}, id="system-null"),
        pytest.param({"system": ""}, {"system": ()}, id="system-empty"),
        pytest.param(
            {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "scope": "x"}}]},
            {"system": ("a",)},
            id="F048-system-blocks",
        ),
        pytest.param(
            {"system": [{"type": "text", "text": "a"}, {"type": "new"}, {"type": "text", "text": "b"}]},
            {"system": ("a", "b")},
            id="F048-system-unknown-block",
        ),
        pytest.param(
            {"system": [{"type": "text", "text": "x-anthropic-billing-header: v=1;"}, {"type": "text", "text": "b"}]},
            {"system": ("b",)},
            id="attribution-block",
        ),
        pytest.param({"system": "x-anthropic-billing-header: v=1;\nb"}, {"system": ("b",)}, id="attribution-line"),
        pytest.param(
            {"system": [{"type": "text", "text": "b"}, {"type": "text", "text": "x-anthropic-billing-header: v=1;"}]},
            {"system": ("b", "x-anthropic-billing-header: v=1;")},
            id="attribution-only-first",
        ),
        pytest.param(
            {"stop_sequences": ["a", "b"], "temperature": 1, "top_p": 0.5, "top_k": 3},
            {"sampling": Sampling(10, 1.0, 0.5, 3, ("a", "b"))},
            id="F036-F041-sampling",
        ),
        pytest.param(
            {"stop_sequences": None, "temperature": None, "top_p": None, "top_k": None},
            {"sampling": Sampling(10)},
            id="F041-sampling-null",
        ),
        pytest.param({"temperature": 0, "top_p": 1}, {"sampling": Sampling(10, 0.0, 1.0)}, id="F036-bounds"),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"}},
            {"thinking": Thinking(ThinkingMode.ENABLED, 2048, omitted=True)},
            id="F050-thinking-enabled",
        ),
        pytest.param(
            {"thinking": {"type": "enabled"}},
            {"thinking": Thinking(ThinkingMode.ENABLED)},
            id="F050-thinking-no-budget",
        ),
        pytest.param(
            {"thinking": {"type": "disabled"}},
            {"thinking": Thinking(ThinkingMode.DISABLED)},
            id="F050-thinking-disabled",
        ),
        pytest.param(
            {"thinking": {"type": "adaptive"}}, {"thinking": Thinking(ThinkingMode.ADAPTIVE)}, id="thinking-adaptive"
        ),
        pytest.param(
            {"thinking": {"type": "between_tools"}},
            {"thinking": Thinking(ThinkingMode.ADAPTIVE)},
            id="thinking-between",
        ),
        pytest.param({"thinking": {"type": "new"}}, {}, id="thinking-unknown"),
        pytest.param({"thinking": None}, {}, id="thinking-null"),
        pytest.param(
            {"output_config": {"effort": "high", "task_budget": {"x": 1}}},
            {"thinking": Thinking(effort="high")},
            id="effort",
        ),
        pytest.param(
            {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}},
            {"thinking": Thinking(ThinkingMode.ADAPTIVE, effort="low")},
            id="effort-and-thinking",
        ),
        pytest.param({"output_config": {"effort": "new"}}, {}, id="effort-unknown"),
        pytest.param({"output_config": {"format": FORMAT}}, {"schema": {"type": "object"}}, id="output-config-format"),
        pytest.param({"output_format": FORMAT}, {"schema": {"type": "object"}}, id="output-format"),
        pytest.param({"output_format": None, "output_config": None}, {}, id="output-null"),
        pytest.param(
            {"metadata": {"user_id": '{"a":1}', "plan_mode": True}},
            {"metadata": {"user_id": '{"a":1}', "plan_mode": True}},
            id="F051-metadata",
        ),
        pytest.param({"metadata": None}, {}, id="metadata-null"),
        pytest.param({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {}, id="cache-control"),
        pytest.param(
            {"service_tier": "auto", "speed": "fast", "inference_geo": "eu", "container": None}, {}, id="service"
        ),
        pytest.param(
            {"diagnostics": {"previous_message_id": "x"}, "safeguards": {}, "thread": {}}, {}, id="claude-code"
        ),
        pytest.param({"context_management": {"edits": []}, "compaction": {}, "billing_policy": "x"}, {}, id="beta"),
        pytest.param({"fallbacks": [], "fallback_credit_token": "x"}, {}, id="fallbacks"),
        pytest.param({"mcp_servers": [{"url": "x"}]}, {}, id="mcp-servers"),
        pytest.param({"something_new": [1, {"a": None}]}, {}, id="unknown-field"),
    ],
)
def test_each_field_that_is_accepted(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """F039, F040, F041: every field of the API is honoured, or ignored with a reason; nothing else changes."""
    assert parse(**fields) == evolve(LEAST, **expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"max_tokens": ...}, "max_tokens: Field required", id="max-tokens-missing"),
        pytest.param({"model": ...}, "model: Field required", id="model-missing"),
        pytest.param({"messages": ...}, "messages: Field required", id="messages-missing"),
        pytest.param({"model": ""}, "model: is empty; name a model, GET /v1/models lists them", id="model-empty"),
        pytest.param({"messages": []}, "messages: at least one message is required", id="messages-empty"),
        pytest.param({"max_tokens": -1}, "max_tokens: must be 0 or more", id="F036-max-tokens"),
        pytest.param({"max_tokens": True}, "max_tokens: expected an integer, got a boolean", id="max-tokens-bool"),
        pytest.param({"temperature": 1.01}, "temperature: must be between 0 and 1", id="F036-temperature-high"),
        pytest.param({"temperature": -0.1}, "temperature: must be between 0 and 1", id="F036-temperature-low"),
        pytest.param({"top_p": 1.5}, "top_p: must be between 0 and 1", id="F036-top-p"),
        pytest.param({"top_k": -1}, "top_k: must be 0 or more", id="F036-top-k"),
        pytest.param({"stream": "false"}, "stream: expected a boolean or null, got a string", id="stream-string"),
        pytest.param(
            {"stop_sequences": "END"}, "stop_sequences: expected an array or null, got a string", id="stop-string"
        ),
        pytest.param({"thinking": {}}, "thinking.type: Field required", id="thinking-type"),
        pytest.param(
            {"thinking": {"type": "enabled", "budget_tokens": 0}},
            "thinking.budget_tokens: must be positive",
            id="thinking-budget",
        ),
        pytest.param(
            {"output_config": {"format": {"type": "xml"}}},
            "output_config.format: only json_schema is supported",
            id="output-config-format",
        ),
        pytest.param(
            {"output_format": {"type": "json_schema"}}, "output_format.schema: Field required", id="output-schema"
        ),
        pytest.param({"messages": [{"content": "a"}]}, "messages[0].role: Field required", id="role-missing"),
        pytest.param({"messages": [{"role": "user"}]}, "messages[0].content: Field required", id="content-missing"),
        pytest.param(
            {"messages": [*HI, {"role": "user", "content": [{"type": "text"}]}]},
            "messages[1].content[0].text: Field required",
            id="text-missing",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "{}"}]}]},
            "messages[0].content[0].input: expected an object or null, got a string",
            id="input-string",
        ),
    ],
)
def test_each_field_that_is_refused(fields: dict[str, Any], message: str) -> None:
    """F036: what cannot be honoured is refused with its place."""
    assert refusal(**fields).message == message


def test_an_empty_stop_sequence_is_refused() -> None:
    """It would end every answer before it begins."""
    assert refusal(stop_sequences=["a", ""]).param == "stop_sequences[1]"


def test_stop_sequences_have_a_length_together() -> None:
    """8,192 characters: a single one of 2 MB took half a gigabyte and 13 s; so many as Amazon takes fit."""
    assert parse(stop_sequences=["x"] * 8_191).sampling.stop == ("x",) * 8_191
    assert refusal(stop_sequences=["x" * 2**21]).param == "stop_sequences[0]"
    assert refusal(stop_sequences=["x" * 8_192, "y"]).param == "stop_sequences[1]"


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param(
            {"type": "text", "text": "a", "cache_control": {}, "citations": None}, [Text("a")], id="F043-text"
        ),
        pytest.param(IMAGE, [Image("image/png", "AA==")], id="F044-image"),
        pytest.param(
            {"type": "image", "source": {"type": "url", "url": "https://h/u"}},
            [Image(url="https://h/u")],
            id="image-url",
        ),
        pytest.param(
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
                "title": "t",
                "context": "c",
                "citations": {"enabled": True},
            },
            [Text("c"), Document("application/pdf", data="AA==", title="t", cited=True)],
            id="document-pdf",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            [Document("text/plain", text="d")],
            id="document-text",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "url", "url": "https://h/u"}},
            [Document("application/pdf", url="https://h/u")],
            id="document-url",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "content", "content": "d"}, "title": None},
            [Document("text/plain", text="d")],
            id="document-content-text",
        ),
        pytest.param(
            {
                "type": "document",
                "source": {
                    "type": "content",
                    "content": [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}],
                },
            },
            [Document("text/plain", text="a\nb"), Image("image/png", "AA==")],
            id="document-content-blocks",
        ),
        pytest.param(
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "a"}]},
            [Text("t (s)\na")],
            id="search-result",
        ),
        pytest.param({"type": "thinking", "thinking": "t", "signature": "s"}, [ThinkingPart("t", "s")], id="thinking"),
        pytest.param({"type": "thinking", "thinking": "t"}, [ThinkingPart("t")], id="thinking-foreign"),
        pytest.param({"type": "redacted_thinking", "data": "d"}, [ThinkingPart(redacted="d")], id="redacted"),
        pytest.param(
            {"type": "tool_use", "id": "i", "name": "n", "input": {"a": [1]}, "caller": {}},
            [ToolCallPart("i", "n", {"a": [1]})],
            id="F045-tool-use",
        ),
        pytest.param(
            {"type": "tool_use", "id": "i", "name": "n", "input": None},
            [ToolCallPart("i", "n", {})],
            id="tool-use-null",
        ),
        pytest.param(
            {"type": "server_tool_use", "id": "i", "name": "n", "input": {}},
            [ToolCallPart("i", "n", {})],
            id="server-tool-use",
        ),
        pytest.param(
            {"type": "web_search_tool_result", "tool_use_id": "i", "content": []},
            [ToolResult("i", (Text("Nothing was found."),))],
            id="server-result",
        ),
        pytest.param(
            {"type": "advisor_tool_result", "tool_use_id": "f", "content": {"type": "advisor_result", "text": "No."}},
            [ToolResult("f", (Text("No."),))],
            id="advisor",
        ),
        pytest.param(
            {"type": "mcp_tool_use", "id": "i", "name": "n", "input": {"a": 1}, "server_name": "s"},
            [ToolCallPart("i", "n", {"a": 1})],
            id="mcp-use",
        ),
        pytest.param(
            {
                "type": "mcp_tool_result",
                "tool_use_id": "i",
                "content": [{"type": "text", "text": "r"}],
                "is_error": True,
            },
            [ToolResult("i", (Text("r"),), is_error=True)],
            id="mcp-result",
        ),
        pytest.param(
            {"type": "mcp_tool_result", "tool_use_id": "i", "content": "r"},
            [ToolResult("i", (Text("r"),))],
            id="mcp-result-text",
        ),
        pytest.param(
            {"type": "invented_tomorrow_tool_result", "tool_use_id": "i", "content": {"stdout": "r"}},
            [ToolResult("i", (Text('{"stdout":"r"}'),))],
            id="any-result",
        ),
        pytest.param({"type": "compaction", "content": None}, [], id="compaction-failed"),
        pytest.param({"type": "something_new"}, [], id="F047-unknown"),
    ],
)
def test_each_block(block: dict[str, Any], expected: list[Part]) -> None:
    """Every kind of block gives its parts, in order; unknown kinds give none and fail nothing (F047)."""
    assert parts({"type": "text", "text": "before"}, block, {"type": "text", "text": "after"}) == (
        Text("before"),
        *expected,
        Text("after"),
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(..., (), id="absent"),
        pytest.param(None, (), id="null"),
        pytest.param([], (), id="empty"),
        pytest.param("out", (Text("out"),), id="string"),
        pytest.param([{"type": "text", "text": "a"}, IMAGE], (Text("a"), Image("image/png", "AA==")), id="blocks"),
        pytest.param([{"type": "text", "text": "a"}, {"type": "new"}, 5], (Text("a"),), id="unknown-among-blocks"),
        pytest.param(
            [{"type": "document", "source": {"type": "text", "data": "d"}}],
            (Document("text/plain", text="d"),),
            id="document",
        ),
        pytest.param(
            [{"type": "search_result", "source": "s", "title": "t", "content": []}],
            (Text("t (s)"),),
            id="search-result",
        ),
        pytest.param({"a": [1, None]}, (Text('{"a":[1,null]}'),), id="object"),
        pytest.param([1, "b"], (Text('[1,"b"]'),), id="array"),
        pytest.param([{"type": "odd", "é": 1}], (Text('{"type":"odd","é":1}'),), id="array-of-unknown"),
        pytest.param(3.5, (Text("3.5"),), id="number"),
        pytest.param(False, (Text("false"),), id="boolean"),
    ],
)
def test_tool_results_hold_any_json(content: Any, expected: tuple[Text | Image | Document, ...]) -> None:
    """F046: a string, blocks, or whatever else; JSON in which no block is found is its own text."""
    block = {"type": "tool_result", "tool_use_id": "i", "content": content}
    block = {key: value for key, value in block.items() if value is not ...}

    assert parts(block) == (ToolResult("i", expected),)
    assert parts({**block, "is_error": True}) == (ToolResult("i", expected, is_error=True),)


@pytest.mark.parametrize(
    ("block", "place"),
    [
        pytest.param({"type": "image", "source": {"type": "file", "file_id": "f"}}, "source.type", id="image-file"),
        pytest.param({"type": "image", "source": {"type": "text", "data": "f"}}, "source.type", id="image-of-text"),
        pytest.param(
            {"type": "document", "source": {"type": "file", "file_id": "f"}}, "source.type", id="document-file"
        ),
        pytest.param(
            {"type": "image", "source": {"type": "base64", "data": ""}}, "source.media_type", id="no-media-type"
        ),
        pytest.param(
            {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text"}]},
            "content[0].text",
            id="in-result",
        ),
        pytest.param(
            {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "image", "source": {"type": "file"}}]},
            "content[0].source.type",
            id="image-file-in-result",
        ),
        pytest.param(
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "image", "source": {"type": "x"}}]},
            },
            "source.content[0].source.type",
            id="image-file-in-document",
        ),
    ],
)
def test_blocks_that_are_refused(block: dict[str, Any], place: str) -> None:
    """What cannot be passed on is refused with its place, not lost."""
    error = refusal(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, block]}])

    assert error.param == f"messages[0].content[1].{place}"
    assert error.message.startswith(error.param)


RESULT = {"type": "tool_result", "tool_use_id": "i"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [("user", "a"), ("user", "b"), ("assistant", "c")],
            [(Role.USER, "a"), (Role.USER, "b"), (Role.ASSISTANT, "c")],
            id="consecutive-and-prefill",
        ),
        pytest.param([("user", "a"), ("tool", "x"), ("wizard", None)], [(Role.USER, "a")], id="F042-unknown-roles"),
        pytest.param(
            [("user", "a"), ("assistant", []), ("user", "b")], [(Role.USER, "a"), (Role.USER, "b")], id="empty"
        ),
        pytest.param(
            [("user", "a"), ("assistant", [{"type": "something_new"}])], [(Role.USER, "a")], id="F047-only-unknown"
        ),
        pytest.param([("user", "a"), ("system", "s")], [(Role.USER, "a"), (Role.USER, "s")], id="system-last"),
        pytest.param(
            [("system", "s"), ("system", [{"type": "text", "text": "t"}]), ("user", "a")],
            [(Role.USER, "s", "t", "a")],
            id="system-before-user",
        ),
    ],
)
def test_turns(messages: list[tuple[str, Any]], expected: list[tuple[Any, ...]]) -> None:
    """Turns keep their order and are not merged; other roles change nothing; system text joins a user's turn."""
    prompt = parse(messages=[{"role": role, "content": content} for role, content in messages])

    assert prompt.turns == tuple(Turn(role, tuple(map(Text, texts))) for role, *texts in expected)


def test_a_compaction_stands_for_all_before_it() -> None:
    """The newest with a summary counts; what is before it is left out, as the API itself does (row 2.3)."""
    summed = {"type": "compaction", "content": "So far.", "signature": "s"}
    failed = {"type": "compaction", "content": None}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "compaction", "content": "Older."}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": [{"type": "text", "text": "d"}, summed, {"type": "text", "text": "e"}]},
        {"role": "user", "content": [{"type": "text", "text": "f"}, failed]},
    ]
    request = body(messages=messages)
    parsed = DIALECT.parse(request)
    first, last = parsed.prompt.turns

    assert (first.role, first.parts) == (Role.ASSISTANT, (Text("So far."), Text("e")))
    assert (first.place, last.place, last.parts) == ("messages[3]", "messages[4]", (Text("f"),))
    assert isinstance(first.parts[0], Text) and first.parts[0].block == summed
    assert [(note.rule, note.times, note.place) for note in DIALECT.notes(request, parsed)] == [
        ("turns.compacted", 4, "messages[0]")
    ]


def test_a_call_goes_with_its_result() -> None:
    """A result that is not read would leave its call unanswered, and the model would be told that it was cancelled."""
    use = {"type": "server_tool_use", "id": "s", "name": "n", "input": {}}
    content = [use, {"type": "report_of_tomorrow", "tool_use_id": "s"}, {"type": "text", "text": "x"}]
    request = body(messages=[*HI, {"role": "assistant", "content": content}])
    parsed = DIALECT.parse(request)

    assert understood(parsed.prompt, "").turns[1].parts == (Text("x"),)
    assert [type(part) for part in parsed.prompt.turns[1].parts] == [Opaque, Opaque, Text]
    assert [(note.rule, note.times) for note in DIALECT.notes(request, parsed)] == [("blocks.unknown", 2)]


def test_system_text_does_not_come_between_a_call_and_its_result() -> None:
    """It stands behind the results of the turn that it joins."""
    call = {"type": "tool_use", "id": "i", "name": "n", "input": {}}
    prompt = parse(
        messages=[
            *HI,
            {"role": "assistant", "content": [call]},
            {"role": "system", "content": "s"},
            {"role": "user", "content": [RESULT, {"type": "text", "text": "a"}]},
        ]
    )

    assert prompt.turns[2].parts == (ToolResult("i"), Text("s"), Text("a"))


def test_a_count_needs_no_max_tokens() -> None:
    """The body of a count is that of a request without the answer's settings."""
    counted = DIALECT.parse_count(body(max_tokens=..., system="s", tools=[{"name": "f"}], betas=["x"]))

    assert (counted.system, counted.turns, counted.tools[0].name) == (("s",), (HI_TURN,), "f")
    assert counted.sampling == Sampling()
    with pytest.raises(RequestError, match="messages: Field required"):
        DIALECT.parse_count(body(messages=...))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ["text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result", "x"]
FIELDS = [
    "text",
    "source",
    "title",
    "content",
    "thinking",
    "data",
    "id",
    "name",
    "input",
    "tool_use_id",
    "media_type",
    "url",
]
SOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["base64", "text", "url", "content", "file"])},
    optional={name: st.text() | JSON for name in FIELDS},
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)}, optional={name: st.text() | SOURCES | JSON for name in FIELDS}
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "x"]),
        "content": st.text() | st.lists(BLOCKS, max_size=3) | JSON,
    }
)
REQUEST_FIELDS = [
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "stop_sequences",
    "temperature",
]


@given(st.lists(MESSAGES, max_size=3), st.dictionaries(st.sampled_from(REQUEST_FIELDS), JSON))
def test_any_body_is_taken_or_refused(messages: list[Any], fields: dict[str, Any]) -> None:
    """R19, R21: whatever JSON a client sends, there is a prompt or a `RequestError` with a place."""
    try:
        prompt = parse(messages=messages, **fields)
    except RequestError as exc:
        assert exc.status == 400 and exc.param
    else:
        assert prompt.turns


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"[" * 100_000, id="R19-arrays"),
        pytest.param(b'{"messages":' * 100_000, id="R19-objects"),
        pytest.param(b"\xff", id="R20-utf8"),
        pytest.param(b'{"model":"m","max_tokens":1e999,"messages":[]}', id="R21-overflow"),
        pytest.param(b"", id="empty"),
    ],
)
def test_hostile_bodies(data: bytes) -> None:
    """R19-R21: they are the client's fault."""
    with pytest.raises(RequestError) as caught:
        DIALECT.parse(data)

    assert caught.value.code == "invalid_json"


def test_half_characters_can_be_written_again() -> None:
    """R21: an escaped lone surrogate becomes U+FFFD."""
    parsed = DIALECT.parse(b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\\ud800"}]}')

    assert parsed.prompt.turns[0].parts == (Text("\ufffd"),)
