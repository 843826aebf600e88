"""Levels of effort and budgets of thinking: two ways to say one thing, of which most services know one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["BUDGETS", "LEVELS", "MIN_BUDGET", "effort_of", "nearest_effort"]

LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort level there is, weakest first."""

MIN_BUDGET: Final = 1_024
"""Tokens; the least that Anthropic's models take."""

BUDGETS: Final[Mapping[str, int]] = MappingProxyType({"minimal": 1_024, "low": 4_000, "medium": 10_000, "high": 20_000})
"""The budget in tokens that a level stands for; beyond them each service has a greatest of its own."""

_EFFORTS: Final = ((10_000, "low"), (20_000, "medium"), (28_000, "high"))
"""Largest budget in tokens that a level stands for; beyond them it is ``max``."""


def effort_of(budget: int) -> str:
    """The level that a budget in tokens stands for."""
    return next((level for largest, level in _EFFORTS if budget <= largest), "max")


def nearest_effort(wanted: str, efforts: Iterable[str]) -> str:
    """The level in *efforts* that comes closest, of two the weaker; empty if there is none."""
    efforts = frozenset(efforts)
    known = [level for level in LEVELS if level in efforts]
    if wanted not in LEVELS:
        return ""
    return min(known, key=lambda level: abs(LEVELS.index(level) - LEVELS.index(wanted)), default="")
