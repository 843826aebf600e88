"""Asking for thinking: in the request fields of models that have them, in words of the prompt for all others.

Every model lists the free fields that it takes, and refuses a request with any other.  Two families are known: one
takes ``output_config.effort`` and ``thinking``, the other ``reasoning.effort``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import BUDGETS, MIN_BUDGET, effort_of, nearest_effort

__all__ = ["MAX_BUDGET", "instruction", "is_native", "options", "wants_tags"]

MAX_BUDGET: Final = 24_576
DEFAULT_BUDGET: Final = 10_000

MIN_OUTPUT: Final = 1_024
"""Least ``max_tokens`` that the service takes."""


def options(prompt: Prompt, model: ModelCard, notes: Notes) -> dict[str, Any]:
    """``additionalModelRequestFields`` for *model*; empty if there is nothing to say, or nowhere to say it."""
    fields = _fields(model)
    chosen: dict[str, Any] = {}
    effort = _effort(prompt.thinking, model.efforts, notes)
    if effort and "output_config" in fields:
        chosen["output_config"] = {"effort": effort}
    if effort and "reasoning" in fields:
        chosen["reasoning"] = {"effort": effort}
    if "thinking" in fields and (switch := _switch(prompt.thinking, bool(model.options_schema))):
        switch = _listed(switch, fields["thinking"])
        if "type" in switch:
            chosen["thinking"] = switch
    if "max_tokens" in fields and prompt.sampling.max_tokens is not None:
        chosen["max_tokens"] = _max_tokens(prompt.sampling.max_tokens, model, notes)
    return chosen


def wants_tags(prompt: Prompt, model: ModelCard, notes: Notes, *, allowed: bool) -> bool:
    """Whether to ask for thinking in tags: where it is wanted, *allowed*, and the model has nothing better."""
    thinking = prompt.thinking
    if is_native(model) or not (thinking.wanted or thinking.effort not in ("", "none")):
        return False
    if allowed and thinking.wanted and notes.applies("thinking.tags"):
        return True
    notes.applies("thinking.unavailable")
    return False


def _max_tokens(wanted: int, model: ModelCard, notes: Notes) -> int:
    bounded = min(max(wanted, MIN_OUTPUT), model.max_output_tokens)
    return bounded if bounded != wanted and notes.applies("sampling.max_tokens", "max_tokens") else wanted


def is_native(model: ModelCard) -> bool:
    """Whether the model can be asked for thinking in request fields."""
    return bool(model.efforts) or "thinking" in _fields(model)


def instruction(thinking: Thinking) -> str:
    """The request for thinking in words; it goes with the current message only, never into history."""
    budget = thinking.budget_tokens or (BUDGETS.get(thinking.effort, MAX_BUDGET) if thinking.effort else DEFAULT_BUDGET)
    budget = min(max(budget, MIN_BUDGET), MAX_BUDGET)
    return (
        "Before you answer, reason about the task step by step. Begin your reply with <thinking>, write the reasoning, "
        f"close it with </thinking> and a blank line, and only then give the answer. Use at most {budget} tokens for "
        "the reasoning, and do not mention it or the tags in the answer."
    )


def _fields(model: ModelCard) -> Mapping[str, Any]:
    """The free fields that the model takes; for a model that only our own table knows, those of its family."""
    properties = model.options_schema.get("properties")
    if isinstance(properties, Mapping):
        return properties
    if not model.efforts:
        return {}
    return {"reasoning": {}} if model.id.startswith("gpt-") else {"output_config": {}, "thinking": {}}


def _listed(switch: dict[str, str], schema: Any) -> dict[str, str]:
    """Of *switch* what *schema* has room for: the service refuses every other member and value."""
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(members, Mapping):
        return switch
    return {
        name: value
        for name, value in switch.items()
        if isinstance(member := members.get(name), Mapping) and value in (member.get("enum") or (value,))
    }


def _effort(thinking: Thinking, efforts: tuple[str, ...], notes: Notes) -> str:
    if thinking.mode is ThinkingMode.DISABLED or thinking.effort == "none":
        return "none" if "none" in efforts else ""
    wanted = thinking.effort
    if not wanted and thinking.budget_tokens is not None:
        wanted = effort_of(thinking.budget_tokens)
    nearest = nearest_effort(wanted, tuple(level for level in efforts if level != "none"))
    return nearest if nearest == wanted or not efforts or notes.applies("thinking.effort") else wanted


def _switch(thinking: Thinking, certain: bool) -> dict[str, str]:
    """Summaries are asked for by name: by default, what an adaptive model thinks is not shown."""
    if thinking.wanted:
        return {"type": "adaptive", "display": "summarized"}
    return {"type": "disabled"} if certain and thinking.mode is ThinkingMode.DISABLED else {}
