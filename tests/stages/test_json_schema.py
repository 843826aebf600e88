"""Values against JSON Schemas: the verdict, its place, and what it may cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kiro_asgi.limits import VALIDATION_STEPS
from kiro_asgi.stages.parts.json_schema import MATCH, Mismatch, Open, Undecided, check
from tests.growth import assert_linear, steps

ENOUGH = 10**9
"""Steps for whatever is asked here."""

FORMATTED = {
    "date-time": (
        "2026-11-22T10:00:00Z",
        "2026-11-22t10:00:00.123456z",
        "2026-11-22T10:00:00+01:00",
        "2026-11-22 10:00",
    ),
    "date": ("2026-11-22",),
    "time": ("10:00:00", "10:00:00.5+01:00"),
    "uuid": ("0e7ab8cd-42a4-4c11-a2e3-5cf9d6a5b1ea",),
    "ipv4": ("127.0.0.1",),
    "ipv6": ("::1", "2001:db8::Ff"),
}


def place(schema: Any, value: Any) -> str | None:
    """Where *value* does not match; ``None`` where it does."""
    verdict = check(schema, value)
    assert isinstance(verdict, Mismatch) or verdict is MATCH
    return verdict.place if isinstance(verdict, Mismatch) else None


def why(schema: Any, value: Any) -> Open:
    """Why the verdict is open."""
    verdict = check(schema, value)
    assert isinstance(verdict, Undecided), verdict
    return verdict.why


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": {"items": {"type": "integer"}}}}, {"a": [1, "x"]}, "$.a[1]"),
        ({"properties": {"a b": {"type": "null"}}}, {"a b": 1}, "$['a b']"),
        ({"additionalProperties": {"type": "null"}}, {"x" * 100: 1}, f"$['{'x' * 59}…']"),
        ({"properties": {"a": True}, "additionalProperties": False}, {"a": 1, "b": 1}, "$.b"),
        ({"required": ["a"]}, {}, "$"),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}, ["", 1], "$[1]"),
        ({"properties": {"a": {"anyOf": [{"required": ["b"]}, {"type": "null"}]}}}, {"a": {}}, "$.a"),
        ({"$ref": "#/$defs/a~1b/0", "$defs": {"a/b": [{"items": False}]}}, [0], "$[0]"),
        ({"$ref": "#/$defs/t", "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "maxItems": 1}}}, [[[], []]], "$[0]"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 0}, "$"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2.0}, {"b": 2, "a": 1}], "$"),
        ({"enum": [1, "1", [True]]}, True, "$"),
        ({"const": {"a": [1, None]}}, {"a": [1.0, None]}, None),
        ({"items": {"multipleOf": 0.1}}, [0.3, 1, 1e300], None),
        ({"type": "integer"}, 1.0, None),
        ({"type": ["integer", "null"]}, True, "$"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}, {"a": 1}, "$"),
        ({"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}, [None, None, 0], None),
        ({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"maxProperties": 1}}}, {"a": 1, "b": 1}, None),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, "$"),
        ({"not": {"type": "string"}}, 3, None),
        (False, 3, "$"),
        *(({"format": name}, text, None) for name, texts in FORMATTED.items() for text in texts),
        *(({"format": name}, text, "$") for name in FORMATTED for text in ("", "tomorrow", "x" * 99)),
        ({"format": "date"}, 7, None),
        ({"format": "email"}, "no", None),
    ],
)
def test_the_place_of_a_mismatch_is_told(schema: Any, value: Any, expected: str | None) -> None:
    """A verdict names the outermost place that is to blame; of an alternative, the place where there is a choice."""
    assert place(schema, value) == expected


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"pattern": "(a+)+$"}, "a" * 40 + "b", Open.PATTERN),
        ({"not": {"pattern": "a"}}, "b", Open.PATTERN),
        ({"patternProperties": {"^x": False}}, {"x": 1}, Open.PATTERN),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"x": 1}, Open.PATTERN),
        ({"$ref": "http://127.0.0.1:9/x"}, {}, Open.REFERENCE),
        ({"$ref": "#"}, {}, Open.REFERENCE),
        ({"$ref": "#/nowhere"}, {}, Open.REFERENCE),
        ({"$defs": {"a": {"$id": "a", "$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}, Open.REFERENCE),
        ({"type": 7}, {}, Open.SCHEMA),
        ({"items": [True]}, [1], Open.SCHEMA),
        ({"unevaluatedProperties": False}, {}, Open.SCHEMA),
        ([], {}, Open.SCHEMA),
    ],
)
def test_what_is_not_decided_says_why(schema: Any, value: Any, expected: Open) -> None:
    """No regular expression of a client's is run, nothing is fetched, no circle is followed."""
    assert why(schema, value) is expected


@pytest.mark.parametrize("unsure", [{"pattern": "a"}, {"$ref": "#/x"}, {"type": 7}])
def test_what_is_not_decided_hides_no_mismatch(unsure: Any) -> None:
    """An open part leaves the whole open only where the rest does not settle it."""
    assert place({"allOf": [unsure, {"type": "null"}]}, "b") == "$"
    assert place({**unsure, "maxLength": 0}, "b") == "$"
    assert place({"anyOf": [unsure, True]}, "b") is None
    assert place({"oneOf": [unsure, True, True]}, "b") == "$"
    assert isinstance(check({"anyOf": [unsure, False]}, "b"), Undecided)
    assert isinstance(check({"oneOf": [unsure, True]}, "b"), Undecided)
    assert isinstance(check({"contains": unsure}, ["b"]), Undecided)
    assert isinstance(check({"if": unsure, "then": False}, "b"), Undecided)
    assert place({"if": unsure, "then": False, "else": False}, "b") == "$"


# Against the reference implementation.

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.0, 0.5, 1.0, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
COUNTS = st.integers(0, 3)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"]]),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minimum": COUNTS,
    "exclusiveMaximum": COUNTS,
    "minLength": COUNTS,
    "maxLength": COUNTS,
    "minItems": COUNTS,
    "maxItems": COUNTS,
    "uniqueItems": st.booleans(),
    "minProperties": COUNTS,
    "maxProperties": COUNTS,
    "required": st.lists(NAMES, unique=True, max_size=2),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2), max_size=2),
    "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y"]),
}


def applicators(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    named, several = st.dictionaries(NAMES, inner, max_size=3), st.lists(inner, min_size=1, max_size=3)
    one = ("not", "if", "then", "else", "additionalProperties", "propertyNames", "items", "contains")
    return {
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(one, inner),
        "minContains": COUNTS,
        "maxContains": COUNTS,
    }


def some(keywords: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


SCHEMAS = st.recursive(st.booleans() | some(LEAVES), lambda inner: some({**LEAVES, **applicators(inner)}), max_leaves=8)


@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_the_verdict_is_that_of_the_reference_implementation(root: Any, x: Any, y: Any, value: Any) -> None:
    """Every keyword means what jsonschema takes it to mean, in any combination.  It does not survive circles."""
    schema = {**root, "$defs": {"x": x, "y": y}} if isinstance(root, dict) else root
    verdict = check(schema, value, steps=ENOUGH)
    try:
        matches = Draft202012Validator(schema).is_valid(value)
    except RecursionError:
        return

    if verdict == Undecided(Open.REFERENCE):
        assert '"$ref"' in json.dumps([x, y])  # only a circle leaves it open
    else:
        assert (verdict is MATCH) == matches


# What it costs.


def doubling(levels: int) -> tuple[Any, Any]:
    """Definitions each of which refers to the next one twice: 2 ** levels ways to the last."""
    definitions: dict[str, Any] = {
        f"l{level}": {"allOf": [{"$ref": f"#/$defs/l{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**definitions, f"l{levels}": {"type": "object"}}, "$ref": "#/$defs/l0"}, {}


def scalar_doubling(levels: int) -> tuple[Any, Any]:
    schema, _ = doubling(levels)
    return {"$defs": schema["$defs"], "items": {"$ref": "#/$defs/l0"}}, ["a", 1]


def chain(size: int) -> tuple[Any, Any]:
    definitions: dict[str, Any] = {f"l{at}": {"anyOf": [{"$ref": f"#/$defs/l{at + 1}"}]} for at in range(size)}
    return {"$defs": {**definitions, f"l{size}": {}}, "$ref": "#/$defs/l0"}, {}


def unique(size: int) -> tuple[Any, Any]:
    return {"uniqueItems": True}, [{"x": number, "y": [number]} for number in range(size)]


def enum(size: int) -> tuple[Any, Any]:
    return {"items": {"enum": [{"x": at} for at in range(size)]}}, [{"x": at} for at in range(size)]


def alternatives(size: int) -> tuple[Any, Any]:
    return {"anyOf": [{"type": "string"} for _ in range(size)]}, {"a": ["x"] * size}


def properties(size: int) -> tuple[Any, Any]:
    names = [f"p{number}" for number in range(size)]
    return {"properties": {name: {"type": "null"} for name in names}, "required": names}, dict.fromkeys(names)


def equal_hashes(size: int) -> tuple[Any, Any]:
    """Numbers that have one and the same hash in Python."""
    return {"uniqueItems": True}, [number * (2**61 - 1) for number in range(size)]


SHAPES = pytest.mark.parametrize(
    "shape", [doubling, scalar_doubling, chain, unique, enum, alternatives, properties, equal_hashes]
)


@SHAPES
def test_work_grows_with_schema_and_value(shape: Any) -> None:
    """Without a budget, the work for what once was exponential or quadratic grows with the input."""

    def make(size: int) -> Any:
        schema, value = shape(size)
        return lambda: check(schema, value, steps=ENOUGH)

    assert_linear(make, 100)


@SHAPES
def test_the_steps_are_the_work(shape: Any) -> None:
    """The budget bounds what Python does, whatever the shape: no step hides many."""
    schema, value = shape(4 * VALIDATION_STEPS if shape not in (chain, doubling, scalar_doubling) else 4_000)
    work = steps(lambda: check(schema, value))

    assert work < 30 * VALIDATION_STEPS


def test_nothing_is_compared_with_everything() -> None:
    """An ``enum`` is put in order once, and a value that is in it is found, with all of them."""
    assert place(*enum(2_000)) is None


def test_a_product_of_schema_and_value_ends_with_the_budget() -> None:
    """Where each of many members really has to fit many schemas, the check gives up."""
    schema = {"items": {"allOf": [{"required": [f"p{number}" for number in range(200)]}] * 200}}
    full = dict.fromkeys((f"p{number}" for number in range(200)), 0)

    assert why(schema, [full] * 200) is Open.BUDGET


def test_long_references_and_numbers_cost_what_they_are() -> None:
    """A pointer is followed once, and digits count: no member is cheaper than the work for it."""
    long = "a" * 100_000
    schema = {"$defs": {long: {}}, "items": {"$ref": f"#/$defs/{long}"}}

    assert_linear(lambda size: lambda: check(schema, [0] * size, steps=ENOUGH), 50)
    assert why({"items": {"enum": [10**4_000 + number for number in range(100)]}}, [10**4_000]) is Open.BUDGET
    assert why({"items": {"multipleOf": 10**4_000}}, [10**4_000] * 100) is Open.BUDGET
