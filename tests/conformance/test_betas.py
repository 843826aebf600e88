"""Beta features that a client asks for, from the official client through a translation to the service."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.simulator import Script, Simulator, answer, text, tool_call
from tests.conformance.asked import EACH_WAY
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway
from tests.conformance.test_marks import ANTHROPIC, OTHERS

FILE = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
INTERLEAVED = "interleaved-thinking-2025-05-14"
LONG = "context-1m-2025-08-07"
EAGER = "fine-grained-tool-streaming-2025-05-14"
NEW = "new-2030-01-01"
SO = answer(*text("So."))


def asked(
    clients: Clients,
    gateway: Gateway,
    service: Simulator,
    of: tuple[str, str],
    script: Script,
    stream: bool,
    **more: Any,
) -> tuple[Any, dict[str, str]]:
    """The answer as the client's types hold it, and the headers that the service was sent."""
    operation, model = of
    service.answer_with(lambda request: script if request.operation == operation else None)
    messages = clients.anthropic(gateway).beta.messages
    params: Any = {"model": model, "max_tokens": 4096, "messages": [{"role": "user", "content": "x"}], **more}
    if stream:
        with messages.stream(**params) as events:
            message = events.get_final_message()
    else:
        message = messages.create(**params)
    (request,) = (request for request in service.requests if request.operation == operation)
    return message, request.headers


@EACH_WAY
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"betas": [INTERLEAVED, LONG, NEW]}, [INTERLEAVED, LONG, NEW], id="betas"),
        pytest.param({"extra_headers": {"anthropic-beta": f"{LONG},, {LONG}, no name"}}, [LONG], id="header"),
        pytest.param({}, None, id="none"),
    ],
)
def test_the_service_is_asked_for_them(
    clients: Clients, scripted: Gateway, service: Simulator, more: Any, expected: Any, stream: bool
) -> None:
    """Those that are known and those that are not, each once; what cannot be a name is left out."""
    message, headers = asked(clients, scripted, service, ANTHROPIC, SO, stream, **more)
    named = headers.get("anthropic-beta")

    assert message.content[0].text == "So."
    assert (named and named.split(",")) == expected


@pytest.mark.parametrize("other", OTHERS, ids=[operation for operation, _ in OTHERS])
def test_other_services_are_not_told(
    clients: Clients, scripted: Gateway, service: Simulator, other: tuple[str, str]
) -> None:
    """They have no such features."""
    _, headers = asked(clients, scripted, service, other, SO, False, betas=[LONG])

    assert "anthropic-beta" not in headers
    assert LONG not in str(headers)


def test_other_clients_ask_for_none(clients: Clients, scripted: Gateway, service: Simulator) -> None:
    """The header belongs to the Messages API."""
    service.answer_with(lambda request: SO if request.operation == ANTHROPIC[0] else None)
    clients.openai(scripted).chat.completions.create(
        model=ANTHROPIC[1], messages=[{"role": "user", "content": "x"}], extra_headers={"anthropic-beta": LONG}
    )

    assert "anthropic-beta" not in service.last_request.headers


@EACH_WAY
@pytest.mark.parametrize(
    ("arguments", "reason", "calls"),
    [
        pytest.param('{"file_path": "a"}', "tool_use", 1, id="whole"),
        pytest.param('{"file_path": "a }', "max_tokens", 0, id="unfinished"),
        pytest.param('{"file_path": a}', "end_turn", 0, id="malformed"),
    ],
)
def test_arguments_that_the_service_has_not_checked(
    clients: Clients, scripted: Gateway, service: Simulator, arguments: str, reason: str, calls: int, stream: bool
) -> None:
    """Fine-grained streaming of tools gives arguments that may be no JSON: such a call is withheld, as any other is."""
    tools = [{"name": "edit", "input_schema": FILE}]
    script = answer(*tool_call("edit", arguments))
    message, headers = asked(clients, scripted, service, ANTHROPIC, script, stream, betas=[EAGER], tools=tools)
    inputs = [block.input for block in message.content if block.type == "tool_use"]

    assert headers["anthropic-beta"] == EAGER
    assert (message.stop_reason, inputs) == (reason, [{"file_path": "a"}] * calls)
