"""The service's list of models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi.errors import ConfigError, UpstreamProtocolError
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, ModelPage
from kiro_asgi.upstreams.kiro.account import credential
from kiro_asgi.upstreams.kiro.models import (
    FALLBACK,
    THINK_IF_ASKED,
    did_you_mean,
    find,
    parse_models,
    thinks_unasked,
)
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream


@pytest.mark.parametrize("card", FALLBACK, ids=lambda card: card.id)
def test_ids_are_normal(card: ModelCard) -> None:
    """The ids of the table are their own normal form, so that every spelling finds them."""
    assert find(card.id, FALLBACK) is card
    assert find(f"kiro/{card.id.upper()}", FALLBACK) is card


def test_find_prefers_the_very_id() -> None:
    """Two ids may have one normal form; the one that was asked for wins, and the wire gets the service's spelling."""
    cards = (ModelCard("claude-sonnet-4.0"), ModelCard("CLAUDE_SONNET_4_20250514_V1_0"))
    assert find("CLAUDE_SONNET_4_20250514_V1_0", cards) is cards[1]
    assert find("claude-sonnet-4-20250514", cards) is cards[0]
    assert find("claude-opus-4", cards) is None


def test_did_you_mean() -> None:
    """A mistyped name leads to the nearest ids."""
    assert did_you_mean("claude-sonet-4-5", FALLBACK)[0] == "claude-sonnet-4.5"
    assert did_you_mean("zzz", FALLBACK) == ()


def test_auto_reads_as_much_as_any_model() -> None:
    """What the service routes may be any model: no conversation is refused for a window that is none."""
    windows = {card.id: card.context_window for card in FALLBACK}

    assert windows["auto"] == max(windows.values()) == 1_000_000
    assert windows["deepseek-3.2"] == 164_000


@pytest.mark.parametrize("card", [*FALLBACK, ModelCard("claude-opus-9"), ModelCard("never-heard-of")])
def test_a_model_thinks_unasked_unless_it_is_known_not_to(card: ModelCard) -> None:
    """Unknown models are waited for like those that think; a family that does not counts in every spelling."""
    assert thinks_unasked(card) is (card.id not in THINK_IF_ASKED)
    assert thinks_unasked(evolve(card, id=f"kiro/{card.id.upper()}-latest")) is thinks_unasked(card)
    assert {each.id for each in FALLBACK} >= THINK_IF_ASKED


def listing(*models: Any) -> bytes:
    return json.dumps({"models": models, "nextToken": None}).encode()


def test_parse_models() -> None:
    """Windows, efforts and the schema come from the service; what it does not say, from what is known."""
    schema = {
        "type": "object",
        "properties": {"output_config": {"properties": {"effort": {"enum": ["low", "high", 3]}}}},
    }
    body = listing(
        {
            "modelId": "claude-new",
            "modelName": "New",
            "tokenLimits": {"maxInputTokens": 5, "maxOutputTokens": 4},
            "supportedInputTypes": ["TEXT"],
            "additionalModelRequestFieldsSchema": schema,
        },
        {"modelId": "claude-opus-4.7"},
    )
    new, known = parse_models(body).cards
    assert new == ModelCard("claude-new", "New", 5, 4, False, ("low", "high"), schema)
    assert (known.name, known.context_window, known.efforts) == ("Claude Opus 4.7", 1_000_000, ())


def test_parse_models_is_tolerant() -> None:
    """Entries that cannot be used are passed over, the first of equal ids stands, wrong types count as absent."""
    body = listing(
        None,
        {},
        {"modelId": ""},
        {"modelId": 1},
        {"modelId": "m", "tokenLimits": [], "modelName": 3},
        {"modelId": "m", "modelName": "second"},
    )
    assert parse_models(body) == ModelPage((ModelCard("m"),))
    assert parse_models(b"{}") == parse_models(b'{"models": {}, "nextToken": 3}') == ModelPage(())


def test_a_page_names_the_one_behind_it() -> None:
    """Where the list goes on, the answer says so; no text and the empty text are the end."""
    assert parse_models(b'{"models": [], "nextToken": "t2"}').following == "t2"
    assert parse_models(b'{"models": [], "nextToken": ""}').following == ""


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null"])
def test_parse_models_refuses_what_is_no_list(body: bytes) -> None:
    """What is no JSON object is no list of models."""
    with pytest.raises(UpstreamProtocolError) as caught:
        parse_models(body)
    assert caught.value.code == "upstream.models"


ARN = "arn:aws:codewhisperer:eu-central-1:123456789012:profile/A+B"
TOKEN = "kiro.access_token"


def test_models_request() -> None:
    """A GET with the profile escaped, to the profile's region; an API key names no profile."""
    old = KiroUpstream(settings=KiroSettings(hosts="amazonaws"))
    request = old.models_request(credential(access_token="t", profile_arn=ARN), page="p/2")
    assert (request.method, request.url) == (
        "GET",
        "https://q.eu-central-1.amazonaws.com/ListAvailableModels?origin=AI_EDITOR&maxResults=50"
        "&profileArn=arn%3Aaws%3Acodewhisperer%3Aeu-central-1%3A123456789012%3Aprofile%2FA%2BB&nextToken=p%2F2",
    )
    keyed = KiroUpstream(settings=KiroSettings(endpoint="http://127.0.0.1:9/")).models_request(
        Credential(CredentialKind.API_KEY, "k", ARN)
    )
    assert keyed.url == "http://127.0.0.1:9/ListAvailableModels?origin=AI_EDITOR&maxResults=50"
    assert (b"tokentype", b"API_KEY") in keyed.headers


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"api_key": " k ", "access_token": "t", "profile_arn": ARN},
            Credential(CredentialKind.API_KEY, "k", source="kiro.api_key"),
        ),
        ({"access_token": "t", "profile_arn": ARN}, Credential(CredentialKind.ACCESS_TOKEN, "t", ARN, source=TOKEN)),
        ({"access_token": "t", "external_idp": True}, Credential(CredentialKind.EXTERNAL_IDP, "t", source=TOKEN)),
    ],
)
def test_credential(arguments: dict[str, Any], expected: Credential) -> None:
    """The official key comes first and has no profile."""
    assert credential(**arguments) == expected


@pytest.mark.parametrize("arguments", [{}, {"api_key": "a\r\nx: y"}, {"access_token": "ä"}, {"api_key": "  "}])
def test_unusable_credential(arguments: dict[str, str]) -> None:
    """R27, R28: no credential, or one that would split a header, is refused at the start, without quoting it."""
    with pytest.raises(ConfigError) as caught:
        credential(**arguments)
    assert all(value.strip() not in str(caught.value) for value in arguments.values() if value.strip())
