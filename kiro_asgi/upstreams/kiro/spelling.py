"""By what names people call models.

Clients write a version with dots or dashes, add a date, a provider or the size of a window, and some put what they want
of the answer into the name: ``claude-opus-4.8-high``, ``claude-sonnet-4.5-thinking``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.model.prompt import Thinking, ThinkingMode

__all__ = ["Spelling", "normalise", "read_name", "spelled_wishes", "with_wishes"]

MAX_NAME: Final = 200
"""Characters of a name that is looked at; nothing longer is a model."""

Rewriting = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

REWRITINGS: Final[tuple[Rewriting, ...]] = (
    (re.compile(r"^(?:(?:kiro|kr|anthropic|openai|amazonq)/)+"), ""),
    (re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.(?=claude)"), ""),
    (re.compile(r"^claude_[a-z0-9_]+$"), lambda match: match[0].replace("_", "-")),
    (re.compile(r"(?<!\s)\s*+\[[0-9]+[km]\]$"), ""),
    (re.compile(r"(?<=.)(?:-latest|[-@][0-9]{8}|-20[0-9]{2}-[0-9]{2}-[0-9]{2})$"), ""),
    (re.compile(r"^(claude-.*)-v[0-9](?:[:-][0-9]+)?$"), r"\1"),
    (re.compile(r"^claude-3-([57])-(sonnet|haiku|opus)$"), r"claude-3.\1-\2"),
    (
        re.compile(r"^claude-([4-9])(?:[.-]([0-9]{1,2}))?-(sonnet|haiku|opus|fable)$"),
        lambda match: _inverted(*match.groups()),
    ),
    (re.compile(r"^(claude-(?:sonnet|haiku|opus|fable)-[0-9])-([0-9]{1,2})(?![0-9])"), r"\1.\2"),
    (re.compile(r"^(claude-(?:sonnet|haiku|opus|fable)-[0-9])\.0$"), r"\1"),
)
"""Applied until nothing changes.  A date is never taken for a minor version."""

WISH: Final = re.compile(r"((?:claude|gpt)-.*)[-:](thinking|none|minimal|low|medium|high|xhigh|max)")
"""A name with a wish behind it.  Other families have such words in their own names."""


@frozen
class Spelling:
    """What a name says."""

    name: str
    """The one spelling of the model's own name."""

    effort: str = ""
    """The level that is asked for; empty where none is."""

    thinking: bool = False
    """Whether thinking is asked for."""


def _inverted(major: str, minor: str | None, family: str) -> str:
    return f"claude-{family}-{major}.{minor}" if minor else f"claude-{family}-{major}"


def read_name(name: str) -> Spelling:
    """The parts of a model's name; one that we do not know loses only what surely is no part of it."""
    name = name.strip()
    if len(name) > MAX_NAME or re.fullmatch(r"(?!CLAUDE_)[A-Z0-9]+(?:_[A-Z0-9]+)+", name):
        return Spelling(name)
    name, before = name.lower(), ""
    wishes: list[str] = []
    while name != before:
        before = name
        for pattern, replacement in REWRITINGS:
            name = pattern.sub(replacement, name).strip()
        if match := WISH.fullmatch(name):
            name, wish = match.groups()
            wishes.append(wish)
    effort = next((wish for wish in wishes if wish != "thinking"), "")
    return Spelling(name, effort, "thinking" in wishes)


def normalise(name: str) -> str:
    """The one spelling of a model's name, without wishes."""
    return read_name(name).name


def spelled_wishes(name: str, model: str = "") -> tuple[str | None, bool]:
    """The effort level that a name asks for, if any, and whether it asks for thinking.

    Args:
        name: As the client writes it.
        model: The id of the model that it means: a model's very own name asks for nothing.
    """
    if name.strip().lower() == model.lower():
        return None, False
    spelling = read_name(name)
    return spelling.effort or None, spelling.thinking


def with_wishes(thinking: Thinking, name: str, model: str = "") -> Thinking:
    """What the client asks about thinking, its model's name included; what it says in so many words counts more."""
    effort, wanted = spelled_wishes(name, model)
    if effort == "none":
        return Thinking(ThinkingMode.DISABLED) if thinking == Thinking() else thinking
    if thinking.effort or thinking.budget_tokens is not None:
        effort = None
    if thinking.mode is ThinkingMode.DISABLED or not (effort or wanted):
        return thinking
    mode = ThinkingMode.ENABLED if thinking.mode is ThinkingMode.DEFAULT else thinking.mode
    return evolve(thinking, mode=mode, effort=effort or thinking.effort)
