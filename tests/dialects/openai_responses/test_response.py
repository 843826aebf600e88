"""The response object: everything that clients require, and what it repeats of the request."""

from __future__ import annotations

import json
from typing import Any

from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.model.events import StopReason, Usage
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Sampling
from tests.conformance.responses_schema import OPEN, SERVED
from tests.dialects.openai_responses.grammar import RESPONSE

USAGE = Usage(7, 5, 2, 1, 3)
MESSAGE = Message((TextBlock("Hi."), ToolCallBlock("call_1", "f", "{}")), StopReason.TOOL_CALL, usage=USAGE)


def rendered(message: Message = MESSAGE, **request: Any) -> dict[str, Any]:
    """The answer *message* to a request."""
    dialect = OpenAIResponses(clock=lambda: 34.9)
    parsed = dialect.parse(json.dumps({"model": "m", "input": "hi", **request}).encode())
    body = b"".join(dialect.render(message, dialect.meta(parsed, lambda: "x" * 24, 12)))
    RESPONSE.validate_json(body, strict=True)
    response: dict[str, Any] = json.loads(body)
    return response


def test_the_whole_object() -> None:
    """F309, F312: every field, also those that the request did not speak of."""
    assert rendered() == {
        "id": "resp_" + "x" * 24,
        "object": "response",
        "created_at": 12,
        "completed_at": 34,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [
            {
                "id": f"msg_{'x' * 24}_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []}],
                "phase": "commentary",
            },
            {
                "id": f"fc_{'x' * 24}_1",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "f",
                "arguments": "{}",
            },
        ],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 15,
        },
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }


def test_what_the_request_said_is_repeated() -> None:
    """F309: as it came."""
    request: dict[str, Any] = {
        "instructions": "Be brief.",
        "frequency_penalty": -0.5,
        "max_output_tokens": 99,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_0",
        "presence_penalty": 1.5,
        "prompt_cache_key": "thread",
        "reasoning": {"effort": "low", "summary": "auto"},
        "safety_identifier": "s",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "description": "F.", "parameters": {}, "strict": True}],
        "top_logprobs": 2,
        "top_p": 0.9,
        "truncation": "auto",
        "user": "u",
    }
    response = rendered(**request)

    assert {name: response[name] for name in request} == request


def test_what_the_schema_demands_is_filled_in() -> None:
    """Numbers where nobody asked, and every field of a function and of a form that a client left out or had nested."""
    form = {"type": "json_schema", "schema": {"type": "object"}}
    response = rendered(
        temperature=None,
        text={"format": form, "verbosity": None},
        tools=[{"type": "function", "function": {"name": "f"}}],
        tool_choice={"type": "function", "function": {"name": "f"}},
    )

    assert (response["temperature"], response["presence_penalty"]) == (1.0, 0.0)
    assert response["text"] == {"format": {**form, "name": "response", "description": None, "strict": False}}
    assert response["tool_choice"] == {"type": "function", "name": "f"}
    assert response["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]


def test_only_a_complete_answer_says_when_it_was() -> None:
    """An answer that was cut is not complete."""
    cut = rendered(Message((TextBlock("Hi."),), StopReason.LENGTH, usage=USAGE))
    assert (cut["status"], cut["completed_at"]) == ("incomplete", None)


PENALTIES = {"presence_penalty": 1.5, "frequency_penalty": -0.5}


def test_penalties_reach_the_service() -> None:
    """Unless they are the API's default, which is none."""
    told = [
        OpenAIResponses().parse(json.dumps({"model": "m", "input": "hi", **penalties}).encode()).prompt.sampling
        for penalties in (PENALTIES, dict.fromkeys(PENALTIES, 0))
    ]
    assert told == [Sampling(**PENALTIES), Sampling()]


def test_the_schema_can_be_broken() -> None:
    """What every test is judged by is no rubber stamp: each change to a legal response is found."""
    legal = rendered()
    assert SERVED.problems(legal) == OPEN.problems(legal) == []
    item = legal["output"][0]
    broken: list[dict[str, Any]] = [
        *({name: value for name, value in legal.items() if name != left_out} for left_out in sorted(legal)),
        {**legal, "created_at": 1.5},
        {**legal, "temperature": None},
        {**legal, "parallel_tool_calls": 1},
        {**legal, "status": "done"},
        {**legal, "completed_at": None},
        {**legal, "error": {"code": "x", "message": "y"}},
        {**legal, "output": [{**item, "phase": None}]},
        {**legal, "output": [{**item, "status": "incomplete"}]},
        {**legal, "output": [{**item, "content": [{"type": "output_text", "text": "x"}]}]},
        {**legal, "tools": [{"type": "function", "name": "f", "description": None, "parameters": None}]},
    ]
    missed = [response for response in broken if not SERVED.problems(response)]
    assert [legal.keys() - response.keys() for response in missed] == [{"user"}], "which the specification has not"


def test_the_service_tier_is_one_that_clients_know() -> None:
    """Whatever was asked for, there is one only."""
    assert rendered(service_tier="priority")["service_tier"] == "default"
