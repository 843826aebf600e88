"""Tasks around one answer, which end together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from kiro_asgi.asgi.http import Disconnected

__all__ = ["Tasks"]


@define(eq=False)
class Tasks:
    """A main task and others beside it: the first that fails, or the end of the main one, ends all.

    A scope for each task: were the group cancelled, the exception that ends a task would hold its frames, and they the
    task.  Such a circle, with prompt and answer in it, stays until the garbage collector comes by.
    """

    _group: TaskGroup
    failure: Exception | None = field(init=False, default=None)
    """What ended them, but that the client is gone; leaving the group it would be wrapped."""

    _running: set[anyio.CancelScope] = field(init=False, factory=set)

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do *work* beside the main task."""
        self._group.start_soon(self._guarded, work, self._new_scope())

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the main task's *work*, then end the others."""
        await self._guarded(work, self._new_scope())
        self._end()

    def _new_scope(self) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        self._running.add(scope)
        return scope

    async def _guarded(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await work()
            except Disconnected:
                pass
            except Exception as error:  # noqa: BLE001 - for who waits for all
                self.failure = error
            else:
                self._running.discard(scope)
                return
            # Not where an exception is handled: what cancels other tasks would hold it, and its frames them.
            self._running.discard(scope)
            self._end()

    def _end(self) -> None:
        for scope in self._running:
            scope.cancel()
