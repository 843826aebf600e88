"""A simulated service that enforces its rules, and one gateway in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kiro_asgi import App, Settings, create_app, simulator
from kiro_asgi.simulator.control import Simulator


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
async def service(anyio_backend: str) -> AsyncIterator[Simulator]:
    async with simulator.serve() as running:
        yield running


@pytest.fixture
def sim(service: Simulator) -> Simulator:
    """The service, with nothing asked yet."""
    service.forget()
    return service


@pytest.fixture(scope="module")
async def app(service: Simulator) -> AsyncIterator[App]:
    kiro = {"endpoint": service.url, "api_key": "ksk_test"}
    retry = {"base": 0.0, "jitter": 0.0}
    gateway = create_app(Settings.from_mapping({"client": {"api_keys": ["k"]}, "kiro": kiro, "retry": retry}))
    yield gateway
    await gateway.aclose()
