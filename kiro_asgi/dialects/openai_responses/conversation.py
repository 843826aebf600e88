"""A conversation that clients name instead of sending it: its items, in order, as one record.

The record holds all of it, so that a deleted conversation is gone with one key, and nobody sees half of a change.

Source: https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.items import ItemReader
from kiro_asgi.dialects.openai_responses.kept import Item, has_members, identified
from kiro_asgi.dialects.openai_responses.request import require_metadata
from kiro_asgi.dialects.openai_responses.shapes import CONVERTER
from kiro_asgi.dialects.openai_responses.shapes import Item as ItemBody
from kiro_asgi.dialects.openai_responses.tools import ToolCollector
from kiro_asgi.dialects.structure import structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import CONVERSATION_ITEMS, REQUEST_DEPTH
from kiro_asgi.wire.json import JsonError, dumps, loads

_MOST_ADDED: Final = 20
"""Items of one request to add some, as the API has it."""

_ITEM_PLACE: Final = re.compile(r"\b(?:input|items)\[(\d{1,9})\]")


@frozen
class ConversationBody:
    """The body of a request to make a conversation, to change it, or to add to it."""

    items: tuple[ItemBody, ...] | None = None
    metadata: Mapping[str, str] | None = None


@frozen
class Conversation:
    """One conversation, with all that was said in it."""

    id: str
    created_at: int
    """Seconds since the epoch."""

    metadata: Mapping[str, str]
    items: Sequence[Item] = ()
    """Oldest first; each has an id that no other has."""

    responses: Sequence[str] = ()
    """Ids of the stored responses that were given in it: they are forgotten with it."""

    @classmethod
    def decode(cls, data: bytes) -> Conversation | None:
        """The inverse of `encode`; ``None`` for bytes that it cannot have made."""
        try:
            value = loads(data, max_depth=2 * REQUEST_DEPTH)  # items of a request stand within the record
        except JsonError:
            return None
        if not has_members(value, id=str, created_at=int, metadata=dict, items=list, responses=list):
            return None
        if not all(has_members(item, id=str, type=str) for item in value["items"]):
            return None
        return cls(**{name: value[name] for name in ("id", "created_at", "metadata", "items", "responses")})

    def encode(self) -> bytes:
        """The record, for a store."""
        return dumps(
            {
                "id": self.id,
                "created_at": self.created_at,
                "metadata": dict(self.metadata),
                "items": list(self.items),
                "responses": list(self.responses),
            }
        )

    @property
    def resource(self) -> bytes:
        """JSON of the conversation as the API shows it: without its items."""
        return dumps(
            {
                "id": self.id,
                "object": "conversation",
                "created_at": self.created_at,
                "metadata": dict(self.metadata),
            }
        )

    def with_items(self, items: Iterable[Item], token: str) -> Conversation:
        """The conversation with *items* behind its own.

        Args:
            items: As clients sent them, or as a response holds them.
            token: Characters for the ids of those that have none, or one that is taken.
        """
        taken = {item["id"] for item in self.items}
        own = list(identified(_unnamed(items, taken), token))
        return evolve(self, items=[*self.items, *own])

    def require_room(self, place: str) -> None:
        """Check that more may be said; the answer to what is said then may go beyond the bound.

        Raises:
            RequestError: There are too many items; *place* is what the client has to change.
        """
        if len(self.items) >= CONVERSATION_ITEMS:
            raise invalid(place, f"it has {CONVERSATION_ITEMS} items, and no room for more; begin another conversation")

    def without(self, item_id: str) -> Conversation:
        """The conversation without one of its items."""
        return evolve(self, items=[item for item in self.items if item["id"] != item_id])

    def find(self, item_id: str) -> Item | None:
        """One of its items."""
        return next((item for item in self.items if item["id"] == item_id), None)


def _unnamed(items: Iterable[Item], taken: set[str]) -> Iterator[Item]:
    """*items*, of which those lose their id that share it with an earlier one."""
    for item in items:
        known = item.get("id")
        if isinstance(known, str) and known and known not in taken:
            taken.add(known)
            yield item
        else:
            yield {name: value for name, value in item.items() if name != "id"}


def metadata_of(value: Any) -> Mapping[str, str]:
    """Metadata in the body of a request.

    Raises:
        RequestError: There are too many, or they are too long, or no texts.
    """
    metadata = structure_value(value, ConversationBody, converter=CONVERTER).metadata or {}
    require_metadata(metadata)
    return metadata


def added_items(value: Any, known: Sequence[Item] = ()) -> Sequence[Item]:
    """Items in the body of a request that make sense behind those that are *known*.

    Raises:
        RequestError: They are too many, or one cannot be read where it stands; ``param`` names its place.
    """
    body = structure_value(value, ConversationBody, converter=CONVERTER)
    if len(body.items or ()) > _MOST_ADDED:
        raise invalid("items", f"at most {_MOST_ADDED} at a time")
    own: Sequence[Item] = value.get("items") or ()
    before = structure_value({"items": list(known)}, ConversationBody, converter=CONVERTER).items or ()
    try:
        ItemReader(ToolCollector(), lambda _: None, str).read((*before, *(body.items or ())))
    except RequestError as error:
        raise _placed(error, len(before)) from None
    return own


def _placed(error: RequestError, earlier: int) -> RequestError:
    """*error* with places as the client counts them, who sent the later items only."""

    def own(place: re.Match[str]) -> str:
        return f"items[{int(place[1]) - earlier}]"

    place = _ITEM_PLACE.search(error.param)
    if place and int(place[1]) < earlier:
        return invalid("conversation", f"one of its earlier items cannot be read any more: {error.message}")
    error.message, error.param = _ITEM_PLACE.sub(own, error.message), _ITEM_PLACE.sub(own, error.param)
    return error


def unsealed(item: Item) -> Item:
    """An item as the API shows it to a client that has not asked for what proves its reasoning."""
    if item["type"] != "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "encrypted_content"}
