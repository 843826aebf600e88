"""The conversation: every kind of item and every kind of content."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.dialects.openai_responses.parsing import parse_value
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Part,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    Turn,
)
from kiro_asgi.model.understood import understood

HI = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def parse(*items: Any, **fields: Any) -> Prompt:
    """The request as a service of another API understands it."""
    return understood(parse_value({"model": "m", "input": list(items), **fields}).prompt, "")


def parts(*items: Any) -> list[Part]:
    """What the items behind a question become."""
    return [part for turn in parse(HI, *items).turns[1:] for part in turn.parts]


def refused(*items: Any) -> str:
    with pytest.raises(RequestError) as caught:
        parse(HI, *items)
    assert caught.value.status == 400
    return caught.value.param


def user(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(content)}


def test_system_texts() -> None:
    """System and developer messages before the conversation follow the instructions; later ones stay in their place."""
    prompt = parse(
        {"role": "developer", "content": "b"},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "c"}]},
        HI,
        {"role": "developer", "content": [{"type": "input_text", "text": "d"}, {"type": "input_text", "text": ""}]},
        {"role": "system", "content": ""},
        instructions="a",
    )
    assert (prompt.system, prompt.system_place) == (("a", "b", "c"), "instructions")
    assert prompt.turns == (Turn(Role.USER, (Text("hi"),)), Turn(Role.USER, (Text("d"),)))


def test_system_texts_alone() -> None:
    """Without a conversation the developer's text is what the user asks; the instructions stay instructions."""
    prompt = parse({"role": "developer", "content": "b"}, instructions="a")
    assert (prompt.system, prompt.turns) == (("a",), (Turn(Role.USER, (Text("b"),)),))


def test_where_the_system_texts_stand() -> None:
    """Without instructions the first of the messages is their place."""
    prompt = parse({"role": "system", "content": "a"}, {"role": "system", "content": "b"}, HI)
    assert prompt.system_place == "input[0]"


PARTS = [
    pytest.param({"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}}, Text("x"), id="text"),
    pytest.param({"type": "text", "text": "x"}, Text("x"), id="text of the other API"),
    pytest.param(
        {"type": "input_image", "image_url": "https://h/i.png", "detail": "low"},
        Image(url="https://h/i.png"),
        id="image by address",
    ),
    pytest.param(
        {"type": "input_image", "image_url": "data:image/jpg;base64,iVA=", "file_id": None},
        Image("image/jpeg", "iVA="),
        id="image by value",
    ),
    pytest.param(
        {"type": "input_image", "image_url": {"url": "https://h/i.png"}},
        Image(url="https://h/i.png"),
        id="image as in the other API",
    ),
    pytest.param(
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"},
        Document("application/pdf", "JVBE", title="a.pdf"),
        id="file",
    ),
    pytest.param(
        {"type": "input_file", "file_data": "data:text/plain;base64,aGk="},
        Document("text/plain", text="hi"),
        id="text file",
    ),
    pytest.param(
        {"type": "input_file", "file_url": "https://h/a.pdf"},
        Document("application/pdf", url="https://h/a.pdf"),
        id="file by address",
    ),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_content(part: Any, expected: Text | Image | Document) -> None:
    """What a user says, and a tool's output says the same; media remember their place."""
    assert parts(user(part)) == [expected]
    assert parts(CALL, {"type": "function_call_output", "call_id": "c1", "output": [part]})[1:] == [
        ToolResult("c1", (expected,))
    ]
    (read,) = parts(user(part))
    assert getattr(read, "place", "input[1].content[0]").startswith("input[1].content[0]")


BAD_PARTS = [
    pytest.param({"type": "input_image", "file_id": "file_1"}, "file_id", id="upload"),
    pytest.param({"type": "input_image"}, "image_url", id="no image"),
    pytest.param({"type": "input_image", "image_url": "data:text/plain;base64,aGk="}, "image_url", id="not an image"),
    pytest.param({"type": "input_image", "image_url": {"url": "x"}}, "image_url.url", id="not an address"),
    pytest.param({"type": "input_file", "file_id": "file_1"}, "file_id", id="uploaded file"),
    pytest.param({"type": "input_file"}, "file_data", id="no file"),
    pytest.param({"type": "input_file", "file_data": "data:text/plain;base64,?"}, "file_data", id="not base64"),
    pytest.param({"type": "input_audio", "input_audio": {}}, "", id="audio"),
    pytest.param({"type": "input_video"}, "type", id="unknown"),
    pytest.param({"text": "x"}, "type", id="no type"),
    pytest.param({"type": "input_text"}, "text", id="no text"),
]


@pytest.mark.parametrize(("part", "member"), BAD_PARTS)
def test_content_that_is_refused(part: Any, member: str) -> None:
    """Content that would be lost is an error at its place."""
    assert refused(user(part)) == f"input[1].content[0].{member}".removesuffix(".")


def test_assistant_messages() -> None:
    """Text and refusals of earlier answers, without the empty ones; an easy message may be plain text."""
    content = [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "output_text", "text": ""},
        {"type": "refusal", "refusal": "no"},
    ]
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    assert parts(answer, {"role": "assistant", "content": "b"}) == [Text("a"), Text("no", is_refusal=True), Text("b")]
    assert parts({"role": "assistant", "content": ""}) == []


BAD_ITEMS = [
    pytest.param({"type": "message", "content": "x"}, "role", id="no role"),
    pytest.param({"role": "user"}, "content", id="no content"),
    pytest.param({"role": "tool", "content": "x"}, "role", id="unknown role"),
    pytest.param({"role": "user", "content": 1}, "content", id="content of another kind"),
    pytest.param({"type": "item_reference", "id": "msg_1"}, "id", id="reference"),
    pytest.param({"id": "msg_1"}, "id", id="reference without a type"),
    pytest.param({"type": "function_call", "call_id": "c", "arguments": "{}"}, "name", id="call without a name"),
    pytest.param({"type": "function_call_output", "call_id": "c9", "output": ""}, "call_id", id="output without call"),
    pytest.param({"type": "custom_tool_call_output", "call_id": "c9", "output": ""}, "call_id", id="custom output"),
    pytest.param({"type": "local_shell_call_output", "id": "c9", "output": ""}, "call_id", id="local shell output"),
    pytest.param({"type": "shell_call_output", "call_id": "c9", "output": []}, "call_id", id="shell output"),
    pytest.param(
        {"type": "apply_patch_call_output", "call_id": "c9", "status": "failed"}, "call_id", id="patch output"
    ),
    pytest.param(
        {"role": "system", "content": [{"type": "input_image", "image_url": "https://h/i.png"}]},
        "content[0].type",
        id="image of the system's",
    ),
    pytest.param({"type": 5}, "type", id="type of another kind"),
]


@pytest.mark.parametrize(("item", "member"), BAD_ITEMS)
def test_items_that_are_refused(item: Any, member: str) -> None:
    """An item that makes no sense where it stands is an error at its place."""
    assert refused(item) == f"input[1].{member}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("[1]", {"input": [1]}),
        ("{", {"input": "{"}),
    ],
)
def test_function_calls(arguments: Any, expected: Any) -> None:
    """Arguments become an object; what is none is kept."""
    call = {**CALL, "arguments": arguments}
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    assert parts(call, output) == [ToolCallPart("c1", "f", expected), ToolResult("c1", (Text("x"),))]


def test_calls_in_a_namespace() -> None:
    """The model knows the tool by both names."""
    calls = parts({**CALL, "namespace": "crm"}, {**CALL, "call_id": "c2", "namespace": None})
    assert [call.name for call in calls if isinstance(call, ToolCallPart)] == ["crm__f", "f"]


def test_custom_calls() -> None:
    """The text is the one string of a function's call."""
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": "{"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]}
    assert parts(call, output) == [ToolCallPart("c1", "p", {"input": "{"}), ToolResult("c1", (Text("x"),))]


def test_output_without_a_call() -> None:
    """What a tool says unasked is told by the user."""
    assert parts({"type": "function_call_output", "call_id": None, "name": "f", "output": "x"}) == [
        Text("f says:"),
        Text("x"),
    ]


CLIENT_CALLS = [
    pytest.param(
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None},
        },
        {"type": "local_shell_call_output", "id": "lsh_1", "output": "a"},
        ToolCallPart("c1", "local_shell", {"command": ["ls"], "env": {}}),
        ToolResult("c1", (Text("a"),)),
        id="local shell",
    ),
    pytest.param(
        {"type": "local_shell_call", "id": "lsh_1", "status": "completed", "action": {"command": ["ls"]}},
        {"type": "function_call_output", "call_id": "lsh_1", "output": "a"},
        ToolCallPart("lsh_1", "local_shell", {"command": ["ls"]}),
        ToolResult("lsh_1", (Text("a"),)),
        id="local shell of Codex",
    ),
    pytest.param(
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls", "x"], "timeout_ms": 5}},
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ],
        },
        ToolCallPart("c1", "shell", {"commands": ["ls", "x"], "timeout_ms": 5}),
        ToolResult("c1", (Text("a"), Text("b\nexit code 1"), Text("timed out"))),
        id="shell",
    ),
    pytest.param(
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "p"}},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no such file"},
        ToolCallPart("c1", "apply_patch", {"type": "delete_file", "path": "p"}),
        ToolResult("c1", (Text("no such file"),), True),
        id="apply patch",
    ),
    pytest.param(
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "p"}},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
        ToolCallPart("c1", "apply_patch", {"type": "delete_file", "path": "p"}),
        ToolResult("c1", (Text("completed"),)),
        id="apply patch without words",
    ),
    pytest.param(
        {"type": "tool_search_call", "call_id": "c1", "arguments": {"query": "q"}, "execution": "client"},
        {"type": "tool_search_output", "call_id": "c1", "tools": [{"type": "function", "name": "g"}]},
        ToolCallPart("c1", "tool_search", {"query": "q"}),
        ToolResult("c1", (Text("g"),)),
        id="tool search",
    ),
    pytest.param(
        {"type": "tool_search_call", "call_id": "c1", "arguments": "?"},
        {"type": "tool_search_output", "call_id": "c1", "tools": []},
        ToolCallPart("c1", "tool_search", {}),
        ToolResult("c1", (Text("No tool was found."),)),
        id="vain tool search",
    ),
]


@pytest.mark.parametrize(("call", "output", "called", "given"), CLIENT_CALLS)
def test_calls_of_client_tools(call: Any, output: Any, called: Part, given: Part) -> None:
    """Items of kinds of their own are calls of functions, and their outputs results."""
    assert parts(call, output) == [called, given]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_tools_among_the_items(kind: str) -> None:
    """Tools that come with the conversation can be called, those that were listed before keep their form."""
    item = {"type": kind, "role": "developer", "tools": [{"name": "f", "description": "late"}, {"name": "g"}]}
    prompt = parse(HI, item, tools=[{"type": "function", "name": "f"}])
    assert [(tool.name, tool.description, tool.place) for tool in prompt.tools] == [
        ("f", "", "tools[0]"),
        ("g", "", "input[1].tools[1]"),
    ]
    assert len(prompt.turns) == 1


def reasoning(**fields: Any) -> list[Part]:
    body = {"model": "m", "input": [HI, {"type": "reasoning", **fields}]}
    sealed = {"ours": ThinkingPart("t", "sig")}
    prompt = understood(parse_value(body, open_thinking=sealed.get).prompt, "")
    return [part for turn in prompt.turns[1:] for part in turn.parts]


def test_reasoning() -> None:
    """Our own seal is opened; of others' the text is kept, and a foreign blob alone says nothing."""
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    content = [{"type": "reasoning_text", "text": "c"}]
    assert reasoning(summary=summary, encrypted_content="ours") == [ThinkingPart("t", "sig")]
    assert reasoning(summary=summary, encrypted_content="theirs") == [ThinkingPart("a\n\nb")]
    assert reasoning(summary=summary, content=content) == [ThinkingPart("c")]
    assert reasoning(summary=[], content=None, encrypted_content="theirs") == []


HOSTED = [
    pytest.param(
        {
            "type": "web_search_call",
            "id": "w",
            "status": "completed",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://h/"}, 5]},
        },
        [ToolCallPart("w", "web_search", {"query": "q"}), ToolResult("w", (Text("https://h/"),))],
        id="web search",
    ),
    pytest.param(
        {"type": "web_search_call", "id": "w", "status": "failed"},
        [ToolCallPart("w", "web_search", {}), ToolResult("w", (Text("failed"),), True)],
        id="failed web search",
    ),
    pytest.param(
        {"type": "file_search_call", "id": "s", "queries": ["q"], "results": [{"filename": "a", "text": "b"}]},
        [ToolCallPart("s", "file_search", {"queries": ["q"]}), ToolResult("s", (Text("a\nb"),))],
        id="file search",
    ),
    pytest.param(
        {"type": "code_interpreter_call", "id": "i", "code": "1", "outputs": [{"type": "logs", "logs": "l"}]},
        [ToolCallPart("i", "code_interpreter", {"code": "1"}), ToolResult("i", (Text("l"),))],
        id="code interpreter",
    ),
    pytest.param(
        {"type": "image_generation_call", "id": "g", "status": "completed", "revised_prompt": "p", "result": "aGk="},
        [ToolCallPart("g", "image_generation", {"prompt": "p"}), ToolResult("g", (Text("completed"),))],
        id="image generation",
    ),
    pytest.param(
        {"type": "mcp_call", "id": "m", "name": "f", "arguments": '{"a": 1}', "output": "o"},
        [ToolCallPart("m", "f", {"a": 1}), ToolResult("m", (Text("o"),))],
        id="mcp",
    ),
    pytest.param(
        {"type": "program", "id": "p", "call_id": "c1", "code": "1"},
        [ToolCallPart("c1", "program", {"code": "1"})],
        id="program",
    ),
    pytest.param(
        {
            "type": "agent_message",
            "author": "/root",
            "recipient": "/root/worker",
            "content": [
                {"type": "input_text", "text": "TASK: rename a.txt"},
                {"type": "encrypted_content", "encrypted_content": "x"},
            ],
        },
        [Text("TASK: rename a.txt")],
        id="agent message",
    ),
    pytest.param(
        {"type": "multi_agent_call", "call_id": "c1", "action": "spawn_agent", "arguments": '{"name": "w"}'},
        [ToolCallPart("c1", "spawn_agent", {"name": "w"})],
        id="call of agents",
    ),
    pytest.param({"type": "program_output", "call_id": "c9", "result": "1"}, [], id="result without its call"),
    pytest.param({"type": "mcp_list_tools", "id": "m", "tools": []}, [], id="list of tools"),
    pytest.param({"type": "invented_tomorrow", "content": "x"}, [], id="unknown"),
]


@pytest.mark.parametrize(("item", "expected"), HOSTED)
def test_items_of_tools_that_are_not_run_here(item: Any, expected: list[Part]) -> None:
    """What other servers ran is told as a call with its result; what is not known is passed over."""
    assert parts(item) == expected


def test_what_one_agent_tells_another_is_a_users() -> None:
    """Codex sends it between agents; alone it is a question, and sealed alone it is refused by name (row 2.4)."""
    task = {"type": "input_text", "text": "Rename it."}
    sealed = {"type": "encrypted_content", "encrypted_content": "x"}

    assert parse({"type": "agent_message", "content": [task, sealed]}).turns == (
        Turn(Role.USER, (Text("Rename it."),)),
    )
    with pytest.raises(RequestError, match="this agent_message is the first of it") as caught:
        parse({"type": "agent_message", "content": [sealed]})
    assert caught.value.param == "input[0]"


def test_what_agents_did_is_a_call_and_its_result() -> None:
    """Texts of the output are the result's."""
    call = {"type": "multi_agent_call", "call_id": "c1", "action": "wait_agent", "arguments": "{}"}
    output = {"type": "multi_agent_call_output", "call_id": "c1", "output": [{"type": "output_text", "text": "done"}]}

    assert parts(call, output) == [ToolCallPart("c1", "wait_agent", {}), ToolResult("c1", (Text("done"),))]


def test_screenshots() -> None:
    """A screenshot answers its call; one that was uploaded is refused, and one that is no image."""
    call = {"type": "computer_call", "id": "x", "call_id": "c1", "action": {"type": "screenshot"}}
    output = {"type": "computer_call_output", "call_id": "c1", "output": {"image_url": "https://h/i.png"}}
    assert parts(call, output) == [
        ToolCallPart("c1", "computer", {"actions": [{"type": "screenshot"}]}),
        ToolResult("c1", (Image(url="https://h/i.png"),)),
    ]
    assert parts(call, {**output, "output": {}})[1:] == [ToolResult("c1", (Text("(a screenshot)"),))]
    assert refused(call, {**output, "output": {"file_id": "file_1"}}) == "input[2].output.file_id"
    assert refused(call, {**output, "output": {"image_url": "x"}}) == "input[2].output.image_url"
