"""The service tier that answers: what each service says of it, in the words of each client API, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kiro_asgi import create_app
from kiro_asgi.model.handling import Tier
from kiro_asgi.simulator import Head, RawBytes
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange
from tests.asgi.test_money import Told
from tests.asgi.test_unknown_answers import (
    CLIENTS,
    FORMS,
    MODES,
    SAME,
    answering,
    asking,
    converse,
    generated,
    in_chunks,
    responded,
    said,
    slices,
    streamed,
)
from tests.upstreams.test_ends import body, frames, sse

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": "Hi"}
ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
COUNTS = {
    "chat": {"prompt_tokens": 10, "completion_tokens": 10},
    "responses": {"input_tokens": 10, "output_tokens": 10},
    "messages": {"input_tokens": 10, "output_tokens": 10},
    "gemini": {"promptTokenCount": 10, "candidatesTokenCount": 10},
    "converse": {"inputTokens": 10, "outputTokens": 10},
}


def of_chat(word: str | None) -> bytes:
    about = {"usage": COUNTS["chat"], **({} if word is None else {"service_tier": word})}
    choices = {"delta": {"content": "Hi"}}, {"delta": {}, "finish_reason": "stop"}
    return sse(*({"choices": [{"index": 0, **choice}], **about} for choice in choices)) + b"data: [DONE]\n\n"


def response_of(word: str | None) -> dict[str, Any]:
    response = {"object": "response", **responded(ITEM), "usage": COUNTS["responses"]}
    return response if word is None else {**response, "service_tier": word}


def of_responses(word: str | None) -> bytes:
    """What was asked for stands in the beginning."""
    begun = {**response_of(word and "auto"), "output": [], "status": "in_progress"}
    return sse({"type": "response.created", "response": begun}) + streamed(response_of(word))


def message_of(word: str | None) -> list[dict[str, Any]]:
    events = said(TEXT)
    usage = COUNTS["messages"] if word is None else {**COUNTS["messages"], "service_tier": word}
    events[0]["message"] = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    return events


def of_gemini(word: str | None) -> dict[str, Any]:
    usage = COUNTS["gemini"] if word is None else {**COUNTS["gemini"], "trafficType": word}
    return {**generated({"text": "Hi"}), "usageMetadata": usage}


def of_converse(word: str | None) -> dict[str, Any]:
    return {"usage": COUNTS["converse"], **({} if word is None else {"serviceTier": {"type": word}})}


def whole_converse(word: str | None) -> bytes:
    answer = {"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn"}
    return body({**answer, **of_converse(word)})


def whole_message(word: str | None) -> bytes:
    message = message_of(word)[0]["message"]
    return body({**message, "content": [TEXT], "stop_reason": "end_turn"})


def whole_completion(word: str | None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    about = {} if word is None else {"service_tier": word}
    return body({"object": "chat.completion", "choices": [choice], "usage": COUNTS["chat"], **about})


SAYING = {
    "chat": of_chat,
    "chat.whole": whole_completion,
    "responses": of_responses,
    "responses.whole": lambda word: body(response_of(word)),
    "messages": lambda word: sse(*message_of(word)),
    "messages.whole": whole_message,
    "gemini": lambda word: sse(of_gemini(word)),
    "gemini.whole": lambda word: body(of_gemini(word)),
    "converse": lambda word: converse(text="Hi") + frames(("metadata", of_converse(word))),
    "converse.whole": whole_converse,
    "invoke": lambda word: in_chunks(*message_of(word)),
    "kiro": lambda _: frames(("assistantResponseEvent", {"content": "Hi"})),
}
"""Form of a service to an answer that names a tier, or none."""

OPENAI = {"default": Tier.STANDARD, "flex": Tier.FLEX, "priority": Tier.PRIORITY, "scale": Tier.SCALE, "auto": None}
MESSAGES = {"standard": Tier.STANDARD, "priority": Tier.PRIORITY}
SERVED = {
    "chat": OPENAI,
    "responses": OPENAI,
    "messages": MESSAGES,
    "invoke": MESSAGES,
    "gemini": {
        "ON_DEMAND": Tier.STANDARD,
        "ON_DEMAND_FLEX": Tier.FLEX,
        "ON_DEMAND_PRIORITY": Tier.PRIORITY,
        "PROVISIONED_THROUGHPUT": Tier.SCALE,
        "TRAFFIC_TYPE_UNSPECIFIED": None,
    },
    "converse": {
        "default": Tier.STANDARD,
        "flex": Tier.FLEX,
        "priority": Tier.PRIORITY,
        "reserved": Tier.SCALE,
    },
    "kiro": {},
}
"""What each service says, to what it means; the rest of what it may say means nothing."""

OF_OPENAI = {Tier.STANDARD: "default", Tier.FLEX: "flex", Tier.PRIORITY: "priority", Tier.SCALE: "scale"}
TOLD = {
    "openai_chat": OF_OPENAI,
    "openai_responses": OF_OPENAI,
    "openai_completions": {},
    "anthropic": {Tier.STANDARD: "standard", Tier.PRIORITY: "priority"},
    "gemini": {
        Tier.STANDARD: "ON_DEMAND",
        Tier.FLEX: "ON_DEMAND_FLEX",
        Tier.PRIORITY: "ON_DEMAND_PRIORITY",
        Tier.SCALE: "PROVISIONED_THROUGHPUT",
    },
}
"""The word that a client gets; nothing where its API has none."""

UNSAID = {"openai_responses": "default"}
"""What a client gets of a service that does not say, and of a stream of Chat Completions nothing."""


def tiers_in(value: Any) -> Iterator[str]:
    """All words for a tier in an answer, wherever they stand."""
    if isinstance(value, dict):
        yield from (value[name] for name in ("service_tier", "trafficType") if value.get(name))
        yield from (word for each in value.values() for word in tiers_in(each))
    elif isinstance(value, list):
        yield from (word for each in value for word in tiers_in(each))


def objects_in(exchange: Exchange) -> Iterable[Any]:
    if exchange.headers["content-type"].startswith("application/json"):
        return [exchange.json()]
    return [json.loads(line[6:]) for line in exchange.content.split(b"\n") if line.startswith(b"data: {")]


def last_tier(client: str, exchange: Exchange) -> str | None:
    """The tier that the client is left with."""
    objects = [each for each in objects_in(exchange) if each.get("type") != "response.created"]
    return next(reversed([*tiers_in(objects)]), None)


@MODES
@pytest.mark.parametrize("name", SAYING)
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_tier_is_told_in_the_words_of_the_client_s_api(client, name, stream, gateway, service, sim):
    """Each word of each service; one that the client's API has no word for is not said."""
    each, api = FORMS[name], name.partition(".")[0]
    app = gateway(**slices(service, each))
    for word, tier in {**SERVED[api], None: None}.items():
        sim.answer_with(answering(each, SAYING[name](word)))
        exchange = await asking(client, each.model, stream).run(app)
        sim.answer_with(None)

        unsaid = "default" if client == "openai_chat" and not stream else UNSAID.get(client)
        expected = TOLD[client].get(tier, unsaid)
        if SAME.get(api) == client and word is not None:
            expected = word  # its own word is handed on, whatever it is
        assert exchange.status == 200
        assert b"Hi" in exchange.content
        assert last_tier(client, exchange) == expected


@MODES
async def test_what_a_service_begins_with_stands_where_messages_has_it(stream, gateway, service, sim):
    """In the start of a message, once; what comes only at the end stands there."""
    for name, member in (("chat", "message_start"), ("converse", "message_delta")):
        each = FORMS[name]
        sim.answer_with(answering(each, SAYING[name]("priority")))
        exchange = await asking("anthropic", each.model, stream).run(gateway(**slices(service, each)))
        sim.answer_with(None)
        found = [event["type"] for event in objects_in(exchange) if [*tiers_in(event)]]

        assert found == ([member] if stream else ["message"])


HEADED = {
    "gemini": ("x-gemini-service-tier", {"standard": Tier.STANDARD, "flex": Tier.FLEX, "priority": Tier.PRIORITY}),
    "invoke": (
        "X-Amzn-Bedrock-Service-Tier",
        {"default": Tier.STANDARD, "flex": Tier.FLEX, "priority": Tier.PRIORITY, "reserved": Tier.SCALE},
    ),
}


@MODES
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", HEADED)
async def test_a_tier_in_the_head_counts(name, client, stream, gateway, service, sim):
    """Gemini's own API, and InvokeModel, have it nowhere else, or say of it there what holds."""
    each, (header, words) = FORMS[name], HEADED[name]
    app = gateway(**slices(service, each))
    for word, tier in {**words, "hologram": None}.items():
        head = Head(content_type=each.content_type, headers=((header, word),))
        script = (head, RawBytes(SAYING[name](None)))
        sim.answer_with(lambda recorded: script if recorded.operation == each.operation else None)  # noqa: B023
        exchange = await asking(client, each.model, stream).run(app)
        sim.answer_with(None)

        unsaid = "default" if client == "openai_chat" and not stream else UNSAID.get(client)
        assert last_tier(client, exchange) == TOLD[client].get(tier, unsaid)


@MODES
@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini", "converse"])
async def test_an_unknown_tier_is_named(name, stream, service, sim):
    """And not said in the words of another API."""
    each, told = FORMS[name], Told()
    client = "anthropic" if name != "messages" else "openai_chat"
    app = create_app(settings_for(service.url, slices(service, each)), observers=[told])
    sim.answer_with(answering(each, SAYING[name]("hologram")))
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert b"hologram" not in exchange.content
    assert told.ends[0].notices["tier.unknown:hologram"] == 1


@MODES
@pytest.mark.parametrize("relay", ["never", "auto"])
@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini", "converse"])
async def test_an_answer_costs_what_its_tier_does(name, relay, stream, service, sim, tmp_path):
    """Whatever was asked for, relayed or translated."""
    form = f"{name}.whole" if relay == "auto" and not stream else name
    each, told = FORMS[form], Told()
    model = each.model.partition("/")[2]
    priced = {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "input_cost_per_token_priority": 5e-06}
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({model: priced, f"{model}-20251001": priced}))
    settings = {**slices(service, each), "prices": {"file": str(table)}, "stream": {"relay": relay}}
    if relay == "auto" and name == "chat":
        settings["custom"]["local"]["relay"] = "allow"
    app = create_app(settings_for(service.url, settings), observers=[told])
    word = {"gemini": "ON_DEMAND_PRIORITY"}.get(name, "priority")
    sim.answer_with(answering(each, SAYING[form](word)))
    client = SAME.get(name, "openai_chat")
    exchange = await asking(client, each.model, stream).run(app)
    sim.answer_with(None)
    await app.aclose()

    assert exchange.status == 200
    assert told.ends[0].usage.tier is Tier.PRIORITY
    assert told.ends[0].cost.counted == pytest.approx(10 * 5e-06 + 10 * 1e-06)
