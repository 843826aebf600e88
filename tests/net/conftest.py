"""A transport of each HTTP library that is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec

import pytest

from kiro_asgi import simulator
from kiro_asgi.net.transport import Transport

LIBRARIES = [name for name in ("httpcore", "httpcore2") if find_spec(name)]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def upstream() -> AsyncIterator[simulator.Simulator]:
    async with simulator.serve(strict=False) as running:
        yield running


@pytest.fixture
async def transport(library: str) -> AsyncIterator[Transport]:
    made = Transport(library=library, connections=4, queue=2, connect_timeout=2.0)
    yield made
    await made.aclose()
