from __future__ import annotations

import sys

import pytest

from kiro_asgi.asgi.validation import complaint_for

pytest.importorskip("jsonschema")
SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "value", "place"),
    [
        (SCHEMA, {"a": [1]}, ""),
        (SCHEMA, {"a": [1, "x"]}, "$.a[1]"),
        (SCHEMA, {}, "$"),
        ({}, {}, ""),
        ({"type": 7}, {}, ""),
        ({"$ref": "http://127.0.0.1:9/x"}, {}, ""),
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, {"a": "a" * 40 + "b"}, ""),
    ],
)
def test_the_place_of_a_mismatch_is_told(schema, value, place):
    """Of a schema that is none, or not here, nothing is known; no regular expression of a client's is run."""
    assert complaint_for(schema)(value) == place


def test_without_the_library_nothing_is_known(monkeypatch):
    """The extra is optional."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)

    assert complaint_for(SCHEMA)({}) == ""
