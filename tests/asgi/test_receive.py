"""Whatever a host's ``receive`` gives, at once and for ever: no loop behind it stops the process.

A middleware that reads the body and gives it again each time is enough, or one that never says that a client has left.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import define, field

import kiro_asgi
from kiro_asgi.asgi.protocol import Lifespan, Listener
from kiro_asgi.limits import EMPTY_MESSAGES
from tests.asgi.driver import Exchange, ask, http_scope
from tests.asgi.test_websocket import socket_scope

ROOT: Final = Path(kiro_asgi.__file__).parent

OUTSIDE: Final = ("receive", "_receive", "listen")
"""Names of what is called for the next message."""

LOOPS: Final = {
    "asgi/exchange/call.py:until_left": "answers",
    "asgi/protocol.py:_collect": "bodies",
    "asgi/protocol.py:_unpacked": "bodies",
    "asgi/protocol.py:run": "lifespans",
    "apis/responses/connection.py:_read": "WebSockets",
    "inspector/site.py:_cancel_when_gone": "viewers",
}
"""Each loop over messages of a host, and by which of the tests below it is tried."""

MANY: Final = 20_000
"""Calls without an end after which a loop counts as one that has none."""


def loops() -> Iterator[str]:
    """File and function of each loop that awaits something called like that, without arguments."""
    for path in sorted(ROOT.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.AsyncFunctionDef) and any(map(_listens, ast.walk(function))):
                yield f"{path.relative_to(ROOT)}:{function.name}"


def _listens(node: ast.AST) -> bool:
    return isinstance(node, ast.While | ast.For | ast.AsyncFor) and any(map(_is_call, ast.walk(node)))


def _is_call(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Await) else None
    if not isinstance(call, ast.Call) or call.args or call.keywords:
        return False
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in OUTSIDE


def test_every_loop_over_messages_is_known() -> None:
    """A new one needs its place in `LOOPS`, and what tries it; the simulator reads from a socket, which has turns."""
    assert {name for name in loops() if not name.startswith("simulator/")} == {*LOOPS}


class Endless(Exception):
    """A loop has no end."""


@define(eq=False)
class Again:
    """Gives *first*, then *message* for ever, at once each time."""

    first: list[dict[str, Any]]
    message: dict[str, Any]
    calls: int = field(init=False, default=0)

    async def __call__(self) -> dict[str, Any]:
        self.calls += 1
        if self.calls > MANY:
            raise Endless
        return self.first.pop(0) if self.first else self.message


async def bounded(run: Callable[[], Awaitable[object]], seconds: float = 1.0) -> bool:
    """Whether others had turns while it ran; it is cancelled after so many seconds."""
    turns = 0
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(20):
                await checkpoint()
                turns += 1
    return turns == 20


AFTER_A_BODY: Final = {
    "the body again": {"type": "http.request", "body": b"{}", "more_body": False},
    "no body": {"type": "http.request"},
    "more of nothing": {"type": "http.request", "body": b"", "more_body": True},
    "an unknown kind": {"type": "http.unheard_of"},
}


@pytest.mark.parametrize("again", AFTER_A_BODY)
async def test_answers(gateway, sim, again) -> None:
    """The answer comes, though the client seems to send for ever."""
    exchange = ask("openai", "sim:count=20 sim:delay=0.02", stream=True)
    receive = Again([{"type": "http.request", "body": exchange.body[0]}], AFTER_A_BODY[again])
    with anyio.fail_after(20):
        await gateway()(exchange.scope, receive, exchange.send)

    assert exchange.content.endswith(b"data: [DONE]\n\n")
    assert receive.calls <= EMPTY_MESSAGES + 2


@pytest.mark.parametrize(
    "again",
    [
        pytest.param({"type": "http.request", "body": b"", "more_body": True}, id="nothing"),
        pytest.param({"type": "http.unheard_of", "more_body": True}, id="unknown"),
    ],
)
@pytest.mark.parametrize("packed", [[], [(b"content-encoding", b"gzip")]], ids=["plain", "gzip"])
async def test_bodies(gateway, again, packed) -> None:
    """One that never ends is 408 in time."""
    exchange = ask("openai", "sim:text", stream=False)
    exchange.scope["headers"] = [*packed, *(it for it in exchange.scope["headers"] if it[0] != b"content-length")]
    receive = Again([], again)
    with anyio.fail_after(20):
        await gateway(limits={"body_timeout": 0.3})(exchange.scope, receive, exchange.send)

    assert (exchange.status, exchange.json()["error"]["code"]) == (408, "body_timeout")
    assert receive.calls <= EMPTY_MESSAGES + 1


async def test_large_bodies_in_small_messages(gateway) -> None:
    """They are read in many turns of the event loop."""
    exchange = ask("openai", "sim:text", stream=False)
    pieces = [{"type": "http.request", "body": b" ", "more_body": True} for _ in range(5_000)]
    receive = Again(pieces, {"type": "http.request", "body": b"{}"})

    assert await bounded(partial(gateway(), exchange.scope, receive, exchange.send))
    assert exchange.status == 400


async def test_lifespans(anyio_backend: str) -> None:
    """Of a host that says the same again and again."""

    async def send(message: Any) -> None:
        """At once."""

    for kind in ("lifespan.startup", "lifespan.unheard_of"):
        receive = Again([], {"type": kind})
        assert await bounded(partial(Lifespan(checkpoint).run, [], Listener(receive), send), 0.3)
        assert receive.calls <= EMPTY_MESSAGES


@pytest.mark.parametrize(
    ("again", "closes"),
    [
        pytest.param({"type": "websocket.receive", "text": ""}, True, id="empty"),
        pytest.param({"type": "websocket.receive"}, True, id="nothing"),
        pytest.param({"type": "websocket.connect"}, True, id="another-handshake"),
        pytest.param({"type": "websocket.unheard_of"}, True, id="unknown"),
    ],
)
async def test_websockets(gateway, again, closes) -> None:
    """They are closed, as for a client that sends the same."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    receive = Again([{"type": "websocket.connect"}], again)
    assert await bounded(partial(gateway(responses={"idle_timeout": 5}), socket_scope(), receive, send), 3)
    assert (sent[-1]["type"] == "websocket.close") is closes
    assert receive.calls < MANY


@pytest.mark.parametrize("again", AFTER_A_BODY)
async def test_viewers(gateway, again) -> None:
    """Of the inspector: what they watch comes, and others have their turns."""
    app = gateway(inspector={"enabled": True, "secret": "a-secret-of-its-own"}, fresh=True)
    host = [("host", "127.0.0.1:8000"), ("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8000")]
    body = json.dumps({"secret": "a-secret-of-its-own"}).encode()
    session = await Exchange(http_scope("POST", "/inspector/api/session", host), [body]).run(app)
    cookie = session.headers["set-cookie"].partition(";")[0]
    viewer = Exchange(http_scope("GET", "/inspector/api/events", [*host, ("cookie", cookie)]))
    receive = Again([{"type": "http.request", "body": b""}], AFTER_A_BODY[again])

    assert await bounded(partial(app, viewer.scope, receive, viewer.send), 0.5)
    assert viewer.status == 200
    assert receive.calls <= EMPTY_MESSAGES + 2
