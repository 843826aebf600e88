"""A service that declines, and says why; and events of it that nobody knows."""

from __future__ import annotations

import json
import logging
from typing import Any

import anthropic
import openai.types.chat as chat
import openai.types.responses as responses
import pytest

from kiro_asgi.simulator import Event, Head, RawBytes, answer, text
from kiro_asgi.simulator.kiro.hosts import CHAT
from tests.asgi.answers import text_of
from tests.asgi.driver import Exchange, ask, post

pytestmark = pytest.mark.anyio

WHY = {"category": "cyber", "explanation": "It could do harm.", "recommendedModel": "claude-haiku-4.5"}
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
TEXTS = pytest.mark.parametrize("texts", [(), ("I begin. ",)], ids=["at-once", "after-text"])


PLACES: dict[str, dict[str, Any]] = {
    "kiro-cli": {"stopReason": "END_TURN", "refusal": WHY},
    "service": {"stopReason": "CONTENT_FILTERED", "stopDetails": {"refusal": WHY}},
    "no-reason": {"stopDetails": {"refusal": WHY}},
    "another-reason": {"stopReason": "END_TURN", "stopDetails": {"refusal": WHY}},
    "unknown-reason": {"stopReason": "UNKNOWN", "stopDetails": {"refusal": WHY, "hologram": {}}},
}
WHERE = pytest.mark.parametrize("where", PLACES)


def declining(where: str, *texts: str) -> Any:
    return (Head(), *text(*texts), Event("metadataEvent", PLACES[where]))


def events_of(exchange: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: {")]


@STREAM
@TEXTS
@WHERE
async def test_messages(where, texts, stream, gateway, sim):
    """2.6: `stop_details` has what the service says, for the official SDK's own type."""
    sim.enqueue(declining(where, *texts))
    exchange = await ask("anthropic", "hi", stream=stream).run(gateway())

    if stream:
        (delta,) = (event["delta"] for event in events_of(exchange) if event["type"] == "message_delta")
    else:
        delta = exchange.json()
    details = anthropic.types.RefusalStopDetails.model_validate(delta["stop_details"], strict=True)
    assert (delta["stop_reason"], details.category, details.explanation) == ("refusal", "cyber", "It could do harm.")
    assert delta["stop_details"]["recommended_model"] == "claude-haiku-4.5"


@STREAM
@TEXTS
@WHERE
async def test_chat_completions(where, texts, stream, gateway, sim):
    """2.6: the explanation is the message's refusal."""
    sim.enqueue(declining(where, *texts))
    exchange = await ask("openai", "hi", stream=stream).run(gateway())

    if stream:
        chunks = [chat.ChatCompletionChunk.model_validate(each) for each in events_of(exchange)]
        choices = [choice for chunk in chunks for choice in chunk.choices]
        refusal = "".join(choice.delta.refusal or "" for choice in choices)
        said = "".join(choice.delta.content or "" for choice in choices)
        reason = choices[-1].finish_reason
    else:
        (choice,) = chat.ChatCompletion.model_validate(exchange.json()).choices
        refusal, said, reason = choice.message.refusal, choice.message.content or "", choice.finish_reason
    assert (refusal, said, reason) == ("It could do harm.", "".join(texts), "content_filter")


@STREAM
@TEXTS
@WHERE
async def test_responses(where, texts, stream, gateway, sim):
    """2.6: the explanation is a part of the answer, of type refusal."""
    sim.enqueue(declining(where, *texts))
    exchange = await ask("responses", "hi", stream=stream).run(gateway())

    document = events_of(exchange)[-1]["response"] if stream else exchange.json()
    response = responses.Response.model_validate(document)
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    assert [part.refusal for part in parts if part.type == "refusal"] == ["It could do harm."]
    assert "".join(part.text for part in parts if part.type == "output_text") == "".join(texts)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "content_filter"


@STREAM
@WHERE
async def test_gemini(where, stream, gateway, sim):
    """2.6: the explanation is the candidate's message about its end."""
    sim.enqueue(declining(where, "I begin. "))
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    does = "streamGenerateContent" if stream else "generateContent"
    path = f"/v1beta/models/claude-sonnet-4.5:{does}"
    more = {"query_string": b"alt=sse"} if stream else {}
    exchange = await post(path, body, **more).run(gateway())

    last = events_of(exchange)[-1] if stream else exchange.json()
    (candidate,) = last["candidates"]
    assert (candidate["finishReason"], candidate["finishMessage"]) == ("SAFETY", "It could do harm.")


async def test_an_unknown_event_is_named_in_the_log(gateway, sim, caplog):
    """F136: at a level that does not wake anybody, once an answer."""
    foo = Event("fooEvent", {"content": "secret"})
    sim.enqueue(answer(*text("Hi"), foo, foo, Event("bar\nEvent", {})))
    with caplog.at_level(logging.INFO):
        await ask("openai", "hi", stream=True).run(gateway())

    said = [record.getMessage() for record in caplog.records if "event.unknown" in record.getMessage()]
    assert said[0] == "answer complete, with event.unknown:fooEvent, event.unknown:bar_Event"
    assert "notices=event.unknown:fooEvent,event.unknown:bar_Event " in said[1]
    assert len(said) == 2


async def test_a_refusal_is_found_between_texts(gateway, sim):
    """A relay may send the objects without their frames, and the refusal without a reason before it."""
    objects = b'{"content":"I begin. "}' + json.dumps({"stopDetails": {"refusal": WHY}}).encode()
    sim.enqueue((Head(content_type="text/plain"), RawBytes(objects)))
    exchange = await ask("anthropic", "hi", stream=False).run(gateway())

    assert exchange.json()["stop_reason"] == "refusal"
    assert exchange.json()["stop_details"]["category"] == "cyber"


@pytest.mark.parametrize(
    ("metadata", "reason", "noticed"),
    [
        ({"stopReason": "PAUSE_TURN"}, "pause_turn", ""),
        ({"stopReason": "UNKNOWN"}, "end_turn", "stop.unknown"),
        ({"stopReason": "END_TURN", "stopDetails": {"hologram": {"a": 1}}}, "end_turn", "stop.details_unknown"),
        ({"stopDetails": {"contentFilter": {"a": 1}}}, "refusal", "stop.details_unknown"),
        ({"stopDetails": {"refusal": None}}, "end_turn", ""),
        ({"stopDetails": "cyber"}, "end_turn", ""),
        ({"stopReason": "END_TURN", "stopDetails": {"refusal": {}}}, "refusal", ""),
    ],
)
async def test_details_of_the_end(metadata, reason, noticed, gateway, sim, caplog):
    """Any refusal is one; what else the service says of the end is named."""
    sim.enqueue((Head(), *text("Hi"), Event("metadataEvent", metadata)))
    with caplog.at_level(logging.INFO):
        exchange = await ask("anthropic", "hi", stream=False).run(gateway())

    assert exchange.json()["stop_reason"] == reason
    assert noticed in caplog.text


EXTRACTION = {"refusal": {"category": "REASONING_EXTRACTION", "explanation": "Ask for the answer alone."}}


@STREAM
async def test_reasoning_is_not_asked_for_once_more(stream, gateway, sim):
    """A model that declines to write its reasoning as text is asked without the instruction to do so."""
    sim.enqueue((Head(), Event("metadataEvent", {"stopReason": "CONTENT_FILTERED", "stopDetails": EXTRACTION})))
    sim.enqueue(answer(*text("Done.")))
    exchange = _thinking(stream)
    exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
    await exchange.run(gateway())

    asked, again = (json.dumps(request.json()) for request in sim.requests if request.operation == CHAT)
    assert "Begin your reply with <thinking>" in asked
    assert "Begin your reply with <thinking>" not in again
    assert "adapted.untagged" in exchange.headers["x-kiro-asgi-rules"]
    assert b"Done." in exchange.content


@STREAM
@pytest.mark.parametrize("texts", [(), ("I begin. ",)])
async def test_a_second_refusal_is_one(texts, stream, gateway, sim):
    """Nor is it asked once more where the client has been shown something."""
    declined = (Head(), *text(*texts), Event("metadataEvent", {"stopDetails": EXTRACTION}))
    sim.enqueue(declined, declined)
    exchange = await _thinking(stream).run(gateway())

    assert exchange.status == 200
    assert b'"stop_reason":"refusal"' in exchange.content.replace(b'": "', b'":"')
    assert b"Ask for the answer alone." in exchange.content
    assert len([request for request in sim.requests if request.operation == CHAT]) == (1 if texts else 2)


def _thinking(stream: bool) -> Any:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = {"model": "auto", "max_tokens": 2048, "thinking": thinking, "stream": stream}
    return post("/v1/messages", {**body, "messages": [{"role": "user", "content": "hi"}]})


@STREAM
@pytest.mark.parametrize("dialect", ["anthropic", "openai", "responses"])
async def test_an_answer_without_a_word_and_without_a_reason(dialect, stream, gateway, sim, caplog):
    """The user learns that there was none; an answer without a word that has a reason stays as it is."""
    sim.enqueue((Head(), Event("contextUsageEvent", {"contextUsagePercentage": 3.5})))
    exchange = await ask(dialect, "hi", stream=stream).run(gateway())
    assert text_of(dialect, exchange) == SILENT
    assert "stop.silent" in caplog.text

    sim.enqueue((Head(), Event("metadataEvent", {"stopReason": "END_TURN"})))
    exchange = await ask(dialect, "hi", stream=stream).run(gateway())
    assert text_of(dialect, exchange) in ("", "None")


SILENT = "[Notice from the gateway] The service ended its answer without a word, and without a reason."


@pytest.mark.parametrize(
    "payload",
    [{"content": "Hi"}, {"assistantResponseEvent": {"content": "Hi"}}, {"content": "Hi", "modelId": "m"}],
)
async def test_a_frame_without_its_type(payload, gateway, sim):
    """What it holds is what it is."""
    sim.enqueue((Head(), Event("", payload), Event("metadataEvent", {"stopReason": "END_TURN"})))
    exchange = await ask("anthropic", "hi", stream=False).run(gateway())

    assert text_of("anthropic", exchange) == "Hi"
