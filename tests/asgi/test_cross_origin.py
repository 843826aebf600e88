"""Pages of other origins: what their browsers are told, and what they cannot make a user's browser do."""

from __future__ import annotations

import pytest
from starlette.authentication import SimpleUser
from starlette.middleware.cors import CORSMiddleware

from kiro_asgi import ConfigError, Settings, create_app, mount
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, Exchange, ask, get, http_scope, post

pytestmark = pytest.mark.anyio

PAGE = b"https://app.example"
ALLOWED = ("https://app.example", "app://obsidian.md", "http://127.0.0.1:5173")

SDK_HEADERS = (
    "anthropic-dangerous-direct-browser-access,anthropic-version,authorization,content-type,x-api-key,"
    "x-stainless-retry-count,x-stainless-timeout"
)
"""As Chromium asks for the official SDKs."""

ORIGINS = [
    pytest.param(b"https://app.example", True, id="exact"),
    pytest.param(b"app://obsidian.md", True, id="another-scheme"),
    pytest.param(b"http://127.0.0.1:5173", True, id="port"),
    pytest.param(b"https://APP.example", False, id="case"),
    pytest.param(b"https://app.example:443", False, id="named-port"),
    pytest.param(b"https://app.example:8443", False, id="other-port"),
    pytest.param(b"http://app.example", False, id="other-scheme"),
    pytest.param(b"https://evil-app.example", False, id="prefixed"),
    pytest.param(b"https://app.example.evil", False, id="suffixed"),
    pytest.param(b"https://sub.app.example", False, id="sub-domain"),
    pytest.param(b"https://app.example/", False, id="slash"),
    pytest.param(b"null", False, id="null"),
    pytest.param(b"*", False, id="star"),
    pytest.param(b"", False, id="empty"),
    pytest.param(b"https://app.example, https://app.example", False, id="list"),
]


def app_for(sim, **slices):
    return create_app(settings_for(sim.url, {"cors": {"origins": list(ALLOWED)}, **slices}))


def preflight(path: str, origin: bytes, asked: str = SDK_HEADERS, method: str = "POST") -> Exchange:
    headers = [
        (b"origin", origin),
        (b"access-control-request-method", method.encode()),
        (b"access-control-request-headers", asked.encode()),
    ]
    return Exchange({**http_scope("OPTIONS", path), "headers": headers})


def told(exchange: Exchange, name: bytes) -> list[bytes]:
    return [value for key, value in exchange.messages[0]["headers"] if key == name]


def from_page(exchange: Exchange, origin: bytes = PAGE) -> Exchange:
    exchange.scope["headers"] = [*exchange.scope["headers"], (b"origin", origin)]
    return exchange


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
async def test_a_preflight_is_answered_for_named_origins_alone(origin, allowed, sim):
    """Origins are compared letter by letter; nobody is asked for a key, and no upstream is (R39)."""
    exchange = preflight("/v1/messages", origin)
    await exchange.run(app_for(sim))

    assert exchange.status == (204 if allowed else 403)
    assert exchange.content == b""
    assert told(exchange, b"access-control-allow-origin") == ([origin] if allowed else [])
    assert told(exchange, b"access-control-allow-headers") == ([SDK_HEADERS.replace(",", ", ").encode()] * allowed)
    assert told(exchange, b"access-control-allow-credentials") == []
    assert b"Origin" in told(exchange, b"vary")[0]
    assert not sim.requests


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        pytest.param("/v1/messages", b"POST", id="one"),
        pytest.param("/v1/responses/resp_1", b"GET, DELETE", id="two"),
        pytest.param("/v1/nothing", b"POST, GET, HEAD, DELETE", id="no-path"),
    ],
)
async def test_a_preflight_tells_the_methods_of_its_path(path, methods, sim):
    """Where there is none, all of them: so the page reads the 404."""
    exchange = preflight(path, PAGE, method="GET")
    await exchange.run(app_for(sim))

    assert told(exchange, b"access-control-allow-methods") == [methods]


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        pytest.param("X-Brand-New , Authorization", b"x-brand-new, authorization", id="any-name"),
        pytest.param("cookie,content-type", b"content-type", id="cookie"),
        pytest.param('a b,"x",\u00e4,,y', b"y", id="no-tokens"),
        pytest.param(",".join(f"h{n}" for n in range(100)), ", ".join(f"h{n}" for n in range(64)).encode(), id="many"),
        pytest.param("x" * 5_000, None, id="long"),
        pytest.param("", None, id="none"),
    ],
)
async def test_header_names_are_allowed_as_they_are_asked_for(asked, allowed, sim):
    """SDKs send an open set, so there is no list of them; what is no name, or too much, is left out."""
    exchange = preflight("/v1/messages", PAGE, asked)
    await exchange.run(app_for(sim))

    assert exchange.status == 204
    assert told(exchange, b"access-control-allow-headers") == ([] if allowed is None else [allowed])


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
@pytest.mark.parametrize(
    ("exchange", "status"),
    [
        pytest.param(lambda: get("/health"), 200, id="health"),
        pytest.param(lambda: get("/v1/models"), 200, id="models"),
        pytest.param(lambda: ask("anthropic", "sim:text", stream=True), 200, id="stream"),
        pytest.param(lambda: post("/v1/messages", b"{"), 400, id="bad"),
        pytest.param(lambda: post("/v1/messages", {}, key="wrong"), 401, id="no-key"),
        pytest.param(lambda: get("/v1/nothing"), 404, id="no-path"),
        pytest.param(lambda: get("/v1/messages"), 405, id="no-method"),
        pytest.param(lambda: post("/v1/messages", b"x" * 2_000), 413, id="too-large"),
        pytest.param(lambda: ask("openai", "sim:500", stream=False), 503, id="upstream"),
    ],
)
async def test_answers_of_every_status_are_readable(exchange, status, origin, allowed, sim):
    """A page that may not read an error sees "Failed to fetch", and nobody knows why (R39)."""
    asked = from_page(exchange(), origin)
    await asked.run(app_for(sim, limits={"body_bytes": 1_000}, retry={"attempts": 1}))

    assert asked.status == status
    assert told(asked, b"access-control-allow-origin") == ([origin] if allowed else [])
    assert bool(told(asked, b"access-control-expose-headers")) is allowed
    assert b"Origin" in told(asked, b"vary")


async def test_without_origins_nothing_of_it_is_there(sim):
    """Off by default: an ``OPTIONS`` is refused as ever, and a host's own middleware tells once what it tells."""
    app = create_app(settings_for(sim.url, {}))
    refused = preflight("/v1/messages", PAGE)
    await refused.run(app)
    host = CORSMiddleware(mount(app, "/llm", app), allow_origins=[PAGE.decode()])
    hosted = from_page(get("/llm/health"))
    await hosted.run(host)

    assert refused.status == 405
    assert not [key for key, _ in refused.messages[0]["headers"] if key.startswith((b"access-", b"vary"))]
    assert told(hosted, b"access-control-allow-origin") == [PAGE]


async def test_a_star_allows_every_origin_by_its_name(sim):
    """``*`` in an answer would not do for all browsers' purposes; the page's own origin does."""
    asked = from_page(get("/v1/models"), b"https://anybody.example")
    await asked.run(app_for(sim, cors={"origins": ["*"]}))

    assert told(asked, b"access-control-allow-origin") == [b"https://anybody.example"]


async def test_a_preflight_below_a_prefix(sim):
    """A mount changes nothing."""
    exchange = preflight("/llm/v1/responses/resp_1", PAGE)
    app = app_for(sim)
    await exchange.run(mount(app, "/llm", app))

    assert exchange.status == 204
    assert told(exchange, b"access-control-allow-methods") == [b"GET, DELETE"]


@pytest.mark.parametrize(
    "origin", ["https://app.example/", "app.example", "https://", "HTTPS://app.example", "a b", ""]
)
def test_an_origin_that_no_browser_writes_is_refused(origin):
    """It would never match, and nobody would know why."""
    with pytest.raises(ConfigError, match=r"cors\.origins: must be origins"):
        Settings.from_mapping({"cors": {"origins": [origin]}})


def test_all_pages_for_users_of_the_host_are_refused():
    """Every page of the world could ask on behalf of who is signed in."""
    with pytest.raises(ConfigError, match=r"cors\.origins"):
        Settings.from_mapping({"cors": {"origins": ["*"]}, "client": {"trust_host": True}})


FORM = b"application/x-www-form-urlencoded"
REFUSED = {
    "anthropic": {403: "permission_error", 415: "invalid_request_error"},
    "openai": {403: "invalid_request_error", 415: "invalid_request_error"},
    "responses": {403: "invalid_request_error", 415: "invalid_request_error"},
}
"""How each API calls the two refusals."""


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({}, 200, id="no-browser"),
        pytest.param({b"origin": b"https://h"}, 200, id="own-page"),
        pytest.param({b"origin": b"http://h:80"}, 200, id="own-page-behind-tls-of-a-proxy"),
        pytest.param({b"origin": PAGE}, 200, id="named-page"),
        pytest.param({b"origin": b"https://evil.example"}, 403, id="foreign-page"),
        pytest.param({b"origin": b"null"}, 403, id="sandboxed-page"),
        pytest.param({b"origin": b"https://h.evil.example"}, 403, id="alike"),
        pytest.param({b"content-type": FORM}, 415, id="form"),
        pytest.param({b"content-type": b"text/plain"}, 415, id="text"),
        pytest.param({b"content-type": b"text/plain; application/json"}, 415, id="disguised"),
        pytest.param({b"content-type": None}, 415, id="no-type"),
        pytest.param({b"content-type": b"application/json; charset=utf-8"}, 200, id="with-charset"),
        pytest.param({b"content-type": FORM, b"authorization": b"Bearer k"}, 200, id="shows-a-key"),
    ],
)
@pytest.mark.parametrize("dialect", PATHS)
async def test_no_page_of_another_site_acts_for_a_user_of_the_host(change, status, dialect, sim):
    """A browser sends cookies along wherever a page wants, and asks first only where it is no plain form."""
    exchange = ask(dialect, "sim:text", stream=False)
    headers = {**dict(exchange.scope["headers"]), b"host": b"h", **change}
    if b"authorization" not in change:
        headers.pop(b"authorization", None)
    exchange.scope["headers"] = [(name, value) for name, value in headers.items() if value is not None]
    exchange.scope["user"] = SimpleUser("ann")
    await exchange.run(app_for(sim, client={"api_keys": ["k"], "trust_host": True}))

    assert exchange.status == status
    assert bool(sim.requests) is (status == 200)
    if status != 200:
        assert exchange.json()["error"]["type"] == REFUSED[dialect][status]


@pytest.mark.parametrize(
    "exchange",
    [
        pytest.param(lambda: get("/v1/responses/resp_1", key=None), id="read"),
        pytest.param(lambda: Exchange(http_scope("DELETE", "/v1/responses/resp_1")), id="delete"),
        pytest.param(lambda: post("/v1/responses/resp_1/cancel", b"", key=None), id="cancel"),
        pytest.param(lambda: post("/v1/messages/count_tokens", {}, key=None), id="count"),
        pytest.param(lambda: get("/v1/models", key=None), id="models"),
    ],
)
async def test_no_page_of_another_site_reaches_anything_else_of_a_user(exchange, sim):
    """Whatever the method: the origin is looked at before the request."""
    asked = from_page(exchange(), b"https://evil.example")
    asked.scope["user"] = SimpleUser("ann")
    await asked.run(app_for(sim, client={"trust_host": True}))

    assert (asked.status, sim.requests) == (403, ())


async def test_health_is_told_to_any_page(sim):
    """It says nothing about anybody."""
    exchange = from_page(get("/health", key=None), b"https://evil.example")
    exchange.scope["user"] = SimpleUser("ann")
    await exchange.run(app_for(sim, client={"api_keys": ["k"], "trust_host": True}))

    assert (exchange.status, exchange.json()) == (200, {"status": "ok"})
