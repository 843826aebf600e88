"""What the models of a family take and what they refuse, by the version in the name.

Sources: https://docs.claude.com/en/docs/about-claude/models/overview,
https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.upstreams.base import ModelCard, ThinkingForm

__all__ = ["MAX_NAME", "Family", "family", "listed_family", "normalise"]

MAX_NAME: Final = 200
"""Characters of a name that is looked at; nothing longer is a model."""

Rewriting = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_KINDS: Final = "opus|sonnet|haiku|fable"

REWRITINGS: Final[tuple[Rewriting, ...]] = (
    (re.compile(r"^(?:anthropic|claude)/"), ""),
    (re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.(?=claude)"), ""),
    (re.compile(r"(?<!\s)\s*+\[[0-9]+[km]\]$"), ""),
    (re.compile(r"(?<=.)(?:-latest|[-@][0-9]{8}|-20[0-9]{2}-[0-9]{2}-[0-9]{2})$"), ""),
    (re.compile(r"^(claude-.*)-v[0-9](?:[:-][0-9]+)?$"), r"\1"),
    (re.compile(r"(?<=[0-9])\.(?=[0-9])"), "-"),
    (re.compile(rf"^claude-([4-9])(?:-([0-9]{{1,2}}))?-({_KINDS})$"), lambda match: _inverted(*match.groups())),
    (re.compile(rf"^(claude-(?:{_KINDS})-[0-9])-0$"), r"\1"),
)
"""Applied until nothing changes: a model is ``claude-KIND-MAJOR[-MINOR]``, or ``claude-3-MINOR-KIND`` before that."""

_VERSION: Final = re.compile(rf"claude-(?:(?:{_KINDS})-([0-9]+)(?:-([0-9]{{1,2}}))?|([0-9])(?:-([0-9]))?-(?:{_KINDS}))")


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
class Family:
    """What is peculiar about a model."""

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

    @property
    def thinks(self) -> bool:
        """Whether it can be asked for thinking at all."""
        return self.budgets or self.adaptive

    @property
    def forms(self) -> frozenset[ThinkingForm]:
        """How it can be asked for thinking."""
        able = {ThinkingForm.BUDGET: self.budgets, ThinkingForm.EFFORT: self.adaptive}
        return frozenset(form for form, takes in able.items() if takes)


FAMILIES: Final[tuple[tuple[tuple[int, int], Family], ...]] = (
    ((4, 7), Family(budgets=False, adaptive=True, sampled=False, prefilled=False, formed=True)),
    ((4, 6), Family(adaptive=True, sampled_once=True, prefilled=False, formed=True)),
    ((4, 5), Family(sampled_once=True, formed=True)),
    ((4, 1), Family(sampled_once=True)),
    ((3, 7), Family()),
    ((0, 0), Family(budgets=False)),
)
"""First version, newest first, to what is peculiar from there on."""

UNKNOWN: Final = Family()
"""A model whose name has no version is asked in the oldest form."""


def family(model: str) -> Family:
    """What is peculiar about *model*, under any of its names."""
    match = _VERSION.match(normalise(model))
    if match is None:
        return UNKNOWN
    major, minor = match[1] or match[3], match[2] or match[4] or "0"
    return next(found for first, found in FAMILIES if first <= (int(major), int(minor)))


def listed_family(model: ModelCard) -> Family:
    """What is peculiar about *model*: what its name says, and of thinking and schemas what the service lists."""
    named, forms = family(model.id), model.thinking
    if model.schemas is not None:
        named = evolve(named, formed=model.schemas)
    if forms is None:
        return named
    return evolve(named, budgets=ThinkingForm.BUDGET in forms, adaptive=ThinkingForm.EFFORT in forms)
