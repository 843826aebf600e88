"""Assertions of JSON Schema: keywords that look at a value itself, and need no further schema for their verdict.

A format is read as leniently as clients read it that make a type of their own of it: a time needs no zone.  Of every
other format nothing is asked, as the standard has it.

Source: https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from attrs import define, field, frozen


class Open(Enum):
    """Why a verdict is open."""

    BUDGET = "budget"
    """The steps did not suffice."""

    PATTERN = "pattern"
    """It depends on a regular expression."""

    REFERENCE = "reference"
    """It depends on a reference that leads in a circle, or out of the document."""

    SCHEMA = "schema"
    """It depends on a keyword that is malformed, or not followed."""


@frozen
class Match:
    """The value is as the schema says."""


@frozen
class Undecided:
    """Whether it is cannot be told, or not at this price."""

    why: Open


@frozen
class Mismatch:
    """The value is not as the schema says."""

    _steps: Steps = field(repr=False)

    @property
    def place(self) -> str:
        """Where, as a JSON path; long names are cut."""
        steps, rest = [], self._steps
        while rest is not None:
            steps.append(rest[0])
            rest = rest[1]
        return "$" + "".join(map(_step, steps))


Verdict = Match | Mismatch | Undecided

MATCH: Final = Match()

Steps = tuple[str | int, "Steps"] | None
"""A way into a value, outermost step first."""

HERE: Final = Mismatch(None)
OPEN: Final = MappingProxyType({why: Undecided(why) for why in Open})
MALFORMED: Final = OPEN[Open.SCHEMA]

_WORD: Final = 8
"""Bits of a number, or characters to be read, that are as much work as a step."""

_DIVISION: Final = 32
"""Steps that a division of decimal numbers is worth."""

_ECHO: Final = 60
"""Characters of a name in a place."""


def _step(step: str | int) -> str:
    if type(step) is int:
        return f"[{step}]"
    name = str(step)
    name = name if len(name) <= _ECHO else name[: _ECHO - 1] + "…"
    return f".{name}" if re.fullmatch("[a-zA-Z][a-zA-Z0-9_]*", name) else f"[{name!r}]"


class Spent(Exception):
    """All steps are spent."""


@define
class Comparison:
    """Values that are compared within a budget of steps, so that equal ones are known without looking again."""

    _left: int
    """Steps."""

    _choices: dict[int, frozenset[Any]] = field(init=False, factory=dict)
    """The names of what an ``enum`` lists, by its identity."""

    _names: dict[Any, int] = field(init=False, factory=dict)
    """Contents of arrays and objects to a number, the same for equal ones."""

    def spend(self, steps: int = 1) -> None:
        """Count *steps*."""
        self._left -= steps
        if self._left < 0:
            raise Spent

    def name(self, value: Any) -> Any:
        """A key that equal values share, and no others: see `_scalar`; a number for an array or object."""
        names: dict[int, Any] = {}
        waiting = [value]
        while waiting:
            part = waiting[-1]
            inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            if inner and id(part) not in names:
                names[id(part)] = None
                self.spend(len(inner))
                waiting += (it for it in inner if isinstance(it, dict | list))
                continue
            waiting.pop()
            if names.get(id(part)) is None:
                names[id(part)] = self._name(part, names)
        return names[id(value)]

    def _name(self, part: Any, names: Mapping[int, Any]) -> Any:
        """The name of *part*, by those of what is in it."""
        if isinstance(part, list):
            return self._numbered((self._name_in(it, names) for it in part), tuple)
        if isinstance(part, dict):
            return self._numbered(((key, self._name_in(it, names)) for key, it in part.items()), frozenset)
        return self._scalar(part)

    def _name_in(self, part: Any, names: Mapping[int, Any]) -> Any:
        return names[id(part)] if isinstance(part, dict | list) else self._scalar(part)

    def _scalar(self, value: Any) -> Any:
        """A text is its own name.  A number's are its digits, since clients could choose numbers with equal hashes."""
        if type(value) is str:
            return value
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int:
            self.spend(value.bit_length() // _WORD)
        return (repr(value),)

    def _numbered(self, content: Iterable[Any], kind: Callable[[Iterable[Any]], Any]) -> int:
        return self._names.setdefault((kind, kind(content)), len(self._names))

    def choices(self, values: list[Any]) -> frozenset[Any]:
        """The names of *values*, found once for each list."""
        if id(values) not in self._choices:
            self.spend(len(values))
            self._choices[id(values)] = frozenset(map(self.name, values))
        return self._choices[id(values)]


def common(check: Comparison, properties: Mapping[str, Any], value: Any) -> list[str]:
    """Names that both have, at the price of the shorter."""
    if not isinstance(value, dict):
        return []
    shorter, longer = (value, properties) if len(value) < len(properties) else (properties, value)
    check.spend(len(shorter))
    return [name for name in shorter if name in longer]


_Assertion = Callable[[Comparison, Any, Any], Verdict]


def verdict_of(fits: bool) -> Verdict:
    """A match, or a mismatch at the value itself."""
    return MATCH if fits else HERE


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_count(value: Any) -> bool:
    """Whether *value* may be a limit on a length, which JSON Schema lets be written as ``2.0``, too."""
    return _is_number(value) and value >= 0


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "null": lambda value: value is None,
        "boolean": lambda value: type(value) is bool,
        "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
        "number": _is_number,
        "string": lambda value: isinstance(value, str),
        "array": lambda value: isinstance(value, list),
        "object": lambda value: isinstance(value, dict),
    }
)


def _type(check: Comparison, wanted: Any, value: Any) -> Verdict:
    names = wanted if type(wanted) is list else [wanted]
    check.spend(len(names))
    tests = [_TYPES.get(name) if type(name) is str else None for name in names]
    if any(test is not None and test(value) for test in tests):
        return MATCH
    return HERE if tests and None not in tests else MALFORMED


def _enum(check: Comparison, wanted: Any, value: Any) -> Verdict:
    return verdict_of(check.name(value) in check.choices(wanted)) if type(wanted) is list else MALFORMED


def _const(check: Comparison, wanted: Any, value: Any) -> Verdict:
    return verdict_of(check.name(value) == check.name(wanted))


def _unique(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if type(wanted) is not bool:
        return MALFORMED
    if not wanted or not isinstance(value, list):
        return MATCH
    check.spend(len(value))
    return verdict_of(len(set(map(check.name, value))) == len(value))


def _pattern(_: Comparison, wanted: Any, value: Any) -> Verdict:
    return OPEN[Open.PATTERN] if isinstance(value, str) else MATCH


def _format(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if type(wanted) is not str:
        return MALFORMED
    if not isinstance(value, str):
        return MATCH
    check.spend(len(value) // _WORD)
    return verdict_of(has_format(value, wanted))


def _multiple(check: Comparison, wanted: Any, value: Any) -> Verdict:
    """Decimal digits count, as they stand in JSON: 0.3 is a multiple of 0.1."""
    if not _is_number(wanted) or wanted <= 0:
        return MALFORMED
    if not _is_number(value):
        return MATCH
    check.spend(_DIVISION + sum(it.bit_length() // _WORD for it in (value, wanted) if type(it) is int))
    return verdict_of(Fraction(repr(value)) % Fraction(repr(wanted)) == 0)


def _required(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if type(wanted) is not list:
        return MALFORMED
    if not isinstance(value, dict):
        return MATCH
    check.spend(len(wanted))
    names = [name for name in wanted if type(name) is str]
    if not all(name in value for name in names):
        return HERE
    return MATCH if len(names) == len(wanted) else MALFORMED


def _dependent(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if not isinstance(wanted, Mapping):
        return MALFORMED
    found: Verdict = MATCH
    for name in common(check, wanted, value):
        verdict = _required(check, wanted[name], value)
        if type(verdict) is Mismatch:
            return verdict
        found = found if verdict is MATCH else verdict
    return found


def _limit(
    applies: Callable[[Any], bool], fits: Callable[[Any, Any], bool], allowed: Callable[[Any], bool]
) -> _Assertion:
    """A keyword that compares a value of some type with a number."""

    def assertion(_: Comparison, wanted: Any, value: Any) -> Verdict:
        if not allowed(wanted):
            return MALFORMED
        return verdict_of(fits(value, wanted)) if applies(value) else MATCH

    return assertion


def _sizes(kind: type) -> tuple[_Assertion, _Assertion]:
    """At least, and at most, so many members or characters."""

    def is_kind(value: Any) -> bool:
        return isinstance(value, kind)

    return (
        _limit(is_kind, lambda value, wanted: len(value) >= wanted, is_count),
        _limit(is_kind, lambda value, wanted: len(value) <= wanted, is_count),
    )


_MIN_LENGTH, _MAX_LENGTH = _sizes(str)
_MIN_ITEMS, _MAX_ITEMS = _sizes(list)
_MIN_PROPERTIES, _MAX_PROPERTIES = _sizes(dict)

_READERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "date-time": datetime.fromisoformat,
        "date": date.fromisoformat,
        "time": time.fromisoformat,
        "uuid": UUID,
        "ipv4": IPv4Address,
        "ipv6": IPv6Address,
    }
)
"""Format to what reads it, or raises `ValueError`."""


def has_format(text: str, name: str) -> bool:
    """Whether *text* is in the format *name*, at a price in proportion to its length; true of unknown formats."""
    reader = _READERS.get(name)
    if reader is None:
        return True
    try:
        reader(text.upper())
    except ValueError:
        return False
    return True


ASSERTIONS: Final[Mapping[str, _Assertion]] = MappingProxyType(
    {
        "type": _type,
        "enum": _enum,
        "const": _const,
        "required": _required,
        "dependentRequired": _dependent,
        "uniqueItems": _unique,
        "pattern": _pattern,
        "format": _format,
        "multipleOf": _multiple,
        "minimum": _limit(_is_number, lambda value, wanted: value >= wanted, _is_number),
        "maximum": _limit(_is_number, lambda value, wanted: value <= wanted, _is_number),
        "exclusiveMinimum": _limit(_is_number, lambda value, wanted: value > wanted, _is_number),
        "exclusiveMaximum": _limit(_is_number, lambda value, wanted: value < wanted, _is_number),
        "minLength": _MIN_LENGTH,
        "maxLength": _MAX_LENGTH,
        "minItems": _MIN_ITEMS,
        "maxItems": _MAX_ITEMS,
        "minProperties": _MIN_PROPERTIES,
        "maxProperties": _MAX_PROPERTIES,
        **dict.fromkeys(("$dynamicRef", "unevaluatedProperties", "unevaluatedItems"), lambda *_: MALFORMED),
    }
)
