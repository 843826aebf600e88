"""What a service lists of a model corrects what the built-in table says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from attrs import frozen

from kiro_asgi import App
from kiro_asgi.net.catalogue import LIST_PATIENCE
from kiro_asgi.simulator import Pause, Stall, json_answer
from tests.asgi.conftest import is_asking
from tests.asgi.driver import Exchange, get, post

pytestmark = pytest.mark.anyio

KEPT = {"models_ttl": 3600.0}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EFFORT = {"output_config": {"properties": {"effort": {"enum": ["low", "high"]}}}}


@frozen
class Service:
    """A service, and a list of its models that contradicts the table."""

    name: str
    model: str
    chat: str
    """The simulator's word for asking for an answer, and for the list."""

    models: str
    listing: Mapping[str, Any]
    said: Callable[[Any], Any]
    """Of a request body, what asks for thinking, and the longest answer."""

    before: Any
    after: Any

    def slices(self, url: str) -> dict[str, Any]:
        """Settings for this service alone."""
        if self.name == "kiro":
            return {"kiro": KEPT}
        return {"kiro": {"api_key": ""}, self.name: {"api_key": "key", "endpoint": url, **KEPT}}


def kiro_said(body: Any) -> Any:
    fields = body.get("additionalModelRequestFields", {})
    return fields.get("output_config"), fields.get("max_tokens")


def gemini_said(body: Any) -> Any:
    config = body["generationConfig"]
    return config.get("thinkingConfig"), config.get("maxOutputTokens")


def anthropic_said(body: Any) -> Any:
    return body.get("thinking", {}).get("type"), body.get("output_config"), body["max_tokens"]


SERVICES = (
    Service(
        "kiro",
        "claude-opus-4.7",
        "GenerateAssistantResponse",
        "ListAvailableModels",
        {
            "models": [
                {
                    "modelId": "claude-opus-4.7",
                    "tokenLimits": {"maxInputTokens": 50_000, "maxOutputTokens": 3_000},
                    "supportedInputTypes": ["TEXT"],
                    "additionalModelRequestFieldsSchema": {"properties": {**EFFORT, "max_tokens": {}}},
                }
            ]
        },
        kiro_said,
        ({"effort": "medium"}, None),
        ({"effort": "low"}, 3_000),
    ),
    Service(
        "gemini",
        "gemini-2.5-flash",
        "gemini.chat",
        "gemini.models",
        {
            "models": [
                {
                    "name": "models/gemini-2.5-flash",
                    "supportedGenerationMethods": ["generateContent"],
                    "inputTokenLimit": 50_000,
                    "outputTokenLimit": 3_000,
                    "thinking": False,
                }
            ]
        },
        gemini_said,
        ({"includeThoughts": True, "thinkingBudget": 10_000}, 20_000),
        (None, 3_000),
    ),
    Service(
        "anthropic",
        "claude-opus-4-6",
        "anthropic.chat",
        "anthropic.models",
        {
            "data": [
                {
                    "id": "claude-opus-4-6",
                    "max_input_tokens": 50_000,
                    "max_tokens": 3_000,
                    "capabilities": {
                        "image_input": {"supported": False},
                        "effort": {"supported": False},
                        "thinking": {"supported": True, "types": {"enabled": {"supported": True}}},
                    },
                }
            ]
        },
        anthropic_said,
        ("adaptive", {"effort": "medium"}, 20_000),
        ("enabled", None, 3_000),
    ),
)
EACH_SERVICE = pytest.mark.parametrize("service_asked", SERVICES, ids=lambda service: service.name)


def ask(model: str, **more: Any) -> Exchange:
    body = {"model": model, "reasoning_effort": "medium", "max_completion_tokens": 20_000, **more}
    return post("/v1/chat/completions", {"messages": [{"role": "user", "content": "sim:count=3"}], **body})


async def ask_twice(app: App, service: Service, sim: Any) -> list[Any]:
    """What two requests said, the second of them once the list was there."""
    assert (await ask(service.model).run(app)).status == 200
    await app.aclose()  # waits for what is asked in the background
    assert (await ask(service.model).run(app)).status == 200
    assert [request.operation for request in sim.requests].count(service.models) == 1
    return [service.said(request.json()) for request in sim.requests if request.operation == service.chat]


@EACH_SERVICE
async def test_a_list_corrects_the_table(service_asked, gateway, sim):
    """From the first request on the list is asked for; what follows is asked as it says."""
    sim.enqueue(json_answer(200, service_asked.listing), operation=service_asked.models)
    app = gateway(**service_asked.slices(sim.url), fresh=True)

    assert await ask_twice(app, service_asked, sim) == [service_asked.before, service_asked.after]


@EACH_SERVICE
async def test_a_list_that_fails_changes_nothing(service_asked, gateway, sim):
    """Nor is it asked for again at once."""
    sim.enqueue(json_answer(500, {}), operation=service_asked.models)
    app = gateway(**service_asked.slices(sim.url), fresh=True)

    assert await ask_twice(app, service_asked, sim) == [service_asked.before] * 2


async def test_a_slow_list_holds_nobody_up(gateway, sim):
    """An answer is there long before it."""
    sim.enqueue((Pause(2.0), *json_answer(200, SERVICES[0].listing)), operation="ListAvailableModels")
    app = gateway(kiro=KEPT, fresh=True)
    exchange = await ask("claude-opus-4.7").run(app)
    models = await get("/health").run(app)

    assert is_asking()  # what the next test has to be kept from
    assert (exchange.status, models.status) == (200, 200)
    assert [request.operation for request in sim.requests if request.status] == ["GenerateAssistantResponse"]


@pytest.mark.parametrize("name", ["kiro", "anthropic"])
async def test_images_are_refused_for_a_model_that_is_listed_without(name, gateway, sim):
    """Though the table says that it takes them."""
    (service,) = (each for each in SERVICES if each.name == name)
    sim.enqueue(json_answer(200, service.listing), operation=service.models)
    app = gateway(**service.slices(sim.url), fresh=True)
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "sim:count=3"}, image]}]
    taken = await ask(service.model, messages=messages).run(app)
    await app.aclose()
    refused = await ask(service.model, messages=messages).run(app)

    assert (taken.status, refused.status) == (200, 400)
    assert "takes no images" in refused.json()["error"]["message"]


async def test_a_list_of_a_compatible_server_counts(gateway, sim):
    """Nothing is built in of its models: a name waits for the list, and is asked as that says."""
    entry = {"id": "gpt-5", "supported_parameters": [], "top_provider": {"max_completion_tokens": 3_000}}
    sim.enqueue(json_answer(200, {"data": [entry]}), operation="openai.models")
    app = gateway(custom={"local": {"endpoint": f"{sim.url}/v1", "api_key": "key", **KEPT}}, fresh=True)
    assert (await ask("local/gpt-5").run(app)).status == 200
    (body,) = (request.json() for request in sim.requests if request.operation == "openai.chat")

    assert ("reasoning_effort" in body, body["max_completion_tokens"]) == (False, 3_000)


def ids(answer: Any) -> set[str]:
    """Of a list of models, in either form."""
    return {each.get("id") or each["name"].removeprefix("models/") for each in answer.get("data") or answer["models"]}


LISTS = ("/v1/models", "/v1beta/models", "/v1/models/claude-sonnet-4.5", "/v1beta/models/claude-sonnet-4.5")


@pytest.mark.parametrize("ttl", [3600.0, 0.0], ids=["kept", "not-kept"])
@pytest.mark.parametrize("path", LISTS)
async def test_one_service_that_hangs_does_not_hold_up_a_list(path, ttl, gateway, sim):
    """The first request ever is answered soon, with what the others list and what is built in of this one."""
    sim.enqueue((Stall(),), operation="ListAvailableModels")
    slices = {name: {"api_key": "key", "endpoint": sim.url, "models_ttl": ttl} for name in ("gemini", "anthropic")}
    app = gateway(kiro={"models_ttl": ttl}, **slices, fresh=True)
    with anyio.fail_after(LIST_PATIENCE + 0.8):  # Claude Code gives up after three
        exchange = await get(path).run(app)
    with anyio.fail_after(LIST_PATIENCE):
        ready = (await get("/ready").run(app)).json()
    await app.aclose()

    assert exchange.status == 200
    assert ready["lists"] == {"kiro": "asking" if ttl else "UpstreamTimeout", "gemini": "listed", "anthropic": "listed"}
    if path.endswith("/models"):
        assert ids(exchange.json()) > {"claude-sonnet-4.5", "gemini-2.5-pro", "claude-opus-4-6"}


async def test_what_a_list_says_too_late_counts_for_the_next_request(gateway, sim):
    """The gateway goes on asking in the background, for as long as a list may take."""
    late = {"models": [{"modelId": "late-model"}]}
    sim.enqueue((Pause(LIST_PATIENCE + 0.5), *json_answer(200, late)), operation="ListAvailableModels")
    app = gateway(kiro=KEPT, fresh=True)
    first = ids((await get("/v1/models").run(app)).json())
    while (await get("/ready").run(app)).json()["lists"]["kiro"] == "asking":  # noqa: ASYNC110 - a thread has no event
        await anyio.sleep(0.05)

    assert "late-model" not in first
    assert ids((await get("/v1/models").run(app)).json()) == {"late-model"}
