"""Values for each event loop, where one object serves several of them; and the way into a loop from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from anyio.lowlevel import RunVar, current_token
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


def way_into() -> Callable[[Callable[[], object]], object]:
    """Return a function that has the running event loop call another one soon, from any thread.

    It raises a `RuntimeError` where the loop has ended.
    """
    token: Any = current_token()
    loop = getattr(token, "native_token", token)  # anyio before 4.11 has no token of its own
    soon: Callable[[Callable[[], object]], object] = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
    return soon  # trio's, or asyncio's
