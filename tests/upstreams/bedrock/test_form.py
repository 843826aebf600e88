"""The form of the answer: in the field where the service guarantees it, in words where it does not, never in both."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.failures.phrases import FORM, FORM_UNKNOWN
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.upstreams.base import Credential, CredentialKind, Rendered
from kiro_asgi.upstreams.bedrock.models import card_of
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.wire.json import loads
from tests.upstreams.faults import bedrock as fault

KEY = Credential(CredentialKind.API_KEY, "k")
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OLD_CLAUDE = "anthropic.claude-3-haiku-20240307-v1:0"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}
LIMITED = {**SCHEMA, "properties": {"a": {"type": "string", "maxLength": 3}}}


def asked(model: str, upstream: BedrockUpstream, schema: Any = SCHEMA, *said: Turn) -> Rendered:
    prompt = Prompt("m", (Turn(Role.USER, (Text("x"),)), *said), schema=schema)
    return upstream.render(prompt, card_of(model), KEY)


def sent(rendered: Rendered) -> Any:
    """The schema that is sent; ``None`` where there is none."""
    document = rendered.document
    if "anthropic_version" in document:
        return document.get("output_config", {}).get("format", {}).get("schema")
    if "outputConfig" not in document:
        return None
    form = document["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    return loads(form["structure"]["jsonSchema"]["schema"])


def told(rendered: Rendered) -> bool:
    """Whether the schema is told in words."""
    noted = any(note.rule == "output.schema_instruction" for note in rendered.notes)
    assert noted == bool(rendered.document.get("system")), "the note says what the text does not"
    return noted


@pytest.mark.parametrize("invokes", [True, False])
@pytest.mark.parametrize(
    ("model", "formed"),
    [
        (CLAUDE, True),
        (f"arn:aws:bedrock:us-east-1:1:inference-profile/{CLAUDE}", True),
        (OLD_CLAUDE, False),
        ("qwen.qwen3-32b-v1:0", True),
        ("deepseek.v3-v1:0", True),
        ("us.deepseek.r1-v1:0", False),
        ("amazon.nova-pro-v1:0", False),
        ("us.meta.llama3-3-70b-instruct-v1:0", False),
        ("openai.gpt-oss-120b-1:0", False),
    ],
)
def test_each_family_has_the_field_or_the_words(model: str, formed: bool, invokes: bool) -> None:
    """Where the service guarantees the form, a stream needs no check, and nothing is told in words."""
    found = asked(model, BedrockUpstream(invokes=invokes))

    assert (sent(found), told(found), found.formed) == ((SCHEMA, False, True) if formed else (None, True, False))


@pytest.mark.parametrize("invokes", [True, False])
def test_a_schema_that_the_service_cannot_hold_is_no_guarantee(invokes: bool) -> None:
    """A limit is left to the check, a map is told in words."""
    upstream = BedrockUpstream(invokes=invokes)
    limited, mapped = asked(CLAUDE, upstream, LIMITED), asked(CLAUDE, upstream, MAP)

    assert (told(limited), limited.formed, sent(limited)["properties"]["a"].keys()) == (
        False,
        False,
        {"type", "description"},
    )
    assert (sent(mapped), told(mapped), mapped.formed) == (None, True, False)


def test_no_answer_is_begun_for_the_model() -> None:
    """The service refuses a prefilled answer beside a schema."""
    found = asked(CLAUDE, BedrockUpstream(invokes=False), SCHEMA, Turn(Role.ASSISTANT, (Text("{"),)))

    assert found.document["messages"][-1]["role"] == "user"


REFUSALS = [
    ("Malformed input request: #: extraneous key [outputConfig] is not permitted", FORM_UNKNOWN),
    ("This model doesn't support the outputConfig field. Remove it and try again.", FORM_UNKNOWN),
    ("output_config.format: Extra inputs are not permitted", FORM_UNKNOWN),
    ("output_config.format.schema: For 'integer' type, maximum is not supported", FORM),
    ("The model returned the following errors: Schema is too complex.", FORM),
]


@pytest.mark.parametrize("invokes", [True, False])
@pytest.mark.parametrize(("said", "code"), REFUSALS)
def test_a_refused_schema_is_told_in_words(said: str, code: str, invokes: bool) -> None:
    """Once; that a model has none at all is remembered for every request."""
    upstream = BedrockUpstream(invokes=invokes)
    error = fault(400, [(b"x-amzn-errortype", b"ValidationException")], b'{"message":"%s"}' % said.encode())
    adapted = upstream.adapt_after_error(error, asked(CLAUDE, upstream))

    assert error.code == code and adapted is not None
    again = asked(CLAUDE, adapted)
    assert (sent(again), told(again), again.formed) == (None, True, False)
    assert adapted.learnt[0] in {note.rule for note in again.notes}
    assert adapted.adapt_after_error(error, again) is None
    assert adapted.remedies[-1].lasting == (code == FORM_UNKNOWN)
