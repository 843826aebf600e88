"""How hard to think, from a budget of tokens."""

from __future__ import annotations

from typing import Final

from kiro_asgi.model.prompt import Thinking, ThinkingMode

__all__ = ["BUDGETS", "effort_of", "reasoning_effort_from_budget"]

BUDGETS: Final = (50, 200)
"""Largest budgets, in tokens, that mean low and medium effort."""


def reasoning_effort_from_budget(budget: int | None, low: int = BUDGETS[0], medium: int = BUDGETS[1]) -> str:
    """``low``, ``medium`` or ``high``.

    Args:
        budget: Tokens; ``None``, where nobody said, is ``high``.
        low: The largest budget that is ``low``.
        medium: The largest budget that is ``medium``.
    """
    if budget is None or budget > medium:
        return "high"
    return "low" if budget <= low else "medium"


def effort_of(thinking: Thinking, budgets: tuple[int, ...]) -> str:
    """The effort that a client asks for: in so many words, else by its budget.

    ``none`` where it declined thinking, empty where it did not speak of it.
    """
    if thinking.mode is ThinkingMode.DISABLED:
        return "none"
    return thinking.effort or (
        reasoning_effort_from_budget(thinking.budget_tokens, *budgets) if thinking.wanted else ""
    )
