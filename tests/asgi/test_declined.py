"""A service that declines, and says why; and events of it that nobody knows."""

from __future__ import annotations

import json
import logging
from typing import Any

import anthropic
import openai.types.chat as chat
import openai.types.responses as responses
import pytest

from kiro_asgi.simulator import Event, answer, text
from tests.asgi.driver import Exchange, ask, post

pytestmark = pytest.mark.anyio

WHY = {"category": "cyber", "explanation": "It could do harm.", "recommendedModel": "claude-haiku-4.5"}
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
TEXTS = pytest.mark.parametrize("texts", [(), ("I begin. ",)], ids=["at-once", "after-text"])


def declining(*texts: str) -> Any:
    return answer(*text(*texts), Event("metadataEvent", {"stopReason": "END_TURN", "refusal": WHY}), trailers=None)


def events_of(exchange: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in exchange.content.splitlines() if line.startswith(b"data: {")]


@STREAM
@TEXTS
async def test_messages(texts, stream, gateway, sim):
    """2.6: `stop_details` has what the service says, for the official SDK's own type."""
    sim.enqueue(declining(*texts))
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
async def test_chat_completions(texts, stream, gateway, sim):
    """2.6: the explanation is the message's refusal."""
    sim.enqueue(declining(*texts))
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
async def test_responses(texts, stream, gateway, sim):
    """2.6: the explanation is a part of the answer, of type refusal."""
    sim.enqueue(declining(*texts))
    exchange = await ask("responses", "hi", stream=stream).run(gateway())

    document = events_of(exchange)[-1]["response"] if stream else exchange.json()
    response = responses.Response.model_validate(document)
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    assert [part.refusal for part in parts if part.type == "refusal"] == ["It could do harm."]
    assert "".join(part.text for part in parts if part.type == "output_text") == "".join(texts)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "content_filter"


@STREAM
async def test_gemini(stream, gateway, sim):
    """2.6: the explanation is the candidate's message about its end."""
    sim.enqueue(declining("I begin. "))
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
    assert said == ["answer complete, with event.unknown:fooEvent, event.unknown:bar_Event"]
