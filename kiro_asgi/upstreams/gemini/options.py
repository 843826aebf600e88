"""``generationConfig``: sampling, and thinking.

Thinking is a budget in tokens for the models of 2.5, a level for those after them, and never both.

The service refuses a number that is out of its bounds, so such a number becomes the nearest that it takes.

Sources: https://ai.google.dev/api/generate-content#generationconfig, https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Sampling, Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.gemini.models import GeminiFamily
from kiro_asgi.upstreams.models import BUDGETS, effort_of, nearest_effort

DYNAMIC: Final = -1
"""The budget that leaves it to the model how much to think."""


def thinking_config(thinking: Thinking, family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """``thinkingConfig``; empty where there is nothing to say, or nobody to say it to.

    Thoughts are shown only to those who asked for thinking.
    """
    if thinking.mode is ThinkingMode.DISABLED or thinking.effort == "none":
        return _off(family, notes)
    if not (thinking.wanted or thinking.effort):
        return {}
    if not family.levels and family.budgets is None:
        notes.applies("thinking.unavailable")
        return {}
    config: dict[str, Any] = {"includeThoughts": True} if thinking.wanted else {}
    if family.levels:
        level = _level(thinking, family.levels, notes)
        return {**config, "thinkingLevel": level} if level else config
    return {**config, "thinkingBudget": _budget(thinking, family, notes)}


def _off(family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """As little thinking as there can be."""
    if family.levels:
        notes.applies("thinking.not_off")
        return {"thinkingLevel": family.levels[0]}
    if family.budgets is None:
        return {}
    if family.can_rest:
        return {"thinkingBudget": 0}
    notes.applies("thinking.not_off")
    return {"thinkingBudget": family.budgets[0]}


def _level(thinking: Thinking, levels: tuple[str, ...], notes: Notes) -> str:
    """The level to ask for; empty for the model's own."""
    wanted = thinking.effort
    if not wanted and thinking.budget_tokens is not None:
        notes.applies("thinking.budget_as_level")
        return nearest_effort(effort_of(thinking.budget_tokens), levels)
    nearest = nearest_effort(wanted, levels)
    if nearest != wanted:
        notes.applies("thinking.effort")
    return nearest


def _budget(thinking: Thinking, family: GeminiFamily, notes: Notes) -> int:
    least, most = family.budgets or (0, 0)
    if thinking.budget_tokens is None:
        return min(max(BUDGETS.get(thinking.effort, most), least), most) if thinking.effort else DYNAMIC
    budget = min(max(thinking.budget_tokens, least), most)
    if budget != thinking.budget_tokens:
        notes.applies("thinking.budget")
    return budget


MAX_STOPS: Final = 5
"""Stop sequences of one request."""

BOUNDS: Final[Mapping[str, tuple[str, float, float]]] = MappingProxyType(
    {
        "temperature": ("temperature", 0.0, 2.0),
        "top_p": ("topP", 0.0, 1.0),
        "top_k": ("topK", 1, 64),
    }
)
"""Field of `Sampling` to the service's name for it, and its bounds."""

PENALTIES: Final[Mapping[str, tuple[str, float, float]]] = MappingProxyType(
    {"presence_penalty": ("presencePenalty", -2.0, 1.99), "frequency_penalty": ("frequencyPenalty", -2.0, 1.99)}
)
"""The same for what only some models take; 2 itself is refused."""

MAX_SEED: Final = 0x7FFF_FFFF


def generation_config(prompt: Prompt, model: ModelCard, family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """The fields that say something; empty where the client said nothing.

    Args:
        prompt: What is asked.
        model: Of whom.
        family: The model's.
        notes: What was adapted.
    """
    sampling = prompt.sampling
    config: dict[str, Any] = _bounded(sampling, BOUNDS, notes)
    if family.penalties:
        config |= _bounded(sampling, PENALTIES, notes)
    else:
        for name in sampling.given(PENALTIES):
            notes.applies("sampling.penalties", name)
    if sampling.seed is not None:
        config["seed"] = sampling.seed & MAX_SEED
        if config["seed"] != sampling.seed:
            notes.applies("sampling.bounds", "seed")
    if stops := _stops(sampling.stop, notes):
        config["stopSequences"] = stops
    thinking = thinking_config(prompt.thinking, family, notes)
    if sampling.max_tokens is not None:
        config["maxOutputTokens"] = _max_tokens(sampling.max_tokens, thinking, model, family, notes)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def _bounded(sampling: Sampling, bounds: Mapping[str, tuple[str, float, float]], notes: Notes) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, (wire, least, most) in bounds.items():
        value = getattr(sampling, name)
        if value is None:
            continue
        config[wire] = min(max(value, least), most)
        if config[wire] != value:
            notes.applies("sampling.bounds", name)
    return config


def _stops(stops: tuple[str, ...], notes: Notes) -> list[str]:
    """The first of them, as many as the service takes; whoever reads the answer sees to the others."""
    said = [stop for stop in stops if stop]  # an empty one would end an answer before it begins
    if len(said) > MAX_STOPS:
        notes.applies("sampling.stops", "stop")
    return said[:MAX_STOPS]


def _max_tokens(wanted: int, thinking: dict[str, Any], model: ModelCard, family: GeminiFamily, notes: Notes) -> int:
    """The greatest length, which thoughts share: a budget leaves half of it to the answer, as far as it can."""
    bounded = min(max(wanted, 1), model.max_output_tokens)
    budget = thinking.get("thinkingBudget", 0)
    if budget >= bounded and family.budgets and (halved := max(bounded // 2, family.budgets[0])) < budget:
        thinking["thinkingBudget"] = budget = halved
        notes.applies("thinking.budget")
    if budget >= bounded:
        bounded = min(bounded + budget, model.max_output_tokens)
    if bounded != wanted:
        notes.applies("sampling.max_tokens", "max_tokens")
    return bounded
