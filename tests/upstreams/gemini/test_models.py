"""The list of models, and what each family takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.upstreams.base import ModelPage
from kiro_asgi.upstreams.gemini.models import FAMILIES, KNOWN, family_of
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream
from tests.upstreams.gemini.asked import KEY

UPSTREAM = GeminiUpstream()


def page(*entries: dict[str, Any], **members: Any) -> ModelPage:
    return UPSTREAM.parse_models(json.dumps({"models": entries, **members}).encode())


def entry(name: str, *methods: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "supportedGenerationMethods": [*methods], **members}


def test_the_list_is_asked_for_page_by_page() -> None:
    """With the key in a header; the next page is named by the one before."""
    first, second = UPSTREAM.models_request(KEY), UPSTREAM.models_request(KEY, page="a b&c")

    assert first.url == "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000"
    assert second.url.endswith("/v1beta/models?pageSize=1000&pageToken=a+b%26c")
    assert (first.method, dict(first.headers)[b"x-goog-api-key"]) == ("GET", b"secret-key")
    assert page(nextPageToken="n").following == "n"


def test_models_that_generate_are_offered() -> None:
    """By their ids without ``models/``; what the service does not say comes from the table."""
    found = page(
        entry("models/gemini-2.5-pro", "generateContent", inputTokenLimit=99, displayName="Pro"),
        entry("models/gemini-9-flash", "generateContent", "countTokens", outputTokenLimit=7),
        entry("models/embedding", "embedContent"),
        entry("models/gemini-2.5-pro", "generateContent"),
        {"name": "models/odd"},
    )

    assert [(card.id, card.embeds) for card in found.cards] == [
        ("gemini-2.5-pro", None),
        ("gemini-9-flash", None),
        ("embedding", True),
    ]
    assert (found.cards[0].name, found.cards[0].context_window, found.cards[0].max_output_tokens) == ("Pro", 99, 65_536)
    assert found.cards[1].max_output_tokens == 7
    assert found.cards[1].efforts == ("minimal", "low", "medium", "high")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5))
def test_a_list_of_anything_is_read(value: Any) -> None:
    """Members of foreign kinds are passed over."""
    found = page(entry("models/a", "generateContent", displayName=value, inputTokenLimit=value), nextPageToken=value)

    assert found.cards[0].context_window >= 1
    assert page({"name": value, "supportedGenerationMethods": value}).cards == ()


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>"])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    """Something else answers."""
    with pytest.raises(UpstreamProtocolError):
        UPSTREAM.parse_models(body)


def test_names_have_one_spelling() -> None:
    """The service's own prefix, and the vendor's, are left out."""
    assert UPSTREAM.normalise("models/gemini-2.5-pro") == "gemini-2.5-pro"
    assert UPSTREAM.normalise(" google/gemini-2.5-pro ") == "gemini-2.5-pro"


def test_each_family_is_met() -> None:
    """A row of the table that an earlier one hides would never count."""
    names = (
        *("gemini-3-pro-image-preview", "gemini-2.5-flash-image", "gemini-3-pro-preview", "gemini-3.5-flash"),
        *("gemini-3.1-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash-lite", "gemini-2.5-flash", "gemini-2.0-flash"),
    )

    assert [family_of(name) for name in names] == [family for _, family in FAMILIES]
    assert family_of("gemma-3").budgets is None
    assert not family_of("gemini-2.5-pro").signs_calls
    assert family_of("gemini-flash-lite-latest") == family_of("gemini-2.5-flash-lite")
    assert [card.efforts for card in KNOWN[2:4]] == [(), ("low", "high")]
