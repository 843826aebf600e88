"""The list of models, in one shape that the clients of both API families take.

A model has the members of both: the names differ, so neither is in the other's way.  The Messages API documents
sizes and capabilities, Chat Completions does not; clients of that find them under the names that OpenRouter's list has,
which many read, and under plain ones.

Sources: https://platform.openai.com/docs/api-reference/models; https://docs.anthropic.com/en/api/models-list;
https://openrouter.ai/docs/guides/overview/models
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from attrs import field, frozen

from kiro_asgi.model.prices import Price
from kiro_asgi.wire.json import dumps

_DATED: Final = re.compile(r"(?<![0-9])(20[0-9]{2})-?([01][0-9])-?([0-3][0-9])(?![0-9])")
"""In names of models that are one day's version: ``gpt-4o-2024-08-06``, ``claude-sonnet-4-5-20250929``."""

_LONGEST: Final = 200
"""Characters of a name that are looked at."""

LEVELS: Final = ("low", "medium", "high", "xhigh", "max")
"""The effort levels that the Messages API knows."""

NEVER: Final = ("batch", "code_execution", "context_management")
"""Capabilities that no model has here, whatever its service offers."""

ALWAYS: Final = ("structured_outputs",)
"""Those that every model has here, because the gateway sees to it."""


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

    @property
    def created(self) -> int | None:
        """Seconds since the epoch at which it came out; ``None`` where the service does not say."""
        ...


@frozen
class Listing:
    """A model, with facts that are not in its card."""

    card: Card
    owner: str
    """Its owner, as the list names it."""

    web_search: bool = False
    """Whether the hosted web search of the client APIs is served with it."""

    price: Price | None = field(default=None, kw_only=True)
    """The operator's; ``None`` where there is none."""

    currency: str = field(default="USD", kw_only=True)
    cites: bool = field(default=False, kw_only=True)
    """Whether its answers may cite the documents of a request."""


def render_models(listings: Iterable[Listing]) -> bytes:
    """The JSON body of ``GET /v1/models``: all of them on one page."""
    data = [_object(listing) for listing in listings]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return dumps({"object": "list", "data": data, "has_more": False, "first_id": first, "last_id": last})


def render_model(listing: Listing) -> bytes:
    """The JSON body of ``GET /v1/models/{id}``."""
    return dumps(_object(listing))


def _object(listing: Listing) -> dict[str, Any]:
    card, created = listing.card, created_of(listing.card)
    inputs = ["text", "image"] if card.images else ["text"]
    outputs = ["embeddings"] if card.embeds else ["text"]
    return {
        "id": card.id,
        "object": "model",
        "created": created,
        "owned_by": listing.owner,
        "type": "model",
        "display_name": card.name or card.id,
        "name": card.name or card.id,
        "created_at": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": card.context_window,
        "max_tokens": card.max_output_tokens,
        "capabilities": _capabilities(listing),
        "context_length": card.context_window,
        "architecture": {"input_modalities": inputs, "output_modalities": outputs},
        **({} if listing.price is None else {"pricing": dict(_pricing(listing.price, listing.currency))}),
        "context_window": card.context_window,
        "max_output_tokens": card.max_output_tokens,
        "input_modalities": inputs,
        "output_modalities": outputs,
        "reasoning_efforts": list(card.efforts),
    }


def created_of(card: Card) -> int:
    """Seconds since the epoch at which the model came out: as its service lists it, else by a date in its name.

    Where neither tells it is 0: the Messages API documents the epoch for a date that is unknown, and both APIs must
    have one.
    """
    if card.created is not None:
        return card.created
    for year, month, day in _DATED.findall(card.id[:_LONGEST]):
        try:
            return int(datetime(int(year), int(month), int(day), tzinfo=UTC).timestamp())
        except ValueError:
            continue
    return 0


def _pricing(price: Price, currency: str) -> Iterator[tuple[str, str]]:
    """Prices of one token, request or credit, each as decimal text."""
    yield "currency", currency
    if (rates := price.rates) is not None:
        yield "prompt", _decimal(rates.input)
        yield "completion", _decimal(rates.output)
        kinds = {"input_cache_read": rates.cache_read, "input_cache_write": rates.cache_write}
        for name, rate in {**kinds, "internal_reasoning": rates.thinking}.items():
            if rate is not None:
                yield name, _decimal(rate)
    if price.request:
        yield "request", _decimal(price.request)
    if price.credit:
        yield "credit", _decimal(price.credit)


def _decimal(number: float) -> str:
    """*number* without an exponent."""
    return f"{number:.15f}".rstrip("0").rstrip(".")


def _capabilities(listing: Listing) -> dict[str, Any]:
    """As the Messages API has them; a capability that the model lacks is there as unsupported."""
    card, web_search = listing.card, listing.web_search
    thinks, answers = card.thinks, not card.embeds
    kinds = {"adaptive": thinks, "enabled": thinks, "disabled": True, "between_tools": False}
    return {
        **{name: _supported(False) for name in NEVER},
        **{name: _supported(answers) for name in ALWAYS},
        "citations": _supported(listing.cites and answers),
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
