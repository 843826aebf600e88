"""Options of an answer: thinking, the greatest length, of which thinking is a part, and sampling.

=================  ==========================================================================================
the model          what it is sent
=================  ==========================================================================================
thinks in budgets  ``{"type": "enabled", "budget_tokens": …}``; an effort becomes the budget that it stands for
is adaptive        ``{"type": "adaptive"}`` and ``output_config.effort``, the nearest level that it has; a budget
                   becomes the level that it stands for.  One that takes both is sent a budget if the client names one
does not think     nothing
=================  ==========================================================================================

Sources: https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
https://docs.claude.com/en/docs/build-with-claude/effort
"""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Sampling, Thinking, ThinkingMode, ToolChoiceMode
from kiro_asgi.upstreams.anthropic.models import ClaudeFamily
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import BUDGETS, MIN_BUDGET, effort_of, nearest_effort

GREATEST: Final = 32_000
"""Tokens of a budget for the strongest efforts."""

DEFAULT_BUDGET: Final = 10_000

DEFAULT_LENGTH: Final = 32_000
"""Tokens of an answer, thinking not counted, whose client names no limit; the service wants one."""


@frozen
class _ThinkingRequest:
    """A request for thinking, and the model that it is for."""

    prompt: Prompt
    model: ModelCard
    family: ClaudeFamily
    notes: Notes


def thinks(prompt: Prompt, family: ClaudeFamily, resumed: bool, notes: Notes) -> bool:
    """Whether to ask for thinking.

    Args:
        prompt: What is asked.
        family: Of the model.
        resumed: Whether the last turn hands over results of calls of a turn that does not begin with thinking.
        notes: Why not.
    """
    if not prompt.thinking.wanted:
        return False
    if not family.thinks:
        return not notes.applies("thinking.unavailable")
    if prompt.tools and prompt.tool_choice.mode in (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED):
        return not notes.applies("thinking.forced_call", "tool_choice")
    if _is_adaptive(prompt, family):
        return True
    if resumed:
        return not notes.applies("thinking.resumed")
    longest = prompt.sampling.max_tokens
    if longest is not None and longest <= MIN_BUDGET:  # a longer answer than was asked for is the client's to pay
        return not notes.applies("thinking.max_tokens", "max_tokens")
    return True


def _is_adaptive(prompt: Prompt, family: ClaudeFamily) -> bool:
    return family.adaptive and not (family.budgets and prompt.thinking.budget_tokens)


def length_and_thinking(
    prompt: Prompt, model: ModelCard, family: ClaudeFamily, notes: Notes, *, thinking: bool
) -> dict[str, Any]:
    """``max_tokens``, ``thinking`` and ``output_config``; *thinking* says whether to ask for it."""
    asked = _ThinkingRequest(prompt, model, family, notes)
    if thinking and not _is_adaptive(prompt, family):
        return _within_budget(asked)
    fields: dict[str, Any] = {"max_tokens": _length(asked)}
    if thinking:
        if prompt.thinking.budget_tokens is not None:
            notes.applies("thinking.adaptive", "thinking")
        display = "omitted" if prompt.thinking.omitted else "summarized"
        fields["thinking"] = {"type": "adaptive", "display": display}
    elif prompt.thinking.mode is ThinkingMode.DISABLED and family.thinks:
        fields["thinking"] = {"type": "disabled"}
    effort = _effort(asked, thinking)
    return {**fields, "output_config": {"effort": effort}} if effort else fields


def _effort(asked: _ThinkingRequest, thinking: bool) -> str:
    """The level to name; empty for none."""
    wanted = _wanted_effort(asked.prompt.thinking, thinking)
    if not wanted:
        return ""
    nearest = nearest_effort(wanted, asked.model.efforts)
    if nearest != wanted:
        asked.notes.applies("thinking.effort")
    return nearest


def _wanted_effort(wanted: Thinking, thinking: bool) -> str:
    if wanted.effort or not thinking or wanted.budget_tokens is None:
        return "" if wanted.effort == "none" else wanted.effort
    return effort_of(wanted.budget_tokens)


def _length(asked: _ThinkingRequest, besides: int = 0) -> int:
    """The greatest length of the answer; *besides* are tokens of thinking, where the client names no limit."""
    wanted, most = asked.prompt.sampling.max_tokens, asked.model.max_output_tokens
    if wanted is None:
        asked.notes.applies("sampling.max_tokens_default")
        return min(DEFAULT_LENGTH + besides, most)
    bounded = min(max(wanted, 1), most)
    if bounded != wanted:
        asked.notes.applies("sampling.max_tokens", "max_tokens")
    return bounded


def _within_budget(asked: _ThinkingRequest) -> dict[str, Any]:
    """A budget of the least size or more, and a length that is greater."""
    wanted = _budget(asked)
    length = _length(asked, wanted)
    budget = max(wanted if wanted < length else length // 2, MIN_BUDGET)
    if budget != wanted:
        asked.notes.applies("thinking.budget", "thinking")
    display = {"display": "omitted"} if asked.prompt.thinking.omitted else {}
    return {"max_tokens": length, "thinking": {"type": "enabled", "budget_tokens": budget, **display}}


def _budget(asked: _ThinkingRequest) -> int:
    wanted = asked.prompt.thinking
    if wanted.budget_tokens is not None:
        return wanted.budget_tokens
    if wanted.effort:
        asked.notes.applies("thinking.effort")
        return BUDGETS.get(wanted.effort, GREATEST)
    return DEFAULT_BUDGET


LAST_SAMPLED: Final = "2026-10-21"
"""Version of the API that is the first without temperature, ``top_p`` and ``top_k``."""


def sampling_fields(
    sampling: Sampling, family: ClaudeFamily, version: str, notes: Notes, *, thinking: bool
) -> dict[str, Any]:
    """``temperature``, ``top_p``, ``top_k`` and ``stop_sequences``.

    Args:
        sampling: What the client says.
        family: Of the model.
        version: Of the API, a date.
        notes: What was not carried.
        thinking: Whether thinking is asked for.
    """
    for name in sampling.given(("seed", "presence_penalty", "frequency_penalty")):
        notes.applies("sampling.ignored", name)
    fields = {name: getattr(sampling, name) for name in sampling.given(("temperature", "top_p", "top_k"))}
    refused = not family.sampled or version >= LAST_SAMPLED
    if refused or thinking:
        for name in fields:
            notes.applies("sampling.model" if refused else "sampling.thinking", name)
        fields = {}
    if fields.get("temperature", 0) > 1:
        notes.applies("sampling.temperature", "temperature")
        fields["temperature"] = 1
    if family.sampled_once and "temperature" in fields and "top_p" in fields:
        notes.applies("sampling.top_p", "top_p")
        del fields["top_p"]
    return {**fields, **_stop(sampling.stop, notes)}


def _stop(sequences: tuple[str, ...], notes: Notes) -> dict[str, Any]:
    kept = [sequence for sequence in sequences if sequence and not sequence.isspace()]
    if len(kept) != len(sequences):
        notes.applies("sampling.stop_blank", "stop_sequences")
    return {"stop_sequences": kept} if kept else {}
