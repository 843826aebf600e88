"""Clients that ask are told what was left out of their requests, through the official SDKs, in each API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.asked import EACH_API, EACH_WAY
from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

HEADER = "x-kiro-asgi-rules"
ASKING = {HEADER: "1"}

LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "chat": ({"logit_bias": {"50256": -100}}, 'fields.ignored;at="logit_bias"'),
    "messages": (
        {"extra_body": {"context_management": {"edits": []}}},
        'fields.ignored;at="context_management"',
    ),
    "responses": ({"top_logprobs": 3}, 'fields.echoed;at="top_logprobs"'),
}
"""What each client can say and no service is told, and what the answer's header says of it."""


def told(clients: Clients, gateway: Gateway, api: str, *, stream: bool, **more: Any) -> str | None:
    """The header of the answer."""
    more = {"stream": stream, "model": MODEL, **more}
    turns = [{"role": "user", "content": "hi"}]
    if api == "messages":
        raw = clients.anthropic(gateway).messages.with_raw_response.create(max_tokens=9, messages=turns, **more)
    elif api == "chat":
        raw = clients.openai(gateway).chat.completions.with_raw_response.create(messages=turns, **more)
    else:
        raw = clients.openai(gateway).responses.with_raw_response.create(input=turns, **more)
    raw.http_response.read()
    return raw.headers.get(HEADER)


@EACH_API
@EACH_WAY
def test_who_asks_is_told_what_was_left_out(api: str, stream: bool, clients: Clients, gateway: Gateway) -> None:
    """Issue 11, 24: rule, how often and where, before the answer; who does not ask is told nothing."""
    more, expected = LEFT_OUT[api]

    assert expected in (told(clients, gateway, api, stream=stream, extra_headers=ASKING, **more) or "").split(", ")
    assert told(clients, gateway, api, stream=stream, extra_headers=ASKING) == ""
    assert told(clients, gateway, api, stream=stream, **more) is None


@EACH_API
@pytest.mark.parametrize("model", [MODEL, "gemini-2.5-flash", "gpt-4o", "anthropic/claude-haiku-4-5"])
def test_every_service_is_asked_with_the_same_honesty(
    api: str, model: str, clients: Clients, scripted: Gateway
) -> None:
    """What an API leaves out does not depend on who answers, unless that is a service of the same API: it gets all."""
    more, expected = LEFT_OUT[api]
    extra = {"extra_headers": ASKING, "model": model, **more}
    if api == "messages" and model.startswith("anthropic"):
        extra["thinking"] = {"type": "enabled", "budget_tokens": 1024}  # else its bytes would go through

    is_own = (api, model.partition("-")[0]) in (("messages", "anthropic/claude"), ("chat", "gpt"))
    said = told(clients, scripted, api, stream=False, **extra) or ""
    assert (expected.partition(";")[0] in said) is not is_own


def test_services_that_have_no_such_field_are_told_of(clients: Clients, scripted: Gateway) -> None:
    """How long the answer shall be, and which earlier text was commentary, goes where a service can be told."""
    said = [{"role": "assistant", "content": "Well.", "phase": "commentary"}, {"role": "user", "content": "hi"}]
    unheard = {}
    for model in (MODEL, "gpt-4o"):
        raw = clients.openai(scripted).responses.with_raw_response.create(
            model=model, input=said, text={"verbosity": "low"}, extra_headers=ASKING
        )
        unheard[model] = {rule.partition(";")[0] for rule in raw.headers[HEADER].split(", ")}

    assert unheard[MODEL] >= {"verbosity.unavailable", "phase.unavailable"}
    assert "phase.unavailable" in unheard["gpt-4o"] and "verbosity.unavailable" not in unheard["gpt-4o"]
