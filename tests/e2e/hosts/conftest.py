"""The simulated service, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kiro_asgi import simulator
from kiro_asgi.simulator.server import Simulator


@pytest.fixture(scope="session")
def service() -> Iterator[Simulator]:
    with simulator.running() as running:
        yield running


@pytest.fixture
def sim(service: Simulator) -> Simulator:
    service.reset()
    return service
