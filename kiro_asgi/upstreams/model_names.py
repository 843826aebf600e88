"""Names of models: an operator's own, and those that resemble one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.base import ModelCard

__all__ = ["read_aliases", "resembling"]

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
            raise _refused(setting, "each must be written as name=model")
        if aliases.setdefault(name, model) != model:
            raise _refused(setting, f"{name} means two models")
    return MappingProxyType({name: _target(name, aliases, setting) for name in aliases})


def _target(name: str, aliases: Mapping[str, str], setting: str) -> str:
    passed = [name]
    while (model := aliases.get(passed[-1])) is not None:
        if model in passed:
            raise _refused(setting, f"{' = '.join((*passed, model))} means no model")
        passed.append(model)
    return passed[-1]


def _refused(setting: str, why: str) -> ConfigError:
    return ConfigError(f"{setting}: {why}", code=setting)
