"""A simulator, gateways in this event loop, and gateways in processes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import App, Settings, create_app
from kiro_asgi import simulator as simulators
from kiro_asgi.cli.standalone import bind
from tests.e2e.faults.bench import Gateway, settings_for
from tests.e2e.faults.served import Served, start


@pytest.fixture(scope="session")
def port() -> int:
    """Where every simulator of the session listens, one after the other, so that a gateway may outlive a test."""
    with closing(bind("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def apps() -> dict[Settings, App]:
    """One application for all tests with the same settings: each reads the system's certificates once."""
    return {}


@pytest.fixture
async def simulator(anyio_backend: str, port: int) -> AsyncIterator[simulators.Simulator]:
    """In the test's own event loop; small socket buffers, so that back-pressure shows early."""
    async with simulators.serve(port, send_buffer=32 * 1024) as running:
        yield running


@pytest.fixture
async def gateway(simulator: simulators.Simulator, apps: dict[Settings, App]) -> AsyncIterator[Callable[..., Gateway]]:
    """Finds gateways in front of `simulator`; arguments are slices of settings."""
    made: list[Gateway] = []

    def make(**slices: dict[str, Any]) -> Gateway:
        settings = settings_for(simulator, slices)
        app = apps.get(settings) or apps.setdefault(settings, create_app(settings))
        made.append(Gateway(app, simulator))
        return made[-1]

    yield make
    for one in made:
        await one.app.aclose()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Served]]:
    """Gateways under hypercorn, one a module and event loop, each in front of a simulator of its own."""
    running: dict[str, Served] = {}
    with ExitStack() as stack:

        def find(loop: str) -> Served:
            if loop not in running:
                folder: Path = tmp_path_factory.mktemp(loop)
                running[loop] = stack.enter_context(start(loop, folder))
            return running[loop]

        yield find
