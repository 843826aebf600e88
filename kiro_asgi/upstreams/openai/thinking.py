"""How hard the model is to think.

Which models think, and which efforts each of them knows, is only known for OpenAI's own, and where a server lists it;
whoever asks for thinking in so many words is believed to know about any other.

Source: https://platform.openai.com/docs/guides/reasoning
"""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import effort_of, nearest_effort

__all__ = ["efforts_of", "reasoning_effort", "refuses_sampling"]

_USUAL: Final = ("low", "medium", "high")
_FIVE: Final = ("minimal", *_USUAL)
_FIVE_ONE: Final = ("none", *_USUAL)
_NEWEST: Final = ("none", *_USUAL, "xhigh")

_FAMILIES: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (re.compile(r"gpt-5(\.\d+)?-chat"), ()),
    (re.compile(r"gpt-5(\.[2-9]|\.1-codex-max)|gpt-[6-9]"), _NEWEST),
    (re.compile(r"gpt-5\.1"), _FIVE_ONE),
    (re.compile(r"gpt-5"), _FIVE),
    (re.compile(r"o[1-9]\b"), _USUAL),
    (re.compile(r"gpt-[34]|chatgpt-"), ()),
)
"""Beginning of a model's name to the efforts that it knows; the first that fits counts."""


def efforts_of(model: str) -> tuple[str, ...] | None:
    """Efforts that OpenAI's model of this name knows, weakest first; ``None`` for a name that is not OpenAI's."""
    name = _bare(model)
    return next((efforts for pattern, efforts in _FAMILIES if pattern.match(name)), None)


def refuses_sampling(model: str) -> bool:
    """Whether this model draws tokens in its own way only."""
    return bool(efforts_of(model))


def reasoning_effort(prompt: Prompt, model: ModelCard, notes: Notes) -> str:
    """The value of ``reasoning_effort``; empty where it is not sent."""
    thinking = prompt.thinking
    known = _known_efforts(model)
    if thinking.mode is ThinkingMode.DISABLED:
        return _weakest(known, notes)
    if not (thinking.wanted or thinking.effort):
        return ""
    if known == ():
        notes.applies("thinking.unavailable")
        return ""
    return nearest_effort(_wanted(thinking, notes), set(known or _USUAL) - {"none"})


def _known_efforts(model: ModelCard) -> tuple[str, ...] | None:
    """Efforts that *model* knows; what its server lists counts more than its name.  ``None`` where nobody says."""
    if model.thinking is None:
        return model.efforts or efforts_of(model.id)
    return (model.efforts or efforts_of(model.id) or None) if model.thinking else ()


def _weakest(known: tuple[str, ...] | None, notes: Notes) -> str:
    if known == ():
        return ""
    if known is None or "none" not in known:
        notes.applies("thinking.not_disabled")
    return known[0] if known else ""


def _wanted(thinking: Thinking, notes: Notes) -> str:
    if thinking.effort:
        return thinking.effort
    if thinking.budget_tokens is None:
        return "medium"
    notes.applies("thinking.budget_to_effort")
    return effort_of(thinking.budget_tokens)


def _bare(model: str) -> str:
    """A model's name without whose it is: ``openai/gpt-5`` is ``gpt-5``."""
    return model.rpartition("/")[2].lower()
