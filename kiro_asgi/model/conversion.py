"""Converters and validators of neutral values: whoever makes one by hand gets it as it is meant, or is told at once.

A value of another kind would not be found where it is used: code asks for the kinds that it handles, and passes over
what is none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

from attrs import Attribute

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


def member(kind: type[E], value: object) -> E:
    """The member of *kind* that *value* is, or that it is the value of.

    Raises:
        ValueError: There is none; the message has those that there are.
    """
    if type(value) is kind:
        return value
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise ValueError(f"{value!r:.60} is no {kind.__name__}; there are {known}") from None


def several(items: Iterable[T], kinds: frozenset[type], place: str) -> tuple[T, ...]:
    """*items* as a tuple, each of one of *kinds*; *place* is named in the message.

    Raises:
        TypeError: One of them is of another kind, or they are no items.
    """
    if type(items) is tuple:
        made = items
    elif isinstance(items, Iterable):
        made = tuple(items)
    else:
        raise TypeError(f"{place} must be several, such as a list, not {items!r:.60}")
    if not kinds.issuperset(map(type, made)):
        at, wrong = next((at, it) for at, it in enumerate(made) if type(it) not in kinds)
        known = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{place}[{at}] must be one of {known}, not {wrong!r:.60}")
    return made


def texts(items: Iterable[str] | str, place: str) -> tuple[str, ...]:
    """Texts as a tuple; a single one is the only one.

    Raises:
        TypeError: One of them is no text.
    """
    made = (items,) if isinstance(items, str) else tuple(items)
    for at, item in enumerate(made):
        if not isinstance(item, str):
            raise TypeError(f"{place}[{at}] must be text, not {item!r:.60}")
    return made


def is_text(made: object, attribute: Attribute[Any], value: object) -> None:
    """Refuse what is no text.

    Raises:
        TypeError: With the attribute's name.
    """
    if not isinstance(value, str):
        raise TypeError(f"{type(made).__name__}.{attribute.name} must be text, not {value!r:.60}")
