"""Converters and validators of neutral values: whoever makes one by hand gets it as it is meant, or is told at once.

A value of another kind would not be found where it is used: code asks for the kinds that it handles, and passes over
what is none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, TypeVar

from attrs import Attribute

from kiro_asgi.errors import RequestError, UnknownModel
from kiro_asgi.limits import MODEL_CHARACTERS, NAME_CHARACTERS

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

_SHOWN: Final = 100
"""Characters of a name that messages repeat."""


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


def is_model(made: object, attribute: Attribute[Any], value: object) -> None:
    """Refuse what cannot be a model's name, before anything is compared with it.

    Raises:
        TypeError: It is no text.
        UnknownModel: It is too long; with the beginning of it.
    """
    if not isinstance(value, str):
        is_text(made, attribute, value)
    elif len(value) > MODEL_CHARACTERS:
        raise UnknownModel(
            f"model: {value[:_SHOWN]}… is longer than the name of any model ({MODEL_CHARACTERS} characters)",
            code="model_not_found",
            param="model",
        )


def require_name(name: str, place: str) -> None:
    """Refuse a name or word that is too long for one.

    Raises:
        RequestError: With *place*.
    """
    if len(name) > NAME_CHARACTERS:
        raise RequestError(f"{place}: is longer than {NAME_CHARACTERS:,} characters", code="invalid_value", param=place)
