"""What a client's schema can cost when it is written in a service's words: no more than a constant times its size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kiro_asgi.contract import translate_kiro_request
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import DESCRIPTION_CHARACTERS, JSON_DEPTH
from kiro_asgi.model.prompt import Prompt, Role, Text, Tool, ToolCallPart, Turn
from kiro_asgi.rendering.schemas import flat
from kiro_asgi.streaming import clean_json_schema_properties, execute_kiro, stream_kiro
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Upstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream
from tests.growth import assert_linear

Schema = dict[str, Any]


def branches(keyword: str) -> Callable[[int], Schema]:
    def make(size: int) -> Schema:
        return {keyword: [{"properties": {f"p{at}": {}}, "required": [f"p{at}"]} for at in range(size)]}

    make.__name__ = keyword
    return make


def nested(size: int) -> Schema:
    """Branches at each of some levels."""
    schema: Schema = {"properties": {"last": {}}}
    for level in range(8):
        schema = {"anyOf": [schema, *({"properties": {f"p{level}_{at}": {}}} for at in range(size // 8))]}
    return schema


def references(size: int) -> Schema:
    definitions = {f"d{at}": {"properties": {f"p{at}": {}}} for at in range(size)}
    return {"$defs": definitions, "allOf": [{"$ref": f"#/$defs/{name}"} for name in definitions]}


def chain(size: int) -> Schema:
    definitions: Schema = {f"l{at}": {"anyOf": [{"$ref": f"#/$defs/l{at + 1}"}]} for at in range(size)}
    return {"$defs": {**definitions, f"l{size}": {"properties": {"a": {}}}}, "$ref": "#/$defs/l0"}


def properties(size: int) -> Schema:
    names = [f"p{at}" for at in range(size)]
    return {"type": "object", "properties": {name: {"enum": [name]} for name in names}, "required": names}


def referring(size: int) -> Schema:
    """Many references lead to the object, and each of its members is one."""
    definitions = {f"d{at}": {"type": "object"} for at in range(size)}
    members = {f"p{at}": {"$ref": f"#/$defs/d{at}"} for at in range(size)}
    return {"$defs": definitions, "allOf": [{"$ref": f"#/$defs/{name}"} for name in definitions], "properties": members}


def descriptions(size: int) -> Schema:
    return {"allOf": [{"description": f"Number {at}.", "properties": {"a": {}}} for at in range(size)]}


SHAPES = pytest.mark.parametrize(
    "shape",
    [
        *map(branches, ("anyOf", "allOf", "oneOf")),
        nested,
        references,
        chain,
        properties,
        referring,
        descriptions,
    ],
    ids=lambda shape: shape.__name__,
)
UPSTREAMS = pytest.mark.parametrize(
    "upstream",
    [KiroUpstream(), AnthropicUpstream(), GeminiUpstream(), OpenAIUpstream()],
    ids=lambda upstream: type(upstream).__name__,
)
CARD = ModelCard("claude-sonnet-4.5")
KEY = Credential(CredentialKind.API_KEY, "k")
SAID = Turn(Role.USER, (Text("Hi."),))


def asking(schema: Schema) -> Prompt:
    return Prompt("claude-sonnet-4.5", (SAID,), tools=(Tool("t", "d", schema, place="tools[0]"),))


@UPSTREAMS
@SHAPES
def test_work_grows_with_the_schema(upstream: Upstream, shape: Callable[[int], Schema]) -> None:
    """Branches, references and members are gone through, not multiplied."""

    def make(size: int) -> Callable[[], object]:
        prompt = asking(shape(size))
        return lambda: upstream.render(prompt, CARD, KEY)

    assert_linear(make, 200)


@SHAPES
def test_work_of_the_contract_grows_with_the_schema(shape: Callable[[int], Schema]) -> None:
    """The library's own translation of a schema, too."""
    assert_linear(lambda size: lambda: translate_kiro_request(asking(shape(size))), 200)


def test_alternatives_are_gathered_in_their_order() -> None:
    """Own properties first, then those of each alternative; the first of a name counts; required is what all want."""
    found = flat(
        {
            "title": "t",
            "properties": {"a": 1},
            "required": ["a"],
            "anyOf": [{"properties": {"b": 1, "a": 2}, "required": ["b"], "allOf": [{"properties": {"c": 1}}]}],
            "allOf": [{"properties": {"b": 2, "d": 1}, "required": ["d", "a"]}],
        }
    )

    assert found == {"title": "t", "properties": {"a": 1, "b": 2, "d": 1, "c": 1}, "required": ["a", "d"]}
    assert [*found["properties"]] == ["a", "b", "d", "c"]


def test_long_chains_of_alternatives_are_followed() -> None:
    """Nothing recurses, so nothing has to be left out."""
    assert flat({**chain(20_000), "anyOf": [{"$ref": "#/$defs/l0"}]})["properties"] == {"a": {}}


def test_what_stands_in_many_places_is_small() -> None:
    """Descriptions that become one stop at a limit, and long names are cut in places."""
    rendered = GeminiUpstream().render(asking(descriptions(20_000)), CARD, KEY)
    (declaration,) = json.loads(rendered.request.body)["tools"][0]["functionDeclarations"]
    assert len(declaration["parameters"]["description"]) < DESCRIPTION_CHARACTERS + 20

    inner = {f"p{at}": {"type": "array", "$ref": "nowhere"} for at in range(10)}
    long = asking({"type": "object", "properties": {"x" * 100_000: {"type": "object", "properties": inner}}})
    rendered = GeminiUpstream().render(long, CARD, KEY)
    assert all(len(note.place) < 200 for note in rendered.notes)


def deep(levels: int) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


async def nobody(body: bytes) -> Any:
    raise AssertionError("nothing is asked")
    yield b""


@pytest.mark.anyio
@pytest.mark.parametrize("levels", [JSON_DEPTH, 20_000])
async def test_the_library_refuses_what_is_too_deep(levels: int) -> None:
    """A schema, or the input of a call, that a caller made deeper than one from a client can be is a typed error."""
    call = ToolCallPart("c", "t", deep(levels))
    with pytest.raises(RequestError, match="deeper") as caught:
        clean_json_schema_properties(deep(levels))
    assert caught.value.param == "schema"
    for prompt in (asking(deep(levels)), Prompt("claude-sonnet-4.5", (SAID, Turn(Role.ASSISTANT, (call,))))):
        with pytest.raises(RequestError, match="deeper"):
            translate_kiro_request(prompt)
        with pytest.raises(RequestError, match="deeper"):
            await execute_kiro(prompt, nobody)
        with pytest.raises(RequestError, match="deeper"):
            async for _ in stream_kiro(prompt, nobody):
                pass


@UPSTREAMS
def test_the_deepest_schema_is_written(upstream: Upstream) -> None:
    """What may come in does not end in a `RecursionError` on the way out, with much of the stack in use already."""

    def further(calls: int) -> object:
        return upstream.render(asking(deep(JSON_DEPTH // 2 - 1)), CARD, KEY) if calls == 0 else further(calls - 1)

    further(200)
