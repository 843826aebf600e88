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

from kiro_asgi.dialects.models import render_model, render_models


@frozen
class Card:
    id: str
    name: str = ""


CARDS = (Card("a/b", "A B"), Card("c"))


def test_one_list_satisfies_both_families() -> None:
    """The strict models of both official SDKs take the list."""
    body = json.loads(render_models(CARDS))
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
    body = json.loads(render_model(card, owner="me"))

    assert validate_anthropic(type_=anthropic.types.ModelInfo, value=body).created_at.timestamp() == body["created"]
    assert validate_openai(type_=openai.types.Model, value=body).owned_by == "me"
    assert body in json.loads(render_models(CARDS, owner="me"))["data"]
