"""Tools, what the client demands about them, and calls of those that only this API has, to the item and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._models import construct_type
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.openai_responses.parsing import parse_value
from kiro_asgi.dialects.openai_responses.tools import CLIENT_TOOLS, item_fields
from kiro_asgi.dialects.tools import SEARCH_TOOL, text_given
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Tool, ToolCallPart, ToolChoice, ToolChoiceMode
from kiro_asgi.wire.json import dumps

F = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
P = {"type": "custom", "name": "p"}
NS = {"type": "namespace", "name": "crm", "description": "About.", "tools": [{"type": "function", "name": "f"}, P]}


def parse(*tools: Any, **fields: Any) -> ParsedRequest:
    return parse_value({"model": "m", "input": "hi", "tools": list(tools), **fields})


def refused(*tools: Any, **fields: Any) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        parse(*tools, **fields)
    return caught.value.param, caught.value.code


def names(parsed: ParsedRequest) -> list[str]:
    return [tool.name for tool in parsed.prompt.tools]


@pytest.mark.parametrize(
    "tool",
    [
        F,
        {**F, "type": None},
        {"type": "function", "function": {k: F[k] for k in ("name", "description", "parameters")}},
    ],
)
def test_functions(tool: Any) -> None:
    """Flat, without a type, or nested as in the other API; the answer shows it flat."""
    parsed = parse(tool)
    assert parsed.prompt.tools == (Tool("f", "d", {"type": "object"}, strict=tool.get("strict") is True),)
    (shown,) = parsed.options.tools
    assert shown == {**F, "strict": tool.get("strict")}


def test_functions_without_parameters() -> None:
    """A name is enough."""
    assert parse({"type": "function", "name": "f", "parameters": None}).prompt.tools == (Tool("f"),)


@pytest.mark.parametrize(
    ("tool", "param", "code"),
    [
        ({"type": "function"}, "tools[0].name", "missing_required_parameter"),
        ({"type": "function", "name": ""}, "tools[0].name", "invalid_value"),
        ({"type": "function", "function": {}}, "tools[0].function.name", "missing_required_parameter"),
        ({"type": "custom"}, "tools[0].name", "missing_required_parameter"),
        ({"type": "namespace", "name": "", "tools": []}, "tools[0].name", "invalid_value"),
        ({"type": "namespace", "name": "n", "tools": [{}]}, "tools[0].tools[0].name", "missing_required_parameter"),
        ("f", "tools[0]", "invalid_value"),
    ],
)
def test_tools_that_are_refused(tool: Any, param: str, code: str) -> None:
    """A tool without a name cannot be called."""
    assert refused(tool) == (param, code)


def test_custom_tools() -> None:
    """A function with one string; the grammar is told."""
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    parsed = parse({**P, "description": "Patch.", "format": grammar}, {**P, "name": "q", "format": {"type": "text"}})
    p, q = parsed.prompt.tools
    assert (p.description, q.description) == ("Patch.\n\nThe input must match this grammar (regex):\na+", "")
    assert p.schema["properties"]["input"]["type"] == "string" and p.schema["required"] == ["input"]
    assert parsed.options.custom_tools == {"p", "q"}


def test_namespaces() -> None:
    """Members have both names; the options give them back, and say which of them are custom."""
    parsed = parse(F, NS)
    assert names(parsed) == ["f", "crm__f", "crm__p"]
    assert [tool.description for tool in parsed.prompt.tools] == ["d", "About.", "About."]
    assert parsed.options.namespaces == {"crm__f": ("crm", "f"), "crm__p": ("crm", "p")}
    assert parsed.options.custom_tools == {"crm__p"}


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
)
def test_web_search(kind: str) -> None:
    """Under any of its names it is the search that runs here, within the domains that are allowed."""
    (tool,) = parse({"type": kind, "filters": {"allowed_domains": ["h"]}, "external_web_access": True}).prompt.tools
    assert (tool.name, tool.hosted, tool.options) == ("web_search", "web_search", {"allowed_domains": ("h",)})
    assert parse({"type": kind}).prompt.tools == (SEARCH_TOOL,)


CLIENT = [
    ({"type": "local_shell"}, "local_shell"),
    ({"type": "shell"}, "shell"),
    ({"type": "shell", "environment": {"type": "local"}}, "shell"),
    ({"type": "apply_patch"}, "apply_patch"),
    ({"type": "tool_search", "execution": "client"}, "tool_search"),
]


@pytest.mark.parametrize(("tool", "name"), CLIENT)
def test_tools_that_the_client_runs(tool: Any, name: str) -> None:
    """They are functions with a schema of their own, and the options say what their calls are."""
    parsed = parse(tool)
    assert parsed.prompt.tools == (CLIENT_TOOLS[name].tool,)
    assert parsed.options.client_tools == {name: f"{name}_call"}


def test_a_tool_search_with_parameters() -> None:
    """The client says what its search takes."""
    (tool,) = parse(
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"a": 1}}
    ).prompt.tools
    assert tool == Tool("tool_search", "d", {"a": 1})


HOSTED = [
    {"type": "file_search", "vector_store_ids": []},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation"},
    {"type": "mcp", "server_label": "s"},
    {"type": "computer_use_preview"},
    {"type": "shell", "environment": {"type": "container_auto"}},
    {"type": "invented_tomorrow"},
]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_tools_that_the_vendor_would_run(tool: Any) -> None:
    """B9: they are taken with their kind, also where one is demanded; the answer repeats them as they came."""
    parsed = parse(F, tool, tool_choice={"type": tool["type"]})
    _, hosted = parsed.prompt.tools
    choice = parsed.prompt.tool_choice

    assert (hosted.hosted, hosted.place, hosted.schema) == (tool["type"], "tools[1]", {})
    assert (choice.mode, choice.name) == (ToolChoiceMode.NAMED, hosted.name)
    assert parsed.options.tools[1] == tool


def test_a_search_among_tools_is_a_hosted_tool() -> None:
    """The vendor's own: whoever knows the service leaves it out, as all tools are shown at once."""
    own, search = parse(F, {"type": "tool_search"}).prompt.tools
    assert own.name == "f"
    assert (search.hosted, search.opaque and search.opaque.value) == ("tool_search", {"type": "tool_search"})


def test_the_first_of_a_name_counts() -> None:
    """Clients repeat tools that they had deferred."""
    parsed = parse(F, {**F, "description": "late"}, {**P, "name": "f"})
    assert [tool.description for tool in parsed.prompt.tools] == ["d"]
    assert parsed.options.custom_tools == frozenset()


def test_the_first_of_a_name_decides_what_its_calls_are() -> None:
    """A function called like a tool of another kind stays a function, and one like a member of a namespace too."""
    parsed = parse({**F, "name": "shell"}, {"type": "shell"}, {**F, "name": "crm__f"}, NS, NS)
    assert names(parsed) == ["shell", "crm__f", "crm__p"]
    assert parsed.options.client_tools == {}
    assert parsed.options.namespaces == {"crm__p": ("crm", "p")}


CHOICES = [
    (None, ToolChoiceMode.AUTO, ""),
    ("auto", ToolChoiceMode.AUTO, ""),
    ("none", ToolChoiceMode.NONE, ""),
    ("required", ToolChoiceMode.REQUIRED, ""),
    ({"type": "function", "name": "f"}, ToolChoiceMode.NAMED, "f"),
    ({"type": "function", "function": {"name": "f"}}, ToolChoiceMode.NAMED, "f"),
    ({"type": "function", "name": "f", "namespace": "crm"}, ToolChoiceMode.NAMED, "crm__f"),
    ({"type": "custom", "name": "p"}, ToolChoiceMode.NAMED, "p"),
    ({"type": "apply_patch"}, ToolChoiceMode.NAMED, "apply_patch"),
    ({"type": "web_search_preview"}, ToolChoiceMode.NAMED, "web_search"),
]
OFFERED = (F, P, NS, {"type": "apply_patch"}, {"type": "web_search"}, {"type": "mcp", "server_label": "s"})


@pytest.mark.parametrize(("choice", "mode", "name"), CHOICES)
def test_choices(choice: Any, mode: ToolChoiceMode, name: str) -> None:
    """Every form in which a call is left open, demanded or forbidden."""
    parsed = parse(*OFFERED, tool_choice=choice)
    assert parsed.prompt.tool_choice == ToolChoice(mode, name, raw=choice)
    flat = {"type": "function", "name": "f"} if choice and "function" in choice else choice
    assert parsed.options.tool_choice == (flat or "auto")


def test_allowed_tools() -> None:
    """Only those may be called that are named."""
    listed = [{"type": "function", "name": "f"}, {"type": "web_search"}, {"type": "mcp", "server_label": "s"}]
    parsed = parse(*OFFERED, tool_choice={"type": "allowed_tools", "mode": "required", "tools": listed})
    assert names(parsed) == ["f", "web_search", "mcp (tools[5])"]
    assert parsed.prompt.tool_choice.mode is ToolChoiceMode.REQUIRED
    assert parsed.prompt.tool_choice.allowed == {*names(parsed)}
    assert parse(*OFFERED, tool_choice={"type": "allowed_tools", "tools": listed}).options.tool_choice["mode"] == "auto"


BAD_CHOICES = [
    ("any", "invalid_value"),
    ({"type": "function", "name": "x"}, "invalid_value"),
    ({"type": "function"}, "invalid_value"),
    ({"type": "shell"}, "invalid_value"),
    ({"type": "file_search"}, "unsupported_value"),
    ({}, "unsupported_value"),
    ({"type": "allowed_tools"}, "invalid_value"),
    ({"type": "allowed_tools", "tools": ["f"]}, "invalid_value"),
    ({"type": "allowed_tools", "tools": [], "mode": "required"}, "invalid_value"),
    ({"type": "allowed_tools", "tools": [], "mode": 5}, "invalid_value"),
]


@pytest.mark.parametrize(("choice", "code"), BAD_CHOICES)
def test_choices_that_are_refused(choice: Any, code: str) -> None:
    """A call cannot be demanded of a tool that is not there."""
    assert refused(*OFFERED, tool_choice=choice) == ("tool_choice", code)


ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)

PAIRS = [
    (
        "local_shell",
        {"command": ["ls"], "env": {"A": "b"}, "working_directory": "/", "timeout_ms": 5},
        {
            "action": {
                "type": "exec",
                "command": ["ls"],
                "env": {"A": "b"},
                "working_directory": "/",
                "timeout_ms": 5,
            }
        },
    ),
    (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": 5},
        {
            "action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None},
            "environment": {"type": "local"},
        },
    ),
    (
        "apply_patch",
        {"type": "update_file", "path": "p", "diff": "@@"},
        {"operation": {"type": "update_file", "path": "p", "diff": "@@"}},
    ),
    ("apply_patch", {"type": "delete_file", "path": "p"}, {"operation": {"type": "delete_file", "path": "p"}}),
    ("tool_search", {"query": "q"}, {"arguments": {"query": "q"}, "execution": "client"}),
]


@pytest.mark.parametrize(("name", "arguments", "fields"), PAIRS)
def test_there_and_back(name: str, arguments: Any, fields: Any) -> None:
    """A call becomes an item, and the item, when it comes back, the same call."""
    kind = CLIENT_TOOLS[name].item
    assert item_fields(kind, dumps(arguments).decode()) == fields
    item = {"type": kind, "call_id": "c1", "status": "completed", **fields}
    (turn,) = parse_value({"model": "m", "input": [item]}).prompt.turns
    assert turn.parts == (ToolCallPart("c1", name, arguments),)


NAMES = st.sampled_from(
    ["command", "commands", "env", "type", "path", "diff", "timeout_ms", "user", "max_output_length", "x"]
)

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=8,
)


@given(st.sampled_from(sorted(CLIENT_TOOLS)), ANY.map(dumps) | st.binary(max_size=4))
def test_items_are_well_formed(name: str, arguments: bytes) -> None:
    """Whatever the model wrote, strict clients can read the item."""
    fields = item_fields(CLIENT_TOOLS[name].item, arguments.decode("utf-8", "replace"))
    item = {"type": CLIENT_TOOLS[name].item, "id": "i", "call_id": "c", "status": "completed", **fields}
    assert ITEM.validate_python(item).type == CLIENT_TOOLS[name].item
    assert construct_type(value=item, type_=ResponseOutputItem) is not None


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("local_shell", {"command": "ls -l"}, {"command": ["bash", "-lc", "ls -l"]}),
        ("shell", {"commands": "ls -l"}, {"commands": ["ls -l"]}),
    ],
)
def test_a_command_as_text(name: str, arguments: Any, expected: Any) -> None:
    """A model that writes a text where a list is wanted is understood."""
    action = item_fields(CLIENT_TOOLS[name].item, dumps(arguments).decode())["action"]
    assert expected.items() <= action.items()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "*** Begin Patch\\n"}', "*** Begin Patch\n"),
        ('{"input": ""}', ""),
        ('{"input": 5}', '{"input": 5}'),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ("[1]", "[1]"),
        ("5", "5"),
        ("*** Begin", "*** Begin"),
    ],
)
def test_custom_input(arguments: str, text: str) -> None:
    """The one string, exactly; what has another form is given as it is."""
    assert text_given(arguments) == text
