"""Lists of models, as services write them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.wire.json import JsonError, loads
from kiro_asgi.wire.members import count_of

__all__ = ["expected", "limit_of", "listed", "read_listing"]


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
        raise UpstreamProtocolError("the list of models is none", code="upstream.models")
    return value


def listed(entries: Any, read: Callable[[Any], ModelCard | None]) -> tuple[ModelCard, ...]:
    """The models of a list, in its order; of several with one id the first.

    Args:
        entries: The list; anything else is one without models.
        read: The model of an entry; ``None`` where there is none in it.
    """
    cards: dict[str, ModelCard] = {}
    for card in filter(None, map(read, entries if type(entries) is list else ())):
        cards.setdefault(card.id, card)
    return tuple(cards.values())


def limit_of(entry: Mapping[str, Any], key: str, default: int) -> int:
    """A number of tokens; *default* where it is none."""
    return count_of(entry, key) or default
