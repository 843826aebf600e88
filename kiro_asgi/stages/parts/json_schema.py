"""A value against a client's JSON Schema, within a budget of steps.

Schema and value are both foreign, and together they can demand any amount of work: definitions that double, lists
compared with lists, regular expressions.  So each keyword, and each member that a keyword looks at, is a step, and
the caller limits their number; nothing that costs more than a step per member is done in one go.  The target of a
reference is looked at once for each value.  Nothing recurses.

The verdict has three values.  What is not decided here is never taken for a mismatch, nor for a match:

- regular expressions (``pattern``, ``patternProperties``) are never run, as one may take for ever;
- references lead only within the document, and not through a schema with an ``$id`` of its own;
- ``unevaluatedProperties``, ``unevaluatedItems`` and ``$dynamicRef`` are not followed, and a keyword with a value that
  its definition does not allow is ignored.

First come the assertions, which look at a value itself and need no further schema for their verdict; then the check,
which follows schemas into schemas.  A format is read as leniently as by clients that parse it into a type of their
own: a time needs no zone.  Unknown formats always match, as the standard has it.

Source: https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

from attrs import define, field, frozen

from kiro_asgi.limits import VALIDATION_STEPS


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
    """The value matches the schema."""


@frozen
class Undecided:
    """Whether the value matches is not known, or not within the budget."""

    why: Open


@frozen
class Mismatch:
    """The value does not match the schema."""

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
"""A path into a value, outermost step first."""

HERE: Final = Mismatch(None)
OPEN: Final = MappingProxyType({why: Undecided(why) for why in Open})
MALFORMED: Final = OPEN[Open.SCHEMA]

_WORD: Final = 8
"""Bits of a number, or characters to be read, that are as much work as a step."""

_DIVISION: Final = 32
"""Steps that a division of decimal numbers costs."""

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
    """BodyContent of arrays and objects to a number, the same for equal ones."""

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
    """Names that both have, in as many steps as the shorter has names."""
    if not isinstance(value, dict):
        return []
    shorter, longer = (value, properties) if len(value) < len(properties) else (properties, value)
    check.spend(len(shorter))
    return [name for name in shorter if name in longer]


_Assertion = Callable[[Comparison, Any, Any], Verdict]


def _verdict_of(fits: bool) -> Verdict:
    """A match, or a mismatch at the value itself."""
    return MATCH if fits else HERE


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_count(value: Any) -> bool:
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
    return _verdict_of(check.name(value) in check.choices(wanted)) if type(wanted) is list else MALFORMED


def _const(check: Comparison, wanted: Any, value: Any) -> Verdict:
    return _verdict_of(check.name(value) == check.name(wanted))


def _unique(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if type(wanted) is not bool:
        return MALFORMED
    if not wanted or not isinstance(value, list):
        return MATCH
    check.spend(len(value))
    return _verdict_of(len(set(map(check.name, value))) == len(value))


def _pattern(_: Comparison, wanted: Any, value: Any) -> Verdict:
    return OPEN[Open.PATTERN] if isinstance(value, str) else MATCH


def _format(check: Comparison, wanted: Any, value: Any) -> Verdict:
    if type(wanted) is not str:
        return MALFORMED
    if not isinstance(value, str):
        return MATCH
    check.spend(len(value) // _WORD)
    return _verdict_of(_has_format(value, wanted))


def _multiple(check: Comparison, wanted: Any, value: Any) -> Verdict:
    """Decimal digits count, as they stand in JSON: 0.3 is a multiple of 0.1."""
    if not _is_number(wanted) or wanted <= 0:
        return MALFORMED
    if not _is_number(value):
        return MATCH
    check.spend(_DIVISION + sum(it.bit_length() // _WORD for it in (value, wanted) if type(it) is int))
    return _verdict_of(Fraction(repr(value)) % Fraction(repr(wanted)) == 0)


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
    """Make the assertion of a keyword that compares a value of some type with a number."""

    def assertion(_: Comparison, wanted: Any, value: Any) -> Verdict:
        if not allowed(wanted):
            return MALFORMED
        return _verdict_of(fits(value, wanted)) if applies(value) else MATCH

    return assertion


def _sizes(kind: type) -> tuple[_Assertion, _Assertion]:
    """Make the assertions on the least and the greatest number of members or characters."""

    def is_kind(value: Any) -> bool:
        return isinstance(value, kind)

    return (
        _limit(is_kind, lambda value, wanted: len(value) >= wanted, _is_count),
        _limit(is_kind, lambda value, wanted: len(value) <= wanted, _is_count),
    )


_MIN_LENGTH, _MAX_LENGTH = _sizes(str)
_MIN_ITEMS, _MAX_ITEMS = _sizes(list)
_MIN_PROPERTIES, _MAX_PROPERTIES = _sizes(dict)

_PARSERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "date-time": datetime.fromisoformat,
        "date": date.fromisoformat,
        "time": time.fromisoformat,
        "uuid": UUID,
        "ipv4": IPv4Address,
        "ipv6": IPv6Address,
    }
)
"""Format to its parser, which raises `ValueError`."""


def _has_format(text: str, name: str) -> bool:
    """Whether *text* is in the format *name*, in time proportional to its length; true of unknown formats."""
    parse = _PARSERS.get(name)
    if parse is None:
        return True
    try:
        parse(text.upper())
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


_Evaluation = Generator[tuple[Any, Any], Any, Verdict]
"""Yields the schemas and values that it depends on, is sent the verdict of each, and returns its own."""

_NOWHERE: Final = object()


def check(schema: Any, value: Any, *, steps: int = VALIDATION_STEPS) -> Verdict:
    """Check *value* against *schema*.

    Args:
        schema: A JSON Schema, draft 2020-12, unchecked.
        value: A JSON value; no object or array stands in it twice.
        steps: Most keywords and members to look at.
    """
    check_ = _Check(steps, schema)
    try:
        return check_.run(value)
    except Spent:
        return OPEN[Open.BUDGET]


@define
class _Check(Comparison):
    """One value against one schema."""

    _root: Any
    _known: dict[tuple[int, int], Verdict] = field(init=False, factory=dict)
    """Verdicts of schemas that references lead to, by the identities of schema and value; open while it is sought."""

    _targets: dict[str, Any] = field(init=False, factory=dict)
    """Targets of references."""

    def run(self, value: Any) -> Verdict:
        """The verdict.

        Raises:
            Spent: It takes more steps.
        """
        waiting: list[_Evaluation] = []
        verdict = self._asserted(self._root, value, waiting)
        while waiting:
            try:
                schema, part = waiting[-1].send(verdict)
            except StopIteration as end:
                waiting.pop()
                verdict = end.value
            else:
                verdict = self._asserted(schema, part, waiting)
        return verdict  # type: ignore[return-value] # nothing waits, so it is there

    def _asserted(self, schema: Any, value: Any, waiting: list[_Evaluation]) -> Verdict | None:
        """The verdict, where it depends on no schema within *schema*; else ``None``: its evaluation is in *waiting*."""
        if type(schema) is bool:
            self.spend()
            return MATCH if schema else HERE
        if not isinstance(schema, Mapping):
            return MALFORMED
        self.spend(1 + len(schema))
        if type(schema.get("$id")) is str and schema is not self._root:
            return OPEN[Open.REFERENCE]
        found: Verdict = MATCH
        applicators = []
        for keyword, wanted in schema.items():
            if keyword in ASSERTIONS:
                verdict = ASSERTIONS[keyword](self, wanted, value)
                if type(verdict) is Mismatch:
                    return verdict
                found = found if verdict is MATCH else verdict
            elif keyword in _APPLICATORS:
                applicators.append(_APPLICATORS[keyword](self, wanted, value, schema))
        if not applicators:
            return found
        waiting.append(_applied(found, applicators))
        return None

    # References.

    def refer(self, reference: Any, value: Any) -> _Evaluation:
        """The verdict of the schema that *reference* leads to."""
        if type(reference) is not str:
            return MALFORMED
        if reference not in self._targets:
            self._targets[reference] = self._target(reference)
        target = self._targets[reference]
        if target is _NOWHERE:
            return OPEN[Open.REFERENCE]
        key = id(target), id(value)
        if key not in self._known:
            self._known[key] = OPEN[Open.REFERENCE]
            self._known[key] = yield target, value
        return self._known[key]

    def _target(self, reference: str) -> Any:
        """The target of a JSON pointer after ``#``."""
        if reference != "#" and not reference.startswith("#/"):
            return _NOWHERE
        node = self._root
        for step in reference.split("/")[1:]:
            self.spend()
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and len(key) < 9 and int(key) < len(node):
                node = node[int(key)]
            else:
                return _NOWHERE
            if isinstance(node, Mapping) and type(node.get("$id")) is str:
                return _NOWHERE
        return node


def _applied(found: Verdict, applicators: Iterable[_Evaluation]) -> _Evaluation:
    """The verdict of *applicators*, where that of the assertions is *found*."""
    for applicator in applicators:
        verdict = yield from applicator
        if type(verdict) is Mismatch:
            return verdict
        found = found if verdict is MATCH else verdict
    return found


# Applicators: keywords that apply schemas, to the value or to what is in it.

_Applicator = Callable[[_Check, Any, Any, Mapping[str, Any]], _Evaluation]


def _all(parts: Iterable[tuple[str | int | None, Any, Any]]) -> _Evaluation:
    """The first mismatch, else the first that is open; each part is a step into the value, a schema and a value."""
    found: Verdict = MATCH
    for step, schema, part in parts:
        verdict = yield schema, part
        if type(verdict) is Mismatch:
            return verdict if step is None else Mismatch((step, verdict._steps))
        found = found if found is not MATCH else verdict
    return found


def _all_of(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    return (yield from _all((None, branch, value) for branch in wanted)) if type(wanted) is list else MALFORMED


def _any_of(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    if type(wanted) is not list:
        return MALFORMED
    found: Verdict = HERE
    for branch in wanted:
        verdict: Verdict = yield branch, value
        if verdict is MATCH:
            return MATCH
        found = verdict if type(verdict) is Undecided else found
    return found


def _one_of(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    if type(wanted) is not list:
        return MALFORMED
    matches, is_open = 0, None
    for branch in wanted:
        verdict = yield branch, value
        matches += verdict is MATCH
        is_open = verdict if type(verdict) is Undecided else is_open
        if matches > 1:
            return HERE
    return is_open or _verdict_of(matches == 1)


def _not(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    verdict = yield wanted, value
    return verdict if type(verdict) is Undecided else _verdict_of(verdict is not MATCH)


def _if(check: _Check, wanted: Any, value: Any, schema: Mapping[str, Any]) -> _Evaluation:
    verdict = yield wanted, value
    if type(verdict) is not Undecided:
        chosen: Verdict = yield schema.get("then" if verdict is MATCH else "else", True), value
        return chosen
    one: Verdict = yield schema.get("then", True), value
    other = yield schema.get("else", True), value
    return one if one == other else verdict


def _properties(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    if not isinstance(wanted, Mapping):
        return MALFORMED
    return (yield from _all((name, wanted[name], value[name]) for name in common(check, wanted, value)))


def _more_properties(check: _Check, wanted: Any, value: Any, schema: Mapping[str, Any]) -> _Evaluation:
    """Check all members that are not declared; which of them a pattern covers is not known."""
    declared = schema.get("properties", {})
    if not isinstance(value, dict) or not isinstance(declared, Mapping):
        return MATCH
    check.spend(len(value))
    verdict = yield from _all((name, wanted, it) for name, it in value.items() if name not in declared)
    return verdict if verdict is MATCH or not schema.get("patternProperties") else OPEN[Open.PATTERN]


def _pattern_properties(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    yield from ()
    return OPEN[Open.PATTERN] if isinstance(value, dict) and value and wanted else MATCH


def _names(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    """A name that does not match is a mismatch of the object."""
    return (yield from _all((None, wanted, name) for name in value)) if isinstance(value, dict) else MATCH


def _dependent_schemas(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    if not isinstance(wanted, Mapping):
        return MALFORMED
    return (yield from _all((None, wanted[name], value) for name in common(check, wanted, value)))


def _items(check: _Check, wanted: Any, value: Any, schema: Mapping[str, Any]) -> _Evaluation:
    """Check all items after those with schemas of their own; a list is the form of earlier drafts for these."""
    if type(wanted) is list:
        return MALFORMED
    if not isinstance(value, list):
        return MATCH
    first = schema.get("prefixItems")
    start = len(first) if type(first) is list else 0
    return (yield from _all((index, wanted, value[index]) for index in range(start, len(value))))


def _first_items(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    if type(wanted) is not list:
        return MALFORMED
    pairs = zip(wanted, value if isinstance(value, list) else (), strict=False)
    return (yield from _all((index, schema, it) for index, (schema, it) in enumerate(pairs)))


def _contains(check: _Check, wanted: Any, value: Any, schema: Mapping[str, Any]) -> _Evaluation:
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if not isinstance(value, list):
        return MATCH
    if not _is_count(least) or not (most is None or _is_count(most)):
        return MALFORMED
    fitting, found = 0, _verdict_of(True)
    for it in value:
        verdict = yield wanted, it
        fitting += verdict is MATCH
        found = verdict if type(verdict) is Undecided else found
    return _verdict_of(fitting >= least and (most is None or fitting <= most)) if found is MATCH else found


def _ref(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    return (yield from check.refer(wanted, value))


_APPLICATORS: Final[Mapping[str, _Applicator]] = MappingProxyType(
    {
        "$ref": _ref,
        "allOf": _all_of,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _not,
        "if": _if,
        "properties": _properties,
        "additionalProperties": _more_properties,
        "patternProperties": _pattern_properties,
        "propertyNames": _names,
        "dependentSchemas": _dependent_schemas,
        "items": _items,
        "prefixItems": _first_items,
        "contains": _contains,
    }
)
