"""JSON Schema for the answer, as newer models take it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.gemini.schema import json_schema
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from tests.growth import assert_linear
from tests.upstreams.faults import gemini as fault
from tests.upstreams.gemini.invariants import json_schema_breaches
from tests.upstreams.gemini.test_schema import SCHEMAS
from tests.upstreams.kiro.prompts import ask, user

KEY = Credential(CredentialKind.API_KEY, "k")
FLASH = ModelCard("gemini-2.5-flash")
TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}, "pair": {"prefixItems": [{"type": "string"}, {"type": "null"}]}},
    "required": ["root"],
    "additionalProperties": False,
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}
REF = {"$ref": "#/$defs/A"}


@pytest.mark.parametrize(
    ("schema", "expected", "noted"),
    [
        pytest.param(TREE, {k: v for k, v in TREE.items() if k != "$schema"}, [], id="as-it-is"),
        pytest.param({"type": ["STRING", "null"]}, {"type": ["string", "null"]}, [], id="types"),
        pytest.param({"const": 3}, {"type": "number", "enum": [3]}, [], id="const"),
        pytest.param({"enum": ["a", 1]}, {"enum": ["a", 1]}, [], id="enum"),
        pytest.param({"enum": ["a", None]}, {"description": '{"enum":["a",null]}'}, ["schema"], id="enum-null"),
        pytest.param(
            {"type": "string", "minLength": 2, "description": "d"},
            {"type": "string", "description": 'd {"minLength":2}'},
            ["schema"],
            id="told",
        ),
        pytest.param({"description": "d", "pattern": "x" * 999}, {"description": "d"}, ["schema"], id="too-long"),
        pytest.param(
            {"items": {**REF, "description": "d", "minItems": 1}},
            {"items": {"description": 'd {"minItems":1}', "anyOf": [REF]}},
            ["schema.items"],
            id="beside-a-reference",
        ),
        pytest.param(
            {"definitions": {"A": {}}, "items": [{"$ref": "#/definitions/A"}]},
            {"$defs": {"A": {}}, "prefixItems": [REF]},
            [],
            id="old-names",
        ),
        pytest.param(
            {"items": True, "minItems": -1}, {"description": '{"items":true,"minItems":-1}'}, ["schema"], id="odd"
        ),
        pytest.param(
            {"properties": {"a": False, "b": True}},
            {"properties": {"a": {}, "b": {}}},
            ["schema.properties.a"],
            id="never",
        ),
        pytest.param({}, {}, [], id="nothing"),
    ],
)
def test_keywords(schema: Any, expected: Any, noted: list[str]) -> None:
    """What the service documents is kept, with the client's references; the rest is told, with a note."""
    notes = Notes()
    assert json_schema(schema, notes) == expected
    assert [(note.rule, note.place) for note in notes.found()] == [("output.schema_keywords", at) for at in noted]


@given(SCHEMAS)
def test_any_schema_has_known_keywords_only(schema: Any) -> None:
    """Whatever the client's schema says."""
    assert [*json_schema_breaches(json_schema(schema, Notes()))] == []


def _alternatives(size: int) -> Any:
    branches = [{"type": "object", "properties": {f"p{at}": {"not": {}}}, "minProperties": 1} for at in range(size)]
    return partial(json_schema, {"anyOf": branches}, Notes())


def test_many_alternatives_take_linear_work() -> None:
    """Twenty thousand of them are worth four times five thousand."""
    assert_linear(_alternatives, 5_000)


def test_depth_takes_no_recursion() -> None:
    """However deep a schema is."""
    schema: Any = {}
    for _ in range(20_000):
        schema = {"items": schema}
    assert json_schema(schema, Notes()).keys() == {"items"}


@pytest.mark.parametrize(
    ("message", "learns"),
    [
        (
            'Invalid JSON payload received. Unknown name "responseJsonSchema": Cannot find field.',
            True,
        ),
        ("* GenerateContentRequest.generation_config.response_json_schema: cyclic", False),
        ("Request contains an invalid argument.", False),
    ],
)
def test_a_refusal_falls_back(message: str, learns: bool) -> None:
    """The schema is projected then; that there is no such field at all is remembered for the model."""
    upstream = GeminiUpstream()
    rendered = upstream.render(ask(user("x"), schema=TREE), FLASH, KEY)
    told = {"error": {"status": "INVALID_ARGUMENT", "message": message}}
    error = fault(400, (), json.dumps(told).encode())
    assert isinstance(error, UpstreamRejected)
    adapted = upstream.adapt_after_error(error, rendered)

    assert adapted is not None and adapted.remedies[-1].lasting is learns
    again = adapted.render(ask(user("x"), schema=TREE), FLASH, KEY)
    config = again.document["generationConfig"]
    assert "responseJsonSchema" not in config and config["responseSchema"]["type"] == "object"
    assert "adapted.json_schema" in [note.rule for note in again.notes]
    assert adapted.adapt_after_error(error, again) is None
