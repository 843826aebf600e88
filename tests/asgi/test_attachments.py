"""Images and documents in requests: by value in any spelling, and by address where the operator allows it."""

from __future__ import annotations

import json
import ssl
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from kiro_asgi import App, create_app
from kiro_asgi.asgi.exchange.call import Bodies
from kiro_asgi.asgi.exchange.factory import ExchangeFactory
from kiro_asgi.asgi.exchange.providers import new_fetcher
from kiro_asgi.asgi.kept.attachments import AttachmentFetcher
from tests.asgi.answers import ALL_DIALECTS, error_of, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, post
from tests.net.hosts import CERTIFICATE, HOST, Host, Resolver, hosted, permit_loopback
from tests.parts import part_of

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
MODEL = "claude-sonnet-4.5"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.7\nbody"
CHAT = ("GenerateAssistantResponse", "anthropic.chat", "openai.chat", "gemini.chat")


def image_part(dialect: str, url: str) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"type": "image", "source": {"type": "url", "url": url}}
    if dialect == "openai":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "input_image", "image_url": url}


def ask(dialect: str, *parts: dict[str, Any], model: str = MODEL, stream: bool = False, path: str = "") -> Exchange:
    text = {"type": "input_text" if dialect == "responses" else "text", "text": "sim:count=3"}
    turn = {"role": "user", "content": [text, *parts]}
    body: dict[str, Any] = {"model": model, ("input" if dialect == "responses" else "messages"): [turn]}
    if not path:
        body |= {"stream": stream, **({"max_tokens": 99} if dialect == "anthropic" else {})}
    return post(path or PATHS[dialect], body)


def sent(sim: Any) -> str:
    """What the service got, all together."""
    return "".join(json.dumps(request.json()) for request in sim.requests if request.operation in CHAT)


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with hosted() as running:
        yield running


@pytest.fixture
async def app(sim: Any, host: Host) -> AsyncIterator[App]:
    """A gateway that may fetch from `host`, in a world where 127.0.0.1 is public."""
    slices = {
        "fetch": {"allow": [*host.allowed, f"*.example.test:{host.port}"], "max_bytes": 100_000, "timeout": 5.0},
        "anthropic": {"api_key": "sk", "endpoint": sim.url},
        "openai": {"api_key": "sk", "endpoint": f"{sim.url}/v1"},
        "gemini": {"api_key": "g", "endpoint": sim.url},
        "stream": {"relay": "never"},
        "limits": {"body_bytes": 200_000, "body_bytes_in_flight": 400_000},
    }
    settings = settings_for(sim.url, slices)
    made = create_app(settings)
    resolver = Resolver({HOST: [("127.0.0.1",)], "inner.example.test": [("10.0.0.1",)]})
    tls = ssl.create_default_context(cafile=CERTIFICATE)
    fetcher = new_fetcher(settings, resolve=resolver, permits=permit_loopback, tls=tls)
    part_of(made, ExchangeFactory)._attachments = AttachmentFetcher(fetcher)
    yield made
    await made.aclose()


SPELLINGS = (
    f"data:image/png;base64,{b64encode(PNG).decode()}",
    f"DATA:IMAGE/PNG;BASE64,{b64encode(PNG).decode()}",
    f"data:image/png;charset=utf-8;name=a.png;base64,{b64encode(PNG).decode()}",
    f"data:;base64,{b64encode(PNG).decode()}",
    f"data:text/plain;base64,{b64encode(PNG).decode()}",
    f"data:image/png;base64,{urlsafe_b64encode(PNG).decode().rstrip('=')}",
    f"data:image/png;base64,\n {b64encode(PNG).decode()[:40]}\r\n\t{b64encode(PNG).decode()[40:]}\n",
    "data:image/png," + "".join(f"%{byte:02X}" for byte in PNG),
)


@EACH_DIALECT
@pytest.mark.parametrize("url", SPELLINGS, ids=range(len(SPELLINGS)))
async def test_an_image_is_taken_in_any_spelling(dialect, url, gateway, sim):
    """The service gets plain base64, and the format that the bytes have."""
    exchange = await ask(dialect, image_part(dialect, url)).run(gateway())

    assert text_of(dialect, exchange)
    assert f'{{"format": "png", "source": {{"bytes": "{b64encode(PNG).decode()}"}}}}' in sent(sim)


@EACH_DIALECT
@pytest.mark.parametrize("url", ["data:image/png;base64,*", "data:text/html,<p>", "data:", "gopher://h/", "x"])
async def test_what_is_no_image_is_refused_with_its_place(dialect, url, gateway, sim):
    """Before the service is asked."""
    exchange = await ask(dialect, image_part(dialect, url)).run(gateway())

    assert exchange.status == 400
    assert "content[1]" in error_of(dialect, exchange)["message"]
    assert sent(sim) == ""


@EACH_MODE
@EACH_DIALECT
async def test_an_address_is_fetched_where_its_host_is_allowed(dialect, stream, app, host, sim):
    """The service gets the bytes; each address is asked once."""
    url = host.serve("/a.png", PNG, "Content-Type: image/png")
    exchange = await ask(dialect, *[image_part(dialect, url)] * 2, stream=stream).run(app)

    assert text_of(dialect, exchange)
    assert sent(sim).count(b64encode(PNG).decode()) == 2
    assert len(host.asked) == 1


async def test_documents_and_results_of_tools_are_fetched(app, host, sim):
    """Wherever they stand; texts are told as texts."""
    pdf, text = (
        host.serve("/a.pdf", PDF, "Content-Type: binary/octet-stream"),
        host.serve("/a.csv", b"a,b\n", "Content-Type: text/csv"),
    )
    png = host.serve("/a.png", PNG)
    documents = [{"type": "document", "source": {"type": "url", "url": url}} for url in (pdf, text)]
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image_part("anthropic", png)]}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, *documents]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "sim:count=3"}]},
    ]
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    body = {"model": MODEL, "max_tokens": 99, "messages": turns, "tools": tools}
    exchange = await post("/v1/messages", body).run(app)

    assert exchange.status == 200, exchange.content
    assert all(b64encode(content).decode() in sent(sim) for content in (PDF, PNG))
    assert "a,b" in sent(sim)


@EACH_DIALECT
async def test_a_host_that_is_not_allowed_is_not_asked(dialect, app, gateway, sim):
    """The refusal names the place, the host and the setting; without any host allowed it is the same."""
    for gate in (app, gateway()):
        exchange = await ask(dialect, image_part(dialect, "https://evil.test/a.png")).run(gate)
        message = error_of(dialect, exchange)["message"]

        assert exchange.status == 400
        assert all(words in message for words in ("content[1]", "evil.test", "fetch.allow", "images.address"))
    assert sent(sim) == ""


@EACH_DIALECT
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("http", "only https addresses are fetched"),
        ("inner", "one of its addresses is not public"),
        ("/gone.png", "it answered with HTTP 404"),
        ("/page.html", "the file at the address is no image: text/html"),
        ("/plain", "the file at the address is no image: no media type"),
        ("/large.png", "more than 100,000 bytes (fetch.max_bytes)"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_with_its_place(dialect, path, words, app, host, sim):
    """As a fault of the request, and before the service is asked."""
    host.serve("/gone.png", b"", status=404)
    host.serve("/page.html", b"<html>", "Content-Type: text/html")
    host.serve("/plain", b"x")
    host.serve("/large.png", PNG * 1000)
    urls = {"http": host.url().replace("https", "http"), "inner": host.url(host="inner.example.test")}
    exchange = await ask(dialect, image_part(dialect, urls.get(path) or host.url(path))).run(app)
    message = error_of(dialect, exchange)["message"]

    assert exchange.status == 400
    assert words in message and "content[1]" in message
    assert sent(sim) == ""


@pytest.mark.parametrize("kind", ["image/png", "video/mp4", ""])
async def test_what_is_no_document_is_refused(kind, app, host):
    """An image is none, and what nobody knows is none."""
    url = host.serve("/x", b"\0\1", *([f"Content-Type: {kind}"] if kind else []))
    exchange = await ask("anthropic", {"type": "document", "source": {"type": "url", "url": url}}).run(app)

    assert "is no document" in exchange.json()["error"]["message"]


async def test_their_number_is_limited(app, host):
    """The first one that is too much is named."""
    urls = [host.serve(f"/{number}.png", PNG) for number in range(21)]
    exchange = await ask("openai", *(image_part("openai", url) for url in urls)).run(app)

    assert exchange.status == 400
    assert "content[21].image_url.url: more than 20 attachments" in exchange.json()["error"]["message"]
    assert host.asked == []


async def test_what_is_fetched_takes_room_like_a_body(app, host, sim):
    """Where there is none left, the gateway says that it is busy; the room is free again afterwards."""
    if sys.modules["httpcore"].__name__ == "httpcore2":
        pytest.skip("httpcore2 leaves a socket to the garbage collector where a TLS handshake is cancelled")
    urls = [host.serve(f"/{number}.png", PNG + bytes(90_000)) for number in range(4)]
    exchange = await ask("openai", *(image_part("openai", url) for url in urls)).run(app)
    assert exchange.status == 503
    assert "too many bytes of requests" in exchange.json()["error"]["message"]

    assert part_of(app, Bodies).held == 0
    assert (await ask("openai", image_part("openai", urls[0])).run(app)).status == 200


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "openai/gpt-4o"])
async def test_a_service_that_fetches_is_told_the_address(model, app, host, sim):
    """Nothing is fetched for it."""
    exchange = await ask("openai", image_part("openai", host.url()), model=model).run(app)

    assert exchange.status == 200, exchange.content
    assert host.url() in sent(sim)
    assert host.asked == []


async def test_a_service_that_fetches_other_places_is_not(app, host, sim):
    """Gemini reads what was uploaded to it, and videos."""
    url = host.serve("/a.png", PNG)
    exchange = await ask("openai", image_part("openai", url), model="gemini/gemini-2.5-flash").run(app)

    assert exchange.status == 200, exchange.content
    assert b64encode(PNG).decode() in sent(sim)


@pytest.mark.parametrize(
    ("dialect", "path"), [("anthropic", "/v1/messages/count_tokens"), ("responses", "/v1/responses/input_tokens")]
)
async def test_counting_counts_what_would_be_sent(dialect, path, app, host):
    """With the image in it."""
    url = host.serve("/a.png", PNG)
    exchange = await ask(dialect, image_part(dialect, url), path=path).run(app)
    bare = await ask(dialect, path=path).run(app)

    assert exchange.json()["input_tokens"] > bare.json()["input_tokens"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_the_official_clients_see_it(app, host, sim, anyio_backend):
    """An answer, or a 400 that says what is wrong."""
    url = host.serve("/a.png", PNG)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
        chat = openai.AsyncOpenAI(base_url="http://gateway/v1", api_key="k", http_client=http, max_retries=0)
        messages = anthropic.AsyncAnthropic(base_url="http://gateway", api_key="k", http_client=http, max_retries=0)
        turn: Any = {"role": "user", "content": [{"type": "text", "text": "sim:count=3"}, image_part("openai", url)]}
        answer = await chat.chat.completions.create(model=MODEL, messages=[turn])
        assert answer.choices[0].message.content
        turn = {"role": "user", "content": [image_part("anthropic", url), {"type": "text", "text": "sim:count=3"}]}
        assert (await messages.messages.create(model=MODEL, max_tokens=99, messages=[turn])).content
        turn = {"role": "user", "content": [image_part("anthropic", "https://evil.test/a.png")]}
        with pytest.raises(anthropic.BadRequestError, match=r"let fetch\.allow name evil\.test"):
            await messages.messages.create(model=MODEL, max_tokens=99, messages=[turn])
        turn = {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}
        assert (await chat.responses.create(model=MODEL, input=[turn])).output_text
    assert sent(sim).count(b64encode(PNG).decode()) == 3
