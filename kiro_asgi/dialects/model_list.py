"""The list of models, in one shape that the clients of both API families take.

A model has the members of both: the names differ, so neither is in the other's way.  The Messages API documents
sizes and capabilities, Chat Completions does not; clients of that find them under names of our own.

Sources: https://platform.openai.com/docs/api-reference/models; https://docs.anthropic.com/en/api/models-list
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from attrs import frozen

from kiro_asgi.wire.json import dumps

CREATED: Final = 1_735_689_600
"""Seconds since the epoch.  Upstreams do not report when a model came out, but clients want a date."""

CREATED_AT: Final = "2025-01-01T00:00:00Z"
"""The same, as RFC 3339 has it."""

LEVELS: Final = ("low", "medium", "high", "xhigh", "max")
"""The effort levels that the Messages API knows."""

NEVER: Final = ("batch", "citations", "code_execution", "context_management", "structured_outputs")
"""Capabilities that no model has here, whatever its service offers."""


class Card(Protocol):
    """An entry in a list of models."""

    @property
    def id(self) -> str:
        """The name that requests use."""
        ...

    @property
    def name(self) -> str:
        """The name for people; may be empty."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens, prompt and answer together."""
        ...

    @property
    def max_output_tokens(self) -> int:
        """Tokens of an answer."""
        ...

    @property
    def images(self) -> bool:
        """Whether it sees images."""
        ...

    @property
    def efforts(self) -> tuple[str, ...]:
        """Effort levels, weakest first; empty where it has none."""
        ...

    @property
    def thinks(self) -> bool:
        """Whether it is known to think when it is asked to."""
        ...

    @property
    def embeds(self) -> bool | None:
        """Whether it makes embeddings, and no answers; ``None`` where that is not known."""
        ...


@frozen
class Listing:
    """A model, with facts that are not in its card."""

    card: Card
    owner: str
    """Its owner, as the list names it."""

    web_search: bool = False
    """Whether the hosted web search of the client APIs is served with it."""


def render_models(listings: Iterable[Listing]) -> bytes:
    """The JSON body of ``GET /v1/models``: all of them on one page."""
    data = [_object(listing) for listing in listings]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return dumps({"object": "list", "data": data, "has_more": False, "first_id": first, "last_id": last})


def render_model(listing: Listing) -> bytes:
    """The JSON body of ``GET /v1/models/{id}``."""
    return dumps(_object(listing))


def _object(listing: Listing) -> dict[str, Any]:
    card = listing.card
    return {
        "id": card.id,
        "object": "model",
        "created": CREATED,
        "owned_by": listing.owner,
        "type": "model",
        "display_name": card.name or card.id,
        "created_at": CREATED_AT,
        "lifecycle": "active",
        "max_input_tokens": card.context_window,
        "max_tokens": card.max_output_tokens,
        "capabilities": _capabilities(card, listing.web_search),
        "context_window": card.context_window,
        "max_output_tokens": card.max_output_tokens,
        "input_modalities": ["text", "image"] if card.images else ["text"],
        "output_modalities": ["embeddings"] if card.embeds else ["text"],
        "reasoning_efforts": list(card.efforts),
    }


def _capabilities(card: Card, web_search: bool) -> dict[str, Any]:
    """As the Messages API has them; a capability that the model lacks is there as unsupported."""
    thinks = card.thinks
    kinds = {"adaptive": thinks, "enabled": thinks, "disabled": True, "between_tools": False}
    return {
        **{name: _supported(False) for name in NEVER},
        "effort": {**_supported(bool(card.efforts)), **{level: _supported(level in card.efforts) for level in LEVELS}},
        "image_input": _supported(card.images),
        "pdf_input": _supported(card.images),
        "server_tools": {
            **_supported(web_search),
            "code_execution": _supported(False),
            "web_search": _supported(web_search),
        },
        "thinking": {**_supported(thinks), "types": {kind: _supported(able) for kind, able in kinds.items()}},
    }


def _supported(able: bool) -> dict[str, Any]:
    return {"supported": able}
