"""Toolsets of the Messages API are what the official SDK says, and become functions for services of other APIs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import anthropic.types as sdk
import pytest
from anthropic.lib.tools._toolsets._registry import BROWSER_DEFAULT_DISABLED_MEMBERS
from anthropic.types.browser_member_name import BROWSER_MEMBER_NAME_VALUES
from anthropic.types.computer_member_name import COMPUTER_MEMBER_NAME_VALUES

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.anthropic.toolsets import BROWSER, COMPUTER, Member
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.errors import RequestError
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt, Text, ToolCallPart, ToolResult
from kiro_asgi.model.understood import understood
from tests.growth import assert_linear

KINDS = {"computer": "computer_toolset_20260801", "browser": "browser_toolset_20260801"}
SETS = {"computer": (COMPUTER, COMPUTER_MEMBER_NAME_VALUES), "browser": (BROWSER, BROWSER_MEMBER_NAME_VALUES)}
MEMBERS = [(name, member) for name, (_, members) in SETS.items() for member in members]
ENTRIES = [{"type": kind} for kind in KINDS.values()]
CALL = {"type": "tool_use", "id": "t", "name": "wait", "toolset_name": "computer", "input": {"duration": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "toolset_name": "computer", "content": "Waited."}


def body(*tools: dict[str, Any], blocks: tuple[dict[str, Any], ...] = (), **fields: Any) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    if blocks:
        messages += [{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [*blocks]}]
    return json.dumps({"model": "m", "max_tokens": 9, "tools": tools, "messages": messages, **fields}).encode()


def parse(*tools: dict[str, Any], **fields: Any) -> ParsedRequest:
    return AnthropicMessages().parse(body(*tools, **fields))


def elsewhere(*tools: dict[str, Any], **fields: Any) -> Prompt:
    """The prompt as a service of another API has it."""
    return understood(parse(*tools, **fields).prompt, "openai")


def names(*tools: dict[str, Any]) -> list[str]:
    return [tool.name for tool in elsewhere(*tools).tools]


def input_of(toolset: str, member: str) -> dict[str, Any]:
    """The SDK's schema of a member's input, without references."""
    words = "".join(word.title() for word in f"{toolset}_{member}_input".split("_"))
    module = import_module(f"{sdk.__name__}.{toolset}_{member}_input")
    schema = getattr(module, words).model_json_schema()
    return resolved(schema, schema.get("$defs", {}))


def resolved(value: Any, shared: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [resolved(each, shared) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return resolved(shared[value["$ref"].rpartition("/")[2]], shared)
    return {name: resolved(each, shared) for name, each in value.items() if name != "$defs"}


def shape(schema: dict[str, Any]) -> Any:
    """What a schema says of a value's form: types, members, which of them must be there, words and lists."""
    branches = [each for key in ("anyOf", "oneOf") for each in schema.get(key, ())]
    forms = [shape(each) for each in branches if each.get("type") != "null"]
    if len(forms) == 1:
        return forms[0]
    if forms:
        return sorted(map(repr, forms))
    if schema.get("type") == "object":
        members = {name: shape(each) for name, each in sorted(schema.get("properties", {}).items())}
        return members, sorted(schema.get("required", ()))
    if schema.get("type") == "array":
        return [shape(schema["items"])]
    wanted = [schema["const"]] if "const" in schema else schema.get("enum")
    return schema["type"], None if wanted is None else sorted(wanted)


@pytest.mark.parametrize("name", SETS)
def test_the_members_are_those_of_the_sdk(name: str) -> None:
    """None is missing, none is invented, and those are off that the API withholds unless they are enabled."""
    toolset, members = SETS[name]

    assert sorted(toolset.functions) == sorted(members)
    assert toolset.off == (BROWSER_DEFAULT_DISABLED_MEMBERS if name == "browser" else frozenset())


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_a_function_takes_what_the_sdk_says_the_member_takes(name: str, member: str) -> None:
    """Arguments that a service is told to write are those that the client's driver reads."""
    tool = SETS[name][0].functions[member]

    assert shape(dict(tool.schema)) == shape(input_of(name, member))
    assert tool.description
    assert json.loads(json.dumps(tool.schema)) == tool.schema


def test_an_entry_is_one_tool_and_its_members_stand_for_it_elsewhere() -> None:
    """Its own service gets the entry whole, and every other one functions, named apart by the toolset."""
    marked = {**ENTRIES[0], "cache_control": {"type": "ephemeral"}}
    prompt = parse(marked, ENTRIES[1]).prompt

    assert [tool.opaque and tool.opaque.value for tool in prompt.tools] == [marked, ENTRIES[1]]
    assert understood(prompt, "anthropic") == prompt
    tools = understood(prompt, "").tools
    expected = [*map(COMPUTER.functions.get, COMPUTER.functions)]
    expected += [tool for member, tool in BROWSER.functions.items() if member not in BROWSER.off]
    assert [*tools] == expected
    assert len({tool.name for tool in tools}) == len(tools)
    assert {tool.place for tool in tools} == {"tools[0]", "tools[1]"}
    assert [tool.name for tool in tools if tool.cache] == ["computer_zoom"]


@pytest.mark.parametrize(
    ("configs", "offered"),
    [
        pytest.param(None, True, id="null"),
        pytest.param({}, True, id="none"),
        pytest.param({"wait": None}, True, id="a-null-member"),
        pytest.param({"wait": {}}, True, id="an-empty-member"),
        pytest.param({"wait": {"enabled": None}}, True, id="unsaid"),
        pytest.param({"wait": {"enabled": True}}, True, id="on"),
        pytest.param({"wait": {"enabled": False}}, False, id="off"),
        pytest.param({"key": {"enabled": False}, "later": {"enabled": False}}, True, id="others"),
    ],
)
@pytest.mark.parametrize("name", KINDS)
def test_a_member_is_offered_unless_it_is_disabled(name: str, configs: Any, offered: bool) -> None:
    assert (f"{name}_wait" in names({"type": KINDS[name], "configs": configs})) is offered


@pytest.mark.parametrize("member", sorted(BROWSER.off))
def test_a_member_that_is_off_has_to_be_enabled(member: str) -> None:
    """A client that does not say so does not expect calls that read its files, or run code."""
    assert f"browser_{member}" not in names(ENTRIES[1])
    assert f"browser_{member}" in names({**ENTRIES[1], "configs": {member: {"enabled": True}}})


def test_a_toolset_without_a_member_is_a_tool_that_no_other_service_has() -> None:
    """So that whoever knows the service leaves it out."""
    configs = {member: {"enabled": False} for member in COMPUTER.functions}
    (tool,) = elsewhere({**ENTRIES[0], "configs": configs}).tools

    assert (tool.hosted, tool.schema) == ("computer_toolset_20260801", {})


@pytest.mark.parametrize(
    ("configs", "param"),
    [
        ([], "tools[0].configs"),
        ({"wait": True}, "tools[0].configs.wait"),
        ({"wait": {"enabled": "no"}}, "tools[0].configs.wait.enabled"),
        ({"w" * 99: 1}, f"tools[0].configs.{'w' * 60}"),
    ],
)
def test_configs_of_another_form_are_refused(configs: Any, param: str) -> None:
    """What cannot be read must not turn a member on."""
    with pytest.raises(RequestError) as refused:
        parse({**ENTRIES[0], "configs": configs})
    assert refused.value.param == param


@pytest.mark.parametrize("name", ["wait", "computer_wait", "computer_toolset_20260801"])
def test_no_member_can_be_demanded(name: str) -> None:
    """A choice names a tool, and the entry of a toolset has no name."""
    with pytest.raises(RequestError, match=rf'no tool "{name}"') as refused:
        parse(*ENTRIES, tool_choice={"type": "tool", "name": name})
    assert refused.value.param == "tool_choice.name"


def test_a_call_of_any_tool_can_be_demanded() -> None:
    """One of the members will do."""
    assert elsewhere(ENTRIES[0], tool_choice={"type": "any"}).tool_choice.demanded


def history(prompt: Prompt) -> tuple[ToolCallPart, ToolResult]:
    call, result = prompt.turns[1].parts[0], prompt.turns[2].parts[0]
    assert isinstance(call, ToolCallPart)
    assert isinstance(result, ToolResult)
    return call, result


def test_an_earlier_call_is_one_of_the_function() -> None:
    """Here with the toolset's name beside it, and elsewhere as the function's; the result is that of the same call."""
    prompt = parse(*ENTRIES, blocks=(RESULT,)).prompt
    call, result = history(prompt)
    assert (call.name, call.unread and call.unread.members) == ("wait", {"toolset_name": "computer"})
    assert result.unread is not None
    assert result.unread.members == {"toolset_name": "computer"}

    there, answered = history(understood(prompt, "gemini"))
    assert (there.name, there.input, there.instead) == ("computer_wait", {"duration": 1}, "")
    assert answered == result
    assert understood(prompt, "anthropic") == prompt


def own(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}}


def test_a_function_of_the_client_s_keeps_its_name() -> None:
    """The member that would have it has another one, in the history, too, and the client is told of the right one."""
    parsed = parse(own("computer_wait_"), ENTRIES[0], own("computer_wait"), own("wait"), blocks=(RESULT,))
    prompt = understood(parsed.prompt, "")
    found = [tool.name for tool in prompt.tools]

    assert found.count("computer_wait__") == 1
    assert sorted(name for name in found if "wait" in name) == [
        "computer_wait", "computer_wait_", "computer_wait__", "wait",
    ]  # fmt: skip
    assert history(prompt)[0].name == "computer_wait__"
    assert parsed.options.members["computer_wait__"] == Member("computer", "wait")
    assert not {"computer_wait", "wait", "computer_wait_"} & parsed.options.members.keys()


def test_names_apart_take_time_in_proportion() -> None:
    """However many functions have the names that members would have."""

    def make(count: int) -> Callable[[], object]:
        sent = body(*ENTRIES, *(own("computer_wait" + "_" * number) for number in range(count)))
        return lambda: AnthropicMessages().parse(sent)

    assert_linear(make, 50)


def notes(*tools: dict[str, Any], **fields: Any) -> dict[str, Note]:
    sent = body(*tools, **fields)
    return {note.rule: note for note in AnthropicMessages().notes(sent, AnthropicMessages().parse(sent))}


def test_what_is_said_of_members_and_not_read_is_named() -> None:
    """Unknown members, and how they are loaded; whether they are offered is read, and so is whose a call is."""
    configs = {"later": {"enabled": False}, "wait": {"enabled": False}}
    found = notes({**ENTRIES[0], "configs": configs}, blocks=(RESULT,))
    assert {rule: note.place for rule, note in found.items()} == {"fields.ignored": "tools[0].configs.later"}

    deferred = notes({**ENTRIES[0], "configs": {"wait": {"defer_loading": True}}})
    assert [*deferred] == ["fields.no_effect"]
    assert not notes(*ENTRIES, blocks=(RESULT,))

    served = {"type": "mcp_toolset", "mcp_server_name": "files", "configs": {"read": {"enabled": False}}}
    assert notes(served)["fields.ignored"].times == 2


STATE = {
    "type": "browser_state",
    "tabs": [{"tab_id": "9", "title": "Fjords", "url": "https://f.example", "active": True}],
    "state_changes": [{"type": "tab_opened", "tab_id": "9"}],
}


@pytest.mark.parametrize("before", [[], [{"type": "text", "text": "Opened."}]], ids=["alone", "behind-text"])
def test_the_state_of_a_browser_goes_whole_to_its_service_and_is_told_elsewhere(before: list[Any]) -> None:
    """A model that is not told of the tabs cannot name one."""
    given = {**RESULT, "content": [*before, STATE]}
    prompt = parse(*ENTRIES, blocks=(given,)).prompt
    (kept,) = (part for part in history(prompt)[1].parts if not isinstance(part, Text))
    told = history(understood(prompt, "gemini"))[1].parts[-1]

    assert getattr(kept, "value", None) == STATE
    assert isinstance(told, Text)
    assert json.loads(told.text) == {name: STATE[name] for name in ("tabs", "state_changes")}
    assert not notes(*ENTRIES, blocks=(given,))
