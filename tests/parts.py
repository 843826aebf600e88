"""A part of a finished application, for tests that look at what it holds."""

from __future__ import annotations

from typing import Any, TypeVar

from kiro_asgi.asgi.door.mount import wrapped_in

__all__ = ["part_of"]

T = TypeVar("T")


def part_of(app: Any, kind: type[T]) -> T:
    """The nearest *kind* within *app*."""
    return wrapped_in(app, kind)[0]
