"""Services that speak Chat Completions in their own way, through the official clients: their real streams, and what
they are handed back with the next question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.conformance.asked import EACH_WAY, ask
from tests.conformance.asking import user
from tests.conformance.clients import Clients
from tests.conformance.gateways import TRANSIENT_RETRIES, Gateway, watched

CHAT = "openai.chat"
SERVICES = ("openrouter", "mistral")


@pytest.fixture(scope="module")
def compatible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with services in ``custom``."""
    settings = {f"KIRO_ASGI__CUSTOM__{name.upper()}__ENDPOINT": "{service}/v1" for name in SERVICES}
    with watched(tmp_path_factory.mktemp("compatible"), **TRANSIENT_RETRIES, **settings) as running:
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
