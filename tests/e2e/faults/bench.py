"""What the scenarios share: a gateway in front of a simulator, watchdogs, the leak rule, hostile frames."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from attrs import frozen

from kiro_asgi import App, Settings
from kiro_asgi.simulator import RawBytes, Simulator
from kiro_asgi.wire.eventstream import encode_frame
from tests.asgi.driver import Exchange, ask

WATCHDOG: Final = 20.0
"""Seconds after which a scenario hangs."""

ROUTES: Final = ("anthropic", "openai")
ALL_ROUTES: Final = (*ROUTES, "responses")
"""Where the form of the answer matters."""


DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "client": {"api_keys": ["k"]},
    "kiro": {"api_key": "ksk_canary", "models_ttl": 0},  # requests and connections are counted
    "retry": {
        "attempts": 2,
        "timeout_attempts": 1,
        "base": 0,
        "rate_base": 0,
        "capacity_base": 0,
        "jitter": 0,
        "refused_base": 0,
        "quota_probe": 0,
        "suspicion": 0,
    },
    # One slot: a connection that is not given back makes the next request hang.
    "limits": {"connections": 1},
}


@frozen
class Gateway:
    """A gateway in this event loop and the service behind it."""

    app: App
    simulator: Simulator

    async def run(self, exchange: Exchange, within: float = WATCHDOG) -> Exchange:
        """Run *exchange* to its end; a hang is a failure."""
        with anyio.fail_after(within):
            return await exchange.run(self.app)

    async def ask(self, route: str, prompt: str, *, stream: bool, **more: Any) -> Exchange:
        """Ask and wait for the end."""
        return await self.run(ask(route, prompt, stream=stream, **more))

    async def works(self, route: str = "anthropic") -> None:
        """Fail unless an ordinary request is answered now."""
        exchange = await self.ask(route, "sim:count=3", stream=False)
        assert exchange.status == 200, exchange.content
        assert "1 2 3" in exchange.content.decode()


def settings_for(simulator: Simulator, slices: dict[str, dict[str, Any]]) -> Settings:
    """`DEFAULTS` with *slices* over them, for a gateway in front of *simulator*."""
    merged = {name: {**DEFAULTS.get(name, {}), **slices.get(name, {})} for name in {*DEFAULTS, *slices}}
    merged["kiro"].setdefault("endpoint", simulator.url)
    return Settings.from_mapping(merged)


def open_files() -> frozenset[str]:
    """The descriptors of this process, each with what it stands for."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name}: {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:  # the one that listed the folder
            continue
    return frozenset(found)


async def until(condition: Callable[[], object], seconds: float = 2.0) -> bool:
    """Wait until *condition* holds; whether it does."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - of what is watched nothing can set an event
            await anyio.sleep(0.002)
    return bool(condition())


async def closed_upstream(simulator: Simulator, idle: int = 1) -> bool:
    """Whether within a second no more than *idle* connections to the service are left."""
    return await until(lambda: simulator.connections_open <= idle, 1.0)


@asynccontextmanager
async def no_leak(gateway: Gateway, *, idle: int = 1) -> AsyncIterator[None]:
    """The leak rule: after the block only *idle* connections are left, after `aclose` nothing is.

    No descriptor, no task, no connection to the service.  What an earlier scenario closes late is not looked at.
    """
    await gateway.app.aclose()
    assert await until(lambda: gateway.simulator.connections_open == 0)
    files, tasks = open_files(), len(anyio.get_running_tasks())
    yield
    assert await closed_upstream(gateway.simulator, idle), f"{gateway.simulator.connections_open} connections left"
    await gateway.app.aclose()
    assert await until(lambda: gateway.simulator.connections_open == 0)
    assert await until(lambda: open_files() <= files), open_files() - files
    assert await until(lambda: len(anyio.get_running_tasks()) <= tasks), anyio.get_running_tasks()


def raw_event(event_type: str, payload: bytes) -> RawBytes:
    """An event frame around bytes that need not be JSON."""
    headers = {":message-type": "event", ":event-type": event_type, ":content-type": "application/json"}
    return RawBytes(encode_frame(headers, payload))


def raw_exception(name: str, payload: bytes) -> RawBytes:
    """An exception frame around bytes that need not be JSON."""
    headers = {":message-type": "exception", ":exception-type": name, ":content-type": "application/json"}
    return RawBytes(encode_frame(headers, payload))


def said(pieces: Iterable[Any]) -> str:
    """The text of text events."""
    return "".join(piece.text for piece in pieces)
