"""A simulated service that enforces its rules, and one gateway in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kiro_asgi import App, Settings, create_app
from kiro_asgi.simulator.server import Simulator
from tests.asgi.conftest import anyio_backend, service, settled, sim

__all__ = ["anyio_backend", "app", "service", "settled", "sim"]


@pytest.fixture(scope="module")
async def app(service: Simulator) -> AsyncIterator[App]:
    kiro = {"endpoint": service.url, "api_key": "ksk_test"}
    retry = {"base": 0.0, "jitter": 0.0}
    gateway = create_app(Settings.from_mapping({"client": {"api_keys": ["k"]}, "kiro": kiro, "retry": retry}))
    yield gateway
    await gateway.aclose()
