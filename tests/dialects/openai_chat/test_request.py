"""Requests: every field of the API is honoured, ignored or refused, as a table says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_chat.parsing import ChatOptions
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.model.prompt import (
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    Turn,
)
from kiro_asgi.model.understood import understood

USER = {"role": "user", "content": "hi"}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
    },
    {"type": "function", "function": {"name": "g"}},
]
F, G = Tool("f", "d", {"type": "object"}, strict=True), Tool("g")


def parse(**fields: Any) -> ParsedRequest:
    return OpenAIChat().parse(json.dumps({"model": "m", "messages": [USER], **fields}).encode())


def refused(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        understood(parse(**fields).prompt, "")
    assert caught.value.status == 400
    return caught.value


def test_the_smallest_request() -> None:
    """Only a model and a message; everything else is "not said"."""
    assert parse() == ParsedRequest(Prompt("m", (Turn(Role.USER, (Text("hi"),)),)), False, ChatOptions())


HONOURED = [
    ("stream", {"stream": True}, lambda i: i.stream, True),
    ("stream", {"stream": None}, lambda i: i.stream, False),
    (
        "stream_options",
        {"stream_options": {"include_usage": True}},
        lambda i: i.options,
        ChatOptions(include_usage=True),
    ),
    ("stream_options", {"stream_options": {"include_obfuscation": True}}, lambda i: i.options, ChatOptions()),
    ("stream_options", {"stream_options": None}, lambda i: i.options, ChatOptions()),
    ("max_tokens", {"max_tokens": 5}, lambda i: i.prompt.sampling, Sampling(5)),
    ("verbosity", {"verbosity": "low"}, lambda i: i.prompt.verbosity, "low"),
    ("max_completion_tokens", {"max_completion_tokens": 5}, lambda i: i.prompt.sampling, Sampling(5)),
    (
        "max_completion_tokens",
        {"max_completion_tokens": 5, "max_tokens": 9},
        lambda i: i.prompt.sampling.max_tokens,
        5,
    ),
    ("temperature", {"temperature": 2}, lambda i: i.prompt.sampling.temperature, 2.0),
    ("temperature", {"temperature": 0}, lambda i: i.prompt.sampling.temperature, 0.0),
    ("top_p", {"top_p": 0.5}, lambda i: i.prompt.sampling.top_p, 0.5),
    ("top_k", {"top_k": 7}, lambda i: i.prompt.sampling.top_k, 7),
    ("top_k", {"top_k": "many"}, lambda i: i.prompt.sampling.top_k, None),
    ("seed", {"seed": -7}, lambda i: i.prompt.sampling.seed, -7),
    ("seed", {"seed": "?"}, lambda i: i.prompt.sampling.seed, None),
    ("presence_penalty", {"presence_penalty": 2}, lambda i: i.prompt.sampling.presence_penalty, 2),
    ("frequency_penalty", {"frequency_penalty": -0.5}, lambda i: i.prompt.sampling.frequency_penalty, -0.5),
    ("frequency_penalty", {"frequency_penalty": 0}, lambda i: i.prompt.sampling, Sampling()),
    ("frequency_penalty", {"frequency_penalty": "?"}, lambda i: i.prompt.sampling, Sampling()),
    ("stop", {"stop": "x"}, lambda i: i.prompt.sampling.stop, ("x",)),
    ("stop", {"stop": ["a", "b", "c", "d"]}, lambda i: i.prompt.sampling.stop, ("a", "b", "c", "d")),
    ("stop", {"stop": [""]}, lambda i: i.prompt.sampling.stop, ()),
    ("n", {"n": 1}, lambda i: i.stream, False),
    ("logprobs", {"logprobs": False}, lambda i: i.stream, False),
    ("top_logprobs", {"top_logprobs": 0}, lambda i: i.stream, False),
    ("modalities", {"modalities": ["text"]}, lambda i: i.stream, False),
    ("response_format", {"response_format": {"type": "text"}}, lambda i: i.prompt.schema, None),
    ("response_format", {"response_format": {"type": "json_object"}}, lambda i: i.prompt.schema, {}),
    (
        "response_format",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"a": 1}}}},
        lambda i: i.prompt.schema,
        {"a": 1},
    ),
    (
        "response_format",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        lambda i: i.prompt.schema,
        {},
    ),
    ("metadata", {"metadata": {"k": "v"}}, lambda i: i.prompt.metadata, {"k": "v"}),
    ("user", {"user": "u"}, lambda i: i.prompt.metadata, {"user_id": "u"}),
    ("safety_identifier", {"safety_identifier": "s", "user": "u"}, lambda i: i.prompt.metadata, {"user_id": "s"}),
    ("prompt_cache_key", {"prompt_cache_key": "p"}, lambda i: i.prompt.metadata, {"prompt_cache_key": "p"}),
    ("tools", {"tools": TOOLS}, lambda i: i.prompt.tools, (F, G)),
    ("tools", {"tools": []}, lambda i: i.prompt.tools, ()),
    (
        "tools",
        {
            "tools": [
                {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
            ]
        },
        lambda i: i.prompt.tools,
        (F,),
    ),
    ("parallel_tool_calls", {"parallel_tool_calls": False}, lambda i: i.prompt.tool_choice.parallel, False),
    ("parallel_tool_calls", {"parallel_tool_calls": None}, lambda i: i.prompt.tool_choice.parallel, True),
]


@pytest.mark.parametrize(
    ("fields", "look", "expected"), [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(HONOURED)]
)
def test_honoured(fields: dict[str, Any], look: Any, expected: Any) -> None:
    """F036: a legal value reaches the prompt unchanged."""
    assert look(parse(**fields)) == expected


EFFORTS = [
    (word, Thinking(ThinkingMode.ENABLED, effort=word)) for word in ("minimal", "low", "medium", "high", "xhigh", "max")
]

THINKING = [
    *(pytest.param({"reasoning_effort": word}, expected, id=f"effort {word}") for word, expected in EFFORTS),
    pytest.param({"reasoning_effort": "none"}, Thinking(ThinkingMode.DISABLED), id="effort none"),
    pytest.param({"reasoning_effort": None}, Thinking(), id="effort null"),
    pytest.param(
        {"thinking": {"type": "enabled", "budget_tokens": 9}}, Thinking(ThinkingMode.ENABLED, 9), id="thinking on"
    ),
    pytest.param({"thinking": {"type": "disabled"}}, Thinking(ThinkingMode.DISABLED), id="thinking off"),
    pytest.param({"thinking": {"type": "auto"}}, Thinking(ThinkingMode.ADAPTIVE), id="thinking auto"),
    pytest.param({"thinking": {"type": ["?"]}}, Thinking(), id="thinking nonsense"),
    pytest.param({"thinking": "yes"}, Thinking(), id="thinking no object"),
    pytest.param({"enable_thinking": True}, Thinking(ThinkingMode.ENABLED), id="enable_thinking"),
    pytest.param(
        {"enable_thinking": True, "thinking_budget": 3}, Thinking(ThinkingMode.ENABLED, 3), id="thinking_budget"
    ),
    pytest.param({"enable_thinking": False}, Thinking(ThinkingMode.DISABLED), id="enable_thinking false"),
    pytest.param({"enable_thinking": "no"}, Thinking(), id="enable_thinking nonsense"),
    pytest.param(
        {"chat_template_kwargs": {"enable_thinking": False}}, Thinking(ThinkingMode.DISABLED), id="template kwargs"
    ),
    pytest.param({"reasoning": {"effort": "low"}}, Thinking(ThinkingMode.ENABLED, effort="low"), id="reasoning effort"),
    pytest.param({"reasoning": {"max_tokens": 5}}, Thinking(ThinkingMode.ENABLED, 5), id="reasoning budget"),
    pytest.param({"reasoning": {"enabled": True}}, Thinking(ThinkingMode.ENABLED), id="reasoning on"),
    pytest.param({"reasoning": {"effort": "none"}}, Thinking(ThinkingMode.DISABLED), id="reasoning none"),
    pytest.param({"reasoning": {"effort": {}}}, Thinking(), id="reasoning nonsense"),
    pytest.param(
        {"reasoning_effort": "none", "thinking": {"type": "enabled"}},
        Thinking(ThinkingMode.DISABLED),
        id="the official field comes first",
    ),
]


@pytest.mark.parametrize(("fields", "expected"), THINKING)
def test_thinking(fields: dict[str, Any], expected: Thinking) -> None:
    """One official field and the extensions in use; nonsense in an extension is ignored."""
    assert parse(**fields).prompt.thinking == expected


ALLOWED = {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}

CHOICES = [
    pytest.param("none", ToolChoice(ToolChoiceMode.NONE, raw="none"), (F, G), id="none"),
    pytest.param("auto", ToolChoice(ToolChoiceMode.AUTO, raw="auto"), (F, G), id="auto"),
    pytest.param("required", ToolChoice(ToolChoiceMode.REQUIRED, raw="required"), (F, G), id="required"),
    pytest.param(None, ToolChoice(), (F, G), id="null"),
    pytest.param(
        {"type": "function", "function": {"name": "g"}},
        ToolChoice(ToolChoiceMode.NAMED, "g", raw={"type": "function", "function": {"name": "g"}}),
        (F, G),
        id="named",
    ),
    pytest.param(
        {"type": "function", "name": "g"},
        ToolChoice(ToolChoiceMode.NAMED, "g", raw={"type": "function", "name": "g"}),
        (F, G),
        id="named, flat",
    ),
    pytest.param(
        {"type": "allowed_tools", "allowed_tools": ALLOWED},
        ToolChoice(
            ToolChoiceMode.REQUIRED, raw={"type": "allowed_tools", "allowed_tools": ALLOWED}, allowed=frozenset("g")
        ),
        (G,),
        id="allowed",
    ),
    pytest.param(
        {"type": "allowed_tools", **ALLOWED},
        ToolChoice(ToolChoiceMode.REQUIRED, raw={"type": "allowed_tools", **ALLOWED}, allowed=frozenset("g")),
        (G,),
        id="allowed, flat",
    ),
]


@pytest.mark.parametrize(("choice", "expected", "tools"), CHOICES)
def test_tool_choice(choice: Any, expected: ToolChoice, tools: tuple[Tool, ...]) -> None:
    """Every form of ``tool_choice``; a list of allowed tools leaves only those."""
    prompt = parse(tools=TOOLS, tool_choice=choice).prompt
    assert (prompt.tool_choice, prompt.tools) == (expected, tools)


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"type": "function", "name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"type": "function", "function": {"name": "f", "description": "d", "input_schema": {"type": "object"}}},
    ],
)
def test_tools_of_the_messages_api(tool: dict[str, Any]) -> None:
    """Their schema stands under another name, which clients such as Cursor send here."""
    assert parse(tools=[tool]).prompt.tools == (evolve(F, strict=False),)


@pytest.mark.parametrize(
    ("system", "texts"),
    [
        ("Be brief.", ("Be brief.",)),
        ([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}], ("Be brief.", "Be kind.")),
        ([{"type": "text", "text": ""}, {"type": "hologram"}, "x"], ()),
        ("", ()),
        (None, ()),
        (5, ()),
    ],
)
@pytest.mark.parametrize("also", [(), ({"role": "system", "content": "Say please."},)])
def test_the_system_text_of_the_messages_api(system: Any, texts: tuple[str, ...], also: tuple[Any, ...]) -> None:
    """It stands beside the messages, and comes before those of the system."""
    prompt = parse(system=system, messages=[*also, USER]).prompt

    assert prompt.system == (*texts, *(each["content"] for each in also))
    assert prompt.turns == parse().prompt.turns or also
    assert prompt.system_place == ("system" if texts else "messages[0]" if also else "")


@pytest.mark.parametrize(
    ("stop", "sequences", "expected"),
    [
        (None, ["A", "B"], ("A", "B")),
        ("C", ["A"], ("C",)),
        (None, [], ()),
        (None, ["A", 5], ()),
        (None, "A", ()),
    ],
)
def test_stop_sequences_of_the_messages_api(stop: Any, sequences: Any, expected: tuple[str, ...]) -> None:
    """They count where the API's own field says nothing."""
    assert parse(stop=stop, stop_sequences=sequences).prompt.sampling.stop == expected


@pytest.mark.parametrize(
    ("choice", "mode", "name"),
    [
        ({"type": "auto"}, ToolChoiceMode.AUTO, ""),
        ({"type": "any"}, ToolChoiceMode.REQUIRED, ""),
        ({"type": "none"}, ToolChoiceMode.NONE, ""),
        ({"type": "tool", "name": "f"}, ToolChoiceMode.NAMED, "f"),
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_choices_of_the_messages_api(choice: dict[str, Any], mode: ToolChoiceMode, name: str, single: bool) -> None:
    """So is the choice among them, and one call at a time."""
    given = {**choice, "disable_parallel_tool_use": single}

    assert parse(tools=TOOLS, tool_choice=given).prompt.tool_choice == ToolChoice(mode, name, not single, given)


@pytest.mark.parametrize(
    ("call", "mode", "name"),
    [
        (None, ToolChoiceMode.AUTO, ""),
        ("none", ToolChoiceMode.NONE, ""),
        ("auto", ToolChoiceMode.AUTO, ""),
        ({"name": "f"}, ToolChoiceMode.NAMED, "f"),
    ],
)
def test_functions(call: Any, mode: ToolChoiceMode, name: str) -> None:
    """The deprecated form is mapped to tools, one call an answer, and answered in kind."""
    parsed = parse(functions=[TOOLS[0]["function"]], function_call=call)
    choice = parsed.prompt.tool_choice
    assert parsed.prompt.tools == (F,)
    assert (choice.mode, choice.name, choice.parallel, choice.raw) == (mode, name, False, call)
    assert parsed.options == ChatOptions(legacy_functions=True)


def test_tools_win_over_functions() -> None:
    """A request with both is answered in the present form."""
    parsed = parse(tools=TOOLS, functions=[{"name": "old"}])
    assert (parsed.prompt.tools, parsed.options) == ((F, G), ChatOptions())


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        pytest.param({"web_search_options": {"search_context_size": "low"}}, {}, id="options"),
        pytest.param({"tools": [{"type": "web_search"}]}, {}, id="tool"),
        pytest.param({"tools": [{"type": "web_search_preview", "search_context_size": "low"}]}, {}, id="preview"),
        pytest.param(
            {"tools": [{"type": "web_search", "filters": {"allowed_domains": ["a.org"]}}]},
            {"allowed_domains": ("a.org",)},
            id="domains",
        ),
        pytest.param({"functions": [], "web_search_options": {}}, {}, id="beside-functions"),
    ],
)
def test_web_search(fields: dict[str, Any], options: dict[str, Any]) -> None:
    """However it is asked for, the search is a hosted tool that the model can call."""
    (tool,) = parse(**fields).prompt.tools
    assert (tool.name, tool.hosted, tool.options, tool.schema["required"]) == (
        "web_search",
        "web_search",
        options,
        ["query"],
    )


def test_other_hosted_tools() -> None:
    """B9: they are taken with their kind; a demand for one is for whoever knows the service to judge."""
    prompt = parse(tools=[{"type": "code_interpreter"}], tool_choice={"type": "code_interpreter"}).prompt
    (tool,) = prompt.tools

    assert (tool.hosted, tool.place, tool.schema) == ("code_interpreter", "tools[0]", {})
    assert (prompt.tool_choice.mode, prompt.tool_choice.name) == (ToolChoiceMode.NAMED, tool.name)


def test_a_function_of_that_name_comes_first() -> None:
    """The client's own tool is the one that counts."""
    tools = parse(tools=[{"function": {"name": "web_search"}}], web_search_options={}).prompt.tools
    assert [tool.hosted for tool in tools] == ["", "web_search"]
    old = parse(functions=[{"name": "f"}], web_search_options={}).prompt.tools
    assert [tool.name for tool in old] == ["f", "web_search"]


REFUSED = [
    ("n", {"n": 2}, "n", "unsupported_value"),
    ("logprobs", {"logprobs": True}, "logprobs", "unsupported_value"),
    ("top_logprobs", {"top_logprobs": 2}, "top_logprobs", "unsupported_value"),
    ("modalities", {"modalities": ["text", "audio"]}, "modalities", "unsupported_value"),
    ("audio", {"audio": {"voice": "v"}}, "audio", "unsupported_value"),
    ("web_search_options", {"web_search_options": True}, "web_search_options", "invalid_value"),
    ("model", {"model": ""}, "model", "missing_required_parameter"),
    ("model", {"model": 5}, "model", "invalid_value"),
    ("messages", {"messages": []}, "messages", "missing_required_parameter"),
    ("messages", {"messages": None}, "messages", "missing_required_parameter"),
    ("messages", {"messages": "hi"}, "messages", "invalid_value"),
    ("stream", {"stream": "yes"}, "stream", "invalid_value"),
    ("stream_options", {"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_value"),
    ("max_tokens", {"max_tokens": 0}, "max_tokens", "invalid_value"),
    ("max_tokens", {"max_tokens": 1.5}, "max_tokens", "invalid_value"),
    ("max_tokens", {"max_tokens": True}, "max_tokens", "invalid_value"),
    ("max_completion_tokens", {"max_completion_tokens": -1}, "max_completion_tokens", "invalid_value"),
    ("temperature", {"temperature": 2.1}, "temperature", "invalid_value"),
    ("temperature", {"temperature": -0.1}, "temperature", "invalid_value"),
    ("top_p", {"top_p": 1.1}, "top_p", "invalid_value"),
    ("stop", {"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
    ("stop", {"stop": [1]}, "stop[0]", "invalid_value"),
    ("stop", {"stop": "x" * 8_193}, "stop", "invalid_value"),
    ("stop", {"stop": ["x", "y", "z" * 2**21]}, "stop[2]", "invalid_value"),
    ("max_tokens", {"max_tokens": 10**400}, "max_tokens", "invalid_value"),
    ("verbosity", {"verbosity": "loud"}, "verbosity", "invalid_value"),
    ("response_format", {"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
    (
        "response_format",
        {"response_format": {"type": "json_schema"}},
        "response_format.json_schema",
        "missing_required_parameter",
    ),
    ("tools", {"tools": [{"type": "custom"}]}, "tools[0].custom", "missing_required_parameter"),
    ("tools", {"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
    ("tools", {"tools": [{"function": {}}]}, "tools[0].function.name", "missing_required_parameter"),
    ("tools", {"tools": [{"function": {"name": ""}}]}, "tools[0].function.name", "invalid_value"),
    (
        "tools",
        {"tools": [TOOLS[0], {"function": {"name": "x", "parameters": []}}]},
        "tools[1].function.parameters",
        None,
    ),
    ("functions", {"functions": [{"name": ""}]}, "functions[0].name", "invalid_value"),
    ("function_call", {"functions": [{"name": "f"}], "function_call": {"name": "x"}}, "function_call", "invalid_value"),
    ("function_call", {"functions": [{"name": "f"}], "function_call": "any"}, "function_call", "invalid_value"),
]


@pytest.mark.parametrize(
    ("fields", "param", "code"), [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(REFUSED)]
)
def test_refused(fields: dict[str, Any], param: str, code: str | None) -> None:
    """F033, F036: what cannot be honoured is a 400 that names the field."""
    error = refused(**fields)
    assert (error.param, error.code) == (param, code or "invalid_value")


@pytest.mark.parametrize(
    "choice",
    [
        "any",
        {},
        {"type": "function", "function": {"name": "nope"}},
        {"type": "function", "function": {"name": 5}},
        {"type": "function", "function": "f"},
        {"type": "custom", "custom": {"name": "nope"}},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "allowed_tools": []},
        {"type": "allowed_tools", "allowed_tools": {"tools": ["f"]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "nope"}}]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": [], "tools": []}},
    ],
)
def test_a_tool_choice_that_names_no_tool(choice: Any) -> None:
    """An unknown name or form is a 400 at ``tool_choice``."""
    assert refused(tools=TOOLS, tool_choice=choice).param == "tool_choice"


def test_a_required_call_needs_tools() -> None:
    """There is nothing to call without tools."""
    assert refused(tool_choice="required").param == "tool_choice"


IGNORED = {
    "logit_bias": {"1": 2},
    "prediction": {"type": "content", "content": "x"},
    "store": True,
    "prompt_cache_retention": "24h",
    "prompt_cache_options": {"mode": "x"},
    "service_tier": "flex",
    "moderation": {},
    "min_p": 0.1,
    "guided_json": {},
    "an_unknown_field": [{"deep": None}],
}


@pytest.mark.parametrize("name", IGNORED)
def test_ignored(name: str) -> None:
    """A field without meaning here changes nothing, whatever it holds."""
    assert parse(**{name: IGNORED[name]}) == parse(**{name: "?"}) == parse()


def test_every_official_field_has_a_row() -> None:
    """F039: a field that the SDK knows is honoured, ignored or refused on purpose, never by accident."""
    rows = {row[0] for row in HONOURED} | {"reasoning_effort"} | {row[0] for row in REFUSED} | set(IGNORED)
    official = set(CompletionCreateParamsBase.__annotations__)
    assert official - rows - {"tool_choice"} == set()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="F030 no object"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"\xff\xfe", id="R20 not UTF-8"),
        pytest.param(b"[" * 100_000, id="R19 deep arrays"),
        pytest.param(b'{"a":' * 100_000, id="R19 deep objects"),
        pytest.param(b'{"model":"m","messages":' + b"[" * 5000 + b"]" * 5000 + b"}", id="R19 deep messages"),
        pytest.param(b'{"model":"m","temperature":NaN,"messages":[]}', id="R21 NaN"),
        pytest.param(b'{"model":"m","temperature":1e400,"messages":[]}', id="R21 1e400"),
        pytest.param(b'{"model":"m","max_tokens":' + b"9" * 5000 + b',"messages":[]}', id="R21 5000 digits"),
    ],
)
def test_hostile_bodies(body: bytes) -> None:
    """R19-R21, F030: a 400, never a crash."""
    with pytest.raises(RequestError):
        OpenAIChat().parse(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)

FIELDS = sorted({*CompletionCreateParamsBase.__annotations__, "stream", "thinking", "reasoning", "top_k", "input"})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), st.lists(JSON, max_size=2))
def test_any_value_anywhere_is_read_or_refused(fields: dict[str, Any], messages: list[Any]) -> None:
    """R25: whatever JSON a field holds, the outcome is a parsed request or a `RequestError`."""
    try:
        parsed = parse(**{"messages": [USER, *messages], **fields})
    except KiroAsgiError as exc:
        assert isinstance(exc, RequestError) and exc.message
    else:
        assert isinstance(parsed.prompt, Prompt)


def test_the_heading() -> None:
    """F256, F257: the id has its prefix, the model is the client's word, the options travel along."""
    dialect = OpenAIChat()
    parsed = parse(stream_options={"include_usage": True})
    meta = dialect.meta(parsed, lambda: "x" * 24, 12)
    assert (meta.id, meta.model, meta.created) == ("chatcmpl-" + "x" * 24, "m", 12)
    assert meta.options is parsed.options
