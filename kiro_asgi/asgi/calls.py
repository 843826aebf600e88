"""The calls under way in each event loop, so that they can be ended with a word when their process ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from attrs import define, field

from kiro_asgi.asgi.call import Call
from kiro_asgi.errors import TooBusy
from kiro_asgi.loops import PerLoop

__all__ = ["Calls"]

_RETRY_AFTER: Final = 1.0
"""Seconds until somebody else may serve what this process could not."""


@define(eq=False)
class Calls:
    """What one application is doing now."""

    _under_way: PerLoop[set[Call]] = field(init=False, factory=lambda: PerLoop(set))

    async def run(self, call: Call, work: Callable[[], Awaitable[None]]) -> None:
        """Do the *work* of *call*.

        Raises:
            TooBusy: It was interrupted before the client had anything of an answer; code ``shutting_down``.
        """
        calls = self._under_way.here()
        calls.add(call)
        try:
            with call.work:
                await work()
        finally:
            calls.discard(call)
        if call.work.cancelled_caught:
            error = TooBusy("this gateway is being stopped", code="shutting_down", retry_after=_RETRY_AFTER)
            if call.tell is None or not call.status:
                raise error
            await call.tell(error)

    def interrupt(self) -> None:
        """End the calls of the running event loop, each as soon as nothing is being sent to its client."""
        for call in tuple(self._under_way.here()):
            call.interrupt()
