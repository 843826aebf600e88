"""The form of the answer: schemas as the service takes them, and what is told in words instead."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.failures.phrases import FORM, FORM_UNKNOWN
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.simulator.anthropic import read
from kiro_asgi.simulator.anthropic.checks import form_possible, schema_closed, schema_ends, schema_known
from kiro_asgi.upstreams.anthropic.schema import CompiledSchema, compiled
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.wire.json import dumps, loads

FORM_RULES = (form_possible, schema_closed, schema_known, schema_ends)
KEY = Credential(CredentialKind.API_KEY, "k")
MODEL = ModelCard("claude-haiku-4-5")
S = {"type": "string"}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": S},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {key: value for key, value in CLOSED.items() if key != "additionalProperties"}


def one(name: str = "a", **schema: Any) -> dict[str, Any]:
    """An object with one member."""
    return {"type": "object", "properties": {name: schema}, "additionalProperties": False}


def form(schema: Any) -> tuple[CompiledSchema | None, list[tuple[str, int, str]]]:
    notes = Notes()
    found = compiled(schema, notes)
    return found, [(note.rule, note.times, note.place) for note in notes.found()]


@pytest.mark.parametrize(
    "schema",
    [
        CLOSED,
        one(type=["string", "null"]),
        one(anyOf=[S, {"type": "null"}], default=None),
        one(type="string", format="date"),
        one(enum=["x", 1, None], description="d"),
        one(const=True),
        one(type="array", items=CLOSED, minItems=1),
        {**one(**{"$ref": "#/$defs/A"}), "$defs": {"A": one(**{"$ref": "#/$defs/B"}), "B": CLOSED}},
    ],
)
def test_what_the_service_knows_stays(schema: dict[str, Any]) -> None:
    """Word for word, and the service guarantees it."""
    assert form(schema) == (CompiledSchema(schema, exact=True), [])


def test_objects_are_closed() -> None:
    """The answer obeys the client's schema all the same."""
    assert form(OPEN) == (CompiledSchema(CLOSED, exact=True), [("output.schema_closed", 1, "schema")])


@pytest.mark.parametrize(
    ("given", "sent", "place"),
    [
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": '{"minimum":1}'}, "minimum"),
        (
            {"type": "string", "maxLength": 2, "description": "Two."},
            {"type": "string", "description": 'Two. {"maxLength":2}'},
            "maxLength",
        ),
        ({"type": "string", "format": "color"}, {"type": "string", "description": '{"format":"color"}'}, "format"),
        ({"oneOf": [S, {"type": "null"}]}, {"anyOf": [S, {"type": "null"}]}, "oneOf"),
        (
            {"type": "array", "items": S, "minItems": 2},
            {"type": "array", "items": S, "description": '{"minItems":2}'},
            "minItems",
        ),
    ],
)
def test_other_constraints_are_told(given: Any, sent: Any, place: str) -> None:
    """The service guarantees less than was asked for, so the answer is checked here."""
    expected = CompiledSchema(one(**sent), exact=False)

    assert form(one(**given)) == (expected, [("output.schema_constraints", 1, f"schema.properties.a.{place}")])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        S,
        {"anyOf": [CLOSED]},
        {"type": "object"},
        one(),
        one(type="object", additionalProperties=S),
        one(type="object", properties={}, additionalProperties=S),
        one(type="array"),
        one(type="any"),
        one(enum=[[1]]),
        one(**{"$ref": "https://example.org/x"}),
        one(**{"$ref": "#/$defs/missing"}),
        {**one(**{"$ref": "#/$defs/A"}), "$defs": {"A": one(**{"$ref": "#/$defs/A"})}},
        {**one(**{"$ref": "#/$defs/A", "minLength": 1}), "$defs": {"A": S}},
        {"type": "object", "properties": []},
        one(anyOf="x"),
    ],
)
def test_what_would_say_something_else_is_not_sent(schema: dict[str, Any]) -> None:
    """Maps, anything, and schemas that hold themselves: they are told in words, and nothing is noted of half a try."""
    assert form(schema) == (None, [])


SCHEMAS = st.recursive(
    st.sampled_from([S, {"type": "integer", "minimum": 1}, {"$ref": "#/$defs/D"}, {"enum": ["x"]}, {}, True]),
    lambda inner: st.one_of(
        st.builds(lambda part: {"type": "array", "items": part}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, max_size=2)),
        st.builds(
            lambda parts, extra: {"type": "object", "properties": parts, **extra},
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.sampled_from([{}, {"additionalProperties": True}, {"required": ["a"]}, {"maxProperties": 2}]),
        ),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("value", [["date"], {"a": 1}, 1, None, True])
def test_a_format_that_is_no_text_goes_into_words(value: Any) -> None:
    """As every constraint that the service does not enforce does; there is no error."""
    found, _ = form(one(type="string", format=value))

    assert found is None or "format" not in found.schema["properties"]["a"]


@given(SCHEMAS, SCHEMAS)
def test_what_is_sent_is_taken(schema: Any, definition: Any) -> None:
    """Whatever the schema is, the service's rules hold for what it becomes; and doing it twice changes nothing."""
    root = {"type": "object", "properties": {"p": schema}, "$defs": {"D": definition}}
    before = dumps(root)
    found = compiled(root, Notes())

    assert dumps(root) == before
    if found is not None:
        form = {"type": "json_schema", "schema": found.schema}
        document = {"model": MODEL.id, "output_config": {"format": form}, "messages": [{"role": "user"}]}
        question = read(document)
        assert [rule(document, question) for rule in FORM_RULES] == [""] * len(FORM_RULES)
        assert compiled(found.schema, Notes()) == CompiledSchema(found.schema, exact=True)


def test_the_vendors_own_schemas_stay() -> None:
    """What the official SDK makes of a model's schema is what the service takes."""
    ours = {**one(type="string", minLength=2), "$defs": {"C": OPEN}}
    theirs = anthropic.transform_schema(ours)

    assert form(theirs) == (CompiledSchema(theirs, exact=True), [])


# In a request.


def asked(schema: Any, model: ModelCard = MODEL, upstream: AnthropicUpstream | None = None, *said: Turn) -> Rendered:
    prompt = Prompt("m", (Turn(Role.USER, (Text("x"),)), *said), schema=schema)
    return (upstream or AnthropicUpstream()).render(prompt, model, KEY)


def rules(rendered: Rendered) -> list[str]:
    return [note.rule for note in rendered.notes if note.rule.startswith(("output", "adapted", "turns"))]


def test_models_that_can_be_held_to_a_schema_are() -> None:
    """Anthropic itself guarantees it, so that a stream needs no check; nothing is told in words."""
    body = loads(asked(CLOSED).request.body)

    assert body["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}
    assert "system" not in body
    assert asked(CLOSED).formed
    assert not asked(one(type="integer", minimum=1)).formed


@pytest.mark.parametrize(
    ("model", "schemas", "formed"),
    [
        ("claude-haiku-4-5-20251001", None, True),
        ("claude-opus-4-6", None, True),
        ("claude-opus-4-7", None, True),
        ("claude-opus-4-1", None, False),
        ("claude-3-7-sonnet", None, False),
        ("internal-model", None, False),
        ("internal-model", True, True),
        ("claude-haiku-4-5", False, False),
    ],
)
def test_which_models_can(model: str, schemas: bool | None, formed: bool) -> None:
    """By the version in the name, and what the service's list says."""
    rendered = asked(CLOSED, ModelCard(model, schemas=schemas))

    assert rendered.formed is formed
    assert ("format" in rendered.document.get("output_config", {})) is formed
    assert rules(rendered) == ([] if formed else ["output.schema_instruction"])


def test_another_server_is_told_in_words_as_well() -> None:
    """It may ignore the field; its answer is checked."""
    rendered = asked(CLOSED, MODEL, AnthropicUpstream(endpoint="https://proxy.example.org"))

    assert not rendered.formed
    assert "format" in rendered.document["output_config"]
    assert rules(rendered) == ["output.schema_instruction"]


def test_no_answer_is_begun_for_the_model() -> None:
    """The service refuses a prefilled answer beside a schema."""
    rendered = asked(CLOSED, MODEL, None, Turn(Role.ASSISTANT, (Text("{"),)))

    assert rendered.document["messages"][-1]["role"] == "user"
    assert rules(rendered) == ["turns.prefill"]


REFUSALS = [
    ("'claude-haiku-4-5' does not support output format.", FORM_UNKNOWN, "adapted.output_format", True),
    ("output_config: Extra inputs are not permitted", FORM_UNKNOWN, "adapted.output_format", True),
    ("output_config.format: Extra inputs are not permitted", FORM_UNKNOWN, "adapted.output_format", True),
    ("Schema is too complex for compilation.", FORM, "adapted.output_schema", False),
    ("output_config.format.schema: Invalid regex in pattern", FORM, "adapted.output_schema", False),
]


@pytest.mark.parametrize(("message", "code", "rule", "learns"), REFUSALS)
def test_a_refused_schema_is_told_in_words(message: str, code: str, rule: str, learns: bool) -> None:
    """Once; what is about the model is remembered for it, what is about a schema is not."""
    upstream, rendered = AnthropicUpstream(), asked(CLOSED)
    error = upstream.fault(400, (), dumps({"error": {"type": "invalid_request_error", "message": message}}))
    adapted = upstream.adapt_after_error(error, rendered)
    assert adapted is not None
    again = asked(CLOSED, MODEL, adapted)

    assert error.code == code
    assert rules(again) == [rule, "output.schema_instruction"]
    assert "output_config" not in again.document
    assert not again.formed
    assert adapted.remedies[-1].lasting is learns
    assert adapted.adapt_after_error(error, again) is None


def test_other_refusals_are_not_about_the_form() -> None:
    """An effort that a model does not know is another thing: nothing was sent that could be left out."""
    upstream = AnthropicUpstream()
    message = "messages.0.content: This model does not support the effort parameter."
    error = upstream.fault(400, (), dumps({"error": {"type": "invalid_request_error", "message": message}}))

    assert error.code == "validation"
    assert upstream.adapt_after_error(error, asked(CLOSED)) is None
