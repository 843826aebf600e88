"""Requests: every field is honoured, mapped, echoed, ignored or refused, as `fields` says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions, parse_request, parse_value
from kiro_asgi.dialects.tools import is_callable
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Image,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.model.understood import understood
from kiro_asgi.wire.json import dumps
from tests.dialects.openai_responses.bodies import CODEX, any_body, any_item

HI = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


def parse(**fields: Any) -> ParsedRequest:
    return parse_request(json.dumps({"model": "m", "input": "hi", **fields}).encode())


def refused(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        understood(parse(**fields).prompt, "")
    assert caught.value.status == 400
    return caught.value


def test_the_smallest_request() -> None:
    """F037: a bare text is one message of the user's, and everything else is "not said"."""
    assert parse() == ParsedRequest(
        Prompt("m", (Turn(Role.USER, (Text("hi"),)),)), False, ResponsesOptions(input_items=(HI,))
    )
    assert parse(input=[HI]) == parse()


SEEN = [
    ({"instructions": "be"}, lambda i: i.prompt.system, ("be",)),
    ({"instructions": ""}, lambda i: i.prompt.system, ()),
    ({"stream": True}, lambda i: i.stream, True),
    ({"stream": None}, lambda i: i.stream, False),
    ({"max_output_tokens": 5}, lambda i: i.prompt.sampling, Sampling(5)),
    ({"temperature": 2}, lambda i: i.prompt.sampling.temperature, 2.0),
    ({"top_p": 0.5}, lambda i: i.prompt.sampling.top_p, 0.5),
    ({"parallel_tool_calls": False}, lambda i: i.prompt.tool_choice.parallel, False),
    ({"parallel_tool_calls": None}, lambda i: i.prompt.tool_choice.parallel, True),
    ({"text": {"format": {"type": "text"}}}, lambda i: i.prompt.schema, None),
    ({"text": {}}, lambda i: i.prompt.schema, None),
    ({"text": {"format": {"type": "json_object"}}}, lambda i: i.prompt.schema, {}),
    (
        {"text": {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": {"a": 1}}}},
        lambda i: i.prompt.schema,
        {"a": 1},
    ),
    ({"text": {"verbosity": "low"}}, lambda i: i.options.text, {"format": {"type": "text"}, "verbosity": "low"}),
    ({"text": {"format": None}}, lambda i: i.options.text, {"format": {"type": "text"}}),
    ({"reasoning": None}, lambda i: i.prompt.thinking, Thinking()),
    ({"reasoning": {"effort": None}}, lambda i: i.prompt.thinking, Thinking()),
    (
        {"reasoning": {"effort": "none", "summary": "auto"}},
        lambda i: i.prompt.thinking,
        Thinking(ThinkingMode.DISABLED),
    ),
    (
        {"reasoning": {"effort": "xhigh", "summary": "detailed"}},
        lambda i: i.prompt.thinking,
        Thinking(ThinkingMode.ENABLED, effort="xhigh"),
    ),
    ({"reasoning": {"summary": "auto"}}, lambda i: i.prompt.thinking, Thinking(ThinkingMode.ADAPTIVE)),
    ({"reasoning": {"summary": "none"}}, lambda i: i.prompt.thinking, Thinking()),
    ({"reasoning": {"generate_summary": "concise"}}, lambda i: i.options.reasoning, {"summary": "concise"}),
    ({"reasoning": {"summary": "none"}}, lambda i: i.options.summarises_reasoning, False),
    ({"reasoning": {"summary": "auto"}}, lambda i: i.options.summarises_reasoning, True),
    ({"include": ["reasoning.encrypted_content", "new"]}, lambda i: i.options.seals_reasoning, True),
    ({"include": ["web_search_call.results"]}, lambda i: i.options.seals_reasoning, False),
    ({"include": None}, lambda i: i.options.include, ()),
    ({"metadata": {"k": "v"}}, lambda i: (i.prompt.metadata, i.options.metadata), ({"k": "v"}, {"k": "v"})),
    ({"user": "u"}, lambda i: i.prompt.metadata, {"user_id": "u"}),
    ({"safety_identifier": "s", "user": "u"}, lambda i: i.prompt.metadata, {"user_id": "s"}),
    ({"prompt_cache_key": "p"}, lambda i: (i.prompt.metadata, i.prompt.session), ({"prompt_cache_key": "p"}, "p")),
    ({"store": None}, lambda i: i.options.store, True),
    ({"store": False}, lambda i: i.options.store, False),
    ({"previous_response_id": "resp_1"}, lambda i: i.options.previous_response_id, "resp_1"),
    ({"background": False}, lambda i: i.options.background, False),
    ({"truncation": "auto"}, lambda i: i.options.truncation, "auto"),
    ({"top_logprobs": 20}, lambda i: i.options.top_logprobs, 20),
    ({"max_tool_calls": 3}, lambda i: i.options.max_tool_calls, 3),
    ({"max_tool_calls": 3}, lambda i: i.prompt.max_tool_calls, 3),
    ({"text": {"verbosity": "low"}}, lambda i: i.prompt.verbosity, "low"),
    ({"model": "claude-sonnet-4-5-20250929"}, lambda i: i.prompt.model, "claude-sonnet-4-5-20250929"),
]


@pytest.mark.parametrize(
    ("fields", "look", "expected"), [pytest.param(*row, id=json.dumps(row[0])[:60]) for row in SEEN]
)
def test_a_field_is_seen(fields: dict[str, Any], look: Any, expected: Any) -> None:
    """Fields reach the prompt or the options, and ``null`` is the same as nothing."""
    assert look(parse(**fields)) == expected


REFUSED = [
    ({"model": ""}, "model", "missing_required_parameter"),
    ({"model": None}, "model", "invalid_value"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": []}, "input", "missing_required_parameter"),
    (
        {"input": [{"type": "compaction", "encrypted_content": "x"}]},
        "input[0].encrypted_content",
        "invalid_encrypted_content",
    ),
    ({"input": None, "messages": [{"role": "user"}]}, "input", "missing_required_parameter"),
    ({"input": 5}, "input", "invalid_value"),
    ({"instructions": ["x"]}, "instructions", "invalid_value"),
    ({"background": True, "store": False}, "background", "unsupported_value"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt", "unsupported_value"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
    ({"temperature": 2.1}, "temperature", "invalid_value"),
    ({"top_p": -0.1}, "top_p", "invalid_value"),
    ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
    ({"text": {"verbosity": "loud"}}, "text.verbosity", "invalid_value"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", "missing_required_parameter"),
    ({"metadata": {str(n): "v" for n in range(17)}}, "metadata", "invalid_value"),
    ({"metadata": {"k" * 65: "v"}}, "metadata", "invalid_value"),
    ({"metadata": {"k": "v" * 513}}, "metadata", "invalid_value"),
    ({"metadata": {"k": 1}}, "metadata.k", "invalid_value"),
]


@pytest.mark.parametrize(
    ("fields", "param", "code"), [pytest.param(*row, id=f"{row[1]}-{i}") for i, row in enumerate(REFUSED)]
)
def test_a_field_is_refused(fields: dict[str, Any], param: str, code: str) -> None:
    """A request that makes no sense, or that cannot be honoured, is an error that names its place."""
    error = refused(**fields)
    assert (error.param, error.code) == (param, code)


def test_the_other_api_is_recognised() -> None:
    """Whoever sends messages here is told where they belong."""
    assert "/v1/chat/completions" in refused(input=None, messages=[]).message


def test_not_json() -> None:
    """A body that is no JSON is the client's mistake."""
    with pytest.raises(RequestError) as caught:
        parse_request(b"{")
    assert caught.value.code == "invalid_json"


def test_codex() -> None:
    """A later turn of Codex keeps everything: its tools in all forms, thinking, calls, results and their order."""
    parsed = parse_value(CODEX, open_thinking={"ours": ThinkingPart("Look first.", "sig")}.get)
    prompt, user, assistant = understood(parsed.prompt, ""), Role.USER, Role.ASSISTANT
    patch = {"input": "*** Begin Patch\n*** End Patch\n"}
    assert prompt.system == ("You are Codex, a coding agent.", "<permissions>read-only</permissions>")
    assert prompt.turns == (
        Turn(user, (Text("<environment_context/>"),)),
        Turn(user, (Text("Add a file."),)),
        Turn(assistant, (ThinkingPart("Look first.", "sig"),)),
        Turn(assistant, (Text("I look around.", phase="commentary"),)),
        Turn(assistant, (ToolCallPart("call_1", "exec_command", {"cmd": "ls"}),)),
        Turn(user, (ToolResult("call_1", (Text("README.md"),)),)),
        Turn(assistant, (ToolCallPart("call_2", "view_image", {"path": "a.png"}),)),
        Turn(user, (ToolResult("call_2", (Image("image/png", "iVA="),)),)),
        Turn(assistant, (ToolCallPart("call_3", "apply_patch", patch),)),
        Turn(user, (ToolResult("call_3", (Text("Success."),)),)),
        Turn(
            assistant,
            (
                ToolCallPart("input[11]", "web_search", {"query": "fjords"}),
                ToolResult("input[11]", (Text("completed"),)),
            ),
        ),
        Turn(user, (Text("Thanks."),)),
    )
    assert [turn.place for turn in prompt.turns[:2]] == ["input[1]", "input[2]"]
    names = ["exec_command", "apply_patch", "web_search", "local_shell", "mcp__docs__find"]
    assert [tool.name for tool in prompt.tools if is_callable(tool)] == names
    assert prompt.tool_choice == ToolChoice(ToolChoiceMode.AUTO, parallel=False, raw="auto")
    assert parsed.stream
    options = parsed.options
    assert options.custom_tools == {"apply_patch"}
    assert options.client_tools == {"local_shell": "local_shell_call"}
    assert options.namespaces == {"mcp__docs__find": ("mcp__docs", "find")}
    assert (options.store, options.seals_reasoning, options.summarises_reasoning) == (False, True, True)
    assert list(options.tools) == CODEX["tools"]
    assert list(options.input_items) == CODEX["input"]


def test_the_instruction_to_compact_stands_where_its_trigger_does() -> None:
    """What is told of it names the trigger, and no item that is not there."""
    prompt = parse(input=[HI, {"type": "compaction_trigger"}]).prompt

    assert [turn.place for turn in prompt.turns] == ["input[0]", "input[1]"]


def exists(body: Any, param: str) -> bool:
    """Whether *param* is a place in *body*; its last step may be a field that is missing."""
    steps = re.findall(r"[^.\[\]]+", param)
    for position, step in enumerate(steps):
        if isinstance(body, list) and step.isdigit() and int(step) < len(body):
            body = body[int(step)]
        elif isinstance(body, dict) and step in body:
            body = body[step]
        else:
            return isinstance(body, dict) and position == len(steps) - 1
    return bool(steps)


@settings(max_examples=150)
@given(any_body)
def test_any_body_of_the_sdk_is_read_or_refused(body: dict[str, Any]) -> None:
    """Whatever the SDK's types allow gives a request that can be sent on, or an error whose place exists."""
    try:
        parsed = parse_value(body)
    except RequestError as error:
        assert exists(body, error.param), error.message
    else:
        assert parsed.prompt.turns
        dumps([[tool.schema for tool in parsed.prompt.tools], parsed.prompt.schema])


@settings(max_examples=150)
@given(st.lists(any_item, max_size=6))
def test_results_follow_their_calls(items: list[Any]) -> None:
    """In every conversation that is read, a result stands behind the call that it answers."""
    try:
        turns = parse_value({"model": "m", "input": [HI, *items]}).prompt.turns
    except RequestError:
        return
    called = set()
    for turn in turns:
        for part in turn.parts:
            called |= {part.call_id} if isinstance(part, ToolCallPart) else set()
            assert not isinstance(part, ToolResult) or part.call_id in called
