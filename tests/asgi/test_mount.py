"""Below a prefix of somebody else's application."""

from __future__ import annotations

import re
from functools import partial, wraps
from typing import Any

import pytest
from attrs import define
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount, Router
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from kiro_asgi import App, create_app
from kiro_asgi.asgi.door.mount import mount, wrapped_in
from kiro_asgi.asgi.protocol import Lifespan
from tests.asgi.answers import comes_true
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, ask, get, http_scope, post

pytestmark = pytest.mark.anyio


class Recorder:
    """An application that notes which scopes it gets."""

    def __init__(self) -> None:
        self.scopes = []
        self.closed = 0

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)

    async def aclose(self):
        self.closed += 1


@pytest.mark.parametrize(
    ("path", "root", "gateway_root"),
    [
        pytest.param("/llm", "", "/llm", id="the-prefix"),
        pytest.param("/llm/v1/models", "", "/llm", id="below"),
        pytest.param("/llm/v1/models", "/site", "/site/llm", id="host-is-mounted-and-strips"),
        pytest.param("/site/llm/v1/models", "/site", "/site/llm", id="host-is-mounted-and-does-not"),
        pytest.param("/llmx", "", None, id="no-boundary"),
        pytest.param("/", "", None, id="the-root"),
        pytest.param("/v1/models", "", None, id="beside"),
        pytest.param("/x/llm", "", None, id="not-first"),
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_the_prefix_decides(path, root, gateway_root, kind):
    """What is below the prefix is the gateway's, with a longer ``root_path``; the rest is the host's (C02, C03)."""
    host, gateway = Recorder(), Recorder()
    scope = {**http_scope("GET", path, root_path=root), "type": kind}

    await mount(host, "/llm", gateway)(scope, None, None)

    if gateway_root is None:
        assert (host.scopes, gateway.scopes) == ([scope], [])
    else:
        assert host.scopes == []
        below = path[path.index("/llm") + len("/llm") :]
        assert gateway.scopes == [{**scope, "root_path": gateway_root, "path": gateway_root + below}]


MOUNTS = {
    "ours": lambda gateway: mount(Recorder(), "/llm", gateway),
    "starlette": lambda gateway: Mount("/llm", gateway),
    "ours-in-starlette": lambda gateway: Mount("/app", mount(Recorder(), "/llm", gateway)),
    "starlette-in-ours": lambda gateway: mount(Recorder(), "/app", Mount("/llm", gateway)),
    "starlette-in-starlette": lambda gateway: Mount("/app", Mount("/llm", gateway)),
}


@pytest.mark.parametrize("inner", MOUNTS)
@pytest.mark.parametrize(
    ("root", "before"),
    [
        pytest.param("", "", id="not-below-anything"),
        pytest.param("/site", "", id="the-proxy-strips"),
        pytest.param("/site", "/site", id="the-proxy-does-not"),
        pytest.param("/a/site", "/a/site", id="deeper"),
    ],
)
async def test_the_gateway_is_found_below_hosts_in_both_conventions(inner, root, before, sim):
    """What a host makes of ``root_path`` and ``path`` on its way leads to the same route (C02)."""
    if inner == "starlette-in-starlette" and root != before:
        pytest.skip("Starlette's own routes are not found there either")
    app = create_app(settings_for(sim.url, {}))
    prefix = "/app/llm" if "-in-" in inner else "/llm"
    found = get(f"{before}{prefix}/health", root_path=root)
    missed = get(f"{before}{prefix}/v1/nothing", root_path=root)

    await found.run(MOUNTS[inner](app))
    await missed.run(MOUNTS[inner](app))

    assert (found.status, found.json()["status"]) == (200, "ok")
    assert missed.status == 404
    assert f"{prefix}/v1/nothing; the APIs are " in missed.content.decode()


PREFIXES = ("/llm", "//llm", "/llm/", "/LLM", "/%6Clm", "/llm/.", "/x/../llm", "/llm/llm", "/llm/app", "/llmx", "/llm;")
TAILS = ("", "/", "//", "/.", "/..", "%00", "%2F", ";a=b", "\x00", "\\", "/health", "/../health")
SPELLINGS = [f"{prefix}{path}{tail}" for prefix in PREFIXES for path in PATHS.values() for tail in TAILS]


@pytest.mark.parametrize("inner", MOUNTS)
@pytest.mark.parametrize(("root", "before"), [("", ""), ("/site", ""), ("/site", "/site")])
async def test_no_spelling_of_a_path_opens_it_without_a_key(inner, root, before, sim):
    """What is answered to a key is refused without one, however the path is written (R38)."""
    app = MOUNTS[inner](create_app(settings_for(sim.url, {"limits": {"body_bytes": 1}})))
    within = "/app" if "-in-" in inner else ""
    opened = set()
    for path in SPELLINGS:
        known, stranger = (post(f"{before}{within}{path}", b"{}", key=key, root_path=root) for key in ("k", None))
        await known.run(app)
        await stranger.run(app)
        if known.messages and known.status == 413:  # the body would have been read
            opened.add(path)
            assert stranger.status == 401, path
        else:
            assert not stranger.messages or stranger.status in (401, 404, 405), path

    if (inner, root, before) != ("starlette-in-starlette", "/site", ""):  # as above
        assert {"/llm" + path for path in PATHS.values()} <= opened
    assert sim.requests == ()


@pytest.mark.parametrize("prefix", ["", "/", "//"])
def test_the_root_is_no_prefix(prefix):
    """There would be nothing left for the host."""
    with pytest.raises(ValueError, match="root"):
        mount(Recorder(), prefix, Recorder())


class Conversation:
    """A server that goes through a lifespan."""

    def __init__(self) -> None:
        self.to_send = ["lifespan.startup", "lifespan.shutdown"]
        self.answers = []

    async def receive(self):
        return {"type": self.to_send.pop(0)}

    async def send(self, message):
        self.answers.append(message["type"])


COMPLETE = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def no_lifespan(scope, receive, send):
    raise ValueError("this host can only handle http")


async def late_refusal(scope, receive, send):
    await receive()
    raise ValueError("this host looked first")


async def silent(scope, receive, send):
    return


async def willing(scope, receive, send):
    await Lifespan(Recorder().aclose).run((), receive, send)


@pytest.mark.parametrize("host", [no_lifespan, late_refusal, silent, willing], ids=lambda host: host.__name__)
async def test_lifespan_is_lived_whatever_the_host_does(host):
    """Start-up and shutdown are answered once each, and the gateway is closed once (C04, C05, R46)."""
    gateway, server = Recorder(), Conversation()

    await mount(host, "/llm", gateway)({"type": "lifespan"}, server.receive, server.send)

    assert server.answers == COMPLETE
    assert gateway.closed == 1


def told_nothing(scope, receive, send): ...


def close_at_once(): ...


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"host_app": 5}, "mount: host_app must be a function, not 5"),
        ({"host_app": told_nothing}, "mount: host_app must be async, or be annotated"),
        ({"gateway": Recorder}, "mount: gateway must be async"),
        ({"gateway": None}, "mount: gateway must be a function, not None"),
        ({"prefix": b"/llm"}, "mount: the prefix must be text such as '/llm', not b'/llm'"),
        ({"principal": "ada"}, "mount: principal must be a function, not 'ada'"),
        ({"principal": lambda: "ada"}, "mount: principal must take what it is called with"),
        ({"principal": Recorder}, "mount: principal is a class"),
        ({"aclose": 5}, "mount: aclose must be a function, not 5"),
        ({"aclose": lambda scope: None}, "mount: aclose must take what it is called with"),
        ({"aclose": close_at_once}, "mount: aclose must be async"),
    ],
)
def test_a_wrong_object_is_found_when_the_gateway_is_mounted(changed, words):
    """No request, and no end of the host, has to meet it."""
    usual = {"host_app": Recorder(), "prefix": "/llm", "gateway": Recorder()}
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        mount(**{**usual, **changed})


class Guard:
    """A middleware of the usual kind."""

    def __init__(self, app, **options):
        self.app = app

    async def __call__(self, scope, receive, send):
        await self.app(scope, receive, send)


class Slotted:
    """A middleware that keeps its application where no dictionary is."""

    __slots__ = ("__inner", "unset")

    def __init__(self, app):
        self.__inner = app

    async def __call__(self, scope, receive, send):
        await self.__inner(scope, receive, send)

    async def method(self, scope, receive, send):
        await self.__inner(scope, receive, send)


@define
class Kept:
    """A middleware as attrs makes it."""

    _app: Any

    async def __call__(self, scope, receive, send):
        await self._app(scope, receive, send)


class Passive(BaseHTTPMiddleware):
    """One of Starlette's."""

    async def dispatch(self, request, call_next):
        return await call_next(request)


def enclosing(app):
    async def guarded(scope, receive, send):
        await app(scope, receive, send)

    return guarded


def decorating(app):
    @wraps(app.__call__)
    async def guarded(*arguments):
        await guarded.__wrapped__(*arguments)

    return guarded


async def by_argument(app, scope, receive, send):
    await app(scope, receive, send)


WRAPPERS = {
    "class": Guard,
    "slots": Slotted,
    "method": lambda app: Slotted(app).method,
    "attrs": Kept,
    "function": enclosing,
    "decorator": decorating,
    "lambda": lambda app: lambda scope, receive, send: app(scope, receive, send),
    "partial": lambda app: partial(by_argument, app),
    "starlette-middleware": Passive,
    "starlette": lambda app: Starlette(routes=[Mount("/", app)], middleware=[Middleware(Passive), Middleware(Guard)]),
    "router": lambda app: Router([Mount("/a", Router([Mount("/b", app)]))]),
    "proxy-headers": lambda app: ProxyHeadersMiddleware(app),
    "each-in-another": lambda app: Guard(enclosing(Slotted(partial(by_argument, Passive(Kept(app)))))),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
async def test_a_gateway_within_middlewares_is_closed(wrap, sim):
    """R46: the docstring is true: "any middleware around one" still has its connections closed with the host."""
    app, server = create_app(settings_for(sim.url, {})), Conversation()
    assert (await ask("openai", "sim:text", stream=False).run(app)).status == 200
    assert sim.connections_open == 1

    await mount(no_lifespan, "/llm", wrap(app))({"type": "lifespan"}, server.receive, server.send)

    assert server.answers == COMPLETE
    assert await comes_true(sim, lambda: sim.connections_open == 0)


async def test_what_closes_a_gateway_can_be_said():
    """Where it is made only when it is asked, nothing can be found: then it has to be said, and counts before all."""

    async def late(scope, receive, send):
        raise AssertionError

    with pytest.raises(ValueError, match="aclose="):
        mount(no_lifespan, "/llm", late)
    for gateway in (late, Recorder()):
        told, server = Recorder(), Conversation()
        await mount(no_lifespan, "/llm", gateway, aclose=told.aclose)({"type": "lifespan"}, server.receive, server.send)
        assert (told.closed, getattr(gateway, "closed", 0)) == (1, 0)


async def test_the_search_ends(sim):
    """Objects that hold each other, or far too many, are looked at once, and no property is evaluated."""

    class Odd:
        @property
        def app(self):
            raise AssertionError("evaluated")

        def __getattr__(self, name):
            if name == "aclose":
                raise AttributeError
            raise AssertionError(name)

    odd = Odd()
    odd.__dict__["itself"] = [odd, {"more": {"and": odd}}, *([number] for number in range(100_000))]

    assert wrapped_in(odd, App) == ()


async def test_a_host_that_fails_to_start_says_so():
    """A host's own failure is passed on, not papered over (R46)."""

    async def failing(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})
        raise RuntimeError("no")

    server = Conversation()
    with pytest.raises(RuntimeError):
        await mount(failing, "/llm", Recorder())({"type": "lifespan"}, server.receive, server.send)

    assert server.answers == ["lifespan.startup.failed"]
