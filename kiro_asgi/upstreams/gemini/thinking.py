"""Asking for thinking: a budget in tokens for the models of 2.5, a level for those after them, and never both.

Source: https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Thinking, ThinkingMode
from kiro_asgi.upstreams.gemini.models import Family
from kiro_asgi.upstreams.models import BUDGETS, effort_of, nearest_effort

__all__ = ["DYNAMIC", "thinking_config"]

DYNAMIC: Final = -1
"""The budget that leaves it to the model how much to think."""


def thinking_config(thinking: Thinking, family: Family, notes: Notes) -> dict[str, Any]:
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


def _off(family: Family, notes: Notes) -> dict[str, Any]:
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


def _budget(thinking: Thinking, family: Family, notes: Notes) -> int:
    least, most = family.budgets or (0, 0)
    if thinking.budget_tokens is None:
        return min(max(BUDGETS.get(thinking.effort, most), least), most) if thinking.effort else DYNAMIC
    budget = min(max(thinking.budget_tokens, least), most)
    if budget != thinking.budget_tokens:
        notes.applies("thinking.budget")
    return budget
