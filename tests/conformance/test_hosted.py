"""B9: hosted tools through the official clients, in each API, at each service: left out with a note, or refused."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from kiro_asgi.simulator import Hit, Simulator, answer, search, text
from kiro_asgi.simulator.service import CHAT
from tests.conformance.asked import EACH_API, EACH_WAY
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway

KIRO = (CHAT, "claude-haiku-4.5")
GEMINI = ("gemini.chat", "gemini-2.5-flash")
OPENAI = ("openai.chat", "gpt-4o")
ANTHROPIC = ("anthropic.chat", "anthropic/claude-haiku-4-5")
EACH_SERVICE = pytest.mark.parametrize(
    ("operation", "model"),
    [
        pytest.param(*KIRO, id="kiro"),
        pytest.param(*GEMINI, id="gemini"),
        pytest.param(*OPENAI, id="openai"),
        pytest.param(*ANTHROPIC, id="anthropic"),
    ],
)
OWN: dict[str, dict[str, Any]] = {
    "messages": {"name": "own", "input_schema": {"type": "object"}},
    "chat": {"type": "function", "function": {"name": "own", "parameters": {"type": "object", "properties": {}}}},
    "responses": {"type": "function", "name": "own", "parameters": {"type": "object", "properties": {}}},
}
SEARCH: dict[str, dict[str, Any]] = {
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "chat": {"type": "web_search"},
    "responses": {"type": "web_search_preview"},
}
HOSTED: dict[str, list[dict[str, Any]]] = {
    "messages": [
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "advisor_20260301", "name": "advisor"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
    ],
    "chat": [{"type": "code_interpreter"}, {"type": "file_search"}],
    "responses": [
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example.org"},
        {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
    ],
}
DEMANDS: dict[str, dict[str, Any]] = {
    "messages": {"named": {"type": "tool", "name": "web_search"}, "any": {"type": "any"}},
    "chat": {"named": {"type": "web_search"}, "any": "required"},
    "responses": {"named": {"type": "web_search_preview"}, "any": "required"},
}
EACH_DEMAND = pytest.mark.parametrize("demand", ["named", "any"])
FOUND = answer(search("fjords", Hit("https://example.org/f", "Fjords")), *text("Norway has many."))
REFUSED = (anthropic.BadRequestError, openai.BadRequestError)


def bodies(service: Simulator, operation: str) -> list[bytes]:
    return [request.body for request in service.requests if request.operation == operation]


def rules_of(clients: Clients, gateway: Gateway, api: str, tools: list[Any], **more: Any) -> str:
    """The header that tells what was done to a request with these *tools*."""
    headers, said = {"x-kiro-asgi-rules": "1"}, [{"role": "user", "content": "do it"}]
    params: dict[str, Any] = {"tools": tools, "extra_headers": headers, **more}
    response: Any
    match api:
        case "messages":
            raw = clients.anthropic(gateway).messages.with_raw_response
            response = raw.create(max_tokens=4096, messages=said, **params)
        case "chat":
            response = clients.openai(gateway).chat.completions.with_raw_response.create(messages=said, **params)
        case _:
            response = clients.openai(gateway).responses.with_raw_response.create(input=said, **params)
    return str(response.headers["x-kiro-asgi-rules"])


@EACH_WAY
@EACH_API
@EACH_SERVICE
def test_what_the_service_does_not_have_is_left_out(
    clients: Clients, scripted: Gateway, service: Simulator, api: str, stream: bool, operation: str, model: str
) -> None:
    """Where the model may choose, with or without another tool, the answer comes; the service hears nothing of them."""
    service.answer_with(lambda request: answer(*text("So.")) if request.operation == operation else None)
    for tools in ([*HOSTED[api], OWN[api]], HOSTED[api]):
        sent = _sent(clients, scripted, api, stream, {"tools": tools, "model": model})
        assert "So." in _shown(sent, stream)
    with_own, without = bodies(service, operation)

    assert b"own" in with_own
    if (api, operation) == ("messages", "anthropic.chat"):  # whose own tools they are
        assert b"code_execution" in with_own and b"code_execution" in without
        return
    for word in (b"code_execution", b"advisor", b"mcp", b"interpreter", b"file_search", b"image_gen", b"computer"):
        assert word not in with_own + without


@EACH_API
@EACH_SERVICE
def test_a_note_says_so(
    clients: Clients, scripted: Gateway, service: Simulator, api: str, operation: str, model: str
) -> None:
    """How many were left out, and the place of the first."""
    service.answer_with(lambda request: answer(*text("So.")) if request.operation == operation else None)
    told = rules_of(clients, scripted, api, [OWN[api], *HOSTED[api]], model=model)

    is_own = (api, operation) == ("messages", "anthropic.chat")  # whose own tools they are
    assert (f'tools.hosted_dropped;n={len(HOSTED[api])};at="tools[1]"' in told) is not is_own


@EACH_WAY
@EACH_DEMAND
@EACH_API
def test_a_demand_for_what_the_service_does_not_have_is_refused(
    clients: Clients, scripted: Gateway, service: Simulator, api: str, demand: str, stream: bool
) -> None:
    """An OpenAI-compatible service has no search: 400 names the tool and its place, and nobody is asked."""
    tools = [OWN[api], SEARCH[api]] if demand == "named" else [SEARCH[api]]
    params = {"tools": tools, "model": OPENAI[1], "tool_choice": DEMANDS[api][demand]}
    with pytest.raises(REFUSED, match=rf"web_search \(tools\[{len(tools) - 1}\]\)") as caught:
        _sent(clients, scripted, api, stream, params)

    assert getattr(caught.value, "param", None) in (f"tools[{len(tools) - 1}]", None)
    assert bodies(service, OPENAI[0]) == []


def _sent(clients: Clients, gateway: Gateway, api: str, stream: bool, params: dict[str, Any]) -> Any:
    said: Any = [{"role": "user", "content": "do it"}]
    if api == "messages":
        return clients.anthropic(gateway).messages.create(max_tokens=9, messages=said, stream=stream, **params)
    if api == "chat":
        return clients.openai(gateway).chat.completions.create(messages=said, stream=stream, **params)
    return clients.openai(gateway).responses.create(input=said, stream=stream, **params)


@EACH_WAY
@EACH_DEMAND
@EACH_API
@pytest.mark.parametrize(
    ("operation", "model"), [pytest.param(*GEMINI, id="gemini"), pytest.param(*ANTHROPIC, id="anthropic")]
)
def test_a_demanded_search_of_the_service_is_a_call(
    clients: Clients,
    scripted: Gateway,
    service: Simulator,
    api: str,
    demand: str,
    stream: bool,
    operation: str,
    model: str,
) -> None:
    """What the service reports of its search is the call, and its text is what came of it."""
    service.answer_with(lambda request: FOUND if request.operation == operation else None)
    params = {"tools": [SEARCH[api]], "model": model, "tool_choice": DEMANDS[api][demand]}
    shown = _shown(_sent(clients, scripted, api, stream, params), stream)

    assert "Norway has many." in shown
    assert "https://example.org/f" in shown
    assert len(bodies(service, operation)) == 1


@EACH_API
def test_beside_functions_a_search_that_is_demanded_is_offered_alone(
    clients: Clients, scripted: Gateway, service: Simulator, api: str
) -> None:
    """Gemini refuses both together; the others may not be called anyway."""
    operation, model = GEMINI
    service.answer_with(lambda request: FOUND if request.operation == operation else None)
    params = {"tools": [OWN[api], SEARCH[api]], "model": model, "tool_choice": DEMANDS[api]["named"]}
    shown = _shown(_sent(clients, scripted, api, False, params), False)
    (body,) = bodies(service, operation)

    assert "Norway has many." in shown
    assert b"googleSearch" in body
    assert b"functionDeclarations" not in body


@EACH_API
def test_an_answer_without_the_demanded_search_is_asked_for_again(
    clients: Clients, scripted: Gateway, service: Simulator, api: str
) -> None:
    """Once; what is no search either is a clear error."""
    operation, model = GEMINI
    params = {"tools": [SEARCH[api]], "model": model, "tool_choice": DEMANDS[api]["named"]}
    scripts = iter([answer(*text("I know.")), FOUND, answer(*text("I know.")), answer(*text("I do know."))])
    service.answer_with(lambda request: next(scripts) if request.operation == operation else None)
    shown = _shown(_sent(clients, scripted, api, False, params), False)
    with pytest.raises((anthropic.InternalServerError, openai.InternalServerError), match="called no tool") as caught:
        _sent(clients, scripted, api, False, params)

    assert "I know." not in shown
    assert "Norway has many." in shown
    assert caught.value.status_code == 502
    assert len(bodies(service, operation)) == 4


def test_a_demanded_search_behind_json(clients: Clients, scripted: Gateway, service: Simulator) -> None:
    """Behind a JSON object no search can be told of: the answer is held to the schema."""
    found = answer(search("fjords", Hit("https://example.org/f", "Fjords")), *text('{"many": true}'))
    service.answer_with(lambda request: found if request.operation == GEMINI[0] else None)
    schema = {"type": "object", "properties": {"many": {"type": "boolean"}}}
    form = {"format": {"type": "json_schema", "schema": schema}}
    params: dict[str, Any] = {
        "tools": [SEARCH["messages"]],
        "model": GEMINI[1],
        "tool_choice": {"type": "any"},
        "output_config": form,
    }
    message = _sent(clients, scripted, "messages", False, params)

    assert "".join(block.text for block in message.content if block.type == "text") == '{"many": true}'


def _shown(sent: Any, stream: bool) -> str:
    """All that the client was given, as JSON text."""
    parts = list(sent) if stream else [sent]
    joined = "".join(_piece(part) for part in parts)
    return joined + "".join(part.model_dump_json() for part in parts)


def _piece(part: Any) -> str:
    if (delta := getattr(part, "delta", None)) is not None:
        return delta if isinstance(delta, str) else getattr(delta, "text", None) or ""
    choices = getattr(part, "choices", None) or ()
    return "".join(choice.delta.content or "" for choice in choices if hasattr(choice, "delta"))
