"""JSON of the simulated services: what it answers fits the schema that it was given, whatever that is."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from kiro_asgi.simulator.default_answer import FORMATS, default_answer, value_for
from kiro_asgi.simulator.kiro.document import KiroDocument
from kiro_asgi.simulator.pieces import Words

NAMES = st.sampled_from(["city", "count", "path", "answer", "when", "a b", "ü"])
WORDS = st.text("abü ", max_size=8)


def strings() -> st.SearchStrategy[dict[str, Any]]:
    lengths = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)
    bounded = lengths.map(lambda it: {"type": "string", "minLength": it[0], "maxLength": it[1]})
    return st.one_of(bounded, st.sampled_from([*FORMATS]).map(lambda it: {"type": "string", "format": it}))


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["number", "integer"]))
    low = draw(st.integers(-1000, 1000))
    high = low + draw(st.integers(2, 50))
    least, most = (
        draw(st.sampled_from([word, f"exclusive{word[0].upper()}{word[1:]}"])) for word in ("minimum", "maximum")
    )
    step = draw(st.sampled_from([None, 1, 2] if high - low > 4 else [None, 1]))
    schema = {"type": kind, least: low, most: high, "multipleOf": step}
    dropped = draw(st.sets(st.sampled_from([least, most, "multipleOf"])))
    return {word: it for word, it in schema.items() if word not in dropped and it is not None}


def narrow() -> st.SearchStrategy[dict[str, Any]]:
    """Numbers between two others that are close, or the same."""
    ends = st.tuples(st.floats(-5, 5), st.floats(-5, 5)).map(sorted)
    return ends.map(lambda it: {"type": "number", "minimum": it[0], "maximum": it[1]})


LEAVES = st.one_of(
    strings(),
    numbers(),
    narrow(),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.just(True),
    st.just({"type": ["string", "null"]}),
    st.lists(WORDS | st.integers() | st.none() | st.booleans(), min_size=1, max_size=4).map(lambda it: {"enum": it}),
    (WORDS | st.integers() | st.none()).map(lambda it: {"const": it}),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    required = draw(st.lists(st.sampled_from([*properties, "other"]), max_size=4, unique=True))
    closed = {} if "other" in required or draw(st.booleans()) else {"additionalProperties": False}
    return {"type": "object", "properties": properties, "required": required, **closed}


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    least = draw(st.integers(0, 2))
    return {"type": "array", "items": draw(inner), "minItems": least, "maxItems": least + draw(st.integers(0, 3))}


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        objects(inner),
        arrays(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda it: {"anyOf": it}),
        st.lists(objects(inner), min_size=1, max_size=2).map(lambda it: {"allOf": it[:1]}),
    )


SCHEMAS = st.recursive(LEAVES, combined, max_leaves=5)


@st.composite
def whole(draw: st.DrawFn) -> dict[str, Any]:
    """A schema of an object, some of whose parts are references to others, or to the whole."""
    parts = draw(st.dictionaries(st.sampled_from(["one", "two"]), SCHEMAS, max_size=2))
    schema = draw(objects(SCHEMAS))
    for name in parts:
        schema["properties"][f"ref {name}"] = {"$ref": f"#/$defs/{name}"}
        schema["required"] = [*schema["required"], f"ref {name}"]
    if draw(st.booleans()):
        schema["properties"]["again"] = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
        schema["properties"]["more"] = {"type": "array", "items": {"$ref": "#"}}
    return {**schema, "$defs": parts}


def fits(value: Any, schema: Any) -> list[str]:
    checker = Draft202012Validator(schema, format_checker=FormatChecker())
    return [error.message for error in checker.iter_errors(value)]


@given(whole(), WORDS, st.booleans())
def test_a_value_fits_its_schema(schema: dict[str, Any], text: str, everything: bool) -> None:
    """By the library that others check with: types, constants, choices, bounds, lengths, formats, references."""
    assert fits(value_for(schema, text, everything=everything), schema) == []


def said(content: str, instructions: str = "") -> str:
    history = [{"userInputMessage": {"content": instructions}}, {"assistantResponseMessage": {"content": "I will"}}]
    message = {"userInputMessage": {"content": content, "modelId": "m"}}
    document = {"conversationState": {"currentMessage": message, "history": history if instructions else []}}
    script = default_answer(KiroDocument(document).conversation)
    return "".join(step.text for step in script if isinstance(step, Words))


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("content", "instructions"),
    [
        (f"Respond with a JSON object. {json.dumps(SCHEMA)}", ""),
        ("Respond with a JSON object about Oslo.", f"Answer in this JSON schema: {json.dumps(SCHEMA)}"),
        ("Tell me about Oslo.", f"Reply with a JSON object. It must fit {json.dumps(SCHEMA)}"),
    ],
)
def test_the_schema_counts_wherever_it_stands(content: str, instructions: str) -> None:
    """Also where the wish for JSON is the user's, and the schema stands in the instructions."""
    assert fits(json.loads(said(content, instructions)), SCHEMA) == []


def test_json_without_a_schema_is_an_object() -> None:
    """That has the question as its answer."""
    assert json.loads(said("Respond with a JSON object about Oslo.")) == {
        "answer": "Respond with a JSON object about Oslo."
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 20},
        {"type": "object", "required": [*"abcdefgh"], "properties": {key: {"$ref": "#"} for key in "abcdefgh"}},
        {"anyOf": [{"$ref": "#"}] * 50},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "string", "minLength": 10**12},
        {"type": "array", "items": {"type": "array", "items": {"type": "array", "minItems": 10**9}, "minItems": 10**9}},
    ],
    ids=lambda schema: json.dumps(schema)[:40],
)
def test_a_schema_that_nothing_fits_costs_little(schema: dict[str, Any]) -> None:
    """One that asks for itself without end, or for more than is sensible, gets something of a bounded size."""
    began = process_time()
    value = value_for(schema, "x", everything=True)

    assert len(json.dumps(value)) < 2_000_000
    assert process_time() - began < 5
