"""Turns that a service gives in several messages (``pause_turn``), as the official clients see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.asked import EACH_API, EACH_WAY, Seen, ask
from tests.conformance.asking import user
from tests.conformance.clients import Clients
from tests.conformance.gateways import EVERY_SERVICE, TRANSIENT_RETRIES, Gateway, watched
from tests.pauses import INPUT, OUTPUT, PARTS, TEXT, URL, Pausing

SEARCH = {
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "chat": {"type": "web_search"},
    "responses": {"type": "web_search"},
}
MODEL = "anthropic/claude-haiku-4-5"


@pytest.fixture
def pausing(scripted: Gateway) -> Iterator[Pausing]:
    """The service behind `scripted`, which pauses."""
    assert scripted.service is not None
    service = Pausing()
    scripted.service.answer_with(service.answer)
    yield service
    scripted.service.answer_with(None)


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway through which bytes pass."""
    settings = {**EVERY_SERVICE, "KIRO_ASGI__STREAM__RELAY": "auto"}
    with watched(tmp_path_factory.mktemp("pauses"), **TRANSIENT_RETRIES, **settings) as running:
        yield running


def _said(seen: Seen) -> str:
    """The text without the empty lines that stand for searches where an API has no blocks."""
    return seen.text.replace("\n\n", "")


@EACH_API
@EACH_WAY
def test_the_gateway_goes_on(clients: Clients, scripted: Gateway, pausing: Pausing, api: str, stream: bool) -> None:
    """One answer, its end and all of its text, although the service paused twice: it has had back what it said."""
    more: dict[str, Any] = {"model": MODEL, "extra_body": {"tools": [SEARCH[api]]}}
    seen = ask(clients, scripted, api, "fjords", stream=stream, **more)

    assert (_said(seen), seen.stop) == (TEXT, {"messages": "end_turn", "chat": "stop", "responses": "completed"}[api])
    assert len(pausing.asked) == 3


@EACH_WAY
def test_one_message(clients: Clients, scripted: Gateway, pausing: Pausing, stream: bool) -> None:
    """Blocks in their order, a result of the next message behind its call, and the usage of all messages."""
    params: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 999,
        "messages": user("fjords"),
        "tools": [SEARCH["messages"]],
    }
    messages = clients.anthropic(scripted).messages
    if stream:
        with messages.stream(**params) as events:
            message = events.get_final_message()
    else:
        message = messages.create(**params)

    assert [block.type for block in message.content] == [block["type"] for part in PARTS for block in part]
    called = [block.id for block in message.content if block.type == "server_tool_use"]
    found = [block for block in message.content if block.type == "web_search_tool_result"]
    assert [(block.tool_use_id, block.content[0].url) for block in found] == [(call_id, URL) for call_id in called]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3 * INPUT, 3 * OUTPUT)


@EACH_API
@EACH_WAY
def test_no_more_than_five_times(clients: Clients, scripted: Gateway, pausing: Pausing, api: str, stream: bool) -> None:
    """A service that pauses for ever: Messages tells that it did, the others that the answer is cut."""
    pausing.endless = True
    more: dict[str, Any] = {"model": MODEL, "extra_body": {"tools": [SEARCH[api]]}}
    seen = ask(clients, scripted, api, "fjords", stream=stream, **more)

    assert _said(seen) == TEXT + 3 * ", and cold."
    assert seen.stop == {"messages": "pause_turn", "chat": "length", "responses": "max_output_tokens"}[api]
    assert len(pausing.asked) == 6


@EACH_WAY
def test_bytes_that_pass_pause(clients: Clients, passing: Gateway, stream: bool) -> None:
    """The client hears of it as if there were no gateway, and goes on by itself."""
    assert passing.service is not None
    service = Pausing(whole=not stream)
    passing.service.answer_with(service.answer)
    turns: list[Any] = user("fjords")
    params: dict[str, Any] = {"model": MODEL, "max_tokens": 999, "tools": [SEARCH["messages"]]}
    messages, reasons, said = clients.anthropic(passing).messages, [], []
    for _ in PARTS:
        turn: list[Any] = [*turns, *([{"role": "assistant", "content": said}] if said else [])]
        if stream:
            with messages.stream(**params, messages=turn) as events:
                message = events.get_final_message()
        else:
            message = messages.create(**params, messages=turn)
        reasons.append(message.stop_reason)
        said += message.content
    passing.service.answer_with(None)

    assert reasons == ["pause_turn", "pause_turn", "end_turn"]
    assert len(service.asked) == 3
