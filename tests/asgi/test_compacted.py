"""A conversation that Anthropic sums up (``context_management`` with ``pause_after_compaction``, and ``compaction``).

The service answers with the summary, and with ``stop_reason: "compaction"``: the client sends it back, and nobody asks
for more in its name.

Source: ``anthropic.types.beta``, of version 2.14.0
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic._models import validate_type
from anthropic.types.beta import BetaMessage

from kiro_asgi import create_app
from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.asgi.test_money import Told

pytestmark = pytest.mark.anyio

SUMMARY = "They want a fjord, deep and cold."
BLOCK = {
    "type": "compaction",
    "content": SUMMARY,
    "encrypted_content": "c2VhbGVk",
    "signature": "c2lnbmVk",
    "tool_changes": [],
}
COUNTS = {"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2}
ITERATIONS = [
    {"type": "compaction", **COUNTS, "output_tokens": 70, "cache_creation": None},
    {"type": "message", **COUNTS, "output_tokens": 7, "cache_creation": None, "model": "claude-haiku-4-5"},
]
EDITS = {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}]}
MODEL = "anthropic/claude-haiku-4-5"
HISTORY = [{"role": "user", "content": "fjords"}]
TOOLS = [{"type": "web_search_20250305", "name": "web_search"}]


def message(block: Any) -> dict[str, Any]:
    usage = {**COUNTS, "output_tokens": 7, "iterations": ITERATIONS}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5"}
    return {**head, "content": [block], "stop_reason": "compaction", "stop_sequence": None, "usage": usage}


def streamed(block: Any) -> bytes:
    whole = message(block)
    first, more = {"type": "compaction", "content": None}, {key: block[key] for key in block if key != "type"}
    events = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": COUNTS}},
        {"type": "content_block_start", "index": 0, "content_block": first},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **more}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "compaction", "stop_sequence": None},
            "usage": whole["usage"],
        },
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


@pytest.fixture(params=["stream", "document"])
def serve(request, sim):
    """A service that answers with a block, in either form, and keeps what it is asked."""
    asked: list[Any] = []

    def answering(block: Any) -> list[Any]:
        def answer(recorded):
            if recorded.operation != "anthropic.chat":
                return None
            asked.append(json.loads(recorded.body))
            if request.param == "stream":
                return Head(content_type="text/event-stream"), RawBytes(streamed(block))
            return Head(content_type="application/json"), RawBytes(json.dumps(message(block)).encode())

        sim.answer_with(answer)
        return asked

    yield answering
    sim.answer_with(None)


@pytest.fixture
def app(gateway, sim):
    """A gateway that translates what Anthropic says."""
    return gateway(anthropic={"api_key": "sk-ant", "endpoint": sim.url}, stream={"relay": "never"})


def whole(exchange: Exchange) -> dict[str, Any]:
    """The message that a client of Anthropic's makes of the answer."""
    if not exchange.content.startswith(b"event: "):
        return exchange.json()
    found: dict[str, Any] = {}
    for event in (json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: ")):
        match event:
            case {"type": "message_start"}:
                found = event["message"]
            case {"type": "content_block_start"}:
                found["content"].append(event["content_block"])
            case {"type": "content_block_delta"}:
                found["content"][-1] |= {name: each for name, each in event["delta"].items() if name != "type"}
            case {"type": "message_delta"}:
                found |= event["delta"]
                found["usage"] |= event["usage"]
    return found


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "with the service's tools"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_a_client_of_the_api_gets_all_of_it(app, serve, stream, tools):
    """The reason, the block with its seals, and the tokens of each step; the service is asked once."""
    asked = serve(BLOCK)
    body = {"model": MODEL, "max_tokens": 99, "messages": HISTORY, "context_management": EDITS, "stream": stream}
    found = whole(await post("/v1/messages", {**body, "tools": tools} if tools else body).run(app))

    assert len(asked) == 1
    assert asked[0]["context_management"] == EDITS
    assert found["stop_reason"] == "compaction"
    assert found["content"] == [BLOCK]
    assert found["usage"]["iterations"] == ITERATIONS
    assert found["usage"]["output_tokens"] == 7
    validate_type(type_=BetaMessage, value=found)


async def test_it_can_be_sent_back(app, serve):
    """The next request goes on with the block, unchanged, in place of what it stands for."""
    asked = serve(BLOCK)
    body = {"model": MODEL, "max_tokens": 99, "context_management": EDITS, "tools": TOOLS}
    first = await post("/v1/messages", {**body, "messages": HISTORY}).run(app)
    history = [*HISTORY, {"role": "assistant", "content": first.json()["content"]}, {"role": "user", "content": "So?"}]
    await post("/v1/messages", {**body, "messages": history}).run(app)

    said = [block for each in asked[1]["messages"] if each["role"] == "assistant" for block in each["content"]]
    assert said == [BLOCK]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])
async def test_a_summary_that_failed_goes_back_as_well(app, serve, stream):
    """Without content it is nothing; clients may send it back."""
    failed = {"type": "compaction", "content": None, "encrypted_content": None}
    serve(failed)
    body = {"model": MODEL, "max_tokens": 99, "messages": HISTORY, "context_management": EDITS, "stream": stream}
    found = whole(await post("/v1/messages", body).run(app))

    assert found["stop_reason"] == "compaction"
    assert found["content"] == [failed]


def of_chat(found: Any) -> tuple[str, str]:
    [choice] = found["choices"]
    return choice["message"]["content"], choice["finish_reason"]


def of_completion(found: Any) -> tuple[str, str]:
    [choice] = found["choices"]
    return choice["text"], choice["finish_reason"]


def of_response(found: Any) -> tuple[str, str]:
    return found["output"][0]["content"][0]["text"], found["incomplete_details"]["reason"]


OTHERS = {
    "/v1/chat/completions": ({"messages": HISTORY}, of_chat, "length"),
    "/v1/completions": ({"prompt": "fjords"}, of_completion, "length"),
    "/v1/responses": ({"input": "fjords"}, of_response, "max_output_tokens"),
}


@pytest.mark.parametrize("path", OTHERS)
async def test_clients_of_other_apis_get_the_summary_as_text(app, serve, path):
    """They have no block for it; the answer ends as one that was cut."""
    serve(BLOCK)
    body, read, reason = OTHERS[path]
    exchange = await post(path, {"model": MODEL, **body}).run(app)

    assert read(exchange.json()) == (SUMMARY, reason)


async def test_a_client_of_gemini_s_gets_it_with_a_sentence(app, serve):
    """Its API has a place for one."""
    serve(BLOCK)
    path = "/v1beta/models/anthropic/claude-haiku-4-5:generateContent"
    found = (await post(path, {"contents": [{"role": "user", "parts": [{"text": "fjords"}]}]}).run(app)).json()
    [candidate] = found["candidates"]

    assert candidate["content"]["parts"] == [{"text": SUMMARY}]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert candidate["finishMessage"] == "The service summed the conversation up, and did not answer."


async def test_without_a_summary_other_clients_get_an_error(app, serve):
    """An answer with nothing in it would look as if the model had nothing to say."""
    serve({"type": "compaction", "content": None})
    exchange = await post("/v1/chat/completions", {"model": MODEL, "messages": HISTORY}).run(app)

    assert exchange.status == 502
    assert "block.unknown: compaction" in exchange.content.decode()


def chat_counts(found: Any) -> tuple[int, int, int]:
    usage = found["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


def response_counts(found: Any) -> tuple[int, int, int]:
    usage = found["usage"]
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]


def gemini_counts(found: Any) -> tuple[int, int, int]:
    usage = found["usageMetadata"]
    return usage["promptTokenCount"], usage["cachedContentTokenCount"], usage["candidatesTokenCount"]


def message_counts(found: Any) -> tuple[int, int, int]:
    """Of the message itself: the API's clients add up ``iterations``, if they want the sum."""
    assert found["usage"]["iterations"] == ITERATIONS
    return found["usage"]["input_tokens"], found["usage"]["cache_read_input_tokens"], found["usage"]["output_tokens"]


ALL = 2 * (11 + 2), 2 * 2, 70 + 7
"""Prompts with what was read from the cache, that alone, and answers: of the summary and of the message."""

COUNTED = {
    "/v1/messages": ({"messages": HISTORY, "max_tokens": 99}, message_counts, (11, 2, 7)),
    "/v1/chat/completions": (OTHERS["/v1/chat/completions"][0], chat_counts, ALL),
    "/v1/completions": (OTHERS["/v1/completions"][0], chat_counts, ALL),
    "/v1/responses": (OTHERS["/v1/responses"][0], response_counts, ALL),
    f"/v1beta/models/{MODEL}:generateContent": (
        {"contents": [{"role": "user", "parts": [{"text": "fjords"}]}]},
        gemini_counts,
        ALL,
    ),
}


@pytest.mark.parametrize("relay", ["never", "auto"])
@pytest.mark.parametrize("path", COUNTED)
async def test_the_summary_is_charged(serve, sim, path, relay, request):
    """It is in ``usage.iterations`` alone, and paid for: ledger, limits, cost and clients of other APIs count it."""
    serve(BLOCK)
    body, read, expected = COUNTED[path]
    service = {"api_key": "sk-ant", "endpoint": sim.url}
    prices = {"models": ["claude-haiku-4-5*=1/10/0.1"]}
    told = Told()
    settings = settings_for(sim.url, {"anthropic": service, "stream": {"relay": relay}, "prices": prices})
    app = create_app(settings, observers=[told])
    if path == "/v1/messages":
        body = {**body, "stream": request.node.callspec.params["serve"] == "stream"}
    exchange = await post(path, body if "contents" in body else {"model": MODEL, **body}).run(app)
    await app.aclose()
    [end] = told.ends

    assert read(whole(exchange)) == expected
    assert (end.usage.prompt_tokens, end.usage.cache_read_tokens, end.usage.output_tokens) == ALL
    assert end.cost.counted == pytest.approx((22 * 1 + 4 * 0.1 + 77 * 10) / 1_000_000)
    assert end.cost.estimated == 0
