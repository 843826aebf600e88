from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kiro_asgi.stages.arguments import KINDS, ToolSchema, decoded, kind_of, object_in

INTEGER, LIST, TEXT = {"type": "integer"}, {"type": "array"}, {"type": "string"}


def of(x: Any, **more: Any) -> dict[str, Any]:
    """A schema whose only property is ``x``."""
    return {"type": "object", "properties": {"x": x}, **more}


def x_of(value: Any, schema: Any, **more: Any) -> Any:
    """What becomes of the argument ``x``."""
    return decoded({"x": value}, ToolSchema(of(schema, **more)))["x"]


@pytest.mark.parametrize(
    ("schema", "given_", "expected"),
    [
        pytest.param(LIST, '["a"]', ["a"], id="list"),
        pytest.param({"type": "object"}, ' {"a": 1} ', {"a": 1}, id="object"),
        pytest.param(INTEGER, "5", 5, id="integer"),
        pytest.param(INTEGER, "5.0", 5.0, id="whole-number"),
        pytest.param({"type": "number"}, "1.5", 1.5, id="number"),
        pytest.param({"type": "number"}, "-2", -2, id="integer-for-number"),
        pytest.param({"type": "boolean"}, "true", True, id="boolean"),
        pytest.param({"type": ["array", "null"]}, "null", None, id="null"),
        pytest.param({"enum": [1, 2]}, "2", 2, id="enum"),
        pytest.param({"const": True}, "true", True, id="const"),
        pytest.param({"anyOf": [LIST, {"type": "null"}]}, "[1]", [1], id="anyOf"),
        pytest.param({"oneOf": [LIST, INTEGER]}, "[1]", [1], id="oneOf"),
        pytest.param({"allOf": [{"type": ["string", "array"]}, LIST]}, "[1]", [1], id="allOf"),
        pytest.param({"type": "array", "nullable": True}, "null", None, id="nullable"),
        pytest.param({"$ref": "#/$defs/a~1b"}, "[1]", [1], id="reference"),
        pytest.param({"type": "array", "items": INTEGER}, '["1", "x"]', [1, "x"], id="within-what-was-decoded"),
        pytest.param({"type": "array", "items": INTEGER}, ["1", 2], [1, 2], id="items"),
        pytest.param(
            {"type": "array", "prefixItems": [TEXT], "items": INTEGER}, ["1", "1"], ["1", 1], id="prefixItems"
        ),
        pytest.param(of(of(INTEGER)), {"x": {"x": "1"}}, {"x": {"x": 1}}, id="properties"),
        pytest.param({"additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}, id="additionalProperties"),
        pytest.param({"anyOf": [of(INTEGER), TEXT]}, {"x": "1"}, {"x": 1}, id="the-only-branch"),
        pytest.param(LIST, '{"a": 1}', ..., id="another-kind"),
        pytest.param(LIST, '"[1]"', ..., id="encoded-twice"),
        pytest.param(LIST, "[1", ..., id="no-json"),
        pytest.param(LIST, "", ..., id="empty"),
        pytest.param(INTEGER, "007", ..., id="leading-zero"),
        pytest.param(INTEGER, "1.5", ..., id="no-integer"),
        pytest.param(INTEGER, "NaN", ..., id="no-number"),
        pytest.param({"type": "number"}, "9" * 5000, ..., id="endless-number"),
        pytest.param({"type": "boolean"}, "True", ..., id="python"),
        pytest.param({"type": "boolean"}, 1, ..., id="no-text"),
        pytest.param(TEXT, "[1]", ..., id="a-text-is-wanted"),
        pytest.param({"type": ["array", "string"]}, "[1]", ..., id="a-text-will-do"),
        pytest.param({"enum": ["1", 1]}, "1", ..., id="a-text-is-listed"),
        pytest.param({"anyOf": [LIST, TEXT]}, "[1]", ..., id="a-branch-wants-text"),
        pytest.param({"anyOf": [of(INTEGER), of(TEXT)]}, {"x": "1"}, ..., id="two-branches"),
        pytest.param(
            {"patternProperties": {"a": TEXT}, "additionalProperties": INTEGER}, {"a": "1"}, ..., id="pattern"
        ),
        pytest.param({}, "[1]", ..., id="anything"),
        pytest.param(True, "[1]", ..., id="true"),
        pytest.param({"type": "text", "enum": 1, "anyOf": {}, "$ref": 1}, "[1]", ..., id="no-schema"),
        pytest.param({"$ref": "https://example.com/a"}, "[1]", ..., id="elsewhere"),
        pytest.param({"$ref": "#/nowhere"}, "[1]", ..., id="nowhere"),
    ],
)
def test_texts_that_fit_nowhere(schema, given_, expected):
    """A text is read where no text is wanted and what it encodes is; any other value stays as it is."""
    assert x_of(given_, schema, **{"$defs": {"a/b": LIST}}) == (given_ if expected is ... else expected)
    assert kind_of(x_of(given_, schema, **{"$defs": {"a/b": LIST}})) in KINDS


def test_the_arguments_themselves_stay_where_nothing_changes():
    """The same object tells that nothing was done."""
    arguments = {"x": [1, "a", {"y": None}]}

    assert decoded(arguments, ToolSchema(of({"type": "array"}))) is arguments


def test_schemas_may_lead_in_circles():
    """A schema that refers to itself is followed as far as there are values, down to a fixed depth."""
    tree = {"type": "object", "properties": {"x": {"$ref": "#"}, "n": INTEGER}}
    many = {"anyOf": [{"$ref": "#"}] * 50, **of({"$ref": "#"})}

    assert decoded({"x": '{"n": "1", "x": {"n": "2"}}'}, ToolSchema(tree)) == {"x": {"n": 1, "x": {"n": 2}}}
    assert decoded({"x": "1"}, ToolSchema(many)) == {"x": "1"}
    assert ToolSchema({"$ref": "#"}).declared == frozenset()


def test_depth_is_bounded():
    """Deeper than sixteen lists and objects nothing is looked at."""
    nested: Any = "1"
    schema: Any = INTEGER
    for _ in range(16):
        nested, schema = [nested], {"type": "array", "items": schema}

    assert decoded({"x": nested[0]}, ToolSchema(of(schema["items"]))) != {"x": nested[0]}
    assert decoded({"x": nested}, ToolSchema(of(schema))) == {"x": nested}


@pytest.mark.parametrize(
    ("text", "value"), [('{"a": 1}', {"a": 1}), ("{}", {}), ("[1]", None), ("{", None), (None, None), ({}, None)]
)
def test_object_in(text, value):
    """Only a text that is one object in JSON gives one."""
    assert object_in(text) == value


KINDS_OF_SCHEMA = st.sampled_from(["string", "integer", "number", "boolean", "null"])
SCHEMAS = st.recursive(
    st.builds(lambda kind: {"type": kind}, KINDS_OF_SCHEMA)
    | st.builds(lambda kinds: {"type": kinds}, st.lists(KINDS_OF_SCHEMA, min_size=1, max_size=3, unique=True))
    | st.sampled_from([{}, True, {"enum": ["a", 1]}, {"enum": [1, True]}, {"const": []}]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda x, y: {"type": "object", "properties": {"x": x, "y": y}}, inner, inner)
        | st.builds(lambda y: {"additionalProperties": y}, inner)
        | st.builds(
            lambda word, of: {word: of}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1)
        )
    ),
    max_leaves=6,
)
SCALARS = st.sampled_from([None, True, 1, 2.5, 3.0, "a", "1", "[]", "true", "null", '{"x": "1"}', '["1"]', "007"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3)


@given(ARGUMENTS, st.builds(lambda x, y: {"type": "object", "properties": {"x": x, "y": y}}, SCHEMAS, SCHEMAS))
def test_laws_of_decoding(arguments, schema):
    """What a validator accepts is never changed, a second time changes nothing, and nothing is lost."""
    once = decoded(arguments, ToolSchema(schema))

    assert decoded(once, ToolSchema(schema)) == once
    assert list(once) == list(arguments)
    if Draft202012Validator(schema).is_valid(arguments):
        assert once is arguments


@st.composite
def encodings(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """A schema that wants no text anywhere, a value that fits it, and the value with parts of it encoded."""
    kind = draw(st.sampled_from(["integer", "number", "boolean", "array", "object", "array", "object"]))
    if kind == "array":
        schema, value, broken = draw(encodings())
        count = draw(st.integers(0, 3))
        result = {"type": "array", "items": schema}, [value] * count, [broken] * count
    elif kind == "object":
        schema, value, broken = draw(encodings())
        result = of(schema), {"x": value}, {"x": broken}
    else:
        value = draw({"integer": st.integers(), "number": st.floats(-1e9, 1e9), "boolean": st.booleans()}[kind])
        result = {"type": kind}, value, value
    return (*result[:2], json.dumps(result[2])) if draw(st.booleans()) else result


@given(encodings())
def test_encoding_is_undone(case):
    """Whatever part of a fitting value was encoded, the value comes back, and a validator accepts it."""
    schema, value, broken = case

    assert x_of(broken, schema) == value
    Draft202012Validator(schema).validate(x_of(broken, schema))
