"""The types of the vendors' SDKs in one form, whatever they are written in.

OpenAI and Anthropic describe requests as typed dictionaries and answers as pydantic's models, Google describes both as
models, and AWS as shapes of botocore's.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType, NotRequired, Required, Union, get_args, get_origin

from attrs import define, field, frozen
from botocore.model import Shape
from pydantic import BaseModel
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

__all__ = ["Array", "Leaf", "Member", "Object", "Spec", "Types"]


@frozen(eq=False)
class Leaf:
    """A value that is neither an object nor an array, or an object of any members."""

    values: tuple[Any, ...]
    """Some that are legal, and differ."""

    @property
    def is_tag(self) -> bool:
        """Whether there is one legal value only, which says what the object is."""
        return len(self.values) == 1


@frozen(eq=False)
class Array:
    """An array."""

    items: tuple[Spec, ...]
    """What one of its items may be."""


@frozen
class Member:
    """One member of an object."""

    required: bool
    specs: tuple[Spec, ...]
    """What it may be."""


@define(eq=False)
class Object:
    """An object; each class of an SDK is one."""

    name: str
    _read: Callable[[], Mapping[str, Member]] = field(repr=False)
    _members: Mapping[str, Member] | None = field(init=False, default=None, repr=False)

    @property
    def members(self) -> Mapping[str, Member]:
        """Name on the wire to member; read late, since types hold themselves."""
        if self._members is None:
            self._members = self._read()
        return self._members

    @property
    def tags(self) -> dict[str, Any]:
        """The members that say what it is, with their one value."""
        return {
            name: spec.values[0]
            for name, member in self.members.items()
            for spec in member.specs
            if isinstance(spec, Leaf) and spec.is_tag and len(member.specs) == 1
        }


Spec = Leaf | Array | Object

_SAMPLES: Final[Mapping[Any, tuple[Any, ...]]] = {
    str: ("x", "y"),
    bytes: ("eA==", "eQ=="),
    int: (3, 4),
    float: (0.5, 0.25),
    bool: (True, False),
    datetime: ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
}

_DATA: Final = Leaf(({"x": 1}, {"x": 2}))
"""What may have any members."""

_BOTO: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": _SAMPLES[str],
    "blob": _SAMPLES[bytes],
    "integer": _SAMPLES[int],
    "long": _SAMPLES[int],
    "float": _SAMPLES[float],
    "double": _SAMPLES[float],
    "boolean": _SAMPLES[bool],
    "timestamp": _SAMPLES[datetime],
}


def _plain(hint: Any) -> Any:
    """*hint* without what is only said about it."""
    while True:
        if isinstance(hint, TypeAliasType):
            hint = hint.__value__
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif get_origin(hint) in (Annotated, Required, NotRequired):
            hint = get_args(hint)[0]
        else:
            return hint


def _is(hint: Any, base: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, base)


@define
class Types:
    """Types that have been read."""

    _known: dict[Any, Object] = field(init=False, factory=dict)

    def object(self, kind: Any) -> Object:
        """A class of an SDK, or a structure of botocore's."""
        key = id(kind) if isinstance(kind, Shape) else kind
        if key not in self._known:
            self._known[key] = Object(getattr(kind, "__name__", "") or kind.name, lambda: self._members(kind))
        return self._known[key]

    def _members(self, kind: Any) -> Mapping[str, Member]:
        if isinstance(kind, Shape):
            named = {name: (shape, name in kind.required_members) for name, shape in kind.members.items()}
            return {name: Member(required, self._shape(shape)) for name, (shape, required) in named.items()}
        if is_typeddict(kind):
            hints = get_type_hints(kind, include_extras=True)
            return dict(self._hinted(name, hint) for name, hint in hints.items())
        return {
            each.alias or name: Member(each.is_required(), self.specs(each.annotation))
            for name, each in kind.model_fields.items()
        }

    def _hinted(self, name: str, hint: Any) -> tuple[str, Member]:
        required = get_origin(hint) is Required
        if get_origin(hint) in (Required, NotRequired):
            hint = get_args(hint)[0]
        aliases = [getattr(extra, "alias", None) for extra in getattr(hint, "__metadata__", ())]
        return next(filter(None, aliases), name), Member(required, self.specs(hint))

    def specs(self, hint: Any) -> tuple[Spec, ...]:
        """What a value of this type may be, but for nothing."""
        return tuple(dict.fromkeys(self._specs(hint)))

    def _specs(self, hint: Any) -> Iterator[Spec]:
        hint = _plain(hint)
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            yield from (spec for member in inner for spec in self._specs(member))
        elif origin is Literal:
            yield Leaf(inner)
        elif hint in _SAMPLES:
            yield Leaf(_SAMPLES[hint])
        elif origin in (dict, Mapping):
            yield from self._map(inner)
        elif origin is not None:  # a list, an iterable, or what the SDKs have in their place
            yield Array(self.specs(inner[0]))
        elif is_typeddict(hint) or _is(hint, BaseModel):
            yield self.object(hint)
        elif _is(hint, Enum):
            words = tuple(each.value for each in hint if not str(each.value).endswith("UNSPECIFIED"))
            yield Leaf((*words, "y")[: max(len(words), 2)])
        elif hint not in (None, type(None)):
            yield _DATA

    def _map(self, inner: tuple[Any, ...]) -> Iterator[Spec]:
        """Any members; of what they are made the first kind is a sample."""
        values = self.specs(inner[1])[:1] if inner else ()
        leaves = [value for value in values if isinstance(value, Leaf)]
        yield Leaf(tuple({"x": each} for each in leaves[0].values[:2])) if leaves else _DATA

    def _shape(self, shape: Any) -> tuple[Spec, ...]:
        """A shape of botocore's; one without members is a document."""
        match shape.type_name:
            case "structure" if shape.members:
                return (self.object(shape),)
            case "list":
                return (Array(self._shape(shape.member)),)
            case "map" | "structure":
                return (_DATA,)
            case "string" if len(shape.enum) > 1:
                return (Leaf(tuple(shape.enum[:2])),)
        return (Leaf(_BOTO[shape.type_name]),)
