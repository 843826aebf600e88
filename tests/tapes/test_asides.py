"""What a request is given besides answers is on the tape, too: a replay asks nobody for it."""

from __future__ import annotations

import ssl
from functools import partial

import pytest

from kiro_asgi import create_app
from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.asgi.exchange.providers import new_fetcher
from kiro_asgi.create import new_app
from kiro_asgi.tapes import Line, Tape
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, post
from tests.asgi.test_websocket import connected, turn
from tests.net.hosts import CERTIFICATE, Resolver, hosted, permit_loopback
from tests.tapes.recording import question, read_all, services, tapes_of
from tests.tapes.test_replay import replayed, sim

__all__ = ["sim"]

pytestmark = pytest.mark.anyio

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.mark.parametrize("content", ["full", "masked"])
async def test_a_search(sim, tmp_path, content):
    """Its pages are those of then; without them the model is told that there is no search."""
    asked = ask("anthropic", "sim:tool=web_search", stream=True, tools=[SEARCH])
    (tape,) = await tapes_of(sim, tmp_path, [asked], tapes={"when": "all", "content": content})
    asked_of = len(sim.requests)

    played = await replayed(tape)

    assert played.difference is None and b"web_search_tool_result" in played.sent
    assert len(sim.requests) == asked_of
    without = Tape(tuple(line for line in tape.lines if line.kind != "tool"))
    assert (await replayed(without)).difference is not None
    torn = Tape(tuple(Line("tool", line.t, line.members, b"{") if line.kind == "tool" else line for line in tape.lines))
    with pytest.raises(Exception, match="cannot be read"):
        await replayed(torn)


@pytest.mark.parametrize("content", ["full", "masked"])
@pytest.mark.parametrize("served", [True, False], ids=["served", "refused"])
async def test_a_file_at_an_address(sim, tmp_path, content, served):
    """It is that of then, and nobody is asked; that it was refused is told again in the same words."""
    async with hosted() as host:
        url = host.serve("/a.png", PNG, "content-type: image/png", status=200 if served else 404)
        tapes = {"path": str(tmp_path), "when": "all", "content": content}
        settings = settings_for(sim.url, {"fetch": {"allow": [*host.allowed]}, "tapes": tapes})
        tls = ssl.create_default_context(cafile=CERTIFICATE)
        fetcher = partial(new_fetcher, resolve=Resolver(), permits=permit_loopback, tls=tls)
        app = new_app(settings, internals=Internals(fetcher=fetcher))
        picture = {"type": "image", "source": {"type": "url", "url": url}}
        turn = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}
        body = {"model": "claude-sonnet-4.5", "max_tokens": 99, "stream": True, "messages": [turn]}
        answer = await post("/v1/messages", body).run(app)
        await app.aclose()
        (tape,) = read_all(tmp_path)
        asked_of = len(host.asked)

        played = await replayed(tape)

        assert len(host.asked) == asked_of == 1
    assert answer.status == played.status == (200 if served else 400)
    assert played.difference is None
    (file,) = tape.of("file")
    if served and content == "full":
        assert file.data == PNG


async def test_who_else_was_set_up(sim, tmp_path):
    """A setting may name a service that this exchange did not ask."""
    routing = {"models": ["mine=anthropic/claude-sonnet-4-5>kiro/claude-sonnet-4.5"]}
    asked = question("anthropic", "Hi", "mine")
    (tape,) = await tapes_of(sim, tmp_path, [asked], tapes={"when": "all"}, routing=routing, **services(sim))

    assert {*tape.head.members["upstreams"]} == {"kiro", "anthropic", "openai", "bedrock", "gemini", "local"}
    assert (await replayed(tape)).difference is None


async def test_a_request_over_a_websocket(sim, tmp_path):
    """It is on the tape as it would come over HTTP, and its answer is the same."""
    app = create_app(settings_for(sim.url, {"tapes": {"path": str(tmp_path), "when": "all"}}))
    async with connected(app) as peer:
        await turn(peer, "sim:tool", store=False)
    await app.aclose()

    tape = next(tape for tape in read_all(tmp_path) if any(tape.of("plan")))
    assert tape.request.text("path") == "/v1/responses" and b'"stream":true' in tape.request.data
    played = await replayed(tape)
    assert played.difference is None and b"function_call" in played.sent


@pytest.mark.parametrize("content", ["full", "masked"])
async def test_responses_that_were_stored(sim, tmp_path, content):
    """The last of three that go on with each other: what it builds on is on its tape."""
    app = create_app(settings_for(sim.url, {"tapes": {"path": str(tmp_path), "when": "all", "content": content}}))
    previous = None
    for words in ("first", "second", "third"):
        body = {"model": "claude-sonnet-4.5", "input": words, "previous_response_id": previous}
        previous = (await post("/v1/responses", body).run(app)).json()["id"]
    await app.aclose()
    tape = read_all(tmp_path)[-1]

    played = await replayed(tape)

    assert played.status == 200 and played.difference is None
    assert [line.members["found"] for line in tape.of("stored")][:2] == [True, True]
    assert b"first" in played.asked[0].body or content == "masked"
    without = Tape(tuple(line for line in tape.lines if line.kind != "stored"))
    assert (await replayed(without)).status == 400
    down = {"error": "the store is down", "code": "store"}
    lines = (Line("stored", line.t, down) if line.kind == "stored" else line for line in tape.lines)
    assert (await replayed(Tape(tuple(lines)))).status == 503


async def test_an_answer_that_was_cut(sim, tmp_path):
    """The model is told of it in the next request, in a replay as well."""
    app = create_app(settings_for(sim.url, {"tapes": {"path": str(tmp_path), "when": "all"}}))
    tools = [{"name": "get_weather", "input_schema": {"type": "object"}}]
    asked = {"model": "claude-sonnet-4.5", "max_tokens": 999, "tools": tools}
    turns = [{"role": "user", "content": "sim:cut-tool"}]
    cut = (await post("/v1/messages", {**asked, "messages": turns}).run(app)).json()
    turns += [{"role": "assistant", "content": cut["content"]}, {"role": "user", "content": "Go on."}]
    await post("/v1/messages", {**asked, "messages": turns}).run(app)
    await app.aclose()
    tape = read_all(tmp_path)[-1]

    played = await replayed(tape)

    assert played.difference is None
    assert any(line.members["found"] for line in tape.of("stored"))
    assert b"NOT executed" in played.asked[0].body
