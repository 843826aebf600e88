"""The list of models.

Source: https://ai.google.dev/api/models
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kiro_asgi.dialects.models import Listing
from kiro_asgi.wire.json import dumps

__all__ = ["render_model", "render_models"]


def render_models(listings: Iterable[Listing]) -> bytes:
    """The JSON body of the list: all of them on one page."""
    return dumps({"models": [*map(_object, listings)]})


def render_model(listing: Listing) -> bytes:
    """The JSON body of one."""
    return dumps(_object(listing))


def _object(listing: Listing) -> dict[str, Any]:
    card = listing.card
    sizes = {"inputTokenLimit": card.context_window, "outputTokenLimit": card.max_output_tokens}
    return {
        "name": f"models/{card.id}",
        "version": "001",
        "displayName": card.name or card.id,
        "description": f"Served by {listing.owner}.",
        **{name: size for name, size in sizes.items() if size},
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": card.thinks,
    }
