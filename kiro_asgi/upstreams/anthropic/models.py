"""Models: the known ones, the spellings of their names, and the traits of each family.

The service's own list counts; the table here stands in for it where, and as long as, there is none.

Sources: https://docs.anthropic.com/en/api/models-list, https://docs.claude.com/en/docs/about-claude/models/overview
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from attrs import evolve, frozen

from kiro_asgi.upstreams.base import ModelCard, ModelPage, ThinkingForm
from kiro_asgi.upstreams.models import LEVELS, limit_of, listed, moment_of, read_listing
from kiro_asgi.wire.json import object_of, text_of

MAX_NAME: Final = 200
"""Characters of a name that is looked at; nothing longer is a model."""

Rewriting = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_KIND: Final = "[a-z]{2,20}"
"""Name of a kind of models: of the next one, too, the version says how it is asked."""

_MAJOR: Final = "([4-9]|[1-9][0-9])"
"""Versions since which the kind stands before them."""

REWRITINGS: Final[tuple[Rewriting, ...]] = (
    (re.compile(r"^(?:anthropic|claude)/"), ""),
    (re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.(?=claude)"), ""),
    (re.compile(r"(?<!\s)\s*+\[[0-9]+[km]\]$"), ""),
    (re.compile(r"(?<=.)(?:-latest|[-@][0-9]{8}|-20[0-9]{2}-[0-9]{2}-[0-9]{2})$"), ""),
    (re.compile(r"^(claude-.*)-v[0-9](?:[:-][0-9]+)?$"), r"\1"),
    (re.compile(r"(?<=[0-9])\.(?=[0-9])"), "-"),
    (re.compile(rf"^claude-{_MAJOR}(?:-([0-9]{{1,2}}))?-({_KIND})$"), lambda match: _inverted(*match.groups())),
    (re.compile(rf"^(claude-{_KIND}-[0-9]{{1,2}})-0$"), r"\1"),
)
"""Applied until nothing changes: a model is ``claude-KIND-MAJOR[-MINOR]``, or ``claude-3-MINOR-KIND`` before that."""

_VERSION: Final = re.compile(
    rf"claude-(?:{_KIND}-([0-9]{{1,2}})(?:-([0-9]{{1,2}}))?|([0-9])(?:-([0-9]))?-{_KIND})(?![0-9])"
)


def _inverted(major: str, minor: str | None, kind: str) -> str:
    return f"claude-{kind}-{major}-{minor}" if minor else f"claude-{kind}-{major}"


def normalise(name: str) -> str:
    """The one spelling of a model's name, with dashes and without a date; other services' names lose their case."""
    name = name.strip()
    if len(name) > MAX_NAME:
        return name
    name, before = name.lower(), ""
    while name != before:
        before = name
        for pattern, replacement in REWRITINGS:
            name = pattern.sub(replacement, name).strip()
    return name


@frozen
class ClaudeFamily:
    """Traits of a family of models."""

    budgets: bool = True
    """Whether it thinks within a budget that a request names."""

    adaptive: bool = False
    """Whether it decides by itself how much to think."""

    sampled: bool = True
    """Whether it takes temperature, ``top_p`` and ``top_k``."""

    sampled_once: bool = False
    """Whether it takes either temperature or ``top_p``."""

    prefilled: bool = True
    """Whether it goes on from an assistant's last turn."""

    formed: bool = False
    """Whether its answers can be held to a JSON Schema."""

    efforts: tuple[str, ...] = ()
    """Levels of effort, weakest first."""

    context_window: int = 200_000
    """Tokens; of two windows the one that needs no beta."""

    max_output_tokens: int = 64_000
    """Tokens; of two lengths the smaller."""

    @property
    def thinks(self) -> bool:
        """Whether it can be asked for thinking at all."""
        return self.budgets or self.adaptive

    @property
    def forms(self) -> frozenset[ThinkingForm]:
        """How it can be asked for thinking."""
        able = {ThinkingForm.BUDGET: self.budgets, ThinkingForm.EFFORT: self.adaptive}
        return frozenset(form for form, takes in able.items() if takes)


MILLION: Final = 1_000_000
FOUR: Final = ("low", "medium", "high", "max")
FIVE: Final = ("low", "medium", "high", "xhigh", "max")

FAMILIES: Final[tuple[tuple[tuple[int, int], ClaudeFamily], ...]] = (
    (
        (4, 7),
        ClaudeFamily(
            budgets=False, adaptive=True, sampled=False, prefilled=False, formed=True,
            efforts=FIVE, context_window=MILLION, max_output_tokens=128_000,
        ),
    ),
    (
        (4, 6),
        ClaudeFamily(
            adaptive=True, sampled_once=True, prefilled=False, formed=True, efforts=FOUR, context_window=MILLION
        ),
    ),
    ((4, 5), ClaudeFamily(sampled_once=True, formed=True)),
    ((4, 1), ClaudeFamily(sampled_once=True)),
    ((3, 7), ClaudeFamily()),
    ((0, 0), ClaudeFamily(budgets=False)),
)  # fmt: skip
"""First version, newest first, to the family from there on."""

UNKNOWN: Final = ClaudeFamily()
"""A model whose name has no version is asked in the oldest form."""


def family(model: str) -> ClaudeFamily:
    """The family of *model*, under any of its names."""
    match = _VERSION.match(normalise(model))
    if match is None:
        return UNKNOWN
    major, minor = match[1] or match[3], match[2] or match[4] or "0"
    return next(found for first, found in FAMILIES if first <= (int(major), int(minor)))


def listed_family(model: ModelCard) -> ClaudeFamily:
    """The family of *model* by its name; for thinking and schemas the service's list takes precedence."""
    named, forms = family(model.id), model.thinking
    if model.schemas is not None:
        named = evolve(named, formed=model.schemas)
    if forms is None:
        return named
    return evolve(named, budgets=ThinkingForm.BUDGET in forms, adaptive=ThinkingForm.EFFORT in forms)


_FORMS: Final[Mapping[str, ThinkingForm]] = MappingProxyType(
    {"enabled": ThinkingForm.BUDGET, "adaptive": ThinkingForm.EFFORT}
)
"""Value of ``thinking.type`` to its meaning."""


def named(model: str, name: str = "", answer: int = 0) -> ModelCard:
    """The card of *model* as far as its name shows it.

    Args:
        model: The id.
        name: For people.
        answer: Tokens of the longest answer, where it is not its family's.
    """
    traits = family(model)
    longest = answer or traits.max_output_tokens
    return ModelCard(model, name, traits.context_window, longest, efforts=traits.efforts, thinking=traits.forms)


KNOWN: Final[tuple[ModelCard, ...]] = (
    named("claude-mythos-5-2", "Claude Mythos 5.2"),
    named("claude-opus-5-5", "Claude Opus 5.5"),
    named("claude-opus-5", "Claude Opus 5"),
    named("claude-sonnet-5", "Claude Sonnet 5"),
    named("claude-opus-4-8", "Claude Opus 4.8"),
    named("claude-opus-4-7", "Claude Opus 4.7"),
    named("claude-opus-4-6", "Claude Opus 4.6", 128_000),
    named("claude-sonnet-4-6", "Claude Sonnet 4.6"),
    named("claude-opus-4-5-20251101", "Claude Opus 4.5"),
    named("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5"),
    named("claude-haiku-4-5-20251001", "Claude Haiku 4.5"),
    named("claude-opus-4-1-20250805", "Claude Opus 4.1", 32_000),
    named("claude-opus-4-20250514", "Claude Opus 4", 32_000),
    named("claude-sonnet-4-20250514", "Claude Sonnet 4"),
)
"""The models that the documentation names."""


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
    known = next((card for card in KNOWN if normalise(card.id) == normalise(model)), named(model))
    abilities = entry.get("capabilities")
    return evolve(
        known,
        id=model,
        name=text_of(entry, "display_name") or known.name,
        context_window=limit_of(entry, "max_input_tokens", known.context_window),
        max_output_tokens=limit_of(entry, "max_tokens", known.max_output_tokens),
        created=moment_of(entry.get("created_at")),
        **(_abilities(abilities, known) if type(abilities) is dict else {}),
    )


def _abilities(abilities: Mapping[str, Any], known: ModelCard) -> dict[str, Any]:
    """Read a model's ``capabilities``: images, levels of effort, schemas, and thinking."""
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
