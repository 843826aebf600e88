"""The simulated service and gateways in front of it, as for the application."""

from __future__ import annotations

from tests.asgi.conftest import anyio_backend, gateway, kept_gateway, service, settled, sim

__all__ = ["anyio_backend", "gateway", "kept_gateway", "service", "settled", "sim"]
