"""Tools in Chat Completions through the official Python client.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ParsedChatCompletion

from tests.conformance.asking import CHAT_TOOLS, MODEL, user

Params = dict[str, Any]

CALL_ID = re.compile(r"[A-Za-z0-9_-]{5,64}")
"""The service's own ids are kept, so that they mean the same in every log."""


def whole(client: openai.OpenAI, content: str, **params: Any) -> ChatCompletion:
    return client.chat.completions.create(model=MODEL, messages=user(content), **{"tools": CHAT_TOOLS, **params})


def folded(client: openai.OpenAI, content: str, **params: Any) -> ParsedChatCompletion[None]:
    asked: Params = {"model": MODEL, "messages": user(content), "tools": CHAT_TOOLS, **params}
    with client.chat.completions.stream(**asked) as stream:
        return stream.get_final_completion()


def calls(answer: ChatCompletion) -> list[tuple[str, Any]]:
    """Names and arguments of the calls of functions."""
    found = answer.choices[0].message.tool_calls or []
    assert all(call.type == "function" for call in found)
    return [(call.function.name, json.loads(call.function.arguments)) for call in found]  # type: ignore[union-attr]


def ids(answer: ChatCompletion) -> list[str]:
    return [call.id for call in answer.choices[0].message.tool_calls or []]


BOTH = pytest.mark.parametrize("ask", [whole, folded], ids=["whole", "helper"])


@BOTH
def test_10_single(chat: openai.OpenAI, ask: Any) -> None:
    """One call: valid arguments, its own finish reason, an id that is not doubled, and no content beside it."""
    answer = ask(chat, "sim:interleaved=1")
    (choice,) = answer.choices

    assert calls(answer) == [("get_weather", {"city": "Oslo"})]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert all(CALL_ID.fullmatch(each) for each in ids(answer))
    assert ids(answer) == ids(whole(chat, "sim:interleaved=1"))


@BOTH
@pytest.mark.parametrize("content", ["sim:parallel", "sim:interleaved", "sim:parallel=3", "sim:parallel sim:bytes"])
def test_11_parallel(chat: openai.OpenAI, content: str, ask: Any) -> None:
    """Several calls keep apart, in the order in which they became complete, whatever the service mixes."""
    answer = ask(chat, content)
    names = ["get_weather", "now", "get_weather"][: 3 if "=3" in content else 2]

    assert [name for name, _ in calls(answer)] == (names[::-1] if "interleaved" in content else names)
    assert next(arguments for name, arguments in calls(answer) if name != "now") == {"city": "Oslo"}
    assert len(set(ids(answer))) == len(names)
    assert all(CALL_ID.fullmatch(each) for each in ids(answer))
    assert answer.choices[0].finish_reason == "tool_calls"


def test_11_chunks(chat: openai.OpenAI) -> None:
    """Indexes count from 0; id, type and name come with the first chunk of a call and never again."""
    with chat.chat.completions.create(
        model=MODEL, messages=user("sim:parallel=3"), tools=CHAT_TOOLS, stream=True
    ) as stream:
        deltas = [call for chunk in stream for choice in chunk.choices for call in choice.delta.tool_calls or []]
    heads = [delta for delta in deltas if delta.id is not None]
    rest = [delta for delta in deltas if delta.id is None]

    assert [delta.index for delta in heads] == [0, 1, 2]
    assert all(delta.type == "function" and delta.function and delta.function.name for delta in heads)
    assert all(delta.function and delta.function.name is None for delta in rest)
    assert [delta.index for delta in deltas] == sorted(delta.index for delta in deltas)


@BOTH
def test_12_no_arguments(chat: openai.OpenAI, ask: Any) -> None:
    """Arguments of a tool without any are an empty object, never an empty text."""
    assert calls(ask(chat, "sim:tool=now")) == [("now", {})]


@pytest.mark.parametrize("content", [None, "", "Let me see."], ids=["null", "empty", "text"])
def test_13_round_trip(chat: openai.OpenAI, content: str | None) -> None:
    """The calls and their results come back, and a normal answer follows."""
    asked = whole(chat, "sim:parallel")
    results = [
        {"role": "tool", "tool_call_id": each, "content": result}
        for each, result in zip(ids(asked), ("sunny", [{"type": "text", "text": "noon"}]), strict=True)
    ]
    said = {**asked.choices[0].message.model_dump(exclude_unset=True), "content": content}
    history: list[Any] = [*user("sim:parallel"), said, *results]
    answer = chat.chat.completions.create(model=MODEL, messages=history, tools=CHAT_TOOLS)

    assert answer.choices[0].message.content == "The tool says: sunny; noon"
    assert answer.choices[0].finish_reason == "stop"


def _named(name: str) -> Params:
    return {"type": "function", "function": {"name": name}}


@BOTH
@pytest.mark.parametrize(
    ("choice", "called"),
    [
        pytest.param("none", [], id="none"),
        pytest.param("auto", [], id="auto"),
        pytest.param("required", ["get_weather"], id="required"),
        pytest.param(_named("now"), ["now"], id="named"),
        pytest.param(
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [_named("now")]}},
            ["now"],
            id="allowed-tools",
        ),
    ],
)
def test_14_tool_choice(chat: openai.OpenAI, choice: Any, called: list[str], ask: Any) -> None:
    """Every kind of choice reaches the model."""
    answer = ask(chat, "How do you do?", tool_choice=choice)

    assert [name for name, _ in calls(answer)] == called
    assert answer.choices[0].finish_reason == ("tool_calls" if called else "stop")


@pytest.mark.parametrize(
    ("choice", "tools"),
    [
        pytest.param(_named("unknown"), CHAT_TOOLS, id="unknown"),
        pytest.param("sometimes", CHAT_TOOLS, id="no-such-mode"),
        pytest.param("required", [], id="required-without-tools"),
        pytest.param(
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_named("unknown")]}},
            CHAT_TOOLS,
            id="unknown-allowed",
        ),
    ],
)
def test_14_impossible_choice(chat: openai.OpenAI, choice: Any, tools: list[Any]) -> None:
    """A choice that names nothing on offer is refused."""
    with pytest.raises(openai.BadRequestError) as refused:
        whole(chat, "Hello", tool_choice=choice, tools=tools)

    assert refused.value.param == "tool_choice"


@BOTH
def test_11_no_parallel_calls(chat: openai.OpenAI, ask: Any) -> None:
    """`parallel_tool_calls: false` gets one call of an answer that had two."""
    answer = ask(chat, "sim:parallel", parallel_tool_calls=False)

    assert calls(answer) == [("get_weather", {"city": "Oslo"})]
    assert answer.choices[0].finish_reason == "tool_calls"


@BOTH
def test_17_a_cut_call_is_no_call(chat: openai.OpenAI, ask: Any) -> None:
    """A call that never came to its end is neither guessed at nor sent as one without arguments."""
    if ask is folded:
        with pytest.raises(openai.LengthFinishReasonError):
            ask(chat, "sim:cut-tool")
        return
    answer = ask(chat, "sim:cut-tool")

    assert (calls(answer), answer.choices[0].finish_reason) == ([], "length")


def test_10_deprecated_functions(chat: openai.OpenAI) -> None:
    """Who asks with `functions` is answered with `function_call`."""
    functions = [tool["function"] for tool in CHAT_TOOLS]
    answer = chat.chat.completions.create(
        model=MODEL, messages=user("sim:tool=get_weather"), functions=functions, function_call="auto"
    )
    (choice,) = answer.choices

    assert (choice.finish_reason, choice.message.tool_calls) == ("function_call", None)
    assert choice.message.function_call is not None
    assert choice.message.function_call.name == "get_weather"
    assert json.loads(choice.message.function_call.arguments) == {"city": "Oslo"}
