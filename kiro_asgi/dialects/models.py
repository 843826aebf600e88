"""The list of models, in one shape that the clients of both API families take.

Sources: https://platform.openai.com/docs/api-reference/models; https://docs.anthropic.com/en/api/models-list
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from kiro_asgi.wire.json import dumps

__all__ = ["Card", "render_model", "render_models"]

CREATED: Final = 1_735_689_600
"""Seconds since the epoch.  Upstreams do not say when a model came out, but clients want a date."""

CREATED_AT: Final = "2025-01-01T00:00:00Z"
"""The same, as RFC 3339 has it."""

OWNER: Final = "kiro-asgi"


class Card(Protocol):
    """What is listed of a model."""

    @property
    def id(self) -> str:
        """The name that requests use."""
        ...

    @property
    def name(self) -> str:
        """The name for people; may be empty."""
        ...


def render_models(cards: Iterable[Card], *, owner: str = OWNER) -> bytes:
    """The JSON body of ``GET /v1/models``: all of them on one page."""
    data = [_object(card, owner) for card in cards]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return dumps({"object": "list", "data": data, "has_more": False, "first_id": first, "last_id": last})


def render_model(card: Card, *, owner: str = OWNER) -> bytes:
    """The JSON body of ``GET /v1/models/{id}``."""
    return dumps(_object(card, owner))


def _object(card: Card, owner: str) -> dict[str, Any]:
    return {
        "id": card.id,
        "object": "model",
        "created": CREATED,
        "owned_by": owner,
        "type": "model",
        "display_name": card.name or card.id,
        "created_at": CREATED_AT,
        "lifecycle": "active",
    }
