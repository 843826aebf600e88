"""A client API from outside, the one of the documentation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from attrs import evolve

from kiro_asgi import App, ConfigError, create_app
from kiro_asgi.dialects import Endpoint
from kiro_asgi.simulator import Head, RawBytes, answer, refusal, text
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, http_scope, post
from tests.asgi.test_restart import frame
from tests.examples import example

pytestmark = pytest.mark.anyio

PLAIN = example("plain_dialect").PLAIN
MODEL = ("x-model", "claude-sonnet-4.5")

EACH_WAY = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])


@pytest.fixture
async def app(sim) -> AsyncIterator[App]:
    direct = {name: {"endpoint": sim.url, "api_key": "k"} for name in ("gemini", "anthropic")}
    made = create_app(
        settings_for(sim.url, {**direct, "openai": {"endpoint": f"{sim.url}/v1", "api_key": "k"}}), dialects=[PLAIN]
    )
    yield made
    await made.aclose()


def ask(prompt: bytes, *headers: tuple[str, str], stream: bool) -> Exchange:
    sent = [("authorization", "Bearer k"), *headers, *([("X-Stream", "yes")] if stream else [])]
    return Exchange(http_scope("POST", "/plain", sent), [prompt])


@EACH_WAY
@pytest.mark.parametrize("model", [MODEL[1], "gemini/gemini-2.5-flash", "anthropic/claude-haiku-4-5", "openai/gpt-5"])
async def test_text_in_and_text_out(app, model, stream):
    """At each service, with the type that the dialect says."""
    exchange = await ask(b"sim:count=3", ("X-Model", model), stream=stream).run(app)

    assert exchange.status == 200
    assert exchange.headers["content-type"] == "text/plain; charset=utf-8"
    assert exchange.content.decode().endswith("1 2 3 \n")
    assert exchange.complete
    assert exchange.headers["x-request-id"]


async def test_it_comes_as_it_is_said(app, sim):
    """A message for each event that is by itself, and nothing else."""
    sim.enqueue(answer(*text("Grüße, ", "Welt")))
    exchange = await ask(b"hi", MODEL, stream=True).run(app)

    assert exchange.content.decode() == "Grüße, Welt\n"


@EACH_WAY
@pytest.mark.parametrize(
    ("prompt", "headers", "status", "words"),
    [
        pytest.param(b"hi", (), 400, "x-model: name a model", id="no-model"),
        pytest.param(b" ", (MODEL,), 400, "body: send a prompt", id="no-prompt"),
        pytest.param(b"\xff", (MODEL,), 400, "body: send text in UTF-8", id="not-utf8"),
        pytest.param(b"hi", (("x-model", "nobody"),), 404, "nobody", id="unknown-model"),
    ],
)
async def test_errors_are_told_as_it_tells_them(app, prompt, headers, status, words, stream):
    """A line of text with the status; so is a wrong key, a wrong method, and what is below its path."""
    exchange = await ask(prompt, *headers, stream=stream).run(app)

    assert (exchange.status, exchange.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert words in exchange.content.decode()


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        (http_scope("POST", "/plain", [("authorization", "Bearer wrong")]), 401),
        (http_scope("GET", "/plain"), 405),
        (http_scope("GET", "/plain/x"), 404),
    ],
)
async def test_the_gateways_own_errors_too(app, scope, status):
    """The path decides who reads them; those at other paths stay as they were."""
    exchange = await Exchange(scope).run(app)

    assert (exchange.status, exchange.headers["content-type"]) == (status, "text/plain; charset=utf-8")


async def test_errors_of_the_service(app, sim):
    """Before the answer a status, and within it the end of the text."""
    sim.enqueue(refusal(400, "No."))
    assert (await ask(b"hi", MODEL, stream=True).run(app)).status == 400
    whole = frame("one") + frame("never")[:40]
    sim.enqueue((Head(length=len(whole)), RawBytes(whole)))
    exchange = await ask(b"hi", MODEL, stream=True).run(app)

    assert exchange.status == 200
    assert exchange.content.decode().startswith("one\n[the answer broke off: ")
    assert exchange.complete


async def test_the_other_apis_are_still_there(app):
    """Beside it."""
    exchange = await post("/v1/completions", {"model": MODEL[1], "prompt": "sim:count=1"}).run(app)

    assert exchange.status == 200


async def test_what_is_taken_cannot_be_had(sim):
    """Names and paths; and an operation has to be there."""
    settings = settings_for(sim.url, {})
    for dialect, words in (
        (evolve(PLAIN, name="anthropic"), "client API 'anthropic': the name is taken"),
        (
            evolve(PLAIN, name="openai_chat"),
            "openai_chat: the client API's make gave a PlainText whose name is 'plain'",
        ),
        (evolve(PLAIN, endpoints=(Endpoint("POST", "/v1/messages"),)), "POST /v1/messages is taken"),
        (evolve(PLAIN, endpoints=(Endpoint("POST", "/plain", "sing"),)), "plain has no operation 'sing' for /plain"),
    ):
        with pytest.raises(ConfigError, match=words):
            create_app(settings, dialects=[dialect])
