"""One simulator a module and event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kiro_asgi import simulator as simulators


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def simulator(request: pytest.FixtureRequest) -> Iterator[simulators.Simulator]:
    with simulators.running(backend=request.param) as running:
        yield running
