"""The gateways inside other applications: middlewares, routers, partial functions, closures."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, TypeVar

__all__ = ["wrapped_in"]

T = TypeVar("T")

_MAX_OBJECTS: Final = 10_000
"""Objects that are looked at: a host is no place to get lost in."""

_OPAQUE: Final = (type, ModuleType, str, bytes, bytearray, int, float, complex, type(None))


def wrapped_in(outer: Any, kind: type[T]) -> tuple[T, ...]:
    """Every *kind* that *outer* holds, or is, nearest first.

    Attributes, what a function encloses or wraps, and members of collections are followed; no property is evaluated.
    """
    found, seen, ahead = [], {id(outer)}, deque([outer])
    while ahead and len(seen) <= _MAX_OBJECTS:
        holder = ahead.popleft()
        if isinstance(holder, kind):
            found.append(holder)
            continue
        for part in _parts(holder):
            if id(part) not in seen and not isinstance(part, _OPAQUE):
                seen.add(id(part))
                ahead.append(part)
    return tuple(found)


def _parts(holder: Any) -> Iterator[Any]:
    """What an object is made of."""
    if isinstance(holder, Mapping):
        yield from tuple(holder.values())
    elif isinstance(holder, list | tuple | set | frozenset | deque):
        yield from tuple(holder)
    elif isinstance(holder, MethodType):
        yield from (holder.__self__, holder.__func__)
    elif isinstance(holder, partial):
        yield from (holder.func, *holder.args, *holder.keywords.values())
    else:
        if isinstance(holder, FunctionType):
            yield from _enclosed(holder)
        yield from _attributes(holder)


def _enclosed(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _attributes(holder: Any) -> Iterator[Any]:
    """Those of the object itself, ``__wrapped__`` among them, and those in slots."""
    own = getattr(holder, "__dict__", None)
    if isinstance(own, dict):
        yield from tuple(own.values())
    for cls in type(holder).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            slot = cls.__dict__.get(_mangled(cls, name))
            if isinstance(slot, MemberDescriptorType):
                try:
                    yield slot.__get__(holder, cls)
                except AttributeError:  # not set
                    continue


def _mangled(cls: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if private else name
