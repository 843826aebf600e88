"""An operator's own names for models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kiro_asgi.errors import ConfigError

__all__ = ["read_aliases"]


def read_aliases(pairs: Iterable[str]) -> Mapping[str, str]:
    """Alias to the model that it means, in the order of *pairs*, each ``name=model``; no alias means another alias.

    Raises:
        ConfigError: Code ``kiro.model_aliases``: no pair, one name for two models, or aliases that mean each other.
    """
    aliases: dict[str, str] = {}
    for pair in pairs:
        name, equals, model = map(str.strip, pair.partition("="))
        if not (name and equals and model):
            raise _refused("each must be written as name=model")
        if aliases.setdefault(name, model) != model:
            raise _refused(f"{name} means two models")
    return MappingProxyType({name: _target(name, aliases) for name in aliases})


def _target(name: str, aliases: Mapping[str, str]) -> str:
    passed = [name]
    while (model := aliases.get(passed[-1])) is not None:
        if model in passed:
            raise _refused(f"{' = '.join((*passed, model))} means no model")
        passed.append(model)
    return passed[-1]


def _refused(why: str) -> ConfigError:
    return ConfigError(f"kiro.model_aliases: {why}", code="kiro.model_aliases")
