"""``HEAD /`` and ``HEAD /api/hello``: how Claude Code looks whether anybody is there, before its first request."""

from __future__ import annotations

import pytest

from kiro_asgi import create_app, mount
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, http_scope

pytestmark = pytest.mark.anyio

EACH_GREETING = pytest.mark.parametrize("path", ["/", "/api/hello"])


async def host(scope, receive, send):
    """An application that answers everything in its own way."""
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"host"})


async def status(app, method, path, **more):
    exchange = await Exchange(http_scope(method, path, **more)).run(app)
    return exchange.status


@EACH_GREETING
async def test_somebody_is_there(gateway, path):
    """Without a key, without a body, and at no other method."""
    app = gateway()
    greeted = await Exchange(http_scope("HEAD", path)).run(app)

    assert (greeted.status, greeted.content) == (200, b"")
    assert [await status(app, method, path) for method in ("POST", "PUT", "OPTIONS")] == [404] * 3
    assert await status(app, "GET", path) == (200 if path == "/" else 404), "the start page"


@EACH_GREETING
@pytest.mark.parametrize("below", ["path", "stripped", "remaining"])
async def test_below_a_prefix(gateway, path, below):
    """However the host says where the gateway is."""
    scopes = {
        "path": {"root_path": "/llm", "path": "/llm" + path.removesuffix("/")},
        "stripped": {"root_path": "/llm", "path": path},
        "remaining": {"path": "/llm" + path, "path_remaining": path[1:]},
    }
    assert await status(gateway(), "HEAD", **scopes[below]) == 200
    assert await status(mount(host, "/llm", gateway()), "HEAD", "/llm" + path) == 200


@EACH_GREETING
async def test_the_hosts_stay_the_hosts(gateway, sim, path):
    """Beside a mounted gateway, and around one that the host's application is composed with."""
    assert await status(mount(host, "/llm", gateway()), "HEAD", path) == 418
    composed = create_app(settings_for(sim.url, {}), inner=host)
    assert [await status(composed, method, path) for method in ("HEAD", "GET", "OPTIONS")] == [418] * 3
    assert await status(composed, "HEAD", "/health") == 200
    await composed.aclose()


async def test_other_paths_are_not_there(gateway):
    """A greeting at a path of nobody's finds nobody."""
    for path in ("/api", "/api/hello/x", "/hello", "/v1", "/api/hellox"):
        assert await status(gateway(), "HEAD", path) == 404
