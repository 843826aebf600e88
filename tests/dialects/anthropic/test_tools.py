from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.anthropic.parsing import CLIENT_TOOLS
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Prompt, Tool, ToolChoice, ToolChoiceMode

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
CUSTOM = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
CUSTOM_TOOL = Tool("f", "d", CUSTOM["input_schema"])  # type: ignore[arg-type]


def parse(**fields: Any) -> Prompt:
    request = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}], **fields}
    return AnthropicMessages().parse(json.dumps(request).encode()).prompt


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param(CUSTOM, CUSTOM_TOOL, id="F052-no-type"),
        pytest.param({**CUSTOM, "type": None}, CUSTOM_TOOL, id="type-null"),
        pytest.param({**CUSTOM, "type": "custom"}, CUSTOM_TOOL, id="type-custom"),
        pytest.param(
            {**CUSTOM, "strict": True, "cache_control": {}, "eager_input_streaming": True, "input_examples": [{}]},
            evolve(CUSTOM_TOOL, strict=True),
            id="F052-extras",
        ),
        pytest.param({"name": "f"}, Tool("f"), id="F052-name-only"),
        pytest.param({"name": "f", "description": None, "input_schema": None}, Tool("f"), id="F052-nulls"),
        pytest.param({**CUSTOM, "type": "future_20300101"}, CUSTOM_TOOL, id="unknown-type-with-schema"),
    ],
)
def test_client_tools(tool: dict[str, Any], expected: Tool) -> None:
    """A client's own tool is a name, a description and a schema; everything else is ignored."""
    assert parse(tools=[tool]).tools == (expected,)


@pytest.mark.parametrize(
    ("kind", "name", "argument"),
    [
        pytest.param("bash_20250124", "bash", "command", id="bash"),
        pytest.param("text_editor_20250728", "str_replace_based_edit_tool", "old_str", id="editor"),
        pytest.param("text_editor_20250124", "str_replace_editor", "path", id="older-editor"),
        pytest.param("memory_20250818", "memory", "new_path", id="memory"),
        pytest.param("computer_20250124", "computer", "coordinate", id="computer"),
    ],
)
def test_tools_that_anthropic_defined_become_functions(kind: str, name: str, argument: str) -> None:
    """Their schemas are not in the request; the client runs them under the name that it gave."""
    (tool,) = parse(tools=[{"type": kind, "name": name}]).tools

    assert tool.name == name
    assert tool.description
    assert argument in tool.schema["properties"]
    assert set(tool.schema.get("required", ())) <= set(tool.schema["properties"])


def test_the_screen_is_part_of_the_description() -> None:
    """Coordinates mean nothing without its size."""
    tool = {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}

    assert "800 by 600 pixels" in parse(tools=[tool]).tools[0].description


@pytest.mark.parametrize("tool", [tool for _, tool in CLIENT_TOOLS], ids=lambda tool: tool.name)
def test_known_schemas_are_json(tool: Tool) -> None:
    """They can be sent to any upstream."""
    assert json.loads(json.dumps(tool.schema))["type"] == "object"


@pytest.mark.parametrize(
    "server_tool",
    [
        {"type": "advisor_20260301", "name": "advisor"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {"type": "future_20300101", "name": "future"},
    ],
    ids=lambda tool: tool["type"],
)
def test_server_tools_without_a_function(server_tool: dict[str, Any]) -> None:
    """B9: they are taken with their kind, so that whoever knows the service leaves them out."""
    own, hosted = parse(tools=[CUSTOM, server_tool]).tools

    assert own == CUSTOM_TOOL
    assert (hosted.name, hosted.hosted) == (server_tool.get("name", server_tool["type"]), server_tool["type"])
    assert (hosted.place, hosted.schema) == ("tools[1]", {})


def test_a_search_among_tools_is_a_hosted_tool() -> None:
    """Whoever knows the service leaves it out: all tools are offered at once."""
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    found, own = parse(tools=[search, CUSTOM]).tools

    assert own == CUSTOM_TOOL
    assert (found.hosted, found.opaque and found.opaque.value) == ("tool_search", search)


@pytest.mark.parametrize(
    ("tool", "kind", "argument"),
    [
        pytest.param(SEARCH, "web_search", "query", id="F214-search"),
        pytest.param({"type": "web_search_20260318", "name": "web_search"}, "web_search", "query", id="later-search"),
        pytest.param({"type": "web_fetch_20250910", "name": "web_fetch"}, "web_fetch", "url", id="fetch"),
        pytest.param(
            {"type": "code_execution_20250825", "name": "code_execution"}, "code_execution", "code", id="code"
        ),
    ],
)
def test_tools_that_run_on_a_server_are_offered(tool: dict[str, Any], kind: str, argument: str) -> None:
    """The model calls them like any other; who runs them is known by their kind."""
    (parsed,) = parse(tools=[tool]).tools

    assert (parsed.name, parsed.hosted, parsed.schema["required"]) == (tool["name"], kind, [argument])
    assert parsed.description
    assert json.loads(json.dumps(parsed.schema))["type"] == "object"
    assert parse(tools=[tool], tool_choice={"type": "tool", "name": tool["name"]}).tool_choice.name == tool["name"]


@pytest.mark.parametrize(
    ("said", "options"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"max_uses": 3}, {"max_uses": 3}, id="uses"),
        pytest.param({"allowed_domains": ["a.org"]}, {"allowed_domains": ("a.org",)}, id="allowed"),
        pytest.param({"blocked_domains": ["a.org"]}, {"blocked_domains": ("a.org",)}, id="blocked"),
        pytest.param({"max_uses": None, "allowed_domains": None, "blocked_domains": []}, {}, id="nulls"),
        pytest.param({"user_location": {"type": "approximate"}, "strict": True}, {}, id="ignored"),
    ],
)
def test_what_is_said_about_a_hosted_tool(said: dict[str, Any], options: dict[str, Any]) -> None:
    """Limits go along with the tool, for whoever runs it."""
    assert parse(tools=[{"type": "web_search_20250305", "name": "web_search", **said}]).tools[0].options == options


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, ToolChoice(), id="null"),
        pytest.param({"type": "auto"}, ToolChoice(raw={"type": "auto"}), id="F049-auto"),
        pytest.param({"type": "any"}, ToolChoice(ToolChoiceMode.REQUIRED, raw={"type": "any"}), id="F049-any"),
        pytest.param({"type": "none"}, ToolChoice(ToolChoiceMode.NONE, raw={"type": "none"}), id="none"),
        pytest.param(
            {"type": "tool", "name": "f"},
            ToolChoice(ToolChoiceMode.NAMED, "f", raw={"type": "tool", "name": "f"}),
            id="F049-tool",
        ),
        pytest.param({"type": "new", "x": [1]}, ToolChoice(raw={"type": "new", "x": [1]}), id="F049-unknown"),
        pytest.param(
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(ToolChoiceMode.REQUIRED, parallel=False, raw={"type": "any", "disable_parallel_tool_use": True}),
            id="one-call",
        ),
        pytest.param(
            {"type": "auto", "disable_parallel_tool_use": False, "name": "ignored"},
            ToolChoice(raw={"type": "auto", "disable_parallel_tool_use": False, "name": "ignored"}),
            id="many-calls",
        ),
    ],
)
def test_tool_choice(value: Any, expected: ToolChoice) -> None:
    """F049: each kind is understood, an unknown one is kept as it came."""
    assert parse(tools=[CUSTOM], tool_choice=value).tool_choice == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"tools": [CUSTOM], "tool_choice": {"type": "tool"}}, "tool_choice.name", id="unnamed"),
        pytest.param(
            {"tools": [CUSTOM], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name", id="unknown"
        ),
        pytest.param({"tools": [{**SEARCH, "max_uses": 0}]}, "tools[0].max_uses", id="no-uses"),
        pytest.param(
            {"tools": [{**SEARCH, "allowed_domains": ["a"], "blocked_domains": ["b"]}]},
            "tools[0].blocked_domains",
            id="both-domains",
        ),
        pytest.param({"tool_choice": {"type": "any"}}, "tool_choice", id="no-tools"),
        pytest.param({"tool_choice": {}}, "tool_choice.type", id="no-type"),
        pytest.param({"tool_choice": "auto"}, "tool_choice", id="string"),
        pytest.param({"tools": [{"description": "d"}]}, "tools[0].name", id="tool-without-name"),
        pytest.param(
            {"tools": [CUSTOM, {"name": "f", "input_schema": []}]}, "tools[1].input_schema", id="schema-array"
        ),
        pytest.param({"tools": CUSTOM}, "tools", id="not-a-list"),
    ],
)
def test_demands_that_are_refused(fields: dict[str, Any], param: str) -> None:
    """What cannot be fulfilled is refused, with its place."""
    with pytest.raises(RequestError) as caught:
        parse(**fields)

    assert (caught.value.status, caught.value.param) == (400, param)
