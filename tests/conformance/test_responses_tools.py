"""Tools in the Responses API through the official Python client.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.conformance.asking import MODEL, NATIVE, RESPONSES_TOOLS, user

Params = dict[str, Any]

PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Apply a patch.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}


def whole(client: openai.OpenAI, content: Any, **params: Any) -> Response:
    return client.responses.create(**{"model": MODEL, "input": content, "store": False, **params})


def folded(client: openai.OpenAI, content: Any, **params: Any) -> Response:
    with client.responses.stream(**{"model": MODEL, "input": content, "store": False, **params}) as stream:
        return stream.get_final_response()


def calls(answer: Response) -> list[tuple[str, Any]]:
    """Names and arguments of the calls of functions."""
    found = [item for item in answer.output if item.type == "function_call"]
    return [(call.name, json.loads(call.arguments)) for call in found]


BOTH = pytest.mark.parametrize("ask", [whole, folded], ids=["whole", "helper"])


def test_32_function(chat: openai.OpenAI) -> None:
    """F311: the pieces join to the arguments that are told as done, and to those of the item."""
    with chat.responses.create(model=MODEL, input="sim:tool=get_weather", tools=RESPONSES_TOOLS, stream=True) as stream:
        received = list(stream)
    pieces = "".join(event.delta for event in received if event.type == "response.function_call_arguments.delta")
    (done,) = [event for event in received if event.type == "response.function_call_arguments.done"]
    *_, item = [event.item for event in received if event.type == "response.output_item.done"]

    assert item.type == "function_call"
    assert pieces == done.arguments == item.arguments
    assert (item.name, json.loads(item.arguments), item.status) == ("get_weather", {"city": "Oslo"}, "completed")
    assert done.to_dict()["name"] == "get_weather", "older clients require it"


@BOTH
@pytest.mark.parametrize("content", ["sim:parallel", "sim:interleaved", "sim:parallel=3", "sim:parallel sim:bytes"])
def test_33_parallel(chat: openai.OpenAI, content: str, ask: Any) -> None:
    """R31: several calls keep apart, in the order in which they became complete, whatever the service mixes."""
    answer = ask(chat, content, tools=RESPONSES_TOOLS)
    names = ["get_weather", "now", "get_weather"][: 3 if "=3" in content else 2]
    items = [item for item in answer.output if item.type == "function_call"]

    assert [name for name, _ in calls(answer)] == (names[::-1] if "interleaved" in content else names)
    assert next(arguments for name, arguments in calls(answer) if name == "now") == {}
    assert len({item.id for item in items}) == len({item.call_id for item in items}) == len(names)
    assert answer.status == "completed"


@BOTH
def test_34_custom(chat: openai.OpenAI, ask: Any) -> None:
    """A freeform tool is called with its bare text, not as a function."""
    answer = ask(chat, "sim:tool=apply_patch", tools=[PATCH])
    (call,) = [item for item in answer.output if item.type == "custom_tool_call"]

    assert call.name == "apply_patch"
    assert call.input
    assert not call.input.startswith("{")
    assert calls(answer) == []


def test_34_custom_events(chat: openai.OpenAI) -> None:
    """Its input has events of its own."""
    with chat.responses.create(model=MODEL, input="sim:tool=apply_patch", tools=[PATCH], stream=True) as stream:
        received = list(stream)
    pieces = "".join(event.delta for event in received if event.type == "response.custom_tool_call_input.delta")
    (done,) = [event for event in received if event.type == "response.custom_tool_call_input.done"]

    assert pieces == done.input != ""


@pytest.mark.parametrize("result", ["sunny", [{"type": "input_text", "text": "sunny"}]], ids=["text", "parts"])
@BOTH
def test_35_round_trip(chat: openai.OpenAI, ask: Any, result: Any) -> None:
    """The output comes back as it is, with the results, and a normal answer follows."""
    asked = ask(chat, "sim:parallel", tools=RESPONSES_TOOLS)
    history: list[Any] = [*user("sim:parallel"), *asked.output]
    for item in asked.output:
        if item.type == "function_call":
            output = result if item.name == "get_weather" else "noon"
            history.append({"type": "function_call_output", "call_id": item.call_id, "output": output})

    assert ask(chat, history, tools=RESPONSES_TOOLS).output_text == "The tool says: sunny; noon"


@BOTH
def test_35_round_trip_with_thinking(chat: openai.OpenAI, ask: Any) -> None:
    """Thinking goes back with the call that it led to."""
    tools = [*RESPONSES_TOOLS, PATCH]
    asked: Params = {
        "model": NATIVE,
        "tools": tools,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }
    answer = ask(chat, "sim:tool=apply_patch", **asked)
    (call,) = [item for item in answer.output if item.type == "custom_tool_call"]
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done!"}
    history = [*user("sim:tool=apply_patch"), *answer.output, result]

    assert ask(chat, history, **asked).output_text == "The tool says: Done!"


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ({"type": "local_shell"}, "local_shell_call"),
        ({"type": "shell", "environment": {"type": "local"}}, "shell_call"),
        ({"type": "apply_patch"}, "apply_patch_call"),
    ],
)
@BOTH
def test_34_tools_of_the_api(chat: openai.OpenAI, ask: Any, tool: Any, kind: str) -> None:
    """Tools that the API defines and the client runs are called as items of their own kinds."""
    answer = ask(chat, f"sim:tool={tool['type']}", tools=[tool])

    assert [item.type for item in answer.output if item.type != "message"] == [kind]


@BOTH
def test_44_namespace(chat: openai.OpenAI, ask: Any) -> None:
    """A call names the namespace and the tool in it."""
    space = {"type": "namespace", "name": "home", "description": "At home.", "tools": RESPONSES_TOOLS}
    answer = ask(chat, "Hello", tools=[space], tool_choice="required")
    (call,) = [item for item in answer.output if item.type == "function_call"]

    assert (call.namespace, call.name) == ("home", "get_weather")


@BOTH
@pytest.mark.parametrize(
    ("choice", "called"),
    [
        pytest.param("none", [], id="none"),
        pytest.param("auto", [], id="auto"),
        pytest.param("required", ["get_weather"], id="required"),
        pytest.param({"type": "function", "name": "now"}, ["now"], id="named"),
    ],
)
def test_tool_choice(chat: openai.OpenAI, choice: Any, called: list[str], ask: Any) -> None:
    """Every kind of choice reaches the model."""
    answer = ask(chat, "How do you do?", tools=RESPONSES_TOOLS, tool_choice=choice)

    assert [name for name, _ in calls(answer)] == called


def test_a_cut_call_is_no_call(chat: openai.OpenAI) -> None:
    """A call that never came to its end is neither guessed at nor sent as one without arguments."""
    answer = whole(chat, "sim:cut-tool", tools=RESPONSES_TOOLS)

    assert (calls(answer), answer.status) == ([], "incomplete")
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


@BOTH
def test_web_search(chat: openai.OpenAI, ask: Any) -> None:
    """A search is an item, and the text that tells what was found cites it."""
    answer = ask(chat, "sim:tool=web_search", tools=[{"type": "web_search"}])
    searches = [item for item in answer.output if item.type == "web_search_call"]
    cited = [
        annotation.url
        for item in answer.output
        if item.type == "message"
        for part in item.content
        if part.type == "output_text"
        for annotation in part.annotations
        if annotation.type == "url_citation"
    ]

    assert [search.status for search in searches] == ["completed"]
    assert cited
