"""What a client says of how its request is handled, in the words of a service of another API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import pytest
from attrs import evolve

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.gemini.dialect import GeminiApi
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.errors import UpstreamRejected
from kiro_asgi.model.handling import NO_WORDS, Handling, LabelForm, Tier, Words, crossed
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.bedrock.request import WORDS as CONVERSE
from kiro_asgi.upstreams.bedrock.upstream import BedrockUpstream
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from kiro_asgi.upstreams.openai.upstream import OpenAIUpstream, ResponsesUpstream

KEY: Final = Credential(CredentialKind.API_KEY, "key")
MODEL: Final = ModelCard("some-model")
NOVA: Final = ModelCard("amazon.nova-pro-v1:0")
CLAUDE_ARN: Final = ModelCard("anthropic.claude-sonnet-4-5-20250929-v1:0")
CUSTOM: Final = "http://127.0.0.1:9/v1"
BODIES: Final[Mapping[str, tuple[Dialect, dict[str, Any]]]] = {
    "chat": (OpenAIChat(), {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    "responses": (OpenAIResponses(), {"model": "m", "input": "hi"}),
    "messages": (AnthropicMessages(), {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    "gemini": (GeminiApi("m"), {"contents": [{"parts": [{"text": "hi"}]}]}),
}


def prompt(api: str, **said: Any) -> Prompt:
    dialect, body = BODIES[api]
    return dialect.parse(json.dumps({**body, **said}).encode()).prompt


def asked(upstream: Upstream, of: Prompt, model: ModelCard = MODEL) -> Rendered:
    return upstream.render(of, model, KEY)


def bedrock(**more: Any) -> BedrockUpstream:
    return BedrockUpstream(endpoint="http://127.0.0.1:9", control="http://127.0.0.1:9", **more)


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize(
    "words",
    [
        OpenAIUpstream().traits.words,
        AnthropicUpstream().traits.words,
        GeminiUpstream().traits.words,
        CONVERSE,
        NO_WORDS,
    ],
)
def test_each_tier_is_said_or_noted(tier: Tier, words: Words) -> None:
    """And never both; only the one that says nothing may be left out without a note."""
    notes = Notes()
    said = crossed(Handling(tier), words, notes)

    assert bool(said) is not bool(notes.found()) or (tier is Tier.AUTO and not said and not notes.found())


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ("u-1", "u-1"),
        ("auth0|5f3c", "auth0|5f3c"),
        ("jane@example.org", sha256(b"jane@example.org").hexdigest()),
        ("Jane Doe", sha256(b"Jane Doe").hexdigest()),
        ("x" * 65, sha256(b"x" * 65).hexdigest()),
        ("é\ud800", sha256(b"\xc3\xa9?").hexdigest()),
    ],
)
def test_a_user_goes_as_it_is_only_where_it_is_opaque(user: str, sent: str) -> None:
    """Both vendors ask for an id from which nobody can tell who it is, and have limits."""
    notes = Notes()

    assert crossed(Handling(user=user), AnthropicUpstream().words, notes) == {"metadata": {"user_id": sent}}
    assert [note.rule for note in notes.found()] == ["user.hashed"] * (sent != user)


@pytest.mark.parametrize(
    ("user_id", "user"),
    [
        ("u-1", "u-1"),
        ("user_ab12_account_cd34_session_0f1e", "user_ab12_account_cd34"),
        ('{"device_id": "d", "account_uuid": "", "session_id": "3c-4d"}', "d"),
        ('{"device_id": "d", "account_uuid": "a", "session_id": "3c-4d"}', "a"),
        ('{"session_id": "3c-4d"}', None),
    ],
)
def test_a_session_is_no_part_of_who_the_user_is(user_id: str, user: str | None) -> None:
    """Of Claude Code's field the session names the conversation, and would be another user in each."""
    body = asked(OpenAIUpstream(), prompt("messages", metadata={"user_id": user_id})).document

    assert body.get("safety_identifier") == user


def test_labels_that_a_service_does_not_take_are_left_out_one_by_one() -> None:
    """By its characters and lengths, and those over its limit; the note counts them."""
    labels = {"team": "blue", "naïve": "x", "long": "y" * 300, "line": "a\nb", **{f"k{at}": "v" for at in range(20)}}
    notes = Notes()
    said = crossed(Handling(labels=labels), CONVERSE, notes)["requestMetadata"]

    assert len(said) == 16 and said["team"] == "blue" and said["line"] == "a\nb"
    assert [(note.rule, note.times) for note in notes.found()] == [("metadata.unavailable", len(labels) - 16)]
    assert LabelForm().takes(labels) == {}


UPSTREAMS: Final[Mapping[str, tuple[Any, ModelCard, str, str]]] = {
    "openai": (OpenAIUpstream, MODEL, "gemini", "service_tier"),
    "openai-responses": (ResponsesUpstream, MODEL, "chat", "service_tier"),
    "anthropic": (AnthropicUpstream, MODEL, "chat", "service_tier"),
    "gemini": (GeminiUpstream, MODEL, "chat", "serviceTier"),
    "converse": (bedrock, NOVA, "chat", "serviceTier"),
}
"""Service to how it is made, its model, an API of its clients, and its name for the tier."""

STANDARD: Final = {"gemini": {"serviceTier": "STANDARD"}, "chat": {"service_tier": "default"}}


@pytest.mark.parametrize("name", UPSTREAMS)
@pytest.mark.parametrize("message", ["Unknown parameter: '{}'.", "Invalid {} argument", "'{}' needs a plan"])
def test_what_a_service_refuses_is_left_out(name: str, message: str) -> None:
    """Whatever is wrong with it: the client has not said it in the service's words."""
    make, model, api, member = UPSTREAMS[name]
    upstream, said = make(), prompt(api, **STANDARD[api])
    first = asked(upstream, said, model)
    assert member in first.document

    less = upstream.adapt_after_error(UpstreamRejected(message.format(member), code="x"), first)
    assert less is not None and less.remedies[-1].lasting
    again = asked(less, said, model)
    assert {**first.document, member: 0} == {**again.document, member: 0} and member not in again.document
    assert "adapted.field" in {note.rule for note in again.notes}
    assert less.adapt_after_error(UpstreamRejected(message.format(member), code="x"), again) is None


@pytest.mark.parametrize("name", UPSTREAMS)
def test_what_is_withheld_does_not_cross(name: str) -> None:
    """By the service's name for it."""
    make, model, api, member = UPSTREAMS[name]
    answer = asked(make(withheld=(member,)), prompt(api, **STANDARD[api]), model)

    assert member not in answer.document
    assert "fields.withheld" in {note.rule for note in answer.notes}


def test_the_operator_s_tier_stands() -> None:
    """A client's is noted where the service is chosen."""
    upstream = bedrock(extra={"serviceTier": {"type": "reserved"}})
    flex = prompt("chat", service_tier="flex")
    notes = Notes()
    crossed(flex.handling, upstream.traits.words, notes)

    assert asked(upstream, flex, NOVA).document["serviceTier"] == {"type": "reserved"}
    assert [(note.rule, note.place) for note in notes.found()] == [("tier.unavailable", "service_tier")]


def test_bedrock_has_them_in_headers_of_its_other_operation() -> None:
    """Also for a client of the body's own API, which has no tier in bodies there."""
    labelled = asked(bedrock(), prompt("chat", service_tier="flex", metadata={"a": "b"}), CLAUDE_ARN)
    headers = dict(labelled.request.headers)
    assert headers[b"x-amzn-bedrock-service-tier"] == b"flex"
    assert headers[b"x-amzn-bedrock-request-metadata"] == b'{"a":"b"}'

    own = asked(bedrock(), prompt("messages", service_tier="standard_only"), CLAUDE_ARN)
    assert dict(own.request.headers)[b"x-amzn-bedrock-service-tier"] == b"default"
    assert "service_tier" not in own.document
    auto = asked(bedrock(), prompt("messages", service_tier="auto"), CLAUDE_ARN)
    assert "service_tier" not in auto.document
    assert b"x-amzn-bedrock-service-tier" not in dict(auto.request.headers)


@pytest.mark.parametrize("upstream", [OpenAIUpstream(name="own", endpoint=CUSTOM), ResponsesUpstream(endpoint=CUSTOM)])
def test_a_server_that_may_not_know_them_is_sent_none(upstream: Upstream) -> None:
    """What is its own API's goes as the client sent it."""
    said = prompt("messages", service_tier="auto", metadata={"user_id": "u"})
    assert asked(upstream, said).document.keys() & {"service_tier", "safety_identifier", "metadata", "user"} == set()
    assert upstream.traits.words == NO_WORDS


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_day_becomes_the_longest_mark(api: str) -> None:
    """And an hour a day: OpenAI's other word lasts an hour at most.  That other one asks for nothing elsewhere."""
    said = prompt(api, prompt_cache_retention="24h")
    assert asked(AnthropicUpstream(), said).document["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    usual = prompt(api, prompt_cache_retention="in_memory")
    assert "cache_control" not in asked(AnthropicUpstream(), usual).document

    for marks in (
        {"system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        {"tools": [{"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ):
        assert asked(OpenAIUpstream(), prompt("messages", **marks)).document["prompt_cache_retention"] == "24h"
    usual = prompt("messages", cache_control={"type": "ephemeral"})
    assert "prompt_cache_retention" not in asked(OpenAIUpstream(), usual).document


@pytest.mark.parametrize("value", [7, None, {"a": []}, ["flex"], "", "turbo"])
def test_a_value_that_is_no_word_says_nothing(value: Any) -> None:
    """Whatever it is; a service of the API gets it as it came."""
    for api, name in (("chat", "service_tier"), ("messages", "service_tier"), ("gemini", "serviceTier")):
        assert prompt(api, **{name: value}).handling.tier is None
    odd = prompt("chat", metadata=value, user=value, prompt_cache_retention=value)
    assert evolve(odd.handling, user="", labels={}).retention == "" and odd.handling.labels == {}
    assert asked(OpenAIUpstream(), prompt("chat", service_tier="turbo")).document["service_tier"] == "turbo"
