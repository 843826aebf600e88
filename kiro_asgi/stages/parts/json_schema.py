"""A value against a client's JSON Schema, within a budget of steps.

Schema and value are both foreign, and together they can demand any amount of work: definitions that double, lists
compared with lists, regular expressions.  So each keyword, and each member that a keyword looks at, is a step, and
whoever asks says how many there may be; nothing that costs more than a step per member is done in one go.  What a
reference leads to is looked at once for each value.  Nothing recurses.

The verdict has three values.  What is not decided here is never taken for a mismatch, nor for a match:

- regular expressions (``pattern``, ``patternProperties``) are never run, as one may take for ever;
- references lead only within the document, and not through a schema with an ``$id`` of its own;
- ``unevaluatedProperties``, ``unevaluatedItems`` and ``$dynamicRef`` are not followed, and a keyword with a value that
  its definition does not allow says nothing.

Source: https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from attrs import define, field

from kiro_asgi.limits import VALIDATION_STEPS
from kiro_asgi.stages.parts.json_assertions import (
    ASSERTIONS,
    HERE,
    MALFORMED,
    MATCH,
    OPEN,
    Comparison,
    Mismatch,
    Open,
    Spent,
    Undecided,
    Verdict,
    common,
    is_count,
    verdict_of,
)

_Evaluation = Generator[tuple[Any, Any], Any, Verdict]
"""Yields the schemas and values that it depends on, is sent the verdict of each, and returns its own."""

_NOWHERE: Final = object()


def check(schema: Any, value: Any, *, steps: int = VALIDATION_STEPS) -> Verdict:
    """Whether *value* is as *schema* says.

    Args:
        schema: A JSON Schema, draft 2020-12, as it came.
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
        """The verdict, where no schema within *schema* has a say; else ``None``, and what will find it waits."""
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
    return is_open or verdict_of(matches == 1)


def _not(check: _Check, wanted: Any, value: Any, _: Mapping[str, Any]) -> _Evaluation:
    verdict = yield wanted, value
    return verdict if type(verdict) is Undecided else verdict_of(verdict is not MATCH)


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
    """All that is not named; whether a pattern speaks of it is not known where there are patterns."""
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
    """All behind those that have schemas of their own; a list is how earlier drafts wrote these."""
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
    if not is_count(least) or not (most is None or is_count(most)):
        return MALFORMED
    fitting, found = 0, verdict_of(True)
    for it in value:
        verdict = yield wanted, it
        fitting += verdict is MATCH
        found = verdict if type(verdict) is Undecided else found
    return verdict_of(fitting >= least and (most is None or fitting <= most)) if found is MATCH else found


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
