"""What only a service of the client's own API can be asked for: it gets it as it came, and no other one is asked.

Each dialect's tables of such fields are walked: one that is added to them is tried here, or fails for want of a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from attrs import evolve

from kiro_asgi.dialects.gemini import parsing as gemini
from kiro_asgi.dialects.gemini.shapes import camel_case
from kiro_asgi.dialects.openai_chat import parsing as chat
from kiro_asgi.dialects.openai_responses.fields import FIELDS, Fate
from kiro_asgi.dialects.references import HELD
from kiro_asgi.errors import RequestError, UpstreamRejected
from kiro_asgi.model.depth import JSON_DEPTH
from kiro_asgi.model.understood import understood
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.cross_format.test_same_api import PAIRS, Pair, rendered

ASKED: Final = [{"role": "user", "content": "hi"}]
BODIES: Final[Mapping[str, dict[str, Any]]] = {
    "anthropic": {"messages": ASKED, "max_tokens": 9},
    "openai_chat": {"messages": ASKED},
    "openai_responses": {"input": "hi"},
    "gemini": {"contents": [{"parts": [{"text": "hi"}]}]},
}

VALUES: Final[Mapping[str, Any]] = {
    "container": {"id": "container_1", "skills": [{"type": "anthropic", "skill_id": "pdf", "invented": 1}]},
    "image_config": {"aspectRatio": "1:1"},
    "logprobs": 3,
    "prompt": {"id": "pmpt_1", "variables": {"city": "Rome"}},
    "response_logprobs": True,
    "speech_config": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
    "top_logprobs": 2,
}
"""A value of each field; of a reference it is an id."""

FORM: Final = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}


def demands(api: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Requests that demand one thing, and the name of the parameter that other services' refusal names."""
    for name in sorted(HELD):
        if api == ("anthropic" if name == "container" else "gemini"):
            place = gemini.snake_case(name) if api == "gemini" else name
            yield {name: VALUES.get(name, "id_1")}, place
    match api:
        case "openai_chat":
            for name in chat._DEMANDED:
                yield {name: True if name == "logprobs" else VALUES[name]}, name
            yield {"response_format": FORM}, "response_format.type"
        case "openai_responses":
            for name in (name for name, support in FIELDS.items() if support.fate is Fate.REFUSED):
                yield {name: VALUES[name]}, name
            yield {"text": {"format": FORM}}, "text.format.type"
        case "gemini":
            for name in gemini._DEMANDED:
                yield {"generationConfig": {camel_case(name): VALUES[name]}}, f"generation_config.{name}"
            modalities = {"responseModalities": ["TEXT", "AUDIO"]}
            yield {"generationConfig": modalities}, "generation_config.response_modalities"
            words = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a", "b"]}}
            yield {"generationConfig": words}, "generation_config.response_mime_type"
        case _:
            yield {"output_config": {"format": FORM}}, "output_config.format.type"


CASES: Final = [
    pytest.param(name, {**BODIES[pair.dialect.name], **members}, members, param, id=f"{name}-{param}")
    for name, pair in PAIRS.items()
    for members, param in demands(pair.dialect.name)
]
SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION: Final = {"name": "look", "description": "Look.", "parameters": SCHEMA}
TOOLS: Final[Mapping[str, dict[str, Any]]] = {
    "anthropic": {"tools": [{"name": "look", "input_schema": SCHEMA}]},
    "openai_chat": {"tools": [{"type": "function", "function": FUNCTION}]},
    "openai_responses": {"tools": [{"type": "function", **FUNCTION}]},
    "gemini": {"tools": [{"functionDeclarations": [FUNCTION]}]},
}


def spelled(name: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
    """*members* as the service *name* is sent them."""
    return {camel_case(each): value for each, value in members.items()} if name == "gemini" else members


@pytest.mark.parametrize(("name", "body", "members", "param"), CASES)
def test_a_service_of_the_api_gets_it_as_it_came(
    name: str, body: Mapping[str, Any], members: Mapping[str, Any], param: str
) -> None:
    """With tools and without, and no note says that it is lost."""
    pair = PAIRS[name]
    for more in ({}, TOOLS[pair.dialect.name]):
        answer, notes = rendered(pair, {**body, **more})
        for member, value in spelled(name, members).items():
            sent = answer.document[member]
            assert (sent if not isinstance(value, dict) else {key: sent[key] for key in value}) == value
        assert [note for note in notes if note.place and param.startswith(note.place)] == []


@pytest.mark.parametrize(("name", "body", "members", "param"), CASES)
def test_no_other_service_is_asked(name: str, body: Mapping[str, Any], members: Mapping[str, Any], param: str) -> None:
    """The refusal names the place; a service without any client API is another, too."""
    parsed = PAIRS[name].dialect.parse(json.dumps({"model": "m", **body}).encode())
    for api in ("", *(other for other in BODIES if other != PAIRS[name].dialect.name)):
        with pytest.raises(RequestError) as refusal:
            understood(parsed.prompt, api)
        assert refusal.value.param == param


@pytest.mark.parametrize(("name", "body", "members", "param"), CASES)
def test_it_is_never_taken_out(name: str, body: Mapping[str, Any], members: Mapping[str, Any], param: str) -> None:
    """Neither after a refusal, which the client is to read, nor with what else was refused."""
    pair = PAIRS[name]
    answer, _ = rendered(pair, {**body, "invented": 1, "inventedToo": 1})
    field = param.rpartition(".")[2] if not param.endswith(".type") else param.split(".")[-2]
    for word in (field, camel_case(field)):
        refusal = UpstreamRejected(f"Unrecognized request argument supplied: {word}", code="x")
        assert pair.upstream.adapt_after_error(refusal, answer) is None
    less = pair.upstream.adapt_after_error(UpstreamRejected("Unknown parameter: 'invented'.", code="x"), answer)
    assert less is not None
    answer, _ = rendered(evolve(pair, upstream=less), {**body, "inventedToo": 1})
    less = less.adapt_after_error(UpstreamRejected("Unknown parameter: 'inventedToo'.", code="x"), answer)
    assert less is not None
    bare, _ = rendered(evolve(pair, upstream=less), {**body, "inventedToo": 1})
    assert "inventedToo" not in bare.document
    assert spelled(name, members).keys() <= bare.document.keys()


def test_what_the_operator_withholds_is_refused_where_it_is_demanded() -> None:
    """An answer without it would look like any other."""
    pair = Pair(PAIRS["chat"].dialect, OpenAIUpstream(withheld=("logprobs",)), PAIRS["chat"].model)
    with pytest.raises(RequestError, match="log probabilities"):
        rendered(pair, {**BODIES["openai_chat"], "logprobs": True})


def test_it_may_be_as_deep_as_everything_else() -> None:
    """And no deeper: rendering recurses into it."""
    deep: Any = {}
    for _ in range(JSON_DEPTH + 1):
        deep = {"a": deep}
    with pytest.raises(RequestError, match="deep"):
        rendered(PAIRS["chat"], {**BODIES["openai_chat"], "response_format": {"type": "grammar", "a": deep}})
