"""A client API from outside with operations of its own, the one of the documentation, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import App, ConfigError, RequestError, create_app
from kiro_asgi.dialects import ApiReply, ApiRequest, DialectManifest, Endpoint
from kiro_asgi.testing import ask
from tests.asgi.conftest import settings_for
from tests.examples import example

pytestmark = pytest.mark.anyio

OLLAMA: DialectManifest = example("ollama_dialect").OLLAMA
Chat = example("ollama_dialect").Chat
MODEL = "claude-sonnet-4.5"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "sim:count=3"}]}


@pytest.fixture
async def app(sim) -> AsyncIterator[App]:
    made = create_app(settings_for(sim.url, {}), dialects=[OLLAMA])
    yield made
    await made.aclose()


def lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/api/chat", CHAT, lambda it: it["message"]["content"]),
        ("/api/generate", {"model": MODEL, "prompt": "sim:count=3"}, lambda it: it["response"]),
    ],
)
async def test_each_endpoint_reads_and_writes_in_its_own_way(app, path, body, told):
    """Streamed and collected: the dialect is told at which endpoint it is asked."""
    streamed = await ask(app, path, body, key="k")
    collected = await ask(app, path, {**body, "stream": False}, key="k")

    assert streamed.headers["content-type"] == "application/x-ndjson"
    assert "".join(map(told, lines(streamed.body))).endswith("1 2 3 ")
    assert lines(streamed.body)[-1]["done"] is True
    assert told(collected.json()).endswith("1 2 3 ")


async def test_a_tool_is_called_with_an_object(app):
    """As soon as the call is whole."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    asked = {**CHAT, "messages": [{"role": "user", "content": 'sim:tool=look {"at": "it"}'}], "tools": [tool]}
    streamed = lines((await ask(app, "/api/chat", asked, key="k")).body)

    assert [call for line in streamed for call in line["message"].get("tool_calls", ())] == [
        {"function": {"name": "look", "arguments": {"at": "it"}}}
    ]


async def test_operations_of_its_own_stand_beside_ours(app):
    """One of its own, which asks for models; a list in its own form; and a constant."""
    shown = await ask(app, "/api/show", {"model": MODEL}, key="k")
    listed = await ask(app, "/api/tags", key="k")
    version = await ask(app, "/api/version", key="k")

    assert "completion" in shown.json()["capabilities"]
    assert MODEL in [each["name"] for each in listed.json()["models"]]
    assert (version.json(), version.headers["content-type"]) == ({"version": "0.9.0"}, "application/json")


@pytest.mark.parametrize(
    ("path", "body", "key", "status", "words"),
    [
        ("/api/chat", {"model": MODEL}, "k", 400, "messages: required field missing"),
        ("/api/chat", {**CHAT, "messages": "hi"}, "k", 400, "messages: expected an array, got a string"),
        ("/api/show", {"model": "nobody"}, "k", 404, "model 'nobody' not found"),
        ("/api/show", b"{", "k", 400, "invalid JSON"),
        ("/api/nothing", None, "k", 404, "there is nothing at GET /api/nothing"),
        ("/api/deeper/nothing", {}, "k", 404, "there is nothing at POST /api/deeper/nothing"),
        ("/api/chat", None, "k", 405, "takes POST only"),
        ("/api/version", None, "", 401, "the request shows no API key"),
        ("/api/show", {}, "", 401, "the request shows no API key"),
    ],
)
async def test_errors_below_its_root_have_its_own_form(app, path, body, key, status, words):
    """Also at paths that nobody has, and of operations of its own."""
    answer = await ask(app, path, body, key=key)

    assert (answer.status, [*answer.json()]) == (status, ["error"])
    assert words in answer.json()["error"]


async def test_errors_elsewhere_have_the_usual_form(app):
    """The prefix ends at a slash."""
    for path in ("/apiary", "/v1/nothing"):
        assert "message" in (await ask(app, path, key="k")).json()["error"]


class Odd(Chat):
    @property
    def operations(self):
        return {"show": self.fail, "none": self.nothing, "echo": self.echo, "answer": self.echo}

    async def fail(self, request: ApiRequest) -> ApiReply:
        raise RequestError("not so", code="not_so")

    async def nothing(self, request: ApiRequest) -> ApiReply:
        return None  # type: ignore[return-value]

    async def echo(self, request: ApiRequest) -> ApiReply:
        told = f"{request.principal} {request.argument}".encode() + request.body
        return ApiReply(told, 201, b"text/plain", ((b"x-own", b"1"),))


ODD = evolve(
    OLLAMA,
    make=Odd,
    endpoints=(
        Endpoint("POST", "/chat"),
        Endpoint("POST", "/show", "show"),
        Endpoint("POST", "/none", "none"),
        Endpoint("PUT", "/echo/{name}", "echo"),
    ),
)


async def test_an_operation_of_its_own_may_reply_anything(sim):
    """Status, type, headers; with the name in its path, the client and its body; also in the place of ours."""
    app = create_app(settings_for(sim.url, {}), dialects=[ODD])
    answer = await ask(app, "/api/echo/me", {"a": 1}, method="PUT", key="k")
    instead = await ask(app, "/api/chat", {}, key="k")
    await app.aclose()

    assert (answer.status, answer.headers["content-type"], answer.headers["x-own"]) == (201, "text/plain", "1")
    assert answer.text.startswith("key:") and answer.text.endswith(' me{"a":1}')
    assert instead.status == 201


@pytest.mark.unexpected("TypeError", "kiro_asgi.dialects.ApiReply")
async def test_an_operation_that_fails_is_answered(sim):
    """In the API's own form; one that gives no reply is a bug, which the log has."""
    app = create_app(settings_for(sim.url, {}), dialects=[ODD])
    refused, broken = await ask(app, "/api/show", {}, key="k"), await ask(app, "/api/none", {}, key="k")
    await app.aclose()

    assert (refused.status, refused.json()) == (400, {"error": "not so"})
    assert broken.status == 500
    assert broken.json()["error"].startswith("internal error")


async def test_a_body_is_bounded_there_too(sim):
    """By the gateway's own limit."""
    app = create_app(settings_for(sim.url, {"limits": {"body_bytes": 100}}), dialects=[OLLAMA])
    answer = await ask(app, "/api/show", {"model": "x" * 100}, key="k")
    await app.aclose()

    assert answer.status == 413


class Inner(Chat):
    name = "inner"

    def envelope(self, error):
        return {"inner": error.message}


@pytest.mark.parametrize("order", [1, -1])
async def test_the_nearest_root_decides(order, sim):
    """Of prefixes within one another, whichever API is named first."""
    inner = evolve(OLLAMA, name="inner", prefix="/api/inner", make=Inner)
    app = create_app(settings_for(sim.url, {}), dialects=[OLLAMA, inner][::order])
    answers = [await ask(app, path, key="k") for path in ("/api/inner/x", "/api/x")]
    await app.aclose()

    assert [[*answer.json()] for answer in answers] == [["inner"], ["error"]]


async def test_an_operation_that_there_is_not_is_refused(sim):
    """When the application is made, with its whole path."""
    manifest = evolve(OLLAMA, endpoints=(*OLLAMA.endpoints, Endpoint("POST", "/sing", "sing")))
    with pytest.raises(ConfigError, match="ollama has no operation 'sing' for /api/sing"):
        create_app(settings_for(sim.url, {}), dialects=[manifest])
