"""Models: the known ones, and the traits of each family.

The service's own list counts; the table here stands in for it where, and as long as, there is none.

Source: https://ai.google.dev/gemini-api/docs/models
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from attrs import evolve, frozen

from kiro_asgi.upstreams.base import ModelCard, ModelPage, ThinkingForm, UpstreamRequest
from kiro_asgi.upstreams.models import limit_of, listed, read_listing
from kiro_asgi.wire.json import objects_of, text_of

TWO_LEVELS: Final = ("low", "high")
THREE_LEVELS: Final = ("low", "medium", "high")
FOUR_LEVELS: Final = ("minimal", "low", "medium", "high")


@frozen(kw_only=True)
class GeminiFamily:
    """Traits of a family of models."""

    budgets: tuple[int, int] | None = None
    """Least and greatest thinking budget in tokens; ``None``: the model takes none."""

    can_rest: bool = True
    """Whether a budget of 0 turns thinking off."""

    levels: tuple[str, ...] = ()
    """Thinking levels, weakest first; a model that has some is sent no budget."""

    signs_calls: bool = False
    """Whether a call of the current turn must come back with its signature."""

    schema_with_tools: bool = False
    """Whether the answer may have a schema while tools are offered."""

    json_schema: bool = False
    """Whether the answer's schema may be JSON Schema, and not only the service's own part of OpenAPI."""

    penalties: bool = False
    """Whether presence and frequency penalties are taken."""

    @property
    def forms(self) -> frozenset[ThinkingForm]:
        """How it can be asked for thinking."""
        if self.levels:
            return frozenset({ThinkingForm.EFFORT})
        return frozenset({ThinkingForm.BUDGET} if self.budgets else ())


FAMILIES: Final[tuple[tuple[re.Pattern[str], GeminiFamily], ...]] = (
    (re.compile(r"gemini-(?:[3-9]|[1-9][0-9]).*-image"), GeminiFamily(signs_calls=True)),
    (re.compile(r"gemini-2\.5.*-image|.*-tts"), GeminiFamily()),
    (
        re.compile(r"gemini-3-pro"),
        GeminiFamily(levels=TWO_LEVELS, signs_calls=True, schema_with_tools=True, json_schema=True),
    ),
    (
        re.compile(r"gemini-(?:[3-9]|[1-9][0-9])(?:\.[0-9]+)?-flash"),
        GeminiFamily(levels=FOUR_LEVELS, signs_calls=True, schema_with_tools=True, json_schema=True),
    ),
    (
        re.compile(r"gemini-(?:[3-9]|[1-9][0-9])"),
        GeminiFamily(levels=THREE_LEVELS, signs_calls=True, schema_with_tools=True, json_schema=True),
    ),
    (
        re.compile(r"gemini-2\.5-pro|gemini-pro-latest"),
        GeminiFamily(budgets=(128, 32_768), can_rest=False, json_schema=True),
    ),
    (re.compile(r"gemini-(?:2\.5-)?flash-lite"), GeminiFamily(budgets=(512, 24_576), json_schema=True)),
    (re.compile(r"gemini-2\.5-flash|gemini-flash-latest"), GeminiFamily(budgets=(1, 24_576), json_schema=True)),
    (re.compile(r"gemini-2\.0-flash"), GeminiFamily(penalties=True)),
)
"""Beginning of a model's id to its family; the first that fits.  The names that end in ``latest`` may mean a model that
has levels: those take a budget as well, if they are sent no level."""

_UNKNOWN: Final = GeminiFamily()

_BUDGETS: Final = (512, 24_576)
"""Bounds that every model with a budget takes, for one of which only that it thinks is known."""


def family_of(model: str) -> GeminiFamily:
    """The family of a model, by its id."""
    return next((family for beginning, family in FAMILIES if beginning.match(model)), _UNKNOWN)


def listed_family(model: ModelCard) -> GeminiFamily:
    """The family of *model* by its id; whether it thinks, the service's list decides."""
    named = family_of(model.id)
    if model.thinking is None or bool(model.thinking) is bool(named.forms):
        return named
    if model.thinking:
        return evolve(named, budgets=_BUDGETS, can_rest=False)
    return evolve(named, budgets=None, levels=())


def _known(model: str, name: str, window: int = 1_048_576, answer: int = 65_536) -> ModelCard:
    family = family_of(model)
    return ModelCard(model, name, window, answer, efforts=family.levels, thinking=family.forms)


KNOWN: Final[tuple[ModelCard, ...]] = (
    _known("gemini-2.5-pro", "Gemini 2.5 Pro"),
    _known("gemini-2.5-flash", "Gemini 2.5 Flash"),
    _known("gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite"),
    _known("gemini-3-pro-preview", "Gemini 3 Pro Preview"),
    _known("gemini-3-flash-preview", "Gemini 3 Flash Preview"),
    _known("gemini-3.1-pro-preview", "Gemini 3.1 Pro Preview"),
)
"""The models that the documentation names.  Windows are of the prompt alone."""


EMBEDDING: Final[tuple[ModelCard, ...]] = (
    ModelCard(
        "gemini-embedding-001",
        "Gemini Embedding 001",
        context_window=2_048,
        max_output_tokens=0,
        images=False,
        thinking=frozenset(),
        embeds=True,
    ),
)
"""Its embedding models."""


def normalise(model: str) -> str:
    """One spelling: a model's id without ``models/``, which the service writes before it, or ``google/``."""
    return model.strip().removeprefix("google/").removeprefix("models/")


def models_request(base: str, headers: tuple[tuple[bytes, bytes], ...], page: str) -> UpstreamRequest:
    """Ask for the list of models; *page* is the ``nextPageToken`` of the answer before."""
    query = {"pageSize": "1000", **({"pageToken": page} if page else {})}
    return UpstreamRequest("GET", f"{base}/v1beta/models?{urlencode(query)}", headers)


def parse_models(body: bytes) -> ModelPage:
    """The models of an answer that generate content or make embeddings, in its order; absent facts have our defaults.

    Raises:
        UpstreamProtocolError: Not a JSON object.
    """
    listing = read_listing(body, dict)
    return ModelPage(listed(objects_of(listing.get("models")), _card), text_of(listing, "nextPageToken"))


def _card(entry: Mapping[str, Any]) -> ModelCard | None:
    model, methods = normalise(text_of(entry, "name")), entry.get("supportedGenerationMethods")
    known_methods = methods if type(methods) is list else ()
    if not model:
        return None
    if "generateContent" not in known_methods:
        return _embedding(model, entry) if "embedContent" in known_methods else None
    known = next((card for card in KNOWN if card.id == model), _known(model, ""))
    if entry.get("thinking") is False:
        known = evolve(known, efforts=(), thinking=frozenset())
    elif entry.get("thinking") is True and not known.thinking:
        known = evolve(known, thinking=frozenset({ThinkingForm.BUDGET}))
    return evolve(
        known,
        name=text_of(entry, "displayName") or known.name,
        context_window=limit_of(entry, "inputTokenLimit", known.context_window),
        max_output_tokens=limit_of(entry, "outputTokenLimit", known.max_output_tokens),
    )


def _embedding(model: str, entry: Mapping[str, Any]) -> ModelCard:
    window = limit_of(entry, "inputTokenLimit", EMBEDDING[0].context_window)
    return evolve(EMBEDDING[0], id=model, name=text_of(entry, "displayName"), context_window=window)
