"""A gateway on a port, in process, and behind the HTTP clients of the official SDKs."""

from __future__ import annotations

import json
import socket
from contextlib import aclosing
from typing import Any
from urllib.request import Request, urlopen

import anthropic
import anyio
import openai
import pytest
from websockets.sync.client import connect

from kiro_asgi import ConfigError, create_app
from kiro_asgi.testing import SIMULATED, asgi_transport, ask, check_stream, serving
from tests.examples import example

QUESTION = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:count=3"}]}
PLACES = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/claude-sonnet-4.5:streamGenerateContent?alt=sse",
}


def asked(api: str) -> dict[str, Any]:
    if api == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": "sim:count=3"}]}]}
    if api == "openai_responses":
        return {"model": QUESTION["model"], "input": "sim:count=3", "stream": True}
    return {**QUESTION, "stream": True, "max_tokens": 100}


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_gateway_on_a_port(loop: str) -> None:
    """With what a program adds, over HTTP and WebSocket; and after the block nobody is there."""
    with serving(dialects=[example("plain_dialect").PLAIN], loop=loop) as url:
        request = Request(f"{url}/plain", b"sim:count=3", {"x-model": "claude-sonnet-4.5"})
        with urlopen(request) as response:
            assert response.read() == b"1 2 3 \n"
        with connect(f"{url.replace('http', 'ws')}/v1/responses") as connection:
            connection.send(json.dumps({"type": "response.create", "model": QUESTION["model"], "input": "sim:count=3"}))
            assert json.loads(connection.recv())["type"] == "response.created"

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


def test_settings_that_cannot_work_are_an_error_of_the_test() -> None:
    """In the thread of the test, before anything is served."""
    with pytest.raises(ConfigError, match="clint: no such setting"), serving({"clint": {}}):
        pass


@pytest.mark.anyio
@pytest.mark.parametrize("api", PLACES)
async def test_a_question_in_process(api: str) -> None:
    """The answer of each API is legal, and adds up."""
    app = create_app(SIMULATED)
    answer = await ask(app, PLACES[api], asked(api))
    await app.aclose()

    assert answer.status == 200
    assert "1 2 3" in json.dumps(check_stream(api, answer.body))
    assert len(answer.events()) > 2


@pytest.mark.anyio
async def test_other_questions_in_process() -> None:
    """Without a body, with a key, with bytes."""
    app = create_app({"client": {"api_keys": ["k"]}, "simulate": True})
    refused, known = await ask(app, "/v1/models"), await ask(app, "/v1/models", key="k")
    odd = await ask(app, "/v1/messages", b"{", key="k", headers={"x-other": "1"})
    await app.aclose()

    assert (refused.status, known.status, odd.status) == (401, 200, 400)
    assert known.json()["object"] == "list"
    assert "invalid JSON" in odd.text
    assert odd.headers["content-type"] == "application/json"


@pytest.mark.anyio
async def test_an_answer_without_an_end_fails_the_question() -> None:
    """And one that never begins."""

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        pass

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})

    with pytest.raises(AssertionError, match="began 0 answers to GET /x"):
        await ask(silent, "/x")
    with pytest.raises(AssertionError, match="the answer to POST /x has no end"):
        await ask(endless, "/x", {})


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the SDKs leave generators behind, which trio complains about
async def test_the_official_sdks_in_process() -> None:
    """A streamed answer of each, from an application in the same event loop."""
    app = create_app(SIMULATED)
    async with asgi_transport(app) as transport:
        client = openai.AsyncOpenAI(
            base_url="http://gateway/v1", api_key="-", http_client=openai.DefaultAsyncHttpxClient(transport=transport)
        )
        chunks = await client.chat.completions.create(**QUESTION, stream=True)
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
        other = anthropic.AsyncAnthropic(
            base_url="http://gateway",
            api_key="-",
            http_client=anthropic.DefaultAsyncHttpxClient(transport=transport),
        )
        async with other.messages.stream(**QUESTION, max_tokens=100) as stream:
            told = await stream.get_final_text()
    await app.aclose()

    assert "1 2 3" in said
    assert "1 2 3" in told


async def tale(send: Any, pieces: int, gate: anyio.Event | None = None) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    for number in range(pieces):
        await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
        if gate is not None:
            await gate.wait()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.mark.anyio
async def test_an_answer_comes_as_it_is_made() -> None:
    """The first piece is there before the application goes on; httpx's own transport would wait for the end."""
    gate = anyio.Event()
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await tale(send, 3, gate)

    async with (
        asgi_transport(app) as transport,
        openai.DefaultAsyncHttpxClient(transport=transport) as client,
        client.stream("GET", "http://x/") as response,
    ):
        async for piece in response.aiter_raw():
            seen.append(piece)
            gate.set()

    assert seen == [b"0", b"1", b"2"]


@pytest.mark.anyio
async def test_an_application_notices_a_client_that_leaves() -> None:
    """It is told, and what it sends is refused as on a broken connection."""
    told, failed = anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"0", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        told.set()
        try:
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
        except anyio.BrokenResourceError:
            failed.set()

    async with asgi_transport(app) as transport, openai.DefaultAsyncHttpxClient(transport=transport) as client:
        async with client.stream("GET", "http://x/") as response, aclosing(response.aiter_raw()) as pieces:
            assert await anext(pieces) == b"0"
        with anyio.fail_after(5):
            await told.wait()
            await failed.wait()


@pytest.mark.anyio
async def test_what_an_application_raises_reaches_the_client() -> None:
    """Before the answer, and within it; one that sends nothing is an error, too."""

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("at once")

    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await tale(send, 1)
        raise ZeroDivisionError("later")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        pass

    for app, words in ((fails, "at once"), (breaks, "later"), (silent, "the application sent no answer")):
        async with asgi_transport(app) as transport, openai.DefaultAsyncHttpxClient(transport=transport) as client:
            with pytest.raises((ZeroDivisionError, RuntimeError), match=words):
                await client.get("http://x/")
