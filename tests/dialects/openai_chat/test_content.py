"""The conversation: every role and every part."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
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

PNG = base64.b64encode(b"\x89PNG").decode()
USER = {"role": "user", "content": "hi"}


def parse(*messages: Any) -> Prompt:
    """The request as a service of another API understands it."""
    return understood(OpenAIChat().parse(json.dumps({"model": "m", "messages": messages}).encode()).prompt, "")


def refused(*messages: Any) -> str:
    with pytest.raises(RequestError) as caught:
        parse(*messages)
    assert caught.value.status == 400
    return caught.value.param


def call(arguments: Any = "{}", call_id: str = "c1") -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}],
    }


USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def used(*content: Any) -> list[Any]:
    """A conversation in blocks of the Messages API, whose last turn has this *content*."""
    return [
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, USE]},
        {"role": "user", "content": [*content]},
    ]


def test_calls_and_results_in_blocks_of_the_messages_api() -> None:
    """Cursor's agent mode sends them here; they are calls, results, images and documents."""
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "r"}, PICTURE],
        "is_error": True,
    }
    paper = {"type": "document", "source": {"type": "text", "data": "words"}, "title": "w"}
    _, assistant, user = parse(*used(result, PICTURE, paper, {"type": "text", "text": "go"})).turns

    assert assistant.parts == (Text("x"), ToolCallPart("t1", "f", {"a": 1}))
    image = Image("image/png", PNG)
    assert user.parts == (
        ToolResult("t1", (Text("r"), image), is_error=True),
        image,
        Document("text/plain", text="words", title="w"),
        Text("go"),
    )
    assert [part.place for part in user.parts if isinstance(part, Image | Document)] == [
        "messages[2].content[1]",
        "messages[2].content[2]",
    ]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("r", (Text("r"),), id="text"),
        pytest.param(None, (), id="nothing"),
        pytest.param({"a": 1}, (Text('{"a":1}'),), id="object"),
        pytest.param([1, {"a": 2}], (Text('[1,{"a":2}]'),), id="array"),
        pytest.param(
            [{"type": "image", "source": {"type": "url", "url": "https://h/x.png"}}],
            (Image(url="https://h/x.png"),),
            id="address",
        ),
    ],
)
def test_what_a_result_block_holds(content: Any, parts: Any) -> None:
    """Text, parts of either API, or any JSON, which is its own text."""
    turns = parse(*used({"type": "tool_result", "tool_use_id": "t1", "content": content})).turns

    assert turns[2].parts == (ToolResult("t1", parts),)


def test_a_call_of_either_form_is_answered_in_either() -> None:
    """A client may mix the two."""
    answered = {"role": "tool", "tool_call_id": "t1", "content": "r"}
    asked = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]}

    assert parse(*used()[:2], answered).turns[2].parts == (ToolResult("t1", (Text("r"),)),)
    assert parse(USER, call(), asked).turns[2].parts == (ToolResult("c1", (Text("r"),)),)


@pytest.mark.parametrize(
    ("block", "param"),
    [
        ({"type": "tool_result", "tool_use_id": "t2"}, "[0].tool_use_id"),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "[0].source.type"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}, "[0].source.data"),
        ({"type": "image", "source": {"type": "base64"}}, "[0].source.data"),
        ({"type": "document", "source": {"type": ["url"]}}, "[0].source.type"),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": 1}]}, "[0].content[0].text"),
        (USE, "[0].type"),
        ({"type": "thinking_of", "x": 1}, "[0].type"),
    ],
)
def test_what_such_a_block_cannot_be(block: dict[str, Any], param: str) -> None:
    """An error names the place."""
    assert refused(*used(block)) == f"messages[2].content{param}"


def test_system_texts() -> None:
    """System and developer messages before the conversation, in order, and where the first of them stands."""
    prompt = parse(
        {"role": "system", "content": "a", "name": "n"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "system", "content": ""},
        USER,
    )
    assert (prompt.system, prompt.system_place) == (("a", "b", "c"), "messages[0]")
    assert prompt.turns == (Turn(Role.USER, (Text("hi"),)),)


def test_system_text_in_mid_conversation() -> None:
    """It stays where it stands, as the user's; the beginning of the conversation is the same without it."""
    later = {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}
    prompt = parse({"role": "system", "content": "a"}, USER, later, {"role": "system", "content": ""}, call())

    assert prompt.system == ("a",)
    assert prompt.turns[:2] == (Turn(Role.USER, (Text("hi"),)), Turn(Role.USER, (Text("b"), Text("c"))))
    assert [turn.place for turn in prompt.turns] == ["messages[1]", "messages[2]", "messages[4]"]


def test_system_text_alone() -> None:
    """Where nobody else speaks, it is what the user asks."""
    prompt = parse({"role": "system", "content": "Name three primes."})

    assert (prompt.system, prompt.turns) == ((), (Turn(Role.USER, (Text("Name three primes."),)),))


PARTS = [
    pytest.param({"type": "text", "text": "x", "prompt_cache_breakpoint": {}}, Text("x"), id="text"),
    pytest.param({"type": "input_text", "text": "x"}, Text("x"), id="text of the other API"),
    pytest.param(
        {"type": "image_url", "image_url": {"url": "https://h/i.png", "detail": "low"}},
        Image(url="https://h/i.png"),
        id="image by address",
    ),
    pytest.param(
        {"type": "image_url", "image_url": "https://h/i.png"}, Image(url="https://h/i.png"), id="bare address"
    ),
    pytest.param(
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        Image("image/png", PNG),
        id="image by value",
    ),
    pytest.param(
        {"type": "image_url", "image_url": {"url": f"DATA:image/JPG;x=y;BASE64,{PNG.replace('=', '%3D')}"}},
        Image("image/jpeg", PNG),
        id="odd but legal data URL",
    ),
    pytest.param(
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
        Document("application/pdf", PNG, title="a.pdf"),
        id="document",
    ),
    pytest.param(
        {"type": "file", "file": {"file_data": "data:text/plain;base64," + base64.b64encode("é".encode()).decode()}},
        Document("text/plain", text="é"),
        id="text document",
    ),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_user_parts(part: Any, expected: Part) -> None:
    """What a user may say, and a tool as well."""
    assert parse({"role": "user", "content": [part]}).turns == (Turn(Role.USER, (expected,)),)
    result = parse(call(), {"role": "tool", "tool_call_id": "c1", "content": [part]}).turns[1]
    assert result == Turn(Role.USER, (ToolResult("c1", (expected,)),))


AT = "messages[1].content[0]"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, AT),
        ({"type": "video_url", "video_url": {}}, f"{AT}.type"),
        ({"type": "refusal", "refusal": "no"}, f"{AT}.type"),
        ({"text": "no type"}, f"{AT}.type"),
        ({"type": "text"}, f"{AT}.text"),
        ({"type": "text", "text": None}, f"{AT}.text"),
        ("text", AT),
        ({"type": "image_url", "image_url": {"url": "ftp://x"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,é==="}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGV*sbG8="}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:text/html;base64,PHA+"}}, f"{AT}.image_url.url"),
        ({"type": "image_url", "image_url": "x"}, f"{AT}.image_url"),
        ({"type": "file", "file": {"file_id": "f"}}, f"{AT}.file"),
        ({"type": "file", "file": {"file_data": PNG}}, f"{AT}.file.file_data"),
    ],
)
def test_bad_user_parts(part: Any, param: str) -> None:
    """F033: an unsupported or malformed part is named by its path."""
    assert refused(USER, {"role": "user", "content": [part]}) == param


ASSISTANT = [
    pytest.param({"content": "x"}, (Text("x"),), id="text"),
    pytest.param({"content": None}, (), id="null"),
    pytest.param({"content": ""}, (), id="empty"),
    pytest.param({}, (), id="absent"),
    pytest.param(
        {"content": [{"type": "text", "text": "x"}, {"type": "refusal", "refusal": "no"}]},
        (Text("x"), Text("no", is_refusal=True)),
        id="parts",
    ),
    pytest.param({"content": None, "refusal": "no"}, (Text("no", is_refusal=True),), id="refusal"),
    pytest.param({"content": "x", "reasoning_content": "t"}, (ThinkingPart("t"), Text("x")), id="reasoning_content"),
    pytest.param({"content": "x", "reasoning": "t"}, (ThinkingPart("t"), Text("x")), id="reasoning"),
    pytest.param({"content": "x", "reasoning": {"odd": 1}}, (Text("x"),), id="reasoning of an unknown form"),
    pytest.param(
        {"content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
        (ThinkingPart("t", "s"),),
        id="thinking with its seal",
    ),
    pytest.param(
        {
            "content": "x",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "custom", "custom": {"name": "g", "input": "raw"}},
            ],
        },
        (Text("x"), ToolCallPart("a", "f", {"x": 1}), ToolCallPart("b", "g", {"input": "raw"})),
        id="calls",
    ),
    pytest.param(
        {"function_call": {"name": "f", "arguments": '{"x":1}'}},
        (ToolCallPart("call_0", "f", {"x": 1}),),
        id="deprecated call",
    ),
]


@pytest.mark.parametrize(("fields", "parts"), ASSISTANT)
def test_assistant(fields: dict[str, Any], parts: tuple[Part, ...]) -> None:
    """Thinking first, then what was said, then the calls."""
    assert parse({"role": "assistant", **fields}).turns == (Turn(Role.ASSISTANT, parts),)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"x": 1}', {"x": 1}),
        ({"x": 1}, {"x": 1}),
        ("", {}),
        (" ", {}),
        (None, {}),
        ("[1]", {"input": [1]}),
        ('"s"', {"input": "s"}),
        ('{"x": ', {"input": '{"x": '}),
        pytest.param("[" * 100, {"input": "[" * 100}, id="R19 cut"),
    ],
)
def test_arguments(arguments: Any, expected: dict[str, Any]) -> None:
    """Arguments of old calls are no reason to refuse a conversation, whatever they are; but see their depth."""
    assert parse(call(arguments)).turns[0].parts == (ToolCallPart("c1", "f", expected),)


@pytest.mark.parametrize(
    ("content", "parts"), [("out", (Text("out"),)), (None, ()), ([{"type": "text", "text": "a"}], (Text("a"),))]
)
def test_tool_results(content: Any, parts: tuple[Text, ...]) -> None:
    """A result answers an earlier call, not only one of the turn before."""
    turns = parse(call(), USER, {"role": "tool", "tool_call_id": "c1", "content": content}).turns
    assert turns[-1] == Turn(Role.USER, (ToolResult("c1", parts),))


def test_function_results() -> None:
    """The deprecated form has no ids: a result belongs to the last call of that name."""
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    turns = parse(USER, old, {"role": "function", "name": "f", "content": "1"}, old).turns
    first, second = turns[1].parts[0], turns[3].parts[0]
    assert isinstance(first, ToolCallPart) and isinstance(second, ToolCallPart)
    assert turns[2] == Turn(Role.USER, (ToolResult(first.call_id, (Text("1"),)),))
    assert first.call_id != second.call_id


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        pytest.param([{"role": "tool", "tool_call_id": "x", "content": ""}], "messages[0].tool_call_id", id="orphan"),
        pytest.param(
            [{"role": "tool", "tool_call_id": "c1", "content": ""}, call()], "messages[0].tool_call_id", id="too early"
        ),
        pytest.param([call(), {"role": "tool", "content": ""}], "messages[1].tool_call_id", id="without an id"),
        pytest.param([{"role": "function", "name": "f", "content": ""}], "messages[0].name", id="orphan function"),
        pytest.param([{"role": "critic", "content": ""}], "messages[0].role", id="unknown role"),
        pytest.param([{"content": ""}], "messages[0].role", id="no role"),
        pytest.param([USER, 5], "messages[1]", id="no object"),
        pytest.param([{"role": "user"}], "messages[0].content", id="user without content"),
        pytest.param([{"role": "user", "content": None}], "messages[0].content", id="user with null"),
        pytest.param(
            [{"role": "system", "content": [{"type": "image_url", "image_url": "https://x"}]}],
            "messages[0].content[0].type",
            id="image in a system message",
        ),
        pytest.param(
            [{"role": "assistant", "tool_calls": [{"id": "c"}]}], "messages[0].tool_calls[0]", id="call of nothing"
        ),
        pytest.param(
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}],
            "messages[0].tool_calls[0].id",
            id="call without an id",
        ),
    ],
)
def test_bad_messages(messages: list[Any], param: str) -> None:
    """F033: a message that has no place where it stands is named by its path."""
    assert refused(*messages) == param
