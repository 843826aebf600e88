"""What is each event loop's own: values, the way into it from another thread, and turns that work leaves to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from anyio.lowlevel import RunVar, checkpoint, current_token
from attrs import define, field

T = TypeVar("T")


@define(eq=False)
class PerLoop(Generic[T]):
    """A value for each event loop, made when it is first asked for there; it goes with the loop."""

    _make: Callable[[], T]
    _values: RunVar[T | None] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Older anyio finds a variable by its name: with one for all, all values would be one.
        self._values = RunVar(f"kiro_asgi.loops.{id(self)}")

    def here(self) -> T:
        """The running event loop's value."""
        value = self._values.get(None)
        if value is None:
            value = self._make()
            self._values.set(value)
        return value


def on_asyncio() -> bool:
    """Whether the running task is one of asyncio's."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no loop of asyncio is running
        return False


_TURNS: Final = 4
"""Turns of the event loop that one part of long work leaves to others."""


async def give_way() -> None:
    """Let others have some turns of the event loop, after a part of work that took milliseconds.

    A short request takes some ten turns, and with only one of them between two parts it would wait for ten parts.
    """
    for _ in range(_TURNS):
        await checkpoint()


@define
class Portion:
    """How many bytes to take at once: half as many where the last took long, else twice as many, within bounds."""

    _least: int
    _most: int
    _long: float
    """Seconds."""

    size: int
    """Of the next."""

    def took(self, seconds: float) -> None:
        """The last took so many."""
        self.size = max(self.size // 2, self._least) if seconds > self._long else min(self.size * 2, self._most)


def way_into() -> Callable[[Callable[[], object]], object]:
    """Return a function that has the running event loop call another one soon, from any thread.

    It raises a `RuntimeError` where the loop has ended.
    """
    token: Any = current_token()
    loop = getattr(token, "native_token", token)  # anyio before 4.11 has no token of its own
    soon: Callable[[Callable[[], object]], object] = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    return soon  # trio's, or asyncio's
