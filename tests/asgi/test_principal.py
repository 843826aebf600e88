"""Whom a mounted gateway takes its client for: the one function of its host, over HTTP and WebSocket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kiro_asgi import create_app, mount
from kiro_asgi.observers import CallFacts, Observer
from kiro_asgi.testing import SIMULATED, ask
from tests.asgi.driver import http_scope

pytestmark = pytest.mark.anyio

TRUSTING = {"client": {"trust_host": True, "api_keys": ["k"]}, "simulate": True}
USERS = {b"badge-of-ada": "ada"}


class User:
    """As a host's middleware leaves it in the scope."""

    def __init__(self, name: str, *, signed_in: bool = True) -> None:
        self.is_authenticated = signed_in
        self.username = name


class Seen(Observer):
    def __init__(self) -> None:
        self.principals: list[str] = []

    def began(self, call: CallFacts) -> None:
        self.principals.append(call.principal)


def badge(scope: Any) -> str:
    return USERS.get(dict(scope["headers"]).get(b"x-badge", b""), "")


def user(scope: Any) -> User | None:
    return User(name) if (name := badge(scope)) else None


async def looked_up(scope: Any) -> str:
    await anyio.lowlevel.checkpoint()
    return badge(scope)


async def user_looked_up(scope: Any) -> User:
    await anyio.lowlevel.checkpoint()
    return User(badge(scope), signed_in=bool(badge(scope)))


Who = Callable[[Any], Any]


async def site(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the host was asked")


def mounted(who: Who, *seen: Observer, **settings: Any) -> Callable[[Any, Any, Any], Awaitable[None]]:
    return mount(site, "/llm", create_app({**TRUSTING, **settings}, observers=seen), principal=who)


async def handshake(app: Any, **headers: str) -> str:
    """What a WebSocket's handshake is answered with: the type of the first message."""
    sent: list[Any] = []
    pending = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]

    async def receive() -> Any:
        return pending.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = http_scope("GET", "/llm/v1/responses", [*headers.items()])
    del scope["method"]
    await app({**scope, "type": "websocket", "subprotocols": [], "extensions": {}}, receive, send)
    return str(sent[0]["type"])


@pytest.mark.parametrize("who", [badge, user, looked_up, user_looked_up], ids=lambda who: who.__name__)
async def test_the_function_names_the_client(who):
    """A name, a user, or an awaitable of one: over HTTP and over WebSocket, and nobody else comes in by either."""
    seen = Seen()
    app = mounted(who, seen)
    known = await ask(app, "/llm/v1/models", headers={"x-badge": "badge-of-ada"})
    stranger = await ask(app, "/llm/v1/models", headers={"x-badge": "badge-of-eve"})

    assert (known.status, stranger.status) == (200, 401)
    assert await handshake(app, **{"x-badge": "badge-of-ada"}) == "websocket.accept"
    assert await handshake(app, **{"x-badge": "badge-of-eve"}) == "websocket.close"
    assert seen.principals == ["host:ada", "", "host:ada", ""]


async def test_who_is_nobody_may_show_a_key():
    """As programs do."""
    seen = Seen()
    answer = await ask(mounted(badge, seen), "/llm/v1/models", key="k")

    assert answer.status == 200
    assert seen.principals[0].startswith("key:")


async def test_nothing_else_in_the_scope_counts():
    """The function is the one place: what a middleware, or a client, has left there is not asked."""
    app = mounted(lambda scope: None)
    for more in ({"user": User("eve")}, {"state": {"principal": "eve", "user": User("eve")}}):

        async def within(scope: Any, receive: Any, send: Any, more: Any = more) -> None:
            await app({**scope, **more}, receive, send)

        assert (await ask(within, "/llm/v1/models")).status == 401


async def test_it_sees_the_scope_of_the_host_and_leaves_it_alone():
    """With the whole path, and what is in its state."""
    scopes = []

    def who(scope: Any) -> str:
        scopes.append(scope)
        return str(scope["state"]["session"])

    app = mounted(who)

    async def with_session(scope: Any, receive: Any, send: Any) -> None:
        scope = {**scope, "state": {"session": "ada"}}
        await app(scope, receive, send)
        assert scope["state"] == {"session": "ada"}

    assert (await ask(with_session, "/llm/v1/models")).status == 200
    assert [(scope["path"], scope["root_path"]) for scope in scopes] == [("/llm/v1/models", "")]


async def test_probes_ask_nobody():
    """A balancer's every few seconds."""
    asked = []
    app = mounted(lambda scope: asked.append(scope))

    assert (await ask(app, "/llm/health")).status == 200
    assert asked == []


@pytest.mark.unexpected("no such table", "mount(principal=…) gave int; give a user's name, a user, or None")
async def test_one_that_fails_is_answered_in_the_form_of_the_api():
    """500, and the log has it; so is one that gives what nobody could be."""

    def fails(scope: Any) -> str:
        raise LookupError("no such table")

    for who in (fails, lambda scope: 1):
        answer = await ask(mounted(who), "/llm/v1/messages", {})
        assert (answer.status, answer.json()["type"]) == (500, "error")


async def test_a_page_of_another_site_is_refused():
    """As for every user of a host (CSRF)."""
    answer = await ask(
        mounted(badge), "/llm/v1/models", headers={"x-badge": "badge-of-ada", "origin": "https://evil.example"}
    )

    assert answer.status == 403


async def test_a_gateway_that_does_not_trust_its_host_cannot_have_one():
    """It would be asked, and not be heard; found when it is mounted, behind middlewares, too."""
    app = create_app(SIMULATED)

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    for gateway in (app, wrapped):
        with pytest.raises(ValueError, match=r"the gateway does not trust its host; set client\.trust_host = true"):
            mount(site, "/llm", gateway, principal=badge)
