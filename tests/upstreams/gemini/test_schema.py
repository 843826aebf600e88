"""Schemas: whatever comes in, what comes out is one of the service's own."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.limits import SCHEMA_COPIES, SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Tool
from kiro_asgi.upstreams.gemini.nodes import anything
from kiro_asgi.upstreams.gemini.schema import Copies, answer_schema, parameters
from tests.upstreams.gemini.invariants import schema_breaches
from tests.upstreams.kiro.prompts import SCHEMA


def written(schema: dict[str, Any]) -> dict[str, Any]:
    return answer_schema(schema, Notes(), Copies())


def noted(schema: dict[str, Any]) -> dict[str, str]:
    """Rules, each with where it was first met."""
    notes = Notes()
    parameters(Tool("f", "", schema, place="tools[0]"), notes, Copies())
    return {note.rule: note.place for note in notes.found()}


KEYWORDS = st.sampled_from(
    [
        *("type", "format", "title", "description", "nullable", "enum", "const", "items", "prefixItems", "properties"),
        *("required", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "minLength", "minimum", "exclusiveMinimum"),
        *("pattern", "additionalProperties", "patternProperties", "uniqueItems", "default", "examples", "if", "x-y"),
        "propertyOrdering",
    ]
)
WORDS = st.sampled_from(
    ["string", "object", "array", "null", "INTEGER", "any", "", "a", "#/$defs/a", "#", "#/properties/a", "date-time"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYWORDS, inner, max_size=5)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=25,
)
SCHEMAS = st.dictionaries(KEYWORDS, ANYTHING, max_size=7)


@given(SCHEMAS)
def test_anything_becomes_a_schema_that_is_taken(schema: dict[str, Any]) -> None:
    """F340: Only the service's keywords with values of their kinds come out, and it can be written down."""
    for found in (written(schema), parameters(Tool("f", "", schema), Notes(), Copies())):
        assert not found or [*schema_breaches(found)] == []
        json.dumps(found)


@given(SCHEMAS)
def test_what_was_written_stays(schema: dict[str, Any]) -> None:
    """A projection: done twice it is the same as done once."""
    once = written(schema)

    assert written(once) == once


TEXT = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "STRING"])},
    optional={
        "description": st.text(max_size=3),
        "enum": st.lists(st.text("ab", min_size=1), min_size=1, unique=True, max_size=3),
        "format": st.just("date-time"),
        "minLength": st.integers(0, 5),
        "nullable": st.booleans(),
        "default": st.none() | st.text(max_size=2),
    },
)
NUMBER = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])}, optional={"minimum": st.integers(), "maximum": st.floats(0, 1)}
)


def _object(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, min_size=1)}
    ).map(lambda found: {**found, "required": [*found["properties"]]})


LEGAL = st.recursive(
    TEXT | NUMBER | st.just({"type": "boolean"}),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 3}, inner)
        | _object(inner)
        | st.lists(inner, min_size=2, max_size=3, unique_by=str).map(lambda branches: {"anyOf": branches})
    ),
    max_leaves=8,
)


@given(_object(LEGAL))
def test_a_schema_of_the_services_own_stays_as_it_is(schema: dict[str, Any]) -> None:
    """Nothing is changed, and nothing is noted, where nothing has to be."""
    notes = Notes()

    assert parameters(Tool("f", "", schema), notes, Copies()) == schema
    assert notes.found() == ()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "string"]}, {"type": "string"}),
        ({"type": ["null"]}, {"type": "null"}),
        (
            {"type": ["string", "integer"], "minLength": 1, "minimum": 2, "title": "t"},
            {"title": "t", "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 2}]},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "(one of 1,2)"}),
        ({"type": "integer", "enum": [1]}, {"type": "integer", "description": "(one of 1)"}),
        ({"type": "string", "enum": ["", "a"]}, {"type": "string", "description": '(one of "","a")'}),
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "d"},
            {"type": "number", "description": "d (greater than 0)"},
        ),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": "(format uri)"}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        (
            {"description": "outer", "anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}]},
            {"description": "outer\ninner", "type": "string", "nullable": True},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"minLength": 1}],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "anyOf": [{"type": "object"}, {"type": "object", "minLength": 1}],
            },
        ),
        (
            {"type": "object", "anyOf": [{"type": "string", "enum": ["a"]}]},
            {"type": "object", "anyOf": [{"type": "string", "enum": ["a"]}]},
        ),
        (
            {"$ref": "#/$defs/a", "description": "own", "$defs": {"a": {"type": "string", "description": "theirs"}}},
            {"description": "own\ntheirs", "type": "string"},
        ),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": anything(), "b": anything()}, "required": ["a", "b"]},
        ),
        (
            {"$ref": "#/$defs/a%2Fb~1", "$defs": {"a/b/": {"type": "string"}}, "title": "own"},
            {"title": "own", "type": "string"},
        ),
        ({"type": "array"}, {"type": "array", "items": anything(arrays=False)}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "description": '(further properties {"type":"string"})'},
        ),
        ({"type": "any", "minLength": "x", "properties": []}, {}),
        ({"properties": {"$ref": {"type": "string"}}}, {"type": "object", "properties": {"$ref": {"type": "string"}}}),
    ],
)
def test_what_becomes_of_keywords(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """What can be said in the service's words is; the rest is told where it fits into a description."""
    assert written(schema) == expected


def test_arguments_are_an_object() -> None:
    """The root of a tool's schema has properties, those of all alternatives; without any there are no parameters."""
    alternatives = {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}]}

    assert parameters(Tool("f", "", alternatives), Notes(), Copies()) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": anything()},
    }
    typed = {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"], **alternatives}
    assert parameters(Tool("f", "", typed), Notes(), Copies()) == {
        "type": "object",
        "required": ["c"],
        "properties": {"a": {"type": "string"}, "b": anything(), "c": {"type": "string"}},
    }
    assert noted(typed) == {
        "schema.anything": "tools[0].anyOf[1].properties.b",
        "schema.alternatives": "tools[0]",
    }
    assert parameters(Tool("f", "", {"type": "string"}), Notes(), Copies()) == {}
    assert parameters(Tool("f", "", {"type": "object", "properties": {}}), Notes(), Copies()) == {}


def test_a_schema_that_holds_itself_ends() -> None:
    """A tree is told to a depth; what is below may be any object."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    found = written({"$ref": "#/$defs/node", "$defs": {"node": node}})

    assert found["properties"]["next"]["properties"]["next"] == {"type": "object"}
    assert noted({"properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}) == {
        "schema.recursion": "tools[0].properties.n.properties.next.properties.next"
    }


def bomb(levels: int) -> dict[str, Any]:
    """A small schema that stands for 10 to the power of *levels* others."""
    names = [
        {"type": "string"},
        *(
            {"type": "object", "properties": {key: {"$ref": f"#/$defs/{n}"} for key in "abcdefghij"}}
            for n in range(levels)
        ),
    ]
    return {"$ref": f"#/$defs/{levels}", "$defs": {str(n): schema for n, schema in enumerate(names)}}


def test_references_are_followed_within_bounds() -> None:
    """A schema that multiplies itself is cut: time and size do not grow with what it stands for."""
    began = perf_counter()
    found = written(bomb(30))

    assert len(json.dumps(found)) < 60 * SCHEMA_COPIES
    assert perf_counter() - began < 5
    assert "schema.size" in noted(bomb(6))
    values = {"$defs": {"v": {"enum": ["x" * 1_000] * 50}}}
    many = {"properties": {str(n): {"$ref": "#/$defs/v"} for n in range(1_000)}, **values}
    assert len(json.dumps(written(many))) < 4_000_000
    assert noted(bomb(2)).keys() <= {"schema.root"}


def test_all_schemas_of_a_request_have_one_bound() -> None:
    """Fifty tools whose schemas multiply themselves take no more than one, beside what they say themselves."""
    copies, notes = Copies(), Notes()
    found = [parameters(Tool(f"f{n}", "", bomb(6)), notes, copies) for n in range(50)]

    assert len(json.dumps(found)) < 60 * SCHEMA_COPIES + 50 * len(json.dumps(bomb(6)))
    assert len(found[0]) > 1


def test_what_is_nested_too_deep_may_be_anything() -> None:
    """As deep as the service takes, and no recursion error however deep it came."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    found, levels = written(schema), 0
    while found := found.get("items", {}):
        levels += 1

    assert levels == SCHEMA_DEPTH + 2  # the innermost array, of anything but arrays
    many = {"allOf": [{"properties": {f"p{n}": {"type": "string"}}} for n in range(2_000)]}
    assert len(written(many)["properties"]) == 2_000


def test_a_long_chain_of_references_has_an_end() -> None:
    """It is followed as far as schemas may be nested, and no recursion error comes of the rest."""

    def chain(length: int) -> dict[str, Any]:
        definitions = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length - 1)}
        last = {f"d{length - 1}": {"type": "object", "properties": {"a": {"type": "string"}}}}
        return {"$ref": "#/$defs/d0", "$defs": {**definitions, **last}}

    assert [noted(chain(length)).get("schema.depth") for length in (SCHEMA_DEPTH, SCHEMA_DEPTH + 1, 2_000)] == [
        None,
        "tools[0]",
        "tools[0]",
    ]


@pytest.mark.parametrize(
    ("member", "rule"),
    [
        ({"$ref": "https://example.org/s"}, "schema.reference"),
        ({"$ref": "#/$defs/none"}, "schema.reference"),
        ({"type": "string", "format": "uri"}, "schema.told"),
        ({"type": "string", "x-y": 1}, "schema.keywords"),
        ({"type": "object", "additionalProperties": False}, "schema.keywords"),
        ({"enum": [1]}, "schema.enum"),
        ({"type": "array", "items": [{}, {"type": "string"}]}, "schema.tuple"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "schema.one_of"),
        ({"type": "object", "required": ["x"]}, "schema.required"),
        ({"type": "string", "minLength": -1}, "schema.malformed"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "schema.conflict"),
        (None, "schema.malformed"),
    ],
)
def test_what_is_lost_is_noted_with_its_place(member: Any, rule: str) -> None:
    """The loss report names the place in the tool's schema."""
    assert noted({"type": "object", "properties": {"p": member}})[rule] == "tools[0].properties.p"


def test_a_usual_schema_survives() -> None:
    """What clients' generators write comes through with its names, types and bounds."""
    found = written(SCHEMA)

    assert found["properties"]["format"] == {
        "type": "string",
        "minLength": 1,
        "default": None,
        "enum": ["a"],
        "nullable": True,
        "description": "(format uri)",
    }
    assert found["properties"]["either"] == {
        "anyOf": [{"type": "string", "pattern": "x"}, anything()],
        "nullable": True,
    }
    assert found["properties"]["deep"]["required"] == ["maximum"]
