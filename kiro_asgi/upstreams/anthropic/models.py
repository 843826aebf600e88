"""Which models there are.

The service's own list is what counts; the table here stands in for it where, and as long as, there is none.

Sources: https://docs.anthropic.com/en/api/models-list, https://docs.claude.com/en/docs/about-claude/models/overview
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from attrs import evolve

from kiro_asgi.upstreams.anthropic.families import family, normalise
from kiro_asgi.upstreams.base import ModelCard, ModelPage, ThinkingForm
from kiro_asgi.upstreams.models import LEVELS, limit_of, listed, read_listing
from kiro_asgi.wire.members import object_of, text_of

__all__ = ["KNOWN", "models_path", "parse_models"]

MILLION: Final = 1_000_000
FOUR: Final = ("low", "medium", "high", "max")
FIVE: Final = ("low", "medium", "high", "xhigh", "max")

_FORMS: Final[Mapping[str, ThinkingForm]] = MappingProxyType(
    {"enabled": ThinkingForm.BUDGET, "adaptive": ThinkingForm.EFFORT}
)
"""Value of ``thinking.type`` to what it means."""


def _known(model: str, name: str = "", window: int = 200_000, answer: int = 64_000, *efforts: str) -> ModelCard:
    return ModelCard(model, name, window, answer, efforts=efforts, thinking=family(model).forms)


KNOWN: Final[tuple[ModelCard, ...]] = (
    _known("claude-opus-4-7", "Claude Opus 4.7", MILLION, 128_000, *FIVE),
    _known("claude-opus-4-6", "Claude Opus 4.6", MILLION, 128_000, *FOUR),
    _known("claude-sonnet-4-6", "Claude Sonnet 4.6", MILLION, 64_000, *FOUR),
    _known("claude-opus-4-5-20251101", "Claude Opus 4.5"),
    _known("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5"),
    _known("claude-haiku-4-5-20251001", "Claude Haiku 4.5"),
    _known("claude-opus-4-1-20250805", "Claude Opus 4.1", 200_000, 32_000),
    _known("claude-opus-4-20250514", "Claude Opus 4", 200_000, 32_000),
    _known("claude-sonnet-4-20250514", "Claude Sonnet 4"),
)
"""What the documentation names; of two windows the one that needs no asking, of two lengths the smaller."""


def models_path(page: str) -> str:
    """Path of the list of models, or of the part of it behind the model *page*."""
    return f"/v1/models?{urlencode({'limit': '1000', **({'after_id': page} if page else {})})}"


def parse_models(body: bytes) -> ModelPage:
    """The models of an answer, in its order; absent facts have our defaults.

    Raises:
        UpstreamProtocolError: Not a JSON object.
    """
    listing = read_listing(body, dict)
    following = text_of(listing, "last_id") if listing.get("has_more") is True else ""
    return ModelPage(listed(listing.get("data"), _card), following)


def _card(entry: Any) -> ModelCard | None:
    model = text_of(entry, "id") if type(entry) is dict else ""
    if not model:
        return None
    known = next((card for card in KNOWN if normalise(card.id) == normalise(model)), _known(model))
    abilities = entry.get("capabilities")
    return evolve(
        known,
        id=model,
        name=text_of(entry, "display_name") or known.name,
        context_window=limit_of(entry, "max_input_tokens", known.context_window),
        max_output_tokens=limit_of(entry, "max_tokens", known.max_output_tokens),
        **(_abilities(abilities, known) if type(abilities) is dict else {}),
    )


def _abilities(abilities: Mapping[str, Any], known: ModelCard) -> dict[str, Any]:
    """What a model's ``capabilities`` say about images, levels of effort, schemas, and thinking."""
    effort = abilities.get("effort")
    levels = (level for level in LEVELS if _supported(effort, level)) if type(effort) is dict else known.efforts
    images = _supported(abilities, "image_input") if "image_input" in abilities else known.images
    schemas = _supported(abilities, "structured_outputs") if "structured_outputs" in abilities else known.schemas
    return {
        "images": images,
        "efforts": tuple(levels),
        "schemas": schemas,
        "thinking": _thinking(abilities, known),
    }


def _thinking(abilities: Mapping[str, Any], known: ModelCard) -> frozenset[ThinkingForm] | None:
    if "thinking" not in abilities:
        return known.thinking
    if not _supported(abilities, "thinking"):
        return frozenset()
    types = object_of(object_of(abilities["thinking"]).get("types"))
    return frozenset(form for kind, form in _FORMS.items() if _supported(types, kind)) or known.thinking


def _supported(abilities: Mapping[str, Any], name: str) -> bool:
    ability = abilities.get(name)
    return type(ability) is dict and ability.get("supported") is True
