"""No secret that the app holds leaves it, wherever a service or a sign-in quotes it, and in whatever form."""

from __future__ import annotations

import gc
import json
import logging
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from anyio.abc import SocketStream
from attrs import define

from kiro_asgi import create_app
from kiro_asgi.asgi.exchange.factory import ExchangeFactory
from kiro_asgi.asgi.exchange.model_routes import Provider
from kiro_asgi.asgi.kept.secrets import Secrets
from kiro_asgi.errors import UpstreamFault
from kiro_asgi.observers.logs import JsonFormatter
from kiro_asgi.redaction import PARTIAL
from tests.asgi.conftest import AT_ONCE, settings_for
from tests.asgi.driver import PATHS, Exchange, post
from tests.listening import listening
from tests.parts import part_of

pytestmark = pytest.mark.anyio

KEY = "Zq7.CaNaRy/abc+def-GhIjKlMnOpQrStUvWx=0123456789"
"""Like no key that any pattern knows."""

CLIENT_KEY = "k4-client-CaNaRy-QwErTyUiOpAsDfGhJkLz"
SEAL_KEY = "seal-CaNaRy-MnBvCxZaSdFgHjKl"

FORMS: dict[str, Callable[[str], str]] = {
    "itself": lambda secret: secret,
    "percent-encoded": lambda secret: quote(secret, safe=""),
    "Basic": lambda secret: b64encode(f"user:{secret}".encode()).decode(),
    "escaped": lambda secret: secret.replace("/", "\\/"),
    "cut": lambda secret: secret[: len(secret) // 2],
}


@define
class Says:
    """What a service answers."""

    bytes: bytes = b""
    token: str = ""
    """Given to whoever asks at ``/token``, where there is one."""

    def answer(self, line: str) -> bytes:
        if self.token and " /token " in line:
            return response("200 OK", json.dumps({"token": self.token}))
        return self.bytes


@asynccontextmanager
async def answering(says: Says) -> AsyncIterator[str]:
    """A server that answers each request with bytes of ours, and closes."""

    async def handle(stream: SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            while len(body) < int(fields.get(b"content-length", b"0")):
                body += await stream.receive()
            await stream.send(says.answer(head.split(b"\r\n")[0].decode()))

    async def guarded(stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            await handle(stream)

    async with listening(guarded) as port:
        yield f"http://127.0.0.1:{port}"


def response(status: str, body: str, *headers: str, media: str = "application/json") -> bytes:
    data = body.encode()
    fields = (f"content-type: {media}", f"content-length: {len(data)}", "connection: close", *headers)
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode() + data


def places(quoted: str) -> Iterator[tuple[str, bytes]]:
    """Everywhere that a service can quote something before an answer."""
    words = f"The key {quoted} is not taken."
    for status in ("400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "429 Slow", "500 Oops"):
        yield f"{status}, message", response(status, json.dumps({"error": {"message": words, "type": quoted}}))
        yield f"{status}, Kiro's", response(status, json.dumps({"__type": quoted, "message": words}))
        yield f"{status}, text", response(status, words, media="text/plain")
    yield "error type", response("400 Bad Request", "{}", f"x-amzn-errortype: {quoted}", f"x-amzn-requestid: {quoted}")
    yield "redirect", response("302 Found", words, f"location: https://login.example/{quoted}")
    yield "media type", response("200 OK", words, media=f"text/{quoted}")
    yield "encoding", response("200 OK", words, f"content-encoding: {quoted}")
    yield "reason", response(f"500 {quoted}", "{}")
    yield "status line", f"HTTP/{quoted}\r\n\r\n".encode()
    yield "header line", f"HTTP/1.1 200 OK\r\n{quoted}\r\n\r\n".encode()
    yield "no body", f"HTTP/1.1 200 OK\r\ncontent-length: {quoted}\r\n\r\n".encode()
    yield "whole error", response("200 OK", json.dumps({"error": {"message": words}, "type": "error"}))


_JSON = JsonFormatter()


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One loop: what hides secrets knows of none, and these are two thousand exchanges."""
    return request.param


def told(exchange: Exchange, caplog: pytest.LogCaptureFixture) -> str:
    """All that left the app."""
    heads = "".join(f"{name}: {value}\n" for name, value in exchange.headers.items())
    as_json = "\n".join(json.dumps(json.loads(_JSON.format(it)), ensure_ascii=False) for it in caplog.records)
    return heads + exchange.content.decode() + caplog.text + as_json


def parts(quoted: str) -> set[str]:
    return {quoted[start : start + PARTIAL].lower() for start in range(len(quoted) - PARTIAL + 1)}


def leaks(text: str, quoted: str, form: str) -> bool:
    """Whether any part that counts is in *text*; the user's name in Basic authentication is no secret."""
    lowered = text.lower()
    return any(part in lowered for part in parts(quoted[8:] if form == "Basic" else quoted))


UPSTREAMS = {
    "kiro": ("claude-sonnet-4.5", lambda url: {"kiro": {"api_key": KEY, "endpoint": url}}),
    "anthropic": ("anthropic/claude-haiku-4-5", lambda url: {"anthropic": {"api_key": KEY, "endpoint": url}}),
    "openai": ("openai/gpt-4o", lambda url: {"openai": {"api_key": KEY, "endpoint": f"{url}/v1"}}),
    "gemini": ("gemini/gemini-2.5-flash", lambda url: {"gemini": {"api_key": KEY, "endpoint": url}}),
    "custom": ("local/m", lambda url: {"custom": {"local": {"headers": [f"x-key={KEY}"], "endpoint": f"{url}/v1"}}}),
}


def question(dialect: str, model: str, *, stream: bool) -> Exchange:
    said = "input" if dialect == "responses" else "messages"
    body = {"model": model, "stream": stream, said: [{"role": "user", "content": "Hello."}]}
    return post(PATHS[dialect], body | ({"max_tokens": 99} if dialect == "anthropic" else {}), key=CLIENT_KEY)


def app_for(url: str, slices):
    common = {
        "client": {"api_keys": [CLIENT_KEY]},
        "state": {"seal_key": SEAL_KEY},
        "retry": {**AT_ONCE, "attempts": 1},
    }
    return create_app(settings_for(url, {**common, **slices}))


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_what_a_service_quotes_goes_no_further(upstream, caplog):
    """The issue: whatever a refusal quotes, be it in its body, a header, a redirect, or in what is no HTTP, neither the
    client nor the log hears of it: not the upstream's key, and none of ours."""
    model, slices = UPSTREAMS[upstream]
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    quotes = [(form, make(KEY)) for form, make in FORMS.items()]
    quotes += [("itself", CLIENT_KEY), ("itself", SEAL_KEY)]
    says, leaking, asked = Says(), [], 0
    async with answering(says) as url:
        app = app_for(url, slices(url))
        for form, quoted in quotes:
            for place, says.bytes in places(quoted):
                dialect = ("anthropic", "openai", "responses")[asked % 3]
                caplog.clear()
                exchange = await question(dialect, model, stream=bool(asked % 2)).run(app)
                asked += 1
                assert exchange.status >= 400, (place, exchange.content)
                if leaks(told(exchange, caplog), quoted, form):
                    leaking.append((form, place, dialect))
        await app.aclose()

    assert leaking == []


STREAMS = {
    "anthropic": [
        'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
        '"model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n',
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
        '"text":""}}\n\n',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        '"text":"Hello"}}\n\n',
        'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"The key %s is wrong."}}\n\n',
    ],
    "openai": [
        'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":'
        '{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n',
        'data: {"error":{"message":"The key %s is wrong.","type":"server_error","code":500}}\n\n',
    ],
    "gemini": [
        'data: {"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"}}]}\n\n',
        'data: {"error":{"code":500,"message":"The key %s is wrong.","status":"INTERNAL"}}\n\n',
    ],
}


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("upstream", STREAMS)
async def test_what_a_service_quotes_in_the_middle_of_an_answer(upstream, dialect, caplog):
    """The same after the commit, also where the service's own events go through as they are."""
    model, slices = UPSTREAMS[upstream]
    says = Says()
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    async with answering(says) as url:
        app = app_for(url, slices(url))
        for form, make in FORMS.items():
            quoted = make(KEY)
            caplog.clear()
            said = "".join(STREAMS[upstream]).replace("%s", quoted)
            says.bytes = response("200 OK", said, media="text/event-stream")
            exchange = await question(dialect, model, stream=True).run(app)
            out = told(exchange, caplog)

            assert (exchange.status, "Hello" in out, "[redacted]" in out) == (200, True, True)
            assert not leaks(out, quoted, form), (form, out)
        await app.aclose()


TOKEN = {
    "accessToken": "aCCess-CaNaRy-0123456789abcdefghijklmnop",
    "refreshToken": "reFResh-CaNaRy-0123456789abcdefghijklmnop",
    "clientId": "client",
    "clientSecret": "clientSecret-CaNaRy-0123456789abcdefghijklmnop",
    "authMethod": "IdC",
    "expiresAt": "2020-01-01T00:00:00Z",
    "profileArn": "arn:x",
}


@pytest.mark.parametrize("name", ["accessToken", "refreshToken", "clientSecret"])
async def test_what_a_sign_in_service_quotes_goes_no_further(name, tmp_path: Path, caplog):
    """The issue: a sign-in error that echoed a token was in the client's 403, and in the log."""
    path = tmp_path / "token.json"
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    secret, says, asked = TOKEN[name], Says(), 0
    async with answering(says) as url:
        for form, make in FORMS.items():
            quoted = make(secret)
            for place, body in places(quoted):
                says.bytes = body.replace(b'"__type"', b'"error"').replace(b'"message": "', b'"error_description": "')
                path.write_text(json.dumps(TOKEN))
                path.chmod(0o600)
                slices = {"kiro": {"api_key": "", "credentials_file": str(path), "auth_endpoint": url, "endpoint": url}}
                app = app_for(url, slices)
                caplog.clear()
                dialect = ("anthropic", "openai", "responses")[asked % 3]
                exchange = await question(dialect, "claude-sonnet-4.5", stream=bool(asked % 2)).run(app)
                asked += 1
                await app.aclose()

                assert exchange.status >= 400, (place, exchange.content)
                assert not leaks(told(exchange, caplog), quoted, form), (form, place, told(exchange, caplog))


async def test_what_an_exchange_of_keys_quotes_goes_no_further(caplog):
    """The same where a key is exchanged for a token, for the key; and for the token, where the service quotes that."""
    token = "exchanged-CaNaRy-0123456789abcdefghijklmnop"
    says = Says()
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    async with answering(says) as url:
        openai = {"api_key": KEY, "endpoint": f"{url}/v1", "token_url": f"{url}/token"}
        for secret, says.token in ((KEY, ""), (token, token)):
            for form, make in FORMS.items():
                quoted = make(secret)
                for place, says.bytes in places(quoted):
                    app = app_for(url, {"openai": openai})
                    caplog.clear()
                    exchange = await question("openai", "openai/gpt-4o", stream=False).run(app)
                    await app.aclose()
                    assert not leaks(told(exchange, caplog), quoted, form), (form, place, told(exchange, caplog))


@pytest.mark.parametrize("form", FORMS)
async def test_what_a_proxy_quotes_goes_no_further(form, caplog):
    """The password of a proxy, in the words with which it refuses a tunnel."""
    password = "pass-CaNaRy-0123456789abcdefghijklmnop"
    quoted = FORMS[form](password).replace("user:", "me:")
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    async with answering(Says(f"HTTP/1.1 407 {quoted}\r\ncontent-length: 0\r\n\r\n".encode())) as url:
        proxy = url.replace("http://", f"http://me:{password}@")
        app = app_for(url, {"kiro": {"api_key": KEY, "endpoint": "https://service.example", "proxy": proxy}})
        exchange = await question("openai", "claude-sonnet-4.5", stream=False).run(app)
        await app.aclose()

    assert exchange.status == 503
    assert not leaks(told(exchange, caplog), quoted, form)


async def test_what_a_program_says_goes_no_further(tmp_path: Path, caplog, capfd):
    """A token that a program prints is a secret as any other; what it says on standard error is dropped."""
    token = "printed-CaNaRy-0123456789abcdefghijklmnop"
    script = tmp_path / "program.py"
    script.write_text(
        "import json, sys\n"
        f"print({token!r}, file=sys.stderr)\n"
        f"print(json.dumps({{'accessToken': {token!r}, 'expiresIn': 60, 'profileArn': 'arn:x'}}))\n"
    )
    caplog.set_level(logging.DEBUG, "kiro_asgi")
    async with answering(Says(response("403 No", json.dumps({"message": f"not {token}"})))) as url:
        command = f"{sys.executable} {script}"
        app = app_for(url, {"kiro": {"api_key": "", "credentials_command": command, "endpoint": url}})
        exchange = await question("anthropic", "claude-sonnet-4.5", stream=False).run(app)
        await app.aclose()

    assert exchange.status >= 400
    assert token not in told(exchange, caplog) + "".join(capfd.readouterr())


async def test_a_client_that_names_a_secret_does_not_put_it_into_the_access_line(caplog):
    """As text or as JSON: a key in the wrong field of a client's settings is as secret as in the right one."""
    caplog.set_level(logging.INFO, "kiro_asgi.access")
    async with answering(Says(b"")) as url:
        app = app_for(url, {"kiro": {"api_key": KEY, "endpoint": url}})
        await question("openai", KEY, stream=False).run(app)
        await app.aclose()

    (record,) = (record for record in caplog.records if record.name == "kiro_asgi.access")
    assert "model=[redacted]" in record.getMessage()
    assert json.loads(_JSON.format(record))["model"] == "[redacted]"


@pytest.mark.unexpected("RuntimeError")
async def test_a_traceback_tells_no_secret(caplog, monkeypatch):
    """Nor does what is logged of an exception that nobody foresaw; the record goes out, without the secret."""
    async with answering(Says(b"")) as url:
        app = app_for(url, {"kiro": {"api_key": KEY, "endpoint": url}})

        async def fail(*_: object) -> None:
            raise RuntimeError(f"no room for {KEY}")

        monkeypatch.setattr(type(part_of(app, ExchangeFactory)), "settle", fail)
        exchange = await question("openai", "claude-sonnet-4.5", stream=False).run(app)
        await app.aclose()

    assert exchange.status == 500
    assert "no room for [redacted]" in caplog.text
    assert KEY not in told(exchange, caplog)


async def test_a_token_that_was_replaced_is_still_a_secret(sim, tmp_path: Path):
    """An answer to the old token may come after the new one."""
    path = tmp_path / "token.json"
    path.write_text(json.dumps({**TOKEN, "authMethod": "social"}))
    path.chmod(0o600)
    slices = {"kiro": {"api_key": "", "credentials_file": str(path), "auth_endpoint": sim.url}}
    app = create_app(settings_for(sim.url, slices))
    provider = part_of(app, Provider)
    new = await provider.credentials.get()
    error = UpstreamFault(f"{TOKEN['accessToken']} {TOKEN['refreshToken']} {new.secret} stay")

    assert part_of(app, Secrets).shown(error).message == "[redacted] [redacted] [redacted] stay"
    assert TOKEN["accessToken"] in error.message
    await app.aclose()


def test_an_app_that_is_gone_leaves_no_filter():
    """Loggers are the process's: what an app puts there goes with it."""
    loggers = [logging.getLogger(name) for name in ("kiro_asgi", "kiro_asgi.access")]
    gc.collect()
    before = [len(logger.filters) for logger in loggers]
    app = app_for("http://127.0.0.1:1", {})
    assert [len(logger.filters) for logger in loggers] == [count + 1 for count in before]
    del app
    gc.collect()

    assert [len(logger.filters) for logger in loggers] == before
