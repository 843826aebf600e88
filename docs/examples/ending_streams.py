"""Streams that take longer than a server waits at SIGTERM end with an error of their API, not in the middle."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any

from quart import Quart

from kiro_asgi import App, create_app, mount

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

GRACE = 3.0
"""Seconds for streams to end by themselves; less than the server waits (`--timeout-graceful-shutdown` of Uvicorn)."""


def ending_streams(application: Application, gateway: App) -> Application:
    """Have *gateway* end what is still under way, `GRACE` seconds after SIGTERM."""

    async def watched(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            watch(gateway)
        await application(scope, receive, send)

    return watched


def watch(gateway: App) -> None:
    """Hear of SIGTERM before the server's own handler, which is called as before."""
    loop, servers_own = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
    if not callable(servers_own):
        return  # the server has no handler yet, and would replace this one

    async def interrupt() -> None:
        await asyncio.sleep(GRACE)
        gateway.interrupt()

    def heard(number: int, frame: FrameType | None) -> None:
        asyncio.run_coroutine_threadsafe(interrupt(), loop)
        servers_own(number, frame)

    signal.signal(signal.SIGTERM, heard)


app, gateway = Quart(__name__), create_app()
application = ending_streams(mount(app, "/llm", gateway), gateway)
