"""JSON as Google's clients write it, in one spelling: names in snake_case, whole numbers as integers.

Names of fields may be in camelCase or in snake_case, both in one body; integers may be floats or strings; ``null``
counts as absent, and one object stands for a list of one.  Only what is declared in a class is spelled anew: what is
the client's own data, such as the arguments of a call, stays as it is.

Source: https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin, get_type_hints

from attrs import define, field, has

__all__ = ["Spelling", "snake_case"]

_HUMP: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}")

Hints = Mapping[str, Any]


def snake_case(name: str) -> str:
    """*name* with underscores for humps; those before it, which mark a field as internal, are left out."""
    return _HUMP.sub(lambda hump: f"_{hump[0]}", name).lower().lstrip("_")


@define
class Spelling:
    """Spells values anew that a class, or another within it, is to be read from."""

    _cls: type
    _hints: Mapping[type, Hints] = field(init=False)
    """Class to its fields and their types, for every class that is reached."""

    def __attrs_post_init__(self) -> None:
        self._hints = MappingProxyType(dict(_classes(self._cls)))

    def plain(self, value: Any) -> Any:
        """*value* in one spelling; what does not fit the class is left for its reader to refuse."""
        return self._plain(value, self._cls)

    def _plain(self, value: Any, kind: Any) -> Any:
        members = get_args(kind) if get_origin(kind) is not tuple else ()
        for member in members or (kind,):
            if get_origin(member) is tuple:
                item = get_args(member)[0]
                if type(value) is list:
                    return [self._plain(each, item) for each in value]
                if type(value) is dict and item in self._hints:
                    return [self._plain(value, item)]
            elif member in self._hints and type(value) is dict:
                return self._object(value, self._hints[member])
            elif member is int:
                return _integer(value)
        return value

    def _object(self, value: Mapping[str, Any], hints: Hints) -> dict[str, Any]:
        named = ((snake_case(name), part) for name, part in value.items() if part is not None)
        return {name: self._plain(part, hints[name]) if name in hints else part for name, part in named}


def _classes(cls: type) -> Iterator[tuple[type, Hints]]:
    """*cls* and every class that its fields hold."""
    seen: set[type] = set()
    pending = [cls]
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            hints = get_type_hints(each)
            yield each, MappingProxyType(hints)
            pending += (part for kind in hints.values() for part in _parts(kind))


def _parts(kind: Any) -> Iterator[type]:
    """The classes in a type."""
    if has(kind):
        yield kind
    for member in get_args(kind):
        yield from _parts(member)


def _integer(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and _INTEGER.fullmatch(value) else value
