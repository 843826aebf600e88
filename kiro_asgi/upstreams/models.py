"""Models: how hard they think, how services list them, and other names for them.

Levels of effort and budgets of thinking are two forms of one setting; most services know one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import ConfigError, UpstreamProtocolError
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.wire.json import JsonError, count_of, loads

LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort level, weakest first."""

MIN_BUDGET: Final = 1_024
"""Tokens; the least that Anthropic's models take."""

BUDGETS: Final[Mapping[str, int]] = MappingProxyType({"minimal": 1_024, "low": 4_000, "medium": 10_000, "high": 20_000})
"""The budget in tokens that a level stands for; beyond them each service has a greatest of its own."""

_EFFORTS: Final = ((10_000, "low"), (20_000, "medium"), (28_000, "high"))
"""Largest budget in tokens that a level stands for; beyond them it is ``max``."""


_WINDOW: Final = re.compile(r"(?<!\s)\s*+\[[0-9]{1,4}[km]\]\s*+\Z", re.IGNORECASE)
"""A mark behind a model's name by which Claude Code chooses the window that it counts with; no service knows it."""


def without_window(name: str) -> str:
    """A client's *name* of a model without such a mark."""
    return _WINDOW.sub("", name)


def effort_of(budget: int) -> str:
    """The level that a budget in tokens stands for."""
    return next((level for largest, level in _EFFORTS if budget <= largest), "max")


def nearest_effort(wanted: str, efforts: Iterable[str]) -> str:
    """The level in *efforts* that comes closest, of two the weaker; empty if there is none."""
    if wanted not in LEVELS:
        return ""
    efforts = frozenset(efforts)
    known = [level for level in LEVELS if level in efforts]
    return min(known, key=lambda level: abs(LEVELS.index(level) - LEVELS.index(wanted)), default="")


def read_listing(body: bytes, *kinds: type) -> Any:
    """The JSON value of a list of models.

    Args:
        body: The answer.
        kinds: What it may be: `dict`, `list` or both.

    Raises:
        UpstreamProtocolError: Code ``upstream.models``: it is something else.
    """
    try:
        listing = loads(body)
    except JsonError as error:
        raise UpstreamProtocolError(f"the list of models is unreadable: {error}", code="upstream.models") from None
    return expected(listing, *kinds)


def expected(value: Any, *kinds: type) -> Any:
    """*value*, if it is of one of *kinds*.

    Raises:
        UpstreamProtocolError: As for `read_listing`.
    """
    if type(value) not in kinds:
        raise UpstreamProtocolError("the body is not a list of models", code="upstream.models")
    return value


def listed(entries: Any, read: Callable[[Any], ModelCard | None]) -> tuple[ModelCard, ...]:
    """The models of a list, in its order; of several with one id the first.

    Args:
        entries: The list; anything else is one without models.
        read: The model of an entry; ``None`` where it has none.
    """
    cards: dict[str, ModelCard] = {}
    for card in filter(None, map(read, entries if type(entries) is list else ())):
        cards.setdefault(card.id, card)
    return tuple(cards.values())


def limit_of(entry: Mapping[str, Any], key: str, default: int) -> int:
    """A number of tokens in *entry*; *default* where there is none."""
    return count_of(entry, key) or default


LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999, in seconds since the epoch: no date is later."""


def moment_of(value: Any) -> int | None:
    """The second since the epoch that a list writes as a number or as RFC 3339; ``None`` for anything else."""
    if type(value) in (int, float):
        return int(value) if 0 < value <= LAST_SECOND else None
    if type(value) is not str or len(value) > _LONGEST_MOMENT:
        return None
    try:
        read = datetime.fromisoformat(value)
        return max(int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()), 0) or None
    except (ValueError, OverflowError):
        return None


_LONGEST_MOMENT: Final = 40
"""Characters of a moment that is read."""

_LONGEST: Final = 200
"""Characters of a name that are looked at."""


def resembling(name: str, cards: Iterable[ModelCard]) -> tuple[str, ...]:
    """Up to three ids that resemble *name*, best first."""
    return tuple(get_close_matches(name[:_LONGEST], [card.id for card in cards], 3, 0.6))


def read_aliases(pairs: Iterable[str], setting: str) -> Mapping[str, str]:
    """Alias to the model that it means, in the order of *pairs*, each ``name=model``; no alias means another alias.

    Args:
        pairs: The aliases.
        setting: Where they stand, e.g. ``kiro.model_aliases``.

    Raises:
        ConfigError: No pair, one name for two models, or aliases that mean each other; the setting is its code.
    """
    aliases: dict[str, str] = {}
    for pair in pairs:
        name, equals, model = map(str.strip, pair.partition("="))
        if not (name and equals and model):
            raise _invalid(setting, "each must be written as name=model")
        if aliases.setdefault(name, model) != model:
            raise _invalid(setting, f"{name} means two models")
    return MappingProxyType({name: _target(name, aliases, setting) for name in aliases})


def _target(name: str, aliases: Mapping[str, str], setting: str) -> str:
    chain = [name]
    while (model := aliases.get(chain[-1])) is not None:
        if model in chain:
            raise _invalid(setting, f"{' = '.join((*chain, model))} means no model")
        chain.append(model)
    return chain[-1]


def _invalid(setting: str, why: str) -> ConfigError:
    return ConfigError(f"{setting}: {why}", code=setting)
