"""What only the client's own API can answer, asked of a service of it: its answer has it, streamed and collected."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.driver import post
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


TEMPLATE: Final = {"prompt": {"id": "pmpt_1", "version": "2"}}


@MODES
@pytest.mark.parametrize("service_of", ["openai", "local"])
async def test_a_demand_chooses_among_the_apis_of_a_service(service_of, stream, gateway, service, sim):
    """A model that is asked by Chat Completions is asked by Responses for a template; for anything else, as before."""
    app = gateway(fresh=True, **slices(service, FORMS["chat"]))
    model = f"{service_of}/gpt-4o"
    for body, operation in ((TEMPLATE, "responses.chat"), ({}, "openai.chat"), (TEMPLATE, "responses.chat")):
        before = len(sim.requests)
        exchange = await post("/v1/responses", {"model": model, "input": "hi", "stream": stream, **body}).run(app)
        asked = [it for it in sim.requests[before:] if it.operation.endswith(".chat")]

        assert exchange.status == 200, exchange.content
        assert [it.operation for it in asked] == [operation]
        assert json.loads(asked[0].body).get("prompt") == body.get("prompt")


async def test_without_the_other_api_a_demand_is_refused_by_its_name(gateway, service, sim):
    """The operator says that the server speaks Chat Completions alone."""
    settings = slices(service, FORMS["chat"])
    settings["openai"] = {**settings["openai"], "api": "chat"}
    exchange = await post("/v1/responses", {"model": "openai/gpt-4o", "input": "hi", **TEMPLATE}).run(
        gateway(**settings)
    )

    assert (exchange.status, exchange.json()["error"]["param"]) == (400, "prompt")
