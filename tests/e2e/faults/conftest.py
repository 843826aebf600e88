"""A simulator, gateways in this event loop, and gateways in processes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi import simulator as simulators
from tests.e2e.faults.bench import Gateway, make_gateway
from tests.e2e.faults.served import Served, start


@pytest.fixture
async def simulator(anyio_backend: str) -> AsyncIterator[simulators.Simulator]:
    """In the test's own event loop; small socket buffers, so that back-pressure shows early."""
    async with simulators.serve(send_buffer=32 * 1024) as running:
        yield running


@pytest.fixture
async def gateway(simulator: simulators.Simulator) -> AsyncIterator[Callable[..., Gateway]]:
    """Makes gateways in front of `simulator`; arguments are slices of settings."""
    made: list[Gateway] = []

    def make(**settings: dict[str, Any]) -> Gateway:
        made.append(make_gateway(simulator, settings))
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
