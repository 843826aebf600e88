"""The service tier that answers, as services say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.failures.texts import clean
from kiro_asgi.model.events import Delta, Notice, ServedTier
from kiro_asgi.model.handling import Tier

_UNSAID: Final = frozenset({"", "auto", "unspecified", "TRAFFIC_TYPE_UNSPECIFIED"})
"""Words that say nothing of which tier it was."""


def served(word: Any, tiers: Mapping[str, Tier]) -> Iterable[Delta]:
    """The tier that *word* is; a notice of a word that the service's *tiers* do not have."""
    if type(word) is not str or word in _UNSAID:
        return ()
    tier = tiers.get(word)
    return (Notice("tier.unknown", clean(word)[:60]) if tier is None else ServedTier(tier),)
