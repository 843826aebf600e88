"""Answers in words that nobody knows, of every service in each of its forms, to clients of every API.

An end that says nothing is no silent success, and an answer of parts that no reader knows is no empty one.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from attrs import frozen

from kiro_asgi import create_app
from kiro_asgi.inspector.calls import RecentCalls, Seen
from kiro_asgi.inspector.rows import row
from kiro_asgi.observers.measures import NOTICES
from kiro_asgi.simulator import Head, RawBytes, RecordedRequest, Simulator
from kiro_asgi.simulator.kiro.hosts import CHAT
from kiro_asgi.simulator.scripts import Script
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.asgi.test_observers import Recorder
from tests.observers.test_measures import Sums
from tests.upstreams import test_ends as ends
from tests.upstreams.test_ends import FRAMES, JSON, SSE, body, frames, sse

pytestmark = pytest.mark.anyio

HOLOGRAM = {"hologram": {"of": "a cat"}}
KIND = {"type": "hologram", "of": "a cat"}
CLAUDE = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def in_chunks(*events: dict[str, Any]) -> bytes:
    """Events of the Messages API as Bedrock frames them."""
    return frames(*(("chunk", {"bytes": b64encode(json.dumps(event).encode()).decode()}) for event in events))


def chat(*deltas: dict[str, Any]) -> bytes:
    choices = [*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": "stop"}]
    return sse(*({"choices": [{"index": 0, **choice}]} for choice in choices)) + b"data: [DONE]\n\n"


def said(*content: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a message of these blocks."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"content": []}}]
    for block in content:
        events += (
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
        )
    return [*events, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


def responded(*items: dict[str, Any]) -> dict[str, Any]:
    return {"status": "completed", "output": [{"id": f"i_{at}", **item} for at, item in enumerate(items)]}


def streamed(response: dict[str, Any]) -> bytes:
    done = (
        {"type": "response.output_item.done", "output_index": at, "item": it}
        for at, it in enumerate(response["output"])
    )
    return sse(*done, {"type": "response.completed", "response": response})


def generated(part: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"parts": [part]}, "finishReason": "STOP"}]}


def converse(**delta: Any) -> bytes:
    place = {"contentBlockIndex": 0}
    return frames(
        ("contentBlockDelta", {**place, "delta": delta}),
        ("contentBlockStop", place),
        ("messageStop", {"stopReason": "end_turn"}),
    )


MESSAGE = {"type": "message", "role": "assistant", "content": [KIND]}


@frozen
class Form:
    """A form in which a service answers."""

    model: str
    operation: str
    content_type: str
    ended: Callable[[Any], bytes]
    """An answer with a text that ends with a word."""

    unknown: tuple[bytes, ...]
    """Answers without anything that is known."""

    bedrock: str = ""
    """Setting ``bedrock.claude_api``."""


def form(name: str, model: str, operation: str, content_type: str, *unknown: bytes, bedrock: str = "") -> Form:
    return Form(
        model, operation, content_type, lambda word: ends.SERVICES[name].written(word, "text"), unknown, bedrock
    )


ENDING = said({"type": "text", "text": "Hi"})


def invoked(word: Any) -> bytes:
    *before, _, last = ENDING
    return in_chunks(*before, {"type": "message_delta", "delta": {"stop_reason": word}}, last)


FORMS = {
    "chat": form(
        "chat", "local/gpt-4o", "openai.chat", SSE,
        chat(HOLOGRAM), chat({"content": [KIND]}), chat(HOLOGRAM, {"content": ""}),
    ),
    "chat.whole": form(
        "chat.whole", "local/gpt-4o", "openai.chat", JSON,
        body({"choices": [{"index": 0, "message": {"content": None, **HOLOGRAM}, "finish_reason": "stop"}]}),
    ),
    "responses": form(
        "responses", "openai/gpt-5-pro", "responses.chat", SSE, streamed(responded(KIND)), streamed(responded(MESSAGE))
    ),
    "responses.whole": form(
        "responses.status", "openai/gpt-5-pro", "responses.chat", JSON, body(responded(KIND)), body(responded(MESSAGE))
    ),
    "messages": form("messages", "anthropic/claude-haiku-4-5", "anthropic.chat", SSE, sse(*said(KIND))),
    "messages.whole": form(
        "messages.whole", "anthropic/claude-haiku-4-5", "anthropic.chat", JSON,
        body({"type": "message", "content": [KIND], "stop_reason": "end_turn"}),
    ),
    "gemini": form("gemini", "gemini/gemini-2.5-pro", "gemini.chat", SSE, sse(generated(HOLOGRAM))),
    "gemini.whole": form("gemini.whole", "gemini/gemini-2.5-pro", "gemini.chat", JSON, body(generated(HOLOGRAM))),
    "converse": form("bedrock", CLAUDE, "bedrock.chat", FRAMES, converse(**HOLOGRAM), bedrock="converse"),
    "converse.whole": form(
        "bedrock.whole", CLAUDE, "bedrock.chat", JSON,
        body({"output": {"message": {"content": [HOLOGRAM]}}, "stopReason": "end_turn"}), bedrock="converse",
    ),
    "invoke": Form(CLAUDE, "bedrock.chat", FRAMES, invoked, (in_chunks(*said(KIND)),), "invoke"),
    "kiro": form(
        "kiro", "kiro/claude-sonnet-4.5", CHAT, FRAMES,
        frames(("hologramEvent", HOLOGRAM), ("metadataEvent", {"stopReason": "END_TURN"})),
    ),
}  # fmt: skip

ASKED = [{"role": "user", "content": "hi"}]
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", {"messages": ASKED, "max_tokens": 99}),
    "openai_chat": ("/v1/chat/completions", {"messages": ASKED}),
    "openai_responses": ("/v1/responses", {"input": "hi"}),
    "openai_completions": ("/v1/completions", {"prompt": "hi"}),
    "gemini": ("", GEMINI),
}
SAME = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "messages": "anthropic",
    "invoke": "anthropic",
    "gemini": "gemini",
}
"""Form to the API of its clients, where there is one."""

FAILED = (500, 502)
"""Status of a failure of the service, which Gemini's API has no 502 for."""

EVERY = pytest.mark.parametrize("client", CLIENTS)
EACH = pytest.mark.parametrize("name", FORMS)
MODES = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@pytest.fixture(autouse=True)
def _responses_are_legal(_responses_judged: list[str]) -> Iterator[None]:
    """But for the kind that nobody knows."""
    _responses_judged.clear()
    yield
    assert not [problem for problem in _responses_judged if "hologram" not in problem]


def asking(client: str, model: str, stream: bool) -> Exchange:
    path, document = CLIENTS[client]
    if client == "gemini":
        exchange = post(f"/v1beta/models/{model}:{'streamGenerateContent' if stream else 'generateContent'}", document)
        exchange.scope["query_string"] = b"alt=sse" if stream else b""
    else:
        exchange = post(path, {**document, "model": model, "stream": stream})
    exchange.scope["headers"] = [*exchange.scope["headers"], (b"x-kiro-asgi-rules", b"1")]
    return exchange


def slices(service: Simulator, each: Form) -> dict[str, Any]:
    """Settings of a gateway that translates whatever it is asked."""
    keyed = {"api_key": "sk", "endpoint": service.url}
    settings = {
        "anthropic": keyed,
        "gemini": keyed,
        "openai": {**keyed, "endpoint": f"{service.url}/v1"},
        "custom": {"local": {**keyed, "endpoint": f"{service.url}/v1"}},
        "stream": {"relay": "never"},
    }
    bedrock = {**keyed, "region": "us-east-1", "claude_api": each.bedrock, "models_ttl": 0.0}
    return {**settings, "bedrock": bedrock} if each.bedrock else settings


def answering(each: Form, data: bytes) -> Callable[[RecordedRequest], Script | None]:
    script = (Head(content_type=each.content_type), RawBytes(data))
    return lambda recorded: script if recorded.operation == each.operation else None


@MODES
@EACH
@EVERY
async def test_no_answer_of_unknown_parts_is_an_empty_success(client, name, stream, gateway, service, sim):
    """It is an error that says what came, or, to a client of the API, what came."""
    each = FORMS[name]
    app = gateway(**slices(service, each))
    for data in each.unknown:
        sim.answer_with(answering(each, data))
        exchange = await asking(client, each.model, stream).run(app)
        sim.answer_with(None)

        assert b"hologram" in exchange.content
        if SAME.get(name.partition(".")[0]) != client:
            assert exchange.status in FAILED
        else:
            assert exchange.status in (200, *FAILED)


WORDS = {
    "sensitive": {
        "anthropic": b'"stop_reason":"refusal"',
        "openai_chat": b'"finish_reason":"content_filter"',
        "openai_responses": b'"incomplete_details":{"reason":"content_filter"}',
        "openai_completions": b'"finish_reason":"content_filter"',
        "gemini": b'"finishReason":"SAFETY"',
    },
    "token_budget_reached": {
        "anthropic": b'"stop_reason":"max_tokens"',
        "openai_chat": b'"finish_reason":"length"',
        "openai_responses": b'"incomplete_details":{"reason":"max_output_tokens"}',
        "openai_completions": b'"finish_reason":"length"',
        "gemini": b'"finishReason":"MAX_TOKENS"',
    },
}
"""A word that no service has to what it says, in each API."""

GOOD = (b'"end_turn"', b'"message_stop"', b'"finish_reason":"stop"', b"response.completed", b'"finishReason":"STOP"')
"""What a client takes for an answer that is whole."""


@MODES
@EACH
@EVERY
async def test_an_unknown_end_is_what_it_says(client, name, stream, gateway, service, sim):
    """A filter is a filter, a limit a limit; and a failure is an error, in the stream too, never a good answer."""
    each = FORMS[name]
    app = gateway(**slices(service, each))
    for word, said in WORDS.items():
        sim.answer_with(answering(each, each.ended(word)))
        exchange = await asking(client, each.model, stream).run(app)
        assert exchange.status == 200
        assert said[client] in exchange.content
        assert b"Hi" in exchange.content
    sim.answer_with(answering(each, each.ended("network_error")))
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)

    assert b"network_error" in exchange.content
    assert stream or exchange.status in FAILED
    assert not [word for word in GOOD if word in exchange.content]


@MODES
@EACH
@EVERY
async def test_an_end_that_says_nothing_is_seen_by_all(client, name, stream, service, sim, caplog):
    """The log, the metrics, the inspector, and the header, where the end is known before it."""
    each, recorder, sums, recent = FORMS[name], Recorder(), Sums(), RecentCalls(8, 1_000_000)
    app = create_app(settings_for(service.url, slices(service, each)), observers=(recorder, sums, recent))
    sim.answer_with(answering(each, each.ended("tired")))
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert exchange.status == 200
    assert b"Hi" in exchange.content
    assert stream or "stop.unknown:tired" in exchange.headers["x-kiro-asgi-rules"].split(", ")
    assert any("stop.unknown:tired" in record.getMessage() for record in caplog.records)
    assert recorder.end.notices["stop.unknown:tired"] == 1
    assert ("stop.unknown:tired", 1) in [(code, count) for (_, code), count in sums.of(NOTICES.name).items()]
    assert [row(call)["notices"]["stop.unknown:tired"] for call in recent.changes(Seen(), 8).calls] == [1]


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
async def test_what_is_passed_over_holds_nobody_up(client, gateway, service, sim, monkeypatch):
    """Much that leads to nothing is read a little at a time: between, others have their turn."""
    turns: list[int] = []

    async def turn() -> None:
        turns.append(1)
        await checkpoint()

    monkeypatch.setattr("kiro_asgi.asgi.exchange.reading.give_way", turn)
    monkeypatch.setattr("kiro_asgi.asgi.exchange.translated.PART", 0.0)
    each = FORMS["messages"]
    data = sse(*said(*[{"type": f"hologram_{number}", "of": "a cat"} for number in range(2000)]))
    sim.answer_with(answering(each, data))
    exchange = await asking(client, each.model, True).run(gateway(**slices(service, each)))
    sim.answer_with(None)

    assert b"hologram_0" in exchange.content
    assert len(turns) >= len(data) // (64 * 1024)
