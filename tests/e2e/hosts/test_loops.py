"""What an application may be used for: any loop, one after the other, beside others; and what it is made of."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import anyio
import pytest

from kiro_asgi import App, Settings, create_app, simulator
from kiro_asgi.asgi.protocol import Lifespan
from tests.asgi.answers import comes_true
from tests.asgi.driver import Exchange, ask, get

FRAMEWORKS = ("starlette", "django", "quart", "flask", "fastapi", "hypercorn", "uvicorn", "pydantic", "trio")


def settings(url: str, key: str = "k", **kiro: object) -> Settings:
    kiro = {"endpoint": url, "api_key": "ksk_test", "models_ttl": 0, **kiro}
    return Settings.from_mapping({"client": {"api_keys": [key]}, "kiro": kiro})


def test_no_framework_comes_with_it():
    """C01: importing the package brings in no web framework, no server and no second event loop."""
    code = "import sys, kiro_asgi; kiro_asgi.create_app; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(FRAMEWORKS) & set(done.stdout.split())
    assert {"anyio", "attrs"} <= set(done.stdout.split())


def test_it_is_a_plain_asgi_3_application(sim):
    """C01: an async callable of scope, receive and send."""
    app = create_app(settings(sim.url))

    assert inspect.iscoroutinefunction(type(app).__call__)
    assert [*inspect.signature(app).parameters] == ["scope", "receive", "send"]


async def use(app: App) -> list[str]:
    """Ask for the models and for an answer, three times at once, and let go."""
    answers = [ask("openai", "sim:count=2", stream=True) for _ in range(3)]
    async with anyio.create_task_group() as clients:
        for answer in answers:
            clients.start_soon(answer.run, app)
        clients.start_soon(get("/v1/models").run, app)
    await app.aclose()
    return [answer.content.decode().splitlines()[-2] for answer in answers]


DONE = ["data: [DONE]"] * 3


def test_one_app_outlives_its_event_loop(sim):
    """C05: what belongs to a loop is made anew in the next one."""
    app = create_app(settings(sim.url))

    assert asyncio.run(use(app)) == DONE
    assert asyncio.run(use(app)) == DONE


@pytest.mark.parametrize("order", [("asyncio", "trio"), ("trio", "asyncio"), ("trio", "trio", "asyncio")], ids="-".join)
def test_one_app_changes_the_kind_of_event_loop(order, sim):
    """C05: nothing in an app belongs to one library."""
    app = create_app(settings(sim.url))

    assert [anyio.run(use, app, backend=backend) for backend in order] == [DONE] * len(order)


def test_one_app_in_two_event_loops_at_once(sim):
    """C05: a threaded host may run several loops; they share no lock and no connection."""
    app = create_app(settings(sim.url))

    async def both() -> list[list[str]]:
        results: list[list[str]] = []

        async def elsewhere(backend: str) -> None:
            results.append(await anyio.to_thread.run_sync(lambda: anyio.run(use, app, backend=backend)))

        async with anyio.create_task_group() as threads:
            for backend in ("asyncio", "trio", "asyncio"):
                threads.start_soon(elsewhere, backend)
        return results

    assert anyio.run(both) == [DONE] * 3


def test_an_app_made_inside_a_loop_is_not_bound_to_it(sim):
    """C05: factories may run where no loop is, or another one than will serve."""

    async def make() -> App:
        return create_app(settings(sim.url))

    app = asyncio.run(make())
    assert anyio.run(use, app, backend="trio") == DONE


@pytest.mark.anyio
async def test_two_apps_in_one_process(anyio_backend):
    """Settings, keys, services and connections of two apps have nothing to do with each other."""
    async with simulator.serve() as one, simulator.serve() as other:
        apps = create_app(settings(one.url, "key-1", wire_style="rest")), create_app(settings(other.url, "key-2"))
        statuses = []
        for app in apps:
            for key in ("key-1", "key-2"):
                exchange = ask("openai", "sim:text", stream=False)
                exchange.scope["headers"] = [(b"x-api-key", key.encode())]
                statuses.append((await exchange.run(app)).status)
        asked = len(one.requests), len(other.requests)
        for app in apps:
            await app.aclose()

    assert statuses == [200, 401, 401, 200]
    assert asked == (1, 1)


class Server:
    """A server that sends lifespan around whatever *during* does."""

    def __init__(self, during) -> None:
        self.during, self.answers, self.turn = during, [], 0

    async def receive(self):
        self.turn += 1
        if self.turn == 1:
            return {"type": "lifespan.startup"}
        await self.during()
        return {"type": "lifespan.shutdown"}

    async def send(self, message) -> None:
        self.answers.append(message["type"])


@pytest.mark.anyio
@pytest.mark.parametrize("inner", [False, True], ids=["alone", "with-inner"])
async def test_shutdown_lets_go_of_the_service(inner, anyio_backend):
    """C04/R46: startup and shutdown are each answered once, and then no connection to the service is left."""

    async def nothing() -> None:
        pass

    async def host(scope, receive, send) -> None:
        await Lifespan(nothing).run((), receive, send)

    async with simulator.serve() as service:
        app = create_app(settings(service.url), inner=host if inner else None)
        server = Server(lambda: ask("openai", "sim:text", stream=False).run(app))
        await app({"type": "lifespan"}, server.receive, server.send)
        assert await comes_true(service, lambda: service.connections_open == 0)

    assert server.answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert service.connections_opened == 1


@pytest.mark.anyio
async def test_it_works_without_lifespan(anyio_backend):
    """C05: a host that never sends it is served all the same."""
    async with simulator.serve() as service:
        app = create_app(settings(service.url))
        exchange: Exchange = await ask("anthropic", "sim:count=2", stream=True).run(app)
        await app.aclose()

    assert exchange.status == 200 and b"message_stop" in exchange.content
