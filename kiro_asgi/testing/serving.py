"""A gateway on a port of this machine, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import anyio
from anyio.from_thread import start_blocking_portal

from kiro_asgi.cli.standalone import Server, bind
from kiro_asgi.config import Settings
from kiro_asgi.create import create_app

SIMULATED: Final[Mapping[str, Any]] = MappingProxyType({"client": {"allow_anonymous": True}, "simulate": True})
"""Settings of a gateway whose service is simulated, and whose clients need no key."""

_GRACE: Final = 1.0
"""Seconds that streams may go on after the end of the block."""


@contextmanager
def serving(
    settings: Settings | Mapping[str, Any] = SIMULATED, *, loop: str = "asyncio", **additions: Any
) -> Iterator[str]:
    """Serve a gateway on a free port of 127.0.0.1, in a thread with an event loop of its own, within the block.

    It is served as ``kiro-asgi serve`` does it, over HTTP and WebSocket, by what the extra ``standalone`` brings.

    Args:
        settings: As for `kiro_asgi.create_app`.
        loop: ``asyncio`` or ``trio``.
        additions: Everything else that `kiro_asgi.create_app` takes, such as ``dialects=[…]``.

    Yields:
        The base URL, without a slash at the end.

    Raises:
        ConfigError: The settings cannot work, or hypercorn is not installed.
    """
    server = Server(loop=loop, graceful_timeout=_GRACE)
    server.ready()
    app = create_app(settings, **additions)
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with start_blocking_portal(loop) as portal:
        stopped = portal.call(anyio.Event)
        served = portal.start_task_soon(server.serve, app, listener, stopped.wait)
        try:
            yield url
        finally:
            portal.call(stopped.set)
            served.result()
