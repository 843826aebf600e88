"""Responses and conversations as they are kept for later requests that build on them.

A response holds its own input only; earlier items are found by way of ``previous_response_id``.  The id of an item
names its response, so that an item can be found without an index of its own.  A conversation, which clients name
instead of sending it, is one record with all of its items: so a deleted one is gone with one key, and no reader sees
half of a change.

The API lists items afterwards: each with an id, and messages in their full form.

Sources: https://platform.openai.com/docs/api-reference/responses/input-items,
https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.items import ItemReader
from kiro_asgi.dialects.openai_responses.request import require_metadata
from kiro_asgi.dialects.openai_responses.shapes import CONVERTER
from kiro_asgi.dialects.openai_responses.shapes import Item as ItemBody
from kiro_asgi.dialects.openai_responses.tools import ToolCollector
from kiro_asgi.dialects.structure import structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import CONVERSATION_ITEMS, REQUEST_DEPTH
from kiro_asgi.wire.json import JsonError, dumps, loads

_PREFIXES: Final = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "function_call_output": "fc",
        "custom_tool_call": "ctc",
        "custom_tool_call_output": "ctc",
        "web_search_call": "ws",
        "compaction": "cmp",
    }
)
"""How ids of items of a kind begin; those of the others begin with ``item``."""


def identified(items: Iterable[Mapping[str, Any]], token: str) -> Iterator[dict[str, Any]]:
    """The items in their full form; those that came without an id get one of *token* and their position.

    Args:
        items: As in `kiro_asgi.dialects.openai_responses.request.ResponsesOptions.input_items`.
        token: Characters that no other request has, legal in ids.
    """
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        known = item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{token}{index}"
        full = {**item, "type": kind, "id": known}
        yield _full_message(full) if kind == "message" else full


def _full_message(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        is_answer = item.get("role") == "assistant"
        part = {"type": "output_text", "text": content, "annotations": []}
        content = [part] if is_answer else [{"type": "input_text", "text": content}]
    return {"status": "completed", **item, "content": content}


Item = Mapping[str, Any]


@frozen
class Kept:
    """One response with all that a later request may need of it."""

    response: Mapping[str, Any]
    """The response object as its client saw it."""

    input: Sequence[Item]
    """Its own input items, each with an id."""

    seals: Mapping[str, str]
    """Ids of reasoning items of its output to their ``encrypted_content``, whether the client was shown that or not."""

    @classmethod
    def decode(cls, data: bytes) -> Kept | None:
        """The inverse of `encode`; ``None`` for bytes that it cannot have made."""
        try:
            value = loads(data, max_depth=2 * REQUEST_DEPTH)  # the request stands within the record
        except JsonError:
            return None
        if not has_members(value, response=dict, input=list, seals=dict):
            return None
        response, items, seals = value["response"], value["input"], value["seals"]
        if not has_members(response, previous_response_id=(str, NoneType), output=list):
            return None
        if not all(has_members(item, id=object) for item in items) or not all(
            has_members(it, id=str) for it in response["output"]
        ):
            return None
        return cls(response, items, seals) if all(isinstance(seal, str) for seal in seals.values()) else None

    @property
    def previous(self) -> str | None:
        """Id of the response that this one builds on."""
        previous: str | None = self.response["previous_response_id"]
        return previous

    @property
    def items(self) -> list[Item]:
        """Items that it adds to a conversation: its input, then its output."""
        return [*self.input, *map(self._sealed, self.response["output"])]

    @property
    def sized(self) -> dict[str, tuple[Item, int]]:
        """Its items by their ids, each with the bytes that it takes as JSON."""
        return {item["id"]: (item, len(dumps(item))) for item in self.items if isinstance(item["id"], str)}

    def _sealed(self, item: Item) -> Item:
        seal = self.seals.get(item["id"])
        return item if seal is None else {**item, "encrypted_content": seal}


def encode(response_id: str, response: Iterable[bytes], items: Iterable[Item], seals: Mapping[str, str]) -> bytes:
    """A response that has just been given, as bytes for a store.

    Args:
        response_id: Its id.
        response: The response object, JSON in pieces.
        items: Its own input, as it was sent.
        seals: As in `Kept`.
    """
    token = response_id.removeprefix("resp_")
    own = list(identified(items, f"{token}_i"))
    return b"".join((b'{"response":', *response, b',"input":%b,"seals":%b}' % (dumps(own), dumps(seals))))


def references(items: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """Places of items that only name another item, and that item's id."""
    for place, item in enumerate(items):
        if isinstance(item, dict) and item.get("type") in (None, "item_reference") and item.keys() <= {"type", "id"}:
            known = item.get("id")
            if isinstance(known, str):
                yield place, known


NO_RESPONSE: Final = "resp_"
"""The result of `response_of` for an id that names no response, as a service's own may be."""


def response_of(item_id: str) -> str:
    """Id of the response that an item belongs to, where the item is one of ours; else some text."""
    return f"{NO_RESPONSE}{item_id.rpartition('_')[0].partition('_')[2]}"


def page(items: Sequence[Item], after: str | None, limit: int) -> bytes | None:
    """At most *limit* items behind the one called *after*, as JSON of a list; ``None`` where none is called so."""
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        return None
    start = 0 if after is None else ids.index(after) + 1
    shown = items[start : start + limit]
    ends = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    more = len(items) > start + limit
    return dumps({"object": "list", "data": shown, "first_id": ends[0], "last_id": ends[1], "has_more": more})


def deleted(response_id: str) -> bytes:
    """JSON of the answer to the deletion of a response."""
    return dumps({"id": response_id, "object": "response", "deleted": True})


def has_members(value: Any, **members: type | tuple[type, ...]) -> bool:
    """Whether *value* is an object with members of these types."""
    return isinstance(value, dict) and all(
        name in value and isinstance(value[name], kind) for name, kind in members.items()
    )


# Conversations.


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
    """One conversation, with all of its items."""

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
        """Check that more may be added; the answer to that may go beyond the bound.

        Raises:
            RequestError: There are too many items; *place* is the field that the client has to change.
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
    """An item as the API shows it to a client that has not asked for the seals of reasoning."""
    if item["type"] != "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "encrypted_content"}
