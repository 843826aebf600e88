"""The words with which a model behind OpenAI's format declines (``delta.refusal``), through the official clients: a
refusal where the API has a place for one, whatever form the answer was to have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import Head, RawBytes
from tests.conformance.asked import EACH_API, EACH_WAY, Seen, ask
from tests.conformance.asking import City, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

SORRY = "I'm sorry, I can't help with that."
SEEN = {
    "messages": Seen(SORRY, stop="refusal"),
    "chat": Seen("", stop="stop", refusal=SORRY),
    "responses": Seen("", stop="completed", refusal=SORRY),
}
SCHEMA = City.model_json_schema()
FORM: dict[str, dict[str, Any]] = {
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}}},
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event as the service sends it."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-2024-08-06"}
    return b"data: " + json.dumps({**common, "choices": [choice]}).encode() + b"\n\n"


STREAM = b"".join(
    (
        chunk({"role": "assistant", "content": None, "refusal": ""}),
        *(chunk({"refusal": piece}) for piece in ("I'm", " sorry, I", " can't help with that.")),
        chunk({}, "stop"),
        b"data: [DONE]\n\n",
    )
)


@EACH_WAY
@EACH_API
@pytest.mark.parametrize("formed", [False, True], ids=["free", "formed"])
def test_a_refusal_is_a_refusal(clients: Clients, scripted: Gateway, api: str, stream: bool, formed: bool) -> None:
    """It is no text where the API knows better, it is not checked against a schema, and it costs no second try."""
    service = scripted.service
    assert service is not None
    service.forget()
    service.enqueue((Head(content_type="text/event-stream"), RawBytes(STREAM)), operation="openai.chat")
    more = FORM[api] if formed else {}

    assert ask(clients, scripted, api, "How?", stream=stream, model="gpt-4o", **more) == SEEN[api]
    assert len(scripted.asked("How?")) == 1


def test_content_is_null_beside_a_refusal(clients: Clients, scripted: Gateway) -> None:
    """As OpenAI has it: an empty text would be an answer."""
    service = scripted.service
    assert service is not None
    service.enqueue((Head(content_type="text/event-stream"), RawBytes(STREAM)), operation="openai.chat")
    completion = clients.openai(scripted).chat.completions.create(model="gpt-4o", messages=user("How?"))

    assert completion.choices[0].message.content is None


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        ("chat", {"role": "assistant", "content": None, "refusal": SORRY}),
        ("chat", {"role": "assistant", "content": [{"type": "refusal", "refusal": SORRY}]}),
        ("responses", {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": SORRY}]}),
        ("messages", {"role": "assistant", "content": SORRY}),
    ],
)
@pytest.mark.parametrize(
    ("model", "operation"), [("gpt-4o", "openai.chat"), ("gemini-2.5-flash", "gemini.chat"), ("claude-haiku-4.5", "")]
)
def test_a_refusal_goes_back(
    clients: Clients, scripted: Gateway, api: str, answer: Any, model: str, operation: str
) -> None:
    """What the client hands back reaches every service: the simulated ones are no OpenAI, so it is text to them."""
    turns = [*user("How?"), answer, *user("And now?")]
    ask(clients, scripted, api, turns, stream=False, model=model)
    asked = scripted.asked("And now?")[-1]

    assert SORRY in asked.body.decode()
    assert b'"refusal"' not in asked.body
