"""The engines that every law of a store is tried on, each with a clock that stands still unless told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import define

from kiro_asgi.state.base import Store
from kiro_asgi.state.memory import MemoryStore


@define
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


ENGINES: Final[Mapping[str, Callable[[Clock], Store]]] = MappingProxyType(
    {"memory": lambda clock: MemoryStore(clock=clock)}
)
"""Each with room for at least a hundred small values."""
