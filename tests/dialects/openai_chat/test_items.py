"""Bodies as Cursor sends them to Chat Completions: items, custom tools, images in the words of the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.errors import RequestError
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    MessageEnd,
    MessageStart,
    StopReason,
    ToolInputDelta,
    Usage,
)
from kiro_asgi.model.message import fold
from kiro_asgi.model.prompt import Image, Prompt, Text, ThinkingPart, ToolCallPart, ToolResult
from tests.helpers import run

PNG = "data:image/png;base64,AA=="
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
FLAT = {"type": "custom", "name": "ApplyPatch", "description": "Edits.", "format": GRAMMAR}
NESTED = {
    "type": "custom",
    "custom": {"name": "ApplyPatch", "description": "Edits.", "format": {"type": "grammar", "grammar": GRAMMAR}},
}
PATCH = '*** Begin Patch\n+"x"\n*** End Patch'


def parsed(**body: Any) -> Any:
    return OpenAIChat().parse(json.dumps({"model": "m", **body}).encode())


def asked(**body: Any) -> Prompt:
    prompt: Prompt = parsed(**body).prompt
    return prompt


def test_a_body_of_the_responses_api_is_read_as_what_it_is() -> None:
    """Item by item, and each field by the name that it has there."""
    prompt = asked(
        input=[
            {"role": "system", "content": "Be terse."},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": PNG}],
            },
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
            {"type": "custom_tool_call", "call_id": "c2", "name": "ApplyPatch", "input": PATCH},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
        ],
        instructions="Be kind.",
        max_output_tokens=77,
        reasoning={"effort": "high", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}, FLAT],
        tool_choice={"type": "function", "name": "f"},
        include=["reasoning.encrypted_content"],
        store=False,
    )

    assert prompt.system == ("Be kind.", "Be terse.")
    assert prompt.turns[0].parts == (Text("hi"), Image("image/png", "AA=="))
    spoken = [part for turn in prompt.turns[1:] for part in turn.parts]
    assert [type(part) for part in spoken] == [ThinkingPart, Text, ToolCallPart, ToolCallPart, ToolResult, ToolResult]
    assert spoken[2] == ToolCallPart("c1", "f", {"a": 1}) and spoken[3] == ToolCallPart(
        "c2", "ApplyPatch", {"input": PATCH}
    )
    assert (prompt.sampling.max_tokens, prompt.thinking.effort, prompt.schema) == (77, "high", {"type": "object"})
    assert [tool.name for tool in prompt.tools] == ["f", "ApplyPatch"] and prompt.tool_choice.name == "f"


def test_one_text_is_a_message_of_the_user_s() -> None:
    assert [turn.parts for turn in asked(input="hi").turns] == [(Text("hi"),)]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (5, "input"),
        ([5], "messages[0].role"),
        ([{"type": "item_reference", "id": "x"}], "input[0].type"),
        ([{"type": "message", "role": "user", "content": [{"type": "x"}]}], ""),
        ([], "messages"),
    ],
)
def test_what_cannot_be_read_is_named(given: Any, place: str) -> None:
    """Or is left to a service of the API, as in any message."""
    if not place:
        assert asked(input=given).turns
        return
    with pytest.raises(RequestError) as caught:
        parsed(input=given)
    assert caught.value.param == place


@pytest.mark.parametrize("tool", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_custom_tool_is_a_function_with_one_text(tool: Any) -> None:
    """With its grammar in words, and in its own form for a service that has such tools."""
    [found] = asked(messages=[{"role": "user", "content": "hi"}], tools=[tool]).tools

    assert found.name == "ApplyPatch" and "Edits." in found.description and 'start: "x"' in found.description
    assert [*found.schema["properties"]] == ["input"] and found.text_form is not None
    assert found.text_form.format == GRAMMAR


def told(tool: Any, given: str, *, stream: bool) -> list[dict[str, Any]]:
    """The calls of an answer that calls *tool*, as an official client puts them together."""
    dialect = OpenAIChat()
    read = parsed(messages=[{"role": "user", "content": "hi"}], tools=[tool], stream=stream)
    meta = dialect.meta(read, lambda: "x" * 24, 12)
    pieces = [given[at : at + 5] for at in range(0, len(given), 5)]
    events = [
        MessageStart(Usage()),
        BlockStart(0, BlockKind.TOOL_CALL, call_id="c1", name="ApplyPatch"),
        *map(ToolInputDelta, pieces),
        BlockEnd(0),
        MessageEnd(StopReason.TOOL_CALL, Usage()),
    ]
    if not stream:
        body = json.loads(b"".join(dialect.render(fold(events), meta)))
        assert body["choices"][0]["finish_reason"] == "tool_calls"
        calls: list[dict[str, Any]] = body["choices"][0]["message"]["tool_calls"]
        return calls
    lines = b"".join(run(dialect.encoder(meta), events)).split(b"\n\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    deltas = [call for chunk in chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", ())]
    first = deltas[0]
    for later in deltas[1:]:
        for name, value in later[first["type"]].items():
            first[first["type"]][name] += value
    return [{name: value for name, value in first.items() if name != "index"}]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
@pytest.mark.parametrize("given", [json.dumps({"input": PATCH}), PATCH], ids=["object", "bare"])
def test_a_call_has_the_text_where_the_client_looks_for_it(given: str, stream: bool) -> None:
    """Cursor knows functions only, and takes their arguments for the text; the API itself has calls of their own."""
    assert told(FLAT, given, stream=stream) == [
        {"id": "c1", "type": "function", "function": {"name": "ApplyPatch", "arguments": PATCH}}
    ]
    assert told(NESTED, given, stream=stream) == [
        {"id": "c1", "type": "custom", "custom": {"name": "ApplyPatch", "input": PATCH}}
    ]


def test_a_call_comes_back_as_it_was_told() -> None:
    """The text of a function's arguments is the tool's input again."""
    calls = told(FLAT, json.dumps({"input": PATCH}), stream=False)
    prompt = asked(
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        tools=[FLAT],
    )

    assert prompt.turns[1].parts == (ToolCallPart("c1", "ApplyPatch", {"input": PATCH}),)
