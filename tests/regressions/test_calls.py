"""A tool is called with the arguments that the model gave it, or not at all."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.dialects.openai_responses.parsing import ResponsesOptions
from kiro_asgi.dialects.tools import read_arguments
from kiro_asgi.model.events import MessageEnd, ToolInputDelta
from kiro_asgi.stages.tool_calls import EMISSIONS
from kiro_asgi.wire.json import dumps
from tests.dialects.openai_responses import grammar as responses_grammar
from tests.regressions.crossing import (
    CHAT,
    PLAN,
    RESPONSES,
    Client,
    Heard,
    both_ways,
    each_client,
    each_service,
    events,
    heard,
)
from tests.regressions.speech import DONE, USAGE, written

each_emission = pytest.mark.parametrize("emission", EMISSIONS)


def _chunk(*calls: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    delta = {"tool_calls": [*calls]} if calls else {}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _answer(service: str, *pieces: Any) -> bytes:
    """A whole answer of these events, in the words of each service."""
    match service:
        case "openai":
            values = [*pieces, _chunk(finish="tool_calls"), {"choices": [], "usage": USAGE["openai"]}, DONE]
        case "responses":
            response = {"status": "completed", "output": [], "usage": {"input_tokens": 20, "output_tokens": 12}}
            values = [*pieces, {"type": "response.completed", "response": response}]
        case "anthropic":
            message = {"id": "m", "model": "m", "role": "assistant", "content": [], "usage": USAGE["anthropic"]}
            ends = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}
            values = [{"type": "message_start", "message": message}, *pieces, *ends]
        case "gemini":
            candidates = [{"content": {"role": "model", "parts": [*pieces]}, "finishReason": "STOP"}]
            values = [{"candidates": candidates, "usageMetadata": USAGE["gemini"]}]
        case "bedrock":
            usage = {"inputTokens": 12, "outputTokens": 12, "cacheReadInputTokens": 8}
            values = [*pieces, ("messageStop", {"stopReason": "tool_use"}), ("metadata", {"usage": usage})]
        case _:
            values = [*pieces, ("metadataEvent", {"tokenUsage": {"uncachedInputTokens": 12, "outputTokens": 12}})]
    return written(service, values)


def _called(service: str, arguments: str, number: int = 0) -> list[Any]:
    """The events of a call of ``f`` with this text as its arguments."""
    call_id = f"c{number}"
    match service:
        case "openai":
            return [_chunk({"index": number, "id": call_id, "function": {"name": "f", "arguments": arguments}})]
        case "responses":
            item = {"id": f"i{number}", "type": "function_call", "call_id": call_id, "name": "f"}
            return [
                {"type": "response.output_item.added", "output_index": number, "item": {**item, "arguments": ""}},
                {"type": "response.output_item.done", "output_index": number, "item": {**item, "arguments": arguments}},
            ]
        case "anthropic":
            block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": arguments}
            return [
                {"type": "content_block_start", "index": number, "content_block": block},
                {"type": "content_block_delta", "index": number, "delta": delta},
                {"type": "content_block_stop", "index": number},
            ]
        case "gemini":
            return [{"functionCall": {"id": call_id, "name": "f", "args": arguments}}]
        case "bedrock":
            index = {"contentBlockIndex": number}
            return [
                ("contentBlockStart", {**index, "start": {"toolUse": {"toolUseId": call_id, "name": "f"}}}),
                ("contentBlockDelta", {**index, "delta": {"toolUse": {"input": arguments}}}),
                ("contentBlockStop", index),
            ]
        case _:
            return [("toolUseEvent", {"toolUseId": call_id, "name": "f", "input": arguments, "stop": True})]


@both_ways
@each_client
@each_emission
@each_service
@pytest.mark.parametrize("text", ["null", " null ", "[]", "[ ]", '""', '"  "', "", "{}"])
def test_nothing_as_arguments_is_an_empty_object(
    service: str, emission: str, client: Client, streamed: bool, text: str
) -> None:
    """No member is invented for what holds nothing."""
    plan = evolve(PLAN, tool_emission=emission)
    found = heard(client, streamed, service, [_answer(service, *_called(service, text))], plan)

    assert (found.calls, found.end) == ([("f", {})], "call")


@pytest.mark.parametrize("text", ["null", "[]", '""', "", " ", None])
def test_nothing_in_a_history_is_an_empty_object(text: str | None) -> None:
    """The next request says what the answer said."""
    assert read_arguments(text, "messages[1]") == {}
    assert read_arguments("[1]", "messages[1]") == {"input": [1]}


ARGUMENTS = '{"a": [1, "é"]}'
SPELLINGS = ('{"a":[1,"é"]}', '{ "a" : [ 1, "\\u00e9" ] }', '{"a": [1, "é"]}\n', ARGUMENTS)


@both_ways
@each_emission
@each_service
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_whole_arguments_twice_are_one_call(service: str, emission: str, streamed: bool, spelling: str) -> None:
    """Equal arguments are equal in any spelling."""
    if service in ("openai", "responses") or emission != "incremental":  # there, the first ones have gone out
        twice = [*_called(service, ARGUMENTS + spelling)]
        if service == "openai":
            twice = [*_called(service, ARGUMENTS), _chunk({"index": 0, "function": {"arguments": spelling}})]
        if service == "responses":
            delta = {"type": "response.function_call_arguments.delta", "item_id": "i0", "delta": ARGUMENTS}
            added, done = _called(service, spelling)
            twice = [added, delta, done]
        plan = evolve(PLAN, tool_emission=emission)
        assert heard(CHAT, streamed, service, [_answer(service, *twice)], plan).calls == [("f", {"a": [1, "é"]})]


def _apart(service: str) -> list[Any]:
    """A call under one number, and its arguments under another."""
    match service:
        case "openai":
            text = '{"a":', "1}"
            begun = _chunk({"index": 2, "id": "c", "function": {"name": "f", "arguments": ""}})
            return [begun, *(_chunk({"index": 1, "function": {"arguments": piece}}) for piece in text)]
        case "responses":
            added, done = _called(service, "")
            about = {"type": "response.function_call_arguments.delta", "item_id": "i1", "output_index": 1}
            return [added, {**about, "delta": '{"a":1}'}, done]
        case "anthropic" | "bedrock":
            begun, _, ended = _called(service, "", 2)
            return [begun, *_called(service, '{"a":1}', 1)[1:], ended]
        case "gemini":
            return [{"functionCall": {"name": "f"}}, {"functionCall": {"args": {"a": 1}}}]
        case _:
            begun = {"toolUseId": "c", "name": "f", "input": ""}
            return [
                ("toolUseEvent", begun),
                ("toolUseEvent", {"toolUseId": "d", "input": '{"a":1}'}),
                ("toolUseEvent", {"toolUseId": "c", "stop": True}),
                ("toolUseEvent", {"toolUseId": "d", "stop": True}),
            ]


@both_ways
@each_client
@each_emission
@each_service
def test_arguments_under_another_number(service: str, emission: str, client: Client, streamed: bool) -> None:
    """They belong to the call where it can be no other's; else that is withheld."""
    plan = evolve(PLAN, tool_emission=emission)
    found = heard(client, streamed, service, [_answer(service, *_apart(service))], plan)

    assert found.calls == ([("f", {"a": 1})] if service in ("openai", "anthropic", "bedrock") else [])


@each_emission
@each_service
def test_a_call_that_has_its_arguments_does_not_suffer(service: str, emission: str) -> None:
    """What belongs to no call makes only those doubtful that have none."""
    pieces = [*_called(service, '{"b":2}', 7), *_apart(service)]
    found = heard(CHAT, True, service, [_answer(service, *pieces)], evolve(PLAN, tool_emission=emission))

    assert found.calls[0] == ("f", {"b": 2})
    assert ("f", {}) not in found.calls


def _numbered(*pieces: tuple[int, str, str]) -> list[dict[str, Any]]:
    """Pieces of Chat Completions by number, id and arguments; those with an id have the name."""
    return [
        _chunk({"index": index, **({"id": call_id} if call_id else {}), "function": {**named, "arguments": text}})
        for index, call_id, text in pieces
        for named in ({"name": "f"} if call_id else {},)
    ]


X, Y = '{"a":1}', '{"a":2}'


@each_emission
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([(1, "c", ""), (0, "", X)], [1], id="one-too-low"),
        pytest.param([(0, "c", ""), (1, "", X)], [1], id="one-too-high"),
        pytest.param([(0, "c", "{}"), (1, "", X)], [1], id="an-empty-object-first"),
        pytest.param([(1, "c", ""), (0, "", X), (2, "d", ""), (1, "", Y)], [1, 2], id="two-too-low"),
        pytest.param([(0, "c", ""), (1, "", X), (1, "d", ""), (2, "", Y)], [1, 2], id="two-too-high"),
        pytest.param([(2, "c", ""), (1, "", X), (4, "d", ""), (3, "", Y)], [1, 2], id="two-apart"),
        pytest.param([(0, "c", X), (1, "d", ""), (0, "", X), (1, "", Y)], [1, 2], id="the-first-once-more"),
        pytest.param([(0, "c", X), (0, "", X), (1, "d", Y)], [1, 2], id="nothing-apart"),
        pytest.param([(1, "", X), (0, "c", "")], [], id="arguments-first"),
    ],
)
def test_numbers_of_chat_completions(pieces: Any, expected: list[int], emission: str) -> None:
    """Arguments are those of the call that began last, as long as it has none."""
    found = heard(CHAT, True, "openai", [_answer("openai", *_numbered(*pieces))], evolve(PLAN, tool_emission=emission))

    assert found.calls == [("f", {"a": value}) for value in expected]


def test_a_withheld_call_is_reported() -> None:
    """The client, the log and the model learn of it."""
    *_, end = events("responses", [_answer("responses", *_apart("responses"))])

    assert isinstance(end, MessageEnd)
    assert [(each.name, each.reason) for each in end.malformed] == [
        ("f", "none, while other arguments belong to no call")
    ]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_repetitions_take_no_more_time_than_their_length(spelling: str) -> None:
    """A large call is not read again for each of its repetitions."""
    padded = ARGUMENTS + " " * 200_000
    again = [_chunk({"index": 0, "function": {"arguments": spelling}})] * 20_000
    answer = _answer("openai", *_called("openai", padded), *again)
    began = process_time()
    sent = "".join(each.json for each in events("openai", [answer]) if isinstance(each, ToolInputDelta))

    assert sent == padded
    assert process_time() - began < 10


PATCH = '*** Begin Patch\n*** Add File: a "b"\n+{x}\n*** End Patch'
FREEFORM = {
    "as-asked": dumps({"input": PATCH}).decode(),
    "another-name": dumps({"patch": PATCH}).decode(),
    "with-more": dumps({"patch": PATCH, "fuzz": 3, "dry_run": None}).decode(),
    "a-json-text": dumps(PATCH).decode(),
    "bare": PATCH,
}


@both_ways
@each_emission
@each_service
@pytest.mark.parametrize("form", FREEFORM)
def test_a_tool_that_takes_a_text_is_given_it(service: str, emission: str, streamed: bool, form: str) -> None:
    """Models give it under any name, or bare."""
    plan = evolve(PLAN, tool_emission=emission, text_tools=("f",))
    options = ResponsesOptions(custom_tools=frozenset({"f"}))
    client = evolve(RESPONSES, options=options, of_stream=_items, of_body=_input)

    assert heard(client, streamed, service, [_answer(service, *_called(service, FREEFORM[form]))], plan).text == PATCH


@each_emission
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("null", "", id="null"),
        pytest.param("{}", "", id="an-empty-object"),
        pytest.param("42", "42", id="a-number"),
        pytest.param("[1, 2]", "[1, 2]", id="a-list"),
        pytest.param("{ let x = 1 }", "{ let x = 1 }", id="no-json-in-braces"),
        pytest.param('{"a":"x","b":"y"}', '{"a":"x","b":"y"}', id="several-texts"),
        pytest.param('{"input":"x","b":"y"}', "x", id="the-name-decides"),
        pytest.param('{"patch":"*** Beg', None, id="cut"),
    ],
)
def test_what_else_such_a_tool_is_given(text: str, expected: str | None, emission: str) -> None:
    """What cannot be read otherwise is the text; what was cut is not."""
    plan = evolve(PLAN, tool_emission=emission, text_tools=("f",))
    client = evolve(RESPONSES, options=ResponsesOptions(custom_tools=frozenset({"f"})), of_stream=_items)
    found = heard(client, True, "openai", [_answer("openai", *_called("openai", text))], plan)

    assert found.text == expected if expected is not None else found.end == "length"


def _items(stream: bytes) -> Heard:
    return _input(responses_grammar.check(stream)[-1]["response"])


def _input(response: dict[str, Any]) -> Heard:
    """The input of the one call, as text."""
    end = "length" if response["incomplete_details"] else "call"
    return Heard("".join(item["input"] for item in response["output"] if item["type"] == "custom_tool_call"), end=end)
