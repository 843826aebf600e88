"""The root of a schema, where it is a reference or made of alternatives: all that it says about arguments stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.kiro.rules.tools import Schemas

A, B = {"a": {"type": "string"}}, {"b": {"type": "integer"}}


def cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    return Schemas(Notes()).clean(schema)


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        pytest.param({"$ref": "#/$defs/x"}, {**A, **B}, ["a"], id="reference"),
        pytest.param({"$ref": "#/$defs/again"}, {**A, **B}, ["a"], id="reference-to-a-reference"),
        pytest.param({"allOf": [{"$ref": "#/$defs/x"}, {"required": ["b"]}]}, {**A, **B}, ["a", "b"], id="all"),
        pytest.param({"anyOf": [{"$ref": "#/$defs/x"}, {"required": ["b"]}]}, {**A, **B}, None, id="any"),
        pytest.param({"oneOf": [{"anyOf": [{"properties": A}]}], "required": ["a"]}, A, ["a"], id="within-each-other"),
        pytest.param({"$ref": "#/$defs/endless"}, {}, None, id="reference-to-itself"),
        pytest.param({"$ref": "#/$defs/circle"}, B, None, id="circle"),
        pytest.param({"$ref": "#/$defs/none"}, {}, None, id="reference-to-nothing"),
        pytest.param({"$ref": "other.json"}, {}, None, id="reference-elsewhere"),
        pytest.param({"$ref": "#", "properties": A}, A, None, id="reference-to-the-root"),
    ],
)
def test_a_root_says_what_its_parts_said(schema: dict[str, Any], properties: Any, required: Any) -> None:
    """Names that every alternative wants are required; nobody is asked for a reference that leads nowhere."""
    definitions = {
        "x": {"type": "object", "properties": {**A, **B}, "required": ["a"]},
        "again": {"$ref": "#/$defs/x"},
        "endless": {"$ref": "#/$defs/endless"},
        "circle": {"anyOf": [{"$ref": "#/$defs/circle"}, {"properties": B}]},
    }
    found = cleaned({**schema, "$defs": definitions})

    assert (found["type"], found["properties"], found.get("required")) == ("object", properties, required)
    assert not {"allOf", "anyOf", "oneOf", "$ref"} & set(found)


def test_alternatives_without_end_are_looked_at_once() -> None:
    """Many references among few definitions cost what is written, not what it would unfold to."""
    names = [f"d{number}" for number in range(40)]
    definitions = {name: {"anyOf": [{"$ref": f"#/$defs/{other}"} for other in names]} for name in names}

    assert cleaned({"anyOf": [{"$ref": "#/$defs/d0"}], "$defs": definitions})["properties"] == {}


PARTS = st.recursive(
    st.sampled_from(
        [{}, {"properties": A}, {"properties": B, "required": ["b"]}, {"$ref": "#/$defs/x"}, True, None, []]
    ),
    lambda part: st.dictionaries(
        st.sampled_from(["allOf", "anyOf", "oneOf", "$ref", "$defs", "properties", "required"]),
        st.lists(part, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), part, max_size=2),
        max_size=3,
    ),
)


@given(st.dictionaries(st.sampled_from(["allOf", "anyOf", "$ref", "$defs", "type", "required"]), PARTS, max_size=4))
def test_any_root_becomes_an_object(schema: dict[str, Any]) -> None:
    """Whatever stands where, the root is an object that requires nothing but its own properties."""
    found = cleaned(schema)

    assert found["type"] == "object"
    assert set(found.get("required", ())) <= set(found["properties"])
    assert not {"allOf", "anyOf", "oneOf"} & set(found)
