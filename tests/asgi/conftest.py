"""A simulated service in the tests' own event loop, and gateways in front of it; one loop a module and backend."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kiro_asgi import App, Settings, create_app, simulator
from kiro_asgi.simulator.server import Simulator

WRITERS = {"kiro-asgi state", "kiro-asgi tapes", "kiro-asgi usage"}
"""Names of the gateways' threads that write files; all others may ask a service."""

LONGEST_WORK = 30.0
"""Seconds after a test until nothing of it goes on."""

TURNS = 8
"""Turns of the event loop in which the service accepts a connection, and reads what was sent on it."""

Gateway = Callable[..., App]
"""An app for slices of settings, ``gateway(retry={"base": 1})``; the same app for the same ones, unless *fresh*."""


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
async def service(anyio_backend: str) -> AsyncIterator[Simulator]:
    async with simulator.serve() as running:
        yield running


def is_asking() -> bool:
    """Whether a gateway may be asking a service though no request waits for it: it has a thread for that."""
    names = {thread.name for thread in threading.enumerate()}
    return any(name.startswith("kiro-asgi ") for name in names - WRITERS)


@pytest.fixture
async def settled() -> AsyncIterator[None]:
    """After the test, all that asks the service has ended: it would get an answer meant for the next test.

    A request that was given up may have been sent, but not read yet.
    """
    yield
    with anyio.fail_after(LONGEST_WORK):
        while is_asking():  # noqa: ASYNC110 - a thread has no event
            await anyio.sleep(0.002)
    for _ in range(TURNS):
        await checkpoint()


@pytest.fixture
def sim(service: Simulator, settled: None) -> Simulator:
    """The service, with nothing asked yet."""
    service.reset()
    return service


AT_ONCE: dict[str, Any] = dict.fromkeys(
    ("base", "rate_base", "capacity_base", "jitter", "refused_base", "quota_probe", "suspicion"), 0.0
)
AT_ONCE["timeout_attempts"] = 1
QUIET = {"models_ttl": 0.0}
"""No waiting between tries, none after silence, and no rest for the only credential there is."""


def settings_for(url: str, slices: dict[str, Any]) -> Settings:
    """Settings that let the key ``k`` in, retry without delay, and ask the service at *url*.

    No list of models is asked for in the background, unless a test says how long it is kept: tests count requests.
    """
    kiro = {"endpoint": url, "api_key": "ksk_test", **QUIET, **slices.get("kiro", {})}
    direct = {name: {**QUIET, **slices[name]} for name in ("gemini", "anthropic", "openai") if name in slices}
    custom = {name: {**QUIET, **service} for name, service in slices.get("custom", {}).items()}
    retry = {**AT_ONCE, **slices.get("retry", {})}
    client = {"client": {"api_keys": ["k"]}}
    return Settings.from_mapping({**client, **slices, **direct, "custom": custom, "kiro": kiro, "retry": retry})


@pytest.fixture
def gateway(kept_gateway: Gateway, settled: None) -> Gateway:
    return kept_gateway


@pytest.fixture(scope="module")
async def kept_gateway(service: Simulator) -> AsyncIterator[Gateway]:
    apps: dict[Settings, App] = {}
    fresh_apps: list[App] = []

    def make(*, fresh: bool = False, **slices: Any) -> App:
        settings = settings_for(service.url, slices)
        if fresh:
            fresh_apps.append(create_app(settings))
            return fresh_apps[-1]
        if settings not in apps:
            apps[settings] = create_app(settings)
        return apps[settings]

    yield make
    for app in (*apps.values(), *fresh_apps):
        await app.aclose()
