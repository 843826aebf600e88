from __future__ import annotations

import json

import anthropic.types
import openai.types
import pytest
from anthropic._models import validate_type as validate_anthropic
from anthropic.pagination import SyncPage as AnthropicPage
from attrs import frozen
from openai._models import validate_type as validate_openai
from openai.pagination import SyncPage as OpenAIPage

from kiro_asgi.dialects.model_list import Listing, render_model, render_models
from kiro_asgi.model.prices import Price, Rates


@frozen
class Card:
    id: str
    name: str = ""
    context_window: int = 200_000
    max_output_tokens: int = 64_000
    images: bool = True
    efforts: tuple[str, ...] = ()
    thinks: bool = False
    embeds: bool | None = None
    created: int | None = None


CARDS = (Card("a/b", "A B"), Card("c", "", 1_000_000, 128_000, False, ("none", "low", "high", "xhigh"), True))
LISTINGS = tuple(Listing(card, "me") for card in CARDS)


def test_one_list_satisfies_both_families() -> None:
    """The strict models of both official SDKs take the list."""
    body = json.loads(render_models(LISTINGS))
    ours = validate_anthropic(type_=AnthropicPage[anthropic.types.ModelInfo], value=body)
    theirs = validate_openai(type_=OpenAIPage[openai.types.Model], value=body)

    assert [(each.id, each.display_name) for each in ours.data] == [("a/b", "A B"), ("c", "c")]
    assert [each.id for each in theirs.data] == ["a/b", "c"]
    assert (body["object"], body["has_more"], body["first_id"], body["last_id"]) == ("list", False, "a/b", "c")


def test_an_empty_list_is_a_list() -> None:
    """No model is no error."""
    assert json.loads(render_models(())) == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_one_model_satisfies_both_families(card: Card) -> None:
    """The strict models of both official SDKs take a single model, which is as in the list."""
    body = json.loads(render_model(Listing(card, "me")))

    assert validate_anthropic(type_=anthropic.types.ModelInfo, value=body).created_at.timestamp() == body["created"]
    assert validate_openai(type_=openai.types.Model, value=body).owned_by == "me"
    assert body in json.loads(render_models(LISTINGS))["data"]


def test_both_families_find_what_a_model_can() -> None:
    """Sizes, images and efforts, in the documented members of the one API and in plain ones for the other."""
    body = json.loads(render_model(Listing(CARDS[1], "me", web_search=True)))
    card = validate_anthropic(type_=anthropic.types.ModelInfo, value=body)
    assert card.capabilities is not None
    able = card.capabilities

    assert (card.max_input_tokens, card.max_tokens) == (1_000_000, 128_000)
    assert (able.image_input.supported, able.pdf_input.supported, able.thinking.supported) == (False, False, True)
    levels = able.effort.to_dict(mode="json")
    assert {level for level in levels if level != "supported" and levels[level]["supported"]} == {
        "low",
        "high",
        "xhigh",
    }
    assert (able.server_tools.web_search.supported, able.server_tools.code_execution.supported) == (True, False)
    assert (card.capabilities.structured_outputs.supported, able.citations.supported) == (True, False)
    assert {name: body[name] for name in [*body][-5:]} == {
        "context_window": 1_000_000,
        "max_output_tokens": 128_000,
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "reasoning_efforts": ["none", "low", "high", "xhigh"],
    }


def test_a_model_without_abilities_says_so() -> None:
    """Nothing is claimed that a request would find missing."""
    able = json.loads(render_model(LISTINGS[0]))["capabilities"]

    assert able["effort"] == {name: {"supported": False} for name in ("low", "medium", "high", "xhigh", "max")} | {
        "supported": False
    }
    assert not able["thinking"]["supported"]
    assert able["thinking"]["types"]["disabled"]["supported"]
    assert able["image_input"]["supported"]
    assert not able["server_tools"]["supported"]


@pytest.mark.parametrize(
    ("card", "date"),
    [
        pytest.param(Card("m", created=1_700_000_000), "2023-11-14T22:13:20+00:00", id="as the service lists it"),
        pytest.param(Card("gpt-4o-2024-08-06"), "2024-08-06T00:00:00+00:00", id="a date in the name"),
        pytest.param(Card("claude-sonnet-4-5-20250929"), "2025-09-29T00:00:00+00:00", id="the same without dashes"),
        pytest.param(Card("gpt-4o-2024-08-06", created=5), "1970-01-01T00:00:05+00:00", id="the list before the name"),
        pytest.param(Card("a-20259999"), "1970-01-01T00:00:00+00:00", id="no date"),
        pytest.param(Card("a-120250101"), "1970-01-01T00:00:00+00:00", id="a longer number"),
        pytest.param(
            Card("m"), "1970-01-01T00:00:00+00:00", id="unknown is the epoch, as the Messages API documents it"
        ),
    ],
)
def test_the_day_it_came_out(card: Card, date: str) -> None:
    """In both APIs' members, and the same."""
    body = json.loads(render_model(Listing(card, "me")))

    read = validate_anthropic(type_=anthropic.types.ModelInfo, value=body)
    assert (read.created_at.isoformat(), read.created_at.timestamp()) == (date, body["created"])


def test_prices_are_those_of_the_operator() -> None:
    """Of one token, as decimal text under the names of OpenRouter's list, which clients multiply; none where there are
    none."""
    rates = Rates(input=1.25e-6, output=1e-5, cache_read=1.25e-7, thinking=2e-5)
    listing = Listing(CARDS[0], "me", price=Price(rates=rates, request=0.01, credit=0.04), currency="EUR")

    assert json.loads(render_model(listing))["pricing"] == {
        "currency": "EUR",
        "prompt": "0.00000125",
        "completion": "0.00001",
        "input_cache_read": "0.000000125",
        "internal_reasoning": "0.00002",
        "request": "0.01",
        "credit": "0.04",
    }
    assert "pricing" not in json.loads(render_model(LISTINGS[0]))
    assert json.loads(render_model(Listing(CARDS[0], "me", price=Price(rates=Rates()))))["pricing"] == {
        "currency": "USD",
        "prompt": "0",
        "completion": "0",
    }


def test_embeddings_answer_nothing() -> None:
    """A model that makes embeddings claims no schema and no citation."""
    body = json.loads(render_model(Listing(Card("e", embeds=True), "me", cites=True)))

    assert body["architecture"]["output_modalities"] == ["embeddings"]
    assert not any(body["capabilities"][name]["supported"] for name in ("structured_outputs", "citations"))
    able = json.loads(render_model(Listing(CARDS[0], "me", cites=True)))["capabilities"]
    assert able["citations"] == {"supported": True}
