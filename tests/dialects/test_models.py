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
