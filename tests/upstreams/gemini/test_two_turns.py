"""Two turns: what the service has signed comes back to it where it came from, whatever API the client speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.model.message import fold
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from tests.dialects.echoes import Client, chat, messages, responses

FIRST = {"functionCall": {"id": "x1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "QUJD"}
SECOND = {"functionCall": {"name": "g", "args": {}}}
ANSWER: list[dict[str, Any]] = [
    {"text": "hm", "thought": True},
    {"text": "Let me see."},
    FIRST,
    SECOND,
]


@pytest.mark.parametrize("emission", ["complete", "end", "incremental"])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("client", [messages, chat, responses])
def test_a_signature_returns_to_its_call(client: Client, streamed: bool, emission: str) -> None:
    """F187, §1.8: the first of parallel calls carries it, exactly as it was; the others carry none."""
    upstream = GeminiUpstream()
    answer = build_pipeline(upstream.decoder("text/event-stream"), Plan(tool_emission=emission))
    event = {"candidates": [{"content": {"role": "model", "parts": ANSWER}, "finishReason": "STOP"}]}
    message = fold([*answer.feed([b"data: " + json.dumps(event).encode() + b"\n\n"]), *answer.flush()])

    prompt = client(message, streamed)
    body = upstream.render(prompt, ModelCard("gemini-3-pro-preview"), Credential(CredentialKind.API_KEY, "k")).document

    (said,) = [content["parts"] for content in body["contents"] if content["role"] == "model"]
    assert [part for part in said if "functionCall" in part] == [FIRST, SECOND]
    assert {"text": "Let me see."} in said
