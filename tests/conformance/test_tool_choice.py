"""``tool_choice`` is kept to by every answer, through the official clients, in each API and from each service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from kiro_asgi.simulator import Script, answer, text, thinking, tool_call
from kiro_asgi.simulator.scripts import Trailers
from kiro_asgi.simulator.service import CHAT
from tests.conformance.asked import EACH_API, EACH_WAY, Seen, ask
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

EACH_SERVICE = pytest.mark.parametrize(
    ("operation", "model"),
    [
        pytest.param(CHAT, "claude-haiku-4.5", id="kiro"),
        pytest.param("gemini.chat", "gemini-2.5-flash", id="gemini"),
        pytest.param("openai.chat", "gpt-4o", id="openai"),
        pytest.param("anthropic.chat", "anthropic/claude-haiku-4-5", id="anthropic"),
    ],
)
TOOLS = {name: {"type": "object", "properties": {"n": {"type": "integer"}}} for name in ("first", "second")}
CHOICES: dict[str, dict[str, Any]] = {
    "messages": {
        "none": {"type": "none"},
        "required": {"type": "any"},
        "named": {"type": "tool", "name": "second"},
    },
    "chat": {
        "none": "none",
        "required": "required",
        "named": {"type": "function", "function": {"name": "second"}},
        "allowed": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "second"}}]},
        },
        "allowed-required": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "second"}}]},
        },
    },
    "responses": {
        "none": "none",
        "required": "required",
        "named": {"type": "function", "name": "second"},
        "allowed": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "second"}]},
        "allowed-required": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "second"}],
        },
    },
}
EACH_CHOICE = pytest.mark.parametrize(
    ("api", "choice"), [(api, choice) for api, choices in CHOICES.items() for choice in choices if choice != "none"]
)
FIRST, SECOND = (tool_call(name, {"n": n}, call_id=f"c{n}") for n, name in enumerate(TOOLS))
COMPLAINT = "calls none of the tools"

Asked = Callable[..., Seen]


@pytest.fixture
def asked(clients: Clients, scripted: Gateway) -> Iterator[Asked]:
    """Ask, and have the service answer by scripts."""
    service = scripted.service
    assert service is not None

    def asking(api: str, choice: str, stream: bool, operation: str, model: str, *scripts: Script) -> Seen:
        service.forget()
        rest = iter(scripts)
        service.answer_with(lambda request: next(rest, None) if request.operation == operation else None)
        more = {"tools": TOOLS, "model": model, "tool_choice": CHOICES[api][choice]}
        return ask(clients, scripted, api, "do it", stream=stream, **more)

    yield asking
    service.answer_with(None)


def times(gateway: Gateway, operation: str) -> int:
    assert gateway.service is not None
    return sum(request.operation == operation for request in gateway.service.requests)


@EACH_WAY
@EACH_API
@EACH_SERVICE
def test_none(asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str) -> None:
    """Where no tool may be called, the answer has its text and no call."""
    seen = asked(api, "none", stream, operation, model, answer(*text("So."), *FIRST))

    assert (seen.text, seen.calls) == ("So.", ())
    assert seen.stop in ("end_turn", "stop", "completed")
    assert times(scripted, operation) == 1


@EACH_WAY
@EACH_SERVICE
@EACH_CHOICE
def test_what_is_forbidden_is_withheld(
    asked: Asked, scripted: Gateway, api: str, choice: str, stream: bool, operation: str, model: str
) -> None:
    """Calls of tools that are not named or allowed are left out; text before a call stays where none is demanded."""
    seen = asked(api, choice, stream, operation, model, answer(*text("I do it."), *FIRST, *SECOND))

    required = (("first", {"n": 0}),) if choice == "required" else ()
    assert seen.calls == (*required, ("second", {"n": 1}))
    assert seen.text == ("I do it." if choice == "allowed" else "")
    assert seen.stop in ("tool_use", "tool_calls", "completed")
    assert times(scripted, operation) == 1


@EACH_WAY
@EACH_SERVICE
@EACH_CHOICE
def test_a_missing_call_gets_one_more_try(
    asked: Asked, scripted: Gateway, api: str, choice: str, stream: bool, operation: str, model: str
) -> None:
    """The model is told what was wrong, and the client gets the second answer and nothing of the first."""
    wrong = answer(*text("No."), *(FIRST if choice not in ("required",) else ()))
    seen = asked(api, choice, stream, operation, model, wrong, answer(*text("Well."), *SECOND))

    if choice == "allowed":
        assert (seen.text, seen.calls) == ("No.", ())
        return
    assert (seen.text, seen.calls) == ("", (("second", {"n": 1}),))
    assert scripted.service is not None
    first, again = (request for request in scripted.service.requests if request.operation == operation)
    assert COMPLAINT.encode() not in first.body
    assert COMPLAINT.encode() in again.body


@EACH_WAY
@EACH_SERVICE
@EACH_API
def test_then_it_is_an_error(
    asked: Asked, scripted: Gateway, api: str, stream: bool, operation: str, model: str
) -> None:
    """Nobody tries a third time, neither the gateway nor the SDK."""
    wrong = answer(*text("No."))
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError), match="called no tool") as raised:
        asked(api, "required", stream, operation, model, wrong, wrong, wrong)

    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert getattr(raised.value, "code", "tool_choice_failed") == ("tool_choice_failed")
    assert times(scripted, operation) == 2


@EACH_WAY
@EACH_API
def test_an_answer_that_was_cut_is_told_as_it_is(asked: Asked, scripted: Gateway, api: str, stream: bool) -> None:
    """A limit on its length is what kept the model from the call; asking again would not help."""
    seen = asked(
        api,
        "required",
        stream,
        CHAT,
        "claude-haiku-4.5",
        answer(*text("A long story"), trailers=Trailers("MAX_TOKENS")),
    )

    assert (seen.text, seen.calls) == ("A long story", ())
    assert seen.stop in ("max_tokens", "length", "max_output_tokens")
    assert times(scripted, CHAT) == 1


@EACH_WAY
@EACH_API
def test_thinking_does_not_stand_in_the_way(asked: Asked, scripted: Gateway, api: str, stream: bool) -> None:
    """What the model thought before an answer that is withheld goes with it; what it thought before the call stays."""
    seen = asked(
        api,
        "required",
        stream,
        CHAT,
        "claude-sonnet-4.5",
        answer(*thinking("I will not."), *text("No.")),
        answer(*thinking("I will."), *SECOND),
    )

    assert (seen.thinking, seen.text, seen.calls) == ("I will.", "", (("second", {"n": 1}),))
