"""The Responses API through the official Python client, which validates every body and event.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.responses import ParsedResponse, Response, ResponseStreamEvent

from tests.conformance.asking import MODEL, NATIVE, PNG, SENTENCE, THOUGHT, City
from tests.conformance.gateways import Gateway
from tests.conformance.raw import post
from tests.dialects.openai_responses import grammar

Params = dict[str, Any]


def ask(client: openai.OpenAI, content: Any, **params: Any) -> Response:
    return client.responses.create(model=params.pop("model", MODEL), input=content, store=False, **params)


def events(client: openai.OpenAI, content: Any, **params: Any) -> list[ResponseStreamEvent]:
    model = params.pop("model", MODEL)
    with client.responses.create(model=model, input=content, store=False, stream=True, **params) as stream:
        return list(stream)


def folded(client: openai.OpenAI, content: Any, **params: Any) -> ParsedResponse[Any]:
    """What the stream helper makes of it."""
    model = params.pop("model", MODEL)
    with client.responses.stream(model=model, input=content, store=False, **params) as stream:
        return stream.get_final_response()


def comparable(response: Response) -> Any:
    """Without what no two answers share."""
    output = [item.to_dict() for item in response.output]
    for item in output:
        item.pop("id")
        item.pop("encrypted_content", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    return output, response.status, response.incomplete_details


def test_27_nonstream_strict(chat: openai.OpenAI) -> None:
    """F312: one body that the strict client accepts, with usage in every detail and a request id."""
    answer = ask(chat, "sim:text")

    assert answer.id.startswith("resp_")
    assert (answer.object, answer.model, answer.status, answer.service_tier) == (
        "response",
        MODEL,
        "completed",
        "default",
    )
    assert (answer.output_text, answer.error, answer.incomplete_details) == (SENTENCE, None, None)
    assert answer.usage is not None
    assert answer.usage.input_tokens > 0
    assert answer.usage.input_tokens_details.cache_write_tokens == 0
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert (answer._request_id or "").startswith("req_")


def test_28_stream_strict(chat: openai.OpenAI) -> None:
    """F003, F026, F313: every event validates; they are numbered; deltas join to the text."""
    received = events(chat, "sim:text")

    assert [event.sequence_number for event in received] == list(range(len(received)))
    assert "".join(event.delta for event in received if event.type == "response.output_text.delta") == SENTENCE
    assert [received[0].type, received[1].type] == ["response.created", "response.in_progress"]
    assert received[-1].type == "response.completed"
    assert received[-1].response.output_text == SENTENCE


@pytest.mark.parametrize(
    ("content", "params"),
    [
        pytest.param("sim:text", {}, id="text"),
        pytest.param("sim:unicode", {}, id="unicode"),
        pytest.param("sim:count=500", {}, id="long"),
        pytest.param("sim:text sim:bytes", {}, id="byte-by-byte"),
        pytest.param("sim:text sim:empty-frames sim:unknown-event", {}, id="noise"),
        pytest.param("sim:thinking", {"reasoning": {"effort": "high"}, "model": NATIVE}, id="thinking"),
        pytest.param("sim:thinking", {"reasoning": {"summary": "auto"}, "model": NATIVE}, id="summary"),
        pytest.param("sim:redacted", {"reasoning": {"effort": "high"}, "model": NATIVE}, id="redacted"),
    ],
)
def test_29_python_helper(chat: openai.OpenAI, content: str, params: Params) -> None:
    """What `.stream()` folds equals the answer that is not streamed."""
    assert comparable(folded(chat, content, **params)) == comparable(ask(chat, content, **params))


@pytest.mark.parametrize("content", ["sim:text", "sim:thinking", "sim:parallel=3", "sim:length", "sim:filtered"])
def test_31_grammar(gateway: Gateway, content: str) -> None:
    """F013, F015: the bytes obey the grammar, and the connection ends with the last event."""
    tools = [
        {"type": "function", "name": "get_weather", "parameters": {"type": "object"}},
        {"type": "function", "name": "now"},
    ]
    document = {"model": NATIVE, "input": content, "stream": True, "tools": tools}
    answer = post(gateway, "/v1/responses", document)

    assert answer.headers["content-type"] == "text/event-stream"
    assert len(grammar.check(answer.body)) > 5


@pytest.mark.parametrize("summary", ["auto", None])
@pytest.mark.parametrize("include", [["reasoning.encrypted_content"], []])
def test_36_reasoning(chat: openai.OpenAI, summary: Any, include: Any) -> None:
    """Thinking comes first, as the summary that was asked for or as text, and can be handed back."""
    reasoning = {"effort": "high", "summary": summary}
    answer = folded(chat, "sim:thinking", model=NATIVE, reasoning=reasoning, include=include)
    thought, message = answer.output

    assert (thought.type, message.type) == ("reasoning", "message")
    assert thought.type == "reasoning"
    shown = thought.summary if summary else thought.content or []
    assert [part.text for part in shown] == [THOUGHT]
    history: list[Any] = [
        {"role": "user", "content": "sim:thinking"},
        *answer.output,
        {"role": "user", "content": "sim:text"},
    ]
    assert ask(chat, history, model=NATIVE, include=include).output_text == SENTENCE


def test_36_foreign_reasoning(chat: openai.OpenAI) -> None:
    """What another service has sealed is passed over."""
    foreign = {"type": "reasoning", "id": "rs_other", "summary": [], "encrypted_content": "gAAAAABforeign"}

    assert ask(chat, [foreign, {"role": "user", "content": "sim:text"}]).output_text == SENTENCE


def test_37_incomplete(chat: openai.OpenAI) -> None:
    """F314: the response and its last message say so, streamed or not."""
    whole = ask(chat, "sim:count=500", max_output_tokens=16)
    last = events(chat, "sim:count=500", max_output_tokens=16)[-1]

    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        (message,) = response.output
        assert message.type == "message"
        assert message.status == "incomplete"


def test_37_filtered(chat: openai.OpenAI) -> None:
    """An answer that a filter stopped."""
    whole = ask(chat, "sim:filtered")

    assert whole.incomplete_details is not None
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "content_filter")


@pytest.mark.parametrize("content", ["sim:exception", "sim:reset", "sim:torn"])
def test_38_failed(chat: openai.OpenAI, gateway: Gateway, content: str) -> None:
    """F304-F307: an error that the client raises, then the failed response, for clients that read that."""
    with pytest.raises(openai.APIError) as caught:
        events(chat, content)
    answer = post(gateway, "/v1/responses", {"model": MODEL, "input": content, "stream": True})
    received = grammar.check(answer.body)

    assert (caught.value.type, caught.value.code) == ("server_error", "stream_error")
    assert received[-1]["response"]["error"]["code"] == "server_error"
    assert received[-1]["response"]["error"]["message"] == received[-2]["message"] == caught.value.message


@pytest.mark.parametrize("model", [MODEL, NATIVE])
def test_39_json_schema(chat: openai.OpenAI, model: str) -> None:
    """`.parse()` gets an instance, streamed or not."""
    parsed = chat.responses.parse(model=model, input="Tell me about Oslo", text_format=City).output_parsed

    assert isinstance(parsed, City)
    assert folded(chat, "Tell me about Oslo", model=model, text_format=City).output_parsed == parsed


def test_40_echo(chat: openai.OpenAI) -> None:
    """The response repeats what was asked of it."""
    tool: Any = {
        "type": "function",
        "name": "f",
        "parameters": {"type": "object"},
        "strict": False,
        "description": "F.",
    }
    asked: Params = {
        "instructions": "Be brief.",
        "tools": [tool],
        "tool_choice": "none",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "metadata": {"a": "b"},
        "max_output_tokens": 99,
        "truncation": "auto",
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    answer = ask(chat, "sim:text", **asked).to_dict()

    assert {name: answer[name] for name in asked} == asked
    assert answer["store"] is False


def test_input_of_every_kind(chat: openai.OpenAI) -> None:
    """Text, an image, and roles of all kinds in one conversation."""
    image = f"data:image/png;base64,{PNG}"
    history: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_image", "image_url": image, "detail": "auto"}]},
        {"role": "assistant", "content": "A dot."},
        {"role": "user", "content": [{"type": "input_text", "text": "sim:text"}]},
    ]

    assert ask(chat, history).output_text == SENTENCE


def test_47_close(gateway: Gateway) -> None:
    """The body ends right behind the last event."""
    document = {"model": MODEL, "input": "sim:text", "stream": True}
    answer = post(gateway, "/v1/responses", document)

    assert answer.ended - answer.when(b"event: response.completed") < 0.2
    assert json.loads(answer.body.split(b"data: ")[-1])["type"] == "response.completed"
