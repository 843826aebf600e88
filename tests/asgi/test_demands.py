"""What only the client's own API can answer, asked of a service of it: its answer has it, streamed and collected."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.test_unknown_answers import FORMS, MODES, answering, asking, slices, sse

pytestmark = pytest.mark.anyio

TOKEN: Final = {"token": "Hi", "logprob": -0.25, "bytes": [72, 105], "top_logprobs": []}
CHOICE: Final = {"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": [TOKEN], "refusal": None}}
CHAT: Final = sse({"choices": [CHOICE]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
RESULT: Final = {"chosenCandidates": [{"token": "Hi", "logProbability": -0.25}]}
CANDIDATE: Final = {
    "index": 0,
    "content": {"parts": [{"text": "Hi"}]},
    "finishReason": "STOP",
    "logprobsResult": RESULT,
}
SPEECH: Final = {"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}}]}}]}
DONE: Final = b"data: [DONE]\n\n"
CASES: Final[dict[str, tuple[str, str, dict[str, Any], bytes, Any]]] = {
    "chat": ("chat", "openai_chat", {"logprobs": True, "top_logprobs": 2}, CHAT + DONE, TOKEN),
    "gemini": (
        "gemini",
        "gemini",
        {"generationConfig": {"responseLogprobs": True, "logprobs": 2}},
        sse({"candidates": [CANDIDATE]}),
        RESULT,
    ),
    "speech": (
        "gemini",
        "gemini",
        {"generationConfig": {"responseModalities": ["AUDIO"], "speechConfig": {"languageCode": "de-DE"}}},
        sse(SPEECH, {"candidates": [{"index": 0, "finishReason": "STOP"}]}),
        {"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}},
    ),
}


def found(value: Any, wanted: Any) -> bool:
    """Whether *wanted* stands anywhere in *value*."""
    if value == wanted:
        return True
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(found(each, wanted) for each in within)


@MODES
@pytest.mark.parametrize("case", CASES)
async def test_the_answer_has_what_was_demanded(case, stream, gateway, service, sim):
    """And the service was asked for it in the client's words."""
    name, client, members, data, wanted = CASES[case]
    sim.answer_with(answering(FORMS[name], data))
    exchange = asking(client, FORMS[name].model, stream)
    exchange.body[:] = [json.dumps({**json.loads(exchange.body[0]), **members}).encode()]
    exchange.scope["headers"] = [it for it in exchange.scope["headers"] if it[0] != b"content-length"]
    await exchange.run(gateway(**slices(service, FORMS[name])))
    sim.answer_with(None)
    got = [json.loads(it.body) for it in sim.requests if it.operation == FORMS[name].operation]

    assert exchange.status == 200, exchange.content
    lines = exchange.content.split(b"\n") if stream else [b"data: " + exchange.content]
    events = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
    assert any(found(json.loads(event), wanted) for event in events if event.strip() != b"[DONE]"), exchange.content
    assert [got[-1][field] for field in members] == [*members.values()]


@pytest.mark.parametrize("relay", ["never", "auto"])
async def test_a_template_reaches_the_service_of_the_api_and_no_other(relay, gateway, service, sim):
    """Of a service of another API the client is told why."""
    settings = {**slices(service, FORMS["responses"]), "stream": {"relay": relay}}
    settings["openai"]["api"] = "responses"
    template = {"prompt": {"id": "pmpt_1", "variables": {"city": "Rome"}}}
    for name, status in (("responses", 200), ("messages", 400)):
        exchange = asking("openai_responses", FORMS[name].model, False)
        exchange.body[:] = [json.dumps({**json.loads(exchange.body[0]), **template}).encode()]
        exchange.scope["headers"] = [it for it in exchange.scope["headers"] if it[0] != b"content-length"]
        await exchange.run(gateway(**settings))
        assert exchange.status == status, exchange.content
    assert exchange.json()["error"]["param"] == "prompt"
    got = [json.loads(it.body) for it in sim.requests if it.operation == FORMS["responses"].operation]
    assert got[-1]["prompt"] == template["prompt"]
