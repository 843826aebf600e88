"""No value of a query, a header or a path is too long, too large or too odd: what is not taken is 400, with its place.

Parameters are found in the source, and paths in the tables of routes, so that new ones are tried as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

import kiro_asgi
from kiro_asgi import App, create_app
from kiro_asgi.asgi.routing import GATEWAY
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import WEBSOCKET
from kiro_asgi.inspector.site import _VIEWS, Inspector
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, http_scope, post
from tests.parts import part_of

pytestmark = pytest.mark.anyio

PACKAGE = Path(kiro_asgi.__file__).parent

VALUES = (
    b"9" * 5000,
    b"-1",
    b"18446744073709551616",
    b"1e300",
    b"nan",
    b"inf",
    b"0001-01-20",
    b"9999-12-31",
    b"99999-01-01",
    "\u0665\u0669".encode(),
    "\u00b2".encode("latin-1"),
    b"\xff\xfe",
    "\ud800".encode(errors="surrogatepass"),
    b"\x1b[31m\r\nx: y\x00",
    b"[" * 2000,
    b"x" * 5000,
    b",",
    b"true",
    b"none",
)

READ = re.compile(r'(?:query|values)(?:\.get\(|\[|, |_values\([\w.]+\)\.get\()"(\$?[\w\[\]]+)"')

NAMES = sorted({name for path in PACKAGE.rglob("*.py") for name in READ.findall(path.read_text())})
"""Parameters that any handler reads."""

HEADERS = (
    *("last-event-id", "content-length", "x-stainless-retry-count", "x-kiro-asgi-rules", "x-kiro-asgi-tape", "cookie"),
    *("anthropic-beta", "anthropic-version", "traceparent", "idempotency-key", "accept", "content-type", "origin"),
    *("if-none-match", "retry-after", "range", "x-request-id"),
)

NEVER = (500, 501, 502)

ONCE = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
"""Thousands of requests about how text is read, which no event loop changes."""


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of every operation, at one path of each API, with something for each name in it."""
    tried = set()
    for name, endpoints in (("", GATEWAY), *((api.name, api.endpoints) for api in BUILTIN)):
        for endpoint in endpoints:
            operation = name, endpoint.method, endpoint.operation
            if endpoint.method != WEBSOCKET and operation not in tried:
                tried.add(operation)
                yield endpoint.method, re.sub(r"{[^}]*}", "x", endpoint.path)
    for name in (*Inspector._handlers, *_VIEWS):
        if name != "events":
            yield "GET", f"/inspector/api/{name}"


async def admit(scope: object) -> bool:
    return True


@pytest.fixture
def app(sim, tmp_path) -> App:
    inspector = {"enabled": True, "trust_host": True, "content": "full"}
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    return create_app(settings_for(sim.url, {"inspector": inspector, "state": state}), may_inspect=admit)


def asked(method: str, path: str, query: bytes = b"", **headers: bytes) -> Exchange:
    scope = http_scope(method, path, query_string=query)
    given = {"authorization": b"Bearer k", "host": b"localhost", "content-type": b"application/json", **headers}
    scope["headers"] = [(name.encode(), value) for name, value in given.items()]
    return Exchange(scope, [b"{}"] if method == "POST" else [b""])


@ONCE
async def test_parameters(app):
    """Every parameter that is read anywhere, at every path."""
    assert {"limit", "order", "after", "starting_after", "stream", "alt", "last", "rechunk", "set"} <= {*NAMES}
    together = ["&".join(f"{name}={quote_from_bytes(value)}" for name in NAMES) for value in VALUES]
    alone = [f"{name}={'9' * 5000}" for name in NAMES]  # one that is refused hides the others
    seen = {}
    for method, path in routes():
        for query in (*together, *(alone if method == "GET" else ())):
            answer = await asked(method, path, query.encode()).run(app)
            seen[method, path, query[:40]] = answer.status
    assert {key: status for key, status in seen.items() if status in NEVER} == {}
    await app.aclose()


REFUSED = {
    ("/v1/responses/resp_x", "stream"): (b"maybe", b"1"),
    ("/v1/responses/resp_x", "starting_after"): (b"9" * 5000, b"-2", b"nan", "\u0665".encode()),
    ("/v1/responses/resp_x/input_items", "limit"): (b"9" * 5000, b"-1", b"0", b"1e300", b"x"),
    ("/v1/responses/resp_x/input_items", "order"): (b"up",),
    ("/v1/conversations/conv_x/items", "limit"): (b"9" * 5000, b"-1", b"0", b"1e300", b"x"),
    ("/inspector/api/usage", "last"): (b"0001-01-20", b"9999-12-31", b"9" * 5000, b"nan", b"\xff"),
    ("/inspector/api/usage", "first"): (b"0001-01-20", b"9999-12-31", b"2026-13-01"),
    ("/inspector/api/usage.csv", "last"): (b"0001-01-20",),
    ("/inspector/api/usage", "by"): (b"day,day", b"x"),
}
"""Values that a path does not take, by parameter."""


@pytest.mark.parametrize(("path", "name"), REFUSED)
async def test_what_is_not_taken(app, path, name):
    """It is 400, and the message names the parameter."""
    for value in REFUSED[path, name]:
        stream = b"&stream=true" if name == "starting_after" else b""
        answer = await asked("GET", path, name.encode() + b"=" + quote_from_bytes(value).encode() + stream).run(app)
        assert (answer.status, name.encode() in answer.content) == (400, True), value[:20]
    await app.aclose()


@ONCE
async def test_headers(app):
    """Every header that is read anywhere, with an ordinary question and at the inspector."""
    for name in HEADERS:
        for value in VALUES:
            question = ask("anthropic", "sim:text", stream=False)
            question.scope["headers"] = [
                *(pair for pair in question.scope["headers"] if pair[0] != name.encode()), (name.encode(), value)
            ]  # fmt: skip
            assert (await question.run(app)).status not in NEVER, (name, value[:20])
            looked = await asked("GET", "/inspector/api/usage", **{name: value}).run(app)
            assert looked.status not in NEVER, (name, value[:20])
    await app.aclose()


async def test_an_event_id_of_any_length(app):
    """A viewer whose last event has an impossible number is shown all there is, as at the first time."""
    await ask("anthropic", "sim:text", stream=False).run(app)
    run = part_of(app, Inspector)._run
    for number in (b"9" * 5000, b"-1", "\u0665".encode(), b"\xb2", b"1e300"):
        viewer = asked("GET", "/inspector/api/events", **{"last-event-id": run.encode() + b"-" + number + b"-0"})

        async def leave(message, viewer=viewer):
            if message.get("body"):
                viewer.leave.set()

        viewer.on_send = leave
        await viewer.run(app)
        assert (viewer.status, b'"fresh":true' in viewer.content) == (200, True)
    await app.aclose()


@ONCE
async def test_paths(app):
    """Names in paths, of whatever bytes."""
    for method, path in routes():
        if path.endswith("x"):
            for value in VALUES:
                text = value.decode("utf-8", "replace")
                answer = await asked(method, path[:-1] + text).run(app)
                assert answer.status not in NEVER, (method, path, text[:20])
    assert (await post("/v1/chat/completions", b"{").run(app)).status == 400
    await app.aclose()
