"""A server of a test's own in its event loop, for bytes that no simulator says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

__all__ = ["listening"]


@asynccontextmanager
async def listening(handle: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[int]:
    """The port where every connection is handed to *handle*, until the end of the block."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()
