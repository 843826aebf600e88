"""Services that speak Chat Completions in their own way, through the official clients: their real streams, and what
they are handed back with the next question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from kiro_asgi.simulator import Head, Pause, RawBytes
from kiro_asgi.simulator.scripts import json_answer
from tests.conformance.asked import EACH_API, EACH_WAY, ask
from tests.conformance.asking import user
from tests.conformance.clients import Clients
from tests.conformance.gateways import TRANSIENT_RETRIES, Gateway, watched

CHAT = "openai.chat"
SERVICES = ("openrouter", "mistral")
MODELS = ("gpt-4o", "gemini-3-pro-preview", "mistral-large-latest", "magistral-medium", "m")


@pytest.fixture(scope="module")
def compatible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with services in ``custom``."""
    settings = {f"KIRO_ASGI__CUSTOM__{name.upper()}__ENDPOINT": "{service}/v1" for name in SERVICES}
    models = json_answer(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})
    with watched(tmp_path_factory.mktemp("compatible"), **TRANSIENT_RETRIES, **settings) as running:
        assert running.service is not None
        running.service.answer_with(lambda request: models if request.operation == "openai.models" else None)
        yield running


def script(*deltas: dict[str, Any], finish: str = "stop") -> Any:
    """A script that answers with these deltas."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks = [{"choices": [choice]} for choice in [*choices, {"index": 0, "delta": {}, "finish_reason": finish}]]
    common = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [b"data: " + json.dumps({**common, **chunk}).encode() + b"\n\n" for chunk in chunks]
    data = b": OPENROUTER PROCESSING\n\n" + b"".join(events) + b"data: [DONE]\n\n"
    return Head(content_type="text/event-stream"), RawBytes(data)


def last_asked(gateway: Gateway, content: str) -> Any:
    """The messages of the latest request with *content* that the service got."""
    return json.loads(gateway.asked(content)[-1].body)["messages"]


CLAUDE = {"format": "anthropic-claude-v1", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
THOUGHT = (
    {"role": "assistant", "content": "", "reasoning": "Let me", "reasoning_details": [
        {"type": "reasoning.text", "text": "Let me", **CLAUDE}]},
    {"content": "", "reasoning": " see.", "reasoning_details": [{"type": "reasoning.text", "text": " see.", **CLAUDE}]},
    {"content": "", "reasoning_details": [{"type": "reasoning.text", "signature": "EtcB", **CLAUDE}, SEALED]},
    {"content": "Four."},
)  # fmt: skip
DETAILS = [{"type": "reasoning.text", "text": "Let me see.", "signature": "EtcB", **CLAUDE}, SEALED]
THINKS: dict[str, dict[str, Any]] = {
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "chat": {},
    "responses": {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"}, "store": False},
}


def handed_back(clients: Clients, gateway: Gateway, api: str, stream: bool, model: str) -> list[Any]:
    """An answer as its client hands it back."""
    params: dict[str, Any] = {"model": model, **THINKS[api]}
    if api == "messages":
        messages = clients.anthropic(gateway).messages
        params |= {"max_tokens": 4096, "messages": user("2+2")}
        if not stream:
            return [{"role": "assistant", "content": messages.create(**params).content}]
        with messages.stream(**params) as events:
            return [{"role": "assistant", "content": events.get_final_message().content}]
    if api == "chat":
        completions = clients.openai(gateway).chat.completions
        params |= {"messages": user("2+2")}
        if not stream:
            return [completions.create(**params).choices[0].message.model_dump(exclude_none=True)]
        with completions.stream(**params) as events:
            return [events.get_final_completion().choices[0].message.model_dump(exclude_none=True)]
    responses = clients.openai(gateway).responses
    params |= {"input": "2+2"}
    if not stream:
        return [*responses.create(**params).output]
    with responses.stream(**params) as events:
        return [*events.get_final_response().output]


@EACH_WAY
@pytest.mark.parametrize("api", THINKS)
def test_reasoning_details_go_back_as_they_came(clients: Clients, compatible: Gateway, api: str, stream: bool) -> None:
    """OpenRouter's models want them, joined; another service does not get them."""
    service = compatible.service
    assert service is not None
    service.enqueue(script(*THOUGHT), operation=CHAT)
    answer = handed_back(clients, compatible, api, stream, "openrouter/gpt-4o")
    turns = [*user("2+2"), *answer, *user("And 3+3?")]
    service.enqueue(*[script({"content": "Six."})] * 2, operation=CHAT)

    assert ask(clients, compatible, api, turns, stream=stream, model="openrouter/gpt-4o").text == "Six."
    assert last_asked(compatible, "3+3")[1] == {"role": "assistant", "content": "Four.", "reasoning_details": DETAILS}
    ask(clients, compatible, api, turns, stream=stream, model="mistral/gpt-4o")
    assert last_asked(compatible, "3+3")[1] == {"role": "assistant", "content": "Four."}


TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED = {**CALL, "extra_content": {"google": {"thought_signature": "c2ln"}}}


@EACH_WAY
@EACH_API
def test_the_signature_of_a_call_goes_back(clients: Clients, compatible: Gateway, api: str, stream: bool) -> None:
    """Google's own server of this API wants it with the call; where the client does not keep it, the gateway does."""
    service = compatible.service
    assert service is not None
    service.enqueue(script({"tool_calls": [SIGNED]}, finish="tool_calls"), script({"content": "Six."}), operation=CHAT)
    model = "openrouter/gemini-3-pro-preview"
    seen = ask(clients, compatible, api, "2+2?", stream=stream, model=model, tools={"f": TOOL})
    ask(clients, compatible, api, RETURNED[api](seen.ids[0]), stream=stream, model=model, tools={"f": TOOL})

    (call,) = last_asked(compatible, "2+2?")[1]["tool_calls"]
    assert call["extra_content"] == SIGNED["extra_content"]


RETURNED: dict[str, Any] = {
    "messages": lambda call: [
        *user("2+2?"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "f", "input": {}}]},
        *user([{"type": "tool_result", "tool_use_id": call, "content": "4"}]),
    ],
    "chat": lambda call: [
        *user("2+2?"),
        {"role": "assistant", "tool_calls": [{**CALL, "id": call}]},
        {"role": "tool", "tool_call_id": call, "content": "4"},
    ],
    "responses": lambda call: [
        *user("2+2?"),
        {"type": "function_call", "call_id": call, "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call, "output": "4"},
    ],
}


@EACH_WAY
@EACH_API
def test_ids_of_nine_characters_are_known_in_advance(
    clients: Clients, compatible: Gateway, api: str, stream: bool
) -> None:
    """A model of Mistral's is not asked with any other, and its own come back as they were."""
    service = compatible.service
    assert service is not None
    service.forget()
    service.enqueue(*[script({"content": "Four."})] * 2, operation=CHAT)
    for call in "toolu_01A09q90qw90lq917835lq9", "D681PevKs":
        turns = RETURNED[api](call)
        ask(clients, compatible, api, turns, stream=stream, model="mistral/mistral-large-latest", tools={"f": TOOL})
    sent = [json.loads(request.body)["messages"] for request in compatible.asked("2+2?")]
    ids = [(each[1]["tool_calls"][0]["id"], each[2]["tool_call_id"]) for each in sent]

    assert len(ids) == 2 and ids[1] == ("D681PevKs", "D681PevKs")
    assert ids[0][0] == ids[0][1] and re.fullmatch("[a-zA-Z0-9]{9}", ids[0][0])


@EACH_WAY
@EACH_API
def test_content_as_a_list(clients: Clients, compatible: Gateway, api: str, stream: bool) -> None:
    """Mistral's reasoning models answer with parts; thinking is one of them."""
    service = compatible.service
    assert service is not None
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "2+2 is"}, {"type": "text", "text": " four."}]}
    parts = {"content": [part]}, {"content": [{"type": "text", "text": "Four"}]}, {"content": "."}
    service.enqueue(script(*parts), operation=CHAT)
    seen = ask(clients, compatible, api, "2+2?", stream=stream, model="mistral/magistral-medium", **THINKS[api])

    assert (seen.thinking, seen.text) == ("2+2 is four.", "Four.")


GROQ = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Four."},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_1"}}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},'
    b'"logprobs":null,"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.01,"prompt_tokens":18,'
    b'"completion_tokens":556,"total_tokens":574,"total_time":1.2}}}\n\ndata: [DONE]\n\n'
)


def test_counts_of_groq(clients: Clients, compatible: Gateway) -> None:
    """They stand in a member of their own."""
    service = compatible.service
    assert service is not None
    service.enqueue((Head(content_type="text/event-stream"), RawBytes(GROQ)), operation=CHAT)
    message = clients.anthropic(compatible).messages.create(model="mistral/m", max_tokens=999, messages=user("2+2?"))

    assert (message.usage.input_tokens, message.usage.output_tokens) == (18, 556)


TOO_LARGE = {
    "message": "Request too large for model `m` in organization `org_1` service tier `on_demand` on tokens per minute "
    "(TPM): Limit 6000, Requested 9027, please reduce your message size and try again.",
    "type": "tokens",
    "code": "rate_limit_exceeded",
}


def test_a_request_that_is_too_large_for_groq(clients: Clients, compatible: Gateway) -> None:
    """413 with the code of a rate limit: to wait would not help, and nobody does."""
    service = compatible.service
    assert service is not None
    service.forget()
    service.enqueue(json_answer(413, {"error": TOO_LARGE}), operation=CHAT)
    with pytest.raises(openai.BadRequestError) as raised:
        clients.openai(compatible).chat.completions.create(model="mistral/m", messages=user("2+2?"))

    assert raised.value.code == "context_length_exceeded"
    assert len(compatible.asked("2+2?")) == 1


def test_the_error_line_of_llama_cpp(clients: Clients, compatible: Gateway) -> None:
    """A field ``error`` in the place of ``data`` ends the answer as an error event would."""
    service = compatible.service
    assert service is not None
    begun = b'data: {"choices":[{"index":0,"delta":{"content":"Fo"},"finish_reason":null}]}\n\n'
    broken = b'error: {"code":500,"message":"the slot was lost","type":"server_error"}\n\n'
    service.enqueue(
        (Head(content_type="text/event-stream"), RawBytes(begun), Pause(0.3), RawBytes(broken)), operation=CHAT
    )
    received = []
    with pytest.raises(openai.APIError, match="the slot was lost"):
        params: Any = {"model": "mistral/m", "messages": user("2+2?"), "stream": True}
        for chunk in clients.openai(compatible).chat.completions.create(**params):
            received += [choice.delta.content for choice in chunk.choices]

    assert "".join(filter(None, received)) == "Fo"
