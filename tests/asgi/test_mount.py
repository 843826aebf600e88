"""Below a prefix of somebody else's application."""

from __future__ import annotations

import pytest

from kiro_asgi.asgi.lifespan import Lifespan
from kiro_asgi.asgi.mount import mount
from tests.asgi.driver import http_scope

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
        assert gateway.scopes == [{**scope, "root_path": gateway_root}]


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
