"""What nobody foresaw: exceptions that are bugs, and clients that leave before there is an answer."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount

from kiro_asgi import App, create_app
from tests.asgi.answers import ALL_DIALECTS, cut_of, error_of, partial_text
from tests.asgi.conftest import settings_for
from tests.asgi.driver import PATHS, Exchange, ask, get, post

pytestmark = pytest.mark.anyio

EACH_DIALECT = pytest.mark.parametrize("dialect", ALL_DIALECTS)
CANARY = "canary-of-the-prompt"


class Fragile:
    """An estimator that breaks with its n-th text, and quotes a prompt."""

    def __init__(self, at: int = 0) -> None:
        self.left = at

    def estimate_tokens(self, text: str, /) -> float:
        self.left -= 1
        if self.left < 0:
            raise LookupError(f"{CANARY}: {text}")
        return 1.0

    def count(self, text: str, /) -> int:
        return int(self.estimate_tokens(text))


Breaking = Callable[..., App]


@pytest.fixture
async def breaking(sim) -> AsyncIterator[Breaking]:
    """Apps that break with the first text that they estimate, or with that of an estimator of the test's own."""
    apps = []

    def make(estimator: Fragile | None = None, **slices) -> App:
        apps.append(create_app(settings_for(sim.url, slices), estimator=estimator or Fragile()))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


def access_lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "kiro_asgi.access"]


def tracebacks(caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.exc_info]


@pytest.mark.unexpected("LookupError")
@EACH_DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_before_the_commit_it_is_a_500(dialect, stream, breaking, caplog):
    """500 in the caller's envelope with the request's id and nothing of the exception; one access line, one
    traceback."""
    caplog.set_level(logging.INFO)
    exchange = await ask(dialect, CANARY, stream=stream).run(breaking())

    request_id = exchange.headers["request-id"]
    assert exchange.status == 500
    assert exchange.complete and exchange.starts == 1
    assert error_of(dialect, exchange)["message"] == f"internal error; the gateway's log has it under {request_id}"
    assert CANARY not in exchange.content.decode()
    (line,) = access_lines(caplog)
    assert " 500 " in line and " error=InternalError:internal_error " in line and line.endswith(request_id)
    (record,) = tracebacks(caplog)
    assert record.exc_info[0] is LookupError and record.request_id == request_id


@pytest.mark.unexpected("LookupError")
@EACH_DIALECT
async def test_after_the_commit_it_is_told_in_the_stream(dialect, breaking, sim, caplog):
    """What has been sent stands; then comes an error of the API and the proper end of the body."""
    caplog.set_level(logging.INFO)
    estimator = Fragile(10**6)
    app = breaking(estimator)
    whole = await ask(dialect, "sim:count=9 sim:slow=0.005", stream=True, max_tokens=1000).run(app)
    assert partial_text(dialect, whole.content).split()[-1] == "9"
    caplog.clear()
    cut = 0
    for at in range(1, 40):
        estimator.left = at
        exchange = await ask(dialect, "sim:count=9 sim:slow=0.005", stream=True, max_tokens=1000).run(app)
        assert exchange.starts == 1 and exchange.complete
        if exchange.status == 500:
            continue
        if len(exchange.content) >= len(whole.content):
            break
        cut += 1
        assert "internal error" in json.dumps(cut_of(dialect, exchange))
        assert CANARY not in exchange.content.decode()
        assert " 200 cut " in access_lines(caplog)[-1]
        assert tracebacks(caplog)
    assert cut, "no answer broke after its commit"


@pytest.mark.unexpected("LookupError")
async def test_it_is_raised_to_the_host_that_wants_it(breaking, caplog):
    """With ``raise_unexpected``, or in a scope of Starlette's test client, the host gets the exception as well, after
    the answer."""
    told, debugged = ask("openai", "hi", stream=True), ask("openai", "hi", stream=True)
    debugged.scope["extensions"] = {"http.response.debug": {}}
    for exchange, app in ((told, breaking(raise_unexpected=True)), (debugged, breaking())):
        with pytest.raises(LookupError):
            await exchange.run(app)
        assert (exchange.status, exchange.complete) == (500, True)
    assert len(tracebacks(caplog)) == 2


async def test_cancellation_passes(gateway, sim, caplog):
    """A host that cancels a request is obeyed, without an answer and without a log of it as a fault."""
    exchange = ask("openai", "sim:stall", stream=True)
    with anyio.move_on_after(0.2) as scope:
        await exchange.run(gateway())

    assert scope.cancelled_caught
    assert exchange.messages == []
    assert not tracebacks(caplog)


async def test_what_the_inner_application_raises_is_its_own(sim, caplog):
    """As a middleware, the gateway is no judge of what is around it."""

    async def inner(scope, receive, send):
        raise LookupError("of the inner application")

    with pytest.raises(LookupError):
        await get("/elsewhere").run(create_app(settings_for(sim.url, {}), inner=inner))
    assert not caplog.records


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RuntimeError, marks=pytest.mark.unexpected("RuntimeError")),
        anyio.EndOfStream,
        ConnectionResetError,
    ],
)
async def test_a_receive_that_fails(error, gateway, caplog):
    """A broken connection is a client that left, anything else is a 500."""
    exchange = post(PATHS["openai"], b"")

    async def receive():
        raise error

    await gateway()(exchange.scope, receive, exchange.send)

    assert exchange.status == 500 if error is RuntimeError else exchange.unanswered
    assert bool(tracebacks(caplog)) is (error is RuntimeError)


@pytest.mark.unexpected("ValueError: of the host")
async def test_an_odd_send_is_asked_once(gateway, caplog):
    """Where the host's own ``send`` fails, what has gone out is unknown: nothing more is sent, and nothing raised."""
    calls = []

    async def send(message):
        calls.append(message)
        raise ValueError("of the host")

    exchange = get("/health")
    await gateway()(exchange.scope, exchange.receive, send)

    assert len(calls) == 1
    assert len(tracebacks(caplog)) == 1


class Passive(BaseHTTPMiddleware):
    """A middleware of a kind that is in many hosts: it wants a response, whoever listens."""

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers["x-seen"] = "yes"
        return response


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
@pytest.mark.parametrize("marker", ["stall", "stall-headers"])
async def test_a_client_that_leaves_below_starlettes_middleware(marker, stream, gateway, sim, caplog):
    """A client that leaves before the head is no error of the host's middleware, whatever it waits for."""
    caplog.set_level(logging.INFO)
    host = Starlette(routes=[Mount("/", gateway())], middleware=[Middleware(Passive), Middleware(Passive)])
    exchange = ask("openai", f"sim:{marker}", stream=stream)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as clients:
            clients.start_soon(exchange.run, host)
            while not sim.requests:  # noqa: ASYNC110 - nothing sets an event
                await anyio.sleep(0.01)
            exchange.leave.set()

    (line,) = access_lines(caplog)
    assert " 499 disconnected " in line


async def test_a_body_that_ends_early_below_starlettes_middleware(gateway):
    """The same where the client leaves within its own request."""
    host = Starlette(routes=[Mount("/", gateway())], middleware=[Middleware(Passive)])
    exchange = Exchange(post(PATHS["anthropic"], b"").scope, [])
    exchange.leave.set()
    with anyio.fail_after(5):
        await exchange.run(host)

    assert exchange.status == 499


async def test_answers_pass_starlettes_middleware(gateway):
    """What the middleware adds is there, and so is the answer."""
    host = Starlette(routes=[Mount("/llm", gateway())], middleware=[Middleware(Passive)])
    exchange = ask("openai", "sim:count=3", stream=True)
    exchange.scope["path"] = "/llm" + exchange.scope["path"]
    with anyio.fail_after(5):
        await exchange.run(host)

    assert exchange.headers["x-seen"] == "yes"
    assert partial_text("openai", exchange.content) == "1 2 3 "
