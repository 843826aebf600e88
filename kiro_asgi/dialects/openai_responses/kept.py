"""Responses and conversations as they are kept for later requests that build on them.

A response holds its own input only; earlier items are found by way of ``previous_response_id``.  The id of an item
names its response, so that an item can be found by it alone.  A conversation, which clients name instead of sending it,
is one record with all of its items: so a deleted one is gone with one key, and no reader sees half of a change.

The API lists items afterwards: each with an id, and messages in their full form.  Of the input of a response, all but
large items are kept as they were sent, though, and completed when they are listed: in their full form, short messages
have four times as many values, and what a client may send must not be too much to be read again.

Whatever takes up a record asks it for its sizes first: only these, and the facts, are decoded at once.

Sources: https://platform.openai.com/docs/api-reference/responses/input-items,
https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.items import ItemReader
from kiro_asgi.dialects.openai_responses.parsing import require_metadata
from kiro_asgi.dialects.openai_responses.records import (
    DamagedRecord,
    Entry,
    Part,
    Record,
    array_of,
    entries_of,
    index_of,
    joined,
    write_record,
)
from kiro_asgi.dialects.openai_responses.response import RenderedResponse
from kiro_asgi.dialects.openai_responses.shapes import CONVERTER
from kiro_asgi.dialects.openai_responses.shapes import Item as ItemBody
from kiro_asgi.dialects.openai_responses.tools import ToolCollector
from kiro_asgi.dialects.pieces import closing
from kiro_asgi.dialects.structure import structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import CONVERSATION_ITEMS, JSON_VALUES
from kiro_asgi.wire.json import dumps

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
        items: As in `kiro_asgi.dialects.openai_responses.parsing.ResponsesOptions.input_items`.
        token: Characters that no other request has, legal in ids.
    """
    for index, item in enumerate(items):
        yield _full(item, item.get("id") or _made_id(item, token, index))


def _made_id(item: Mapping[str, Any], token: str, index: int) -> str:
    return f"{_PREFIXES.get(item.get('type') or 'message', 'item')}_{token}{index}"


def _full(item: Mapping[str, Any], item_id: Any) -> dict[str, Any]:
    kind = item.get("type") or "message"
    full = {**item, "type": kind, "id": item_id}
    return _full_message(full) if kind == "message" else full


def _full_message(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        is_answer = item.get("role") == "assistant"
        part = {"type": "output_text", "text": content, "annotations": []}
        content = [part] if is_answer else [{"type": "input_text", "text": content}]
    return {"status": "completed", **item, "content": content}


Item = Mapping[str, Any]

_LARGE: Final = 64 * 1024
"""Bytes of an item of the input from which on it is kept in its full form: there are few of them."""

_PARTS: Final = 7
"""Of the record of a response: the index of its output; its object up to the output, the output, and the rest; the
index of its input, the input; seals."""


@frozen
class Kept:
    """One response with all that a later request may need of it."""

    id: str
    status: str
    previous: str | None
    """Id of the response that this one builds on."""

    background: bool
    in_conversation: bool
    _parts: Sequence[Part] = field(repr=False)

    @classmethod
    def decode(cls, data: bytes) -> Kept:
        """The inverse of `encode`, at a cost that does not depend on the size.

        Raises:
            DamagedRecord: It cannot have made *data*.
        """
        record = Record.read(data, _PARTS)
        facts = record.facts
        if not has_members(facts, previous_response_id=(str, NoneType), background=bool, in_conversation=bool):
            raise DamagedRecord("its line has odd members")
        if not has_members(facts, id=str, status=(str, NoneType)):
            raise DamagedRecord("its line has odd members")
        previous, background, named = (
            facts[name] for name in ("previous_response_id", "background", "in_conversation")
        )
        return cls(facts["id"], facts["status"] or "", previous, background, named, record.parts)

    @property
    def response(self) -> Sequence[memoryview]:
        """The response object as its client saw it: JSON in pieces."""
        return [part.data for part in self._parts[1:4]]

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return sum(len(part.data) for part in self._parts)

    @property
    def values(self) -> int:
        """Values in its items."""
        return self._parts[2].values + self._parts[5].values

    @property
    def items(self) -> list[Item]:
        """Items that it adds to a conversation: its input, then its output.

        Raises:
            DamagedRecord: They cannot be read.
        """
        return [*self.input, *self.output]

    @property
    def input(self) -> list[Item]:
        """Its own input items, each with an id.

        Raises:
            DamagedRecord: They cannot be read.
        """
        return list(identified(_objects(self._parts[5]), self._token))

    @property
    def output(self) -> list[Item]:
        """The items that it was answered with, with their seals.

        Raises:
            DamagedRecord: They cannot be read.
        """
        seals = self._seals
        return [_sealed(item, seals) for item in _objects(self._parts[2])]

    @property
    def inputs(self) -> list[Entry]:
        """The entries of its input, as it was sent; their ids are those that are listed.

        Raises:
            DamagedRecord: They do not fit their index.
        """
        return entries_of(self._parts[4], self._parts[5])

    def listed(self, entry: Entry) -> bytes | memoryview:
        """JSON of an item of its input in its full form; a large one is not decoded.

        Raises:
            DamagedRecord: It cannot be read.
        """
        if len(entry.data) >= _LARGE:
            return entry.data
        item = entry.decoded()
        return dumps(_full(item, item.get("id") or entry.id))

    def find(self, item_ids: Collection[str]) -> dict[str, Entry]:
        """Those of its items that have one of these ids; others are not decoded.

        Raises:
            DamagedRecord: The record cannot be read.
        """
        seals = self._seals
        output = [each for each in entries_of(self._parts[0], self._parts[2]) if each.id in item_ids]
        found = {each.id: bytes(self.listed(each)) for each in self.inputs if each.id in item_ids}
        found |= {each.id: dumps(_sealed(each.decoded(), seals)) for each in output}
        return {item_id: Entry.of(item_id, data) for item_id, data in found.items()}

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """The record of this response, as one that has failed of *error*.

        Raises:
            DamagedRecord: It cannot be read.
        """
        before, _, after = self.response
        told = {**_told(before, after), "status": "failed", "error": error}
        told.pop("output", None)
        items = [(each.id, [bytes(each.data)]) for each in entries_of(self._parts[0], self._parts[2])]
        rendered = RenderedResponse(dumps(told)[:-1] + b',"output":', items, b"}")
        return encode(rendered, _objects(self._parts[5]), self._seals)

    @property
    def _token(self) -> str:
        return f"{self.id.removeprefix('resp_')}_i"

    @property
    def _seals(self) -> Mapping[str, str]:
        seals = self._parts[6].decoded()
        if not isinstance(seals, dict) or not all(isinstance(seal, str) for seal in seals.values()):
            raise DamagedRecord("its seals are none")
        return seals


def _sealed(item: Item, seals: Mapping[str, str]) -> Item:
    seal = seals.get(item.get("id", ""))
    return item if seal is None else {**item, "encrypted_content": seal}


def _objects(part: Part) -> list[dict[str, Any]]:
    items = part.decoded()
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DamagedRecord("its items are no objects")
    return items


def _told(before: bytes | memoryview, after: bytes | memoryview) -> dict[str, Any]:
    """A response object without its output."""
    told = Part(memoryview(b"".join((before, b"null", after))), 0).decoded()
    if not has_members(told, id=str):
        raise DamagedRecord("it is no response")
    return dict(told)


def encode(response: RenderedResponse, items: Iterable[Item], seals: Mapping[str, str]) -> bytes:
    """A response that has just been given, as bytes for a store.

    Args:
        response: The response object.
        items: Its own input, as it was sent.
        seals: Ids of reasoning items of its output to their ``encrypted_content``, whether the client was shown that or
            not.
    """
    told = _told(response.before, response.after)
    token = f"{told['id'].removeprefix('resp_')}_i"
    own = [_entry(item, item.get("id") or _made_id(item, token, index)) for index, item in enumerate(items)]
    output = [Entry.of(item_id, b"".join(pieces)) for item_id, pieces in response.items]
    facts = {
        "id": told["id"],
        "status": told.get("status"),
        "previous_response_id": told.get("previous_response_id"),
        "background": told.get("background") is True,
        "in_conversation": told.get("conversation") is not None,
    }
    object_parts = [response.before], array_of(output), [response.after]
    return write_record(facts, [index_of(output)], *object_parts, [index_of(own)], array_of(own), [dumps(seals)])


def _entry(item: Item, item_id: Any) -> Entry:
    """An item of the input, as it is kept."""
    data = dumps(item)
    return Entry.of(str(item_id), data if len(data) < _LARGE else dumps(_full(item, item_id)))


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


def page(
    ids: Sequence[str], after: str | None, limit: int, render: Callable[[int], bytes | memoryview]
) -> list[bytes | memoryview] | None:
    """At most *limit* items behind the one called *after*, as JSON of a list; ``None`` where none is called so.

    Args:
        ids: Of all items, in the order of the list.
        after: The last one of the page before; ``None`` for the first page.
        limit: Items on a page.
        render: Makes the JSON of the item at a place of *ids*.
    """
    if after is not None and after not in ids:
        return None
    start = 0 if after is None else ids.index(after) + 1
    shown = range(start, min(start + limit, len(ids)))
    ends = {"first_id": ids[shown[0]] if shown else None, "last_id": ids[shown[-1]] if shown else None}
    pieces: list[bytes | memoryview] = [b'{"object":"list","data":']
    pieces += joined(render(at) for at in shown)
    return [*pieces, closing({**ends, "has_more": len(ids) > shown.stop})]


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


_CONVERSATION_PARTS: Final = 3
"""Of the record of a conversation: the index of its items, the items, and ids of responses."""


@frozen
class Conversation:
    """One conversation, with all of its items."""

    id: str
    created_at: int
    """Seconds since the epoch."""

    metadata: Mapping[str, str]
    entries: Sequence[Entry] = field(default=(), repr=False)
    """Its items, oldest first; each has an id that no other has."""

    responses: Sequence[str] = ()
    """Ids of the stored responses that were given in it: they are forgotten with it."""

    @classmethod
    def decode(cls, data: bytes) -> Conversation:
        """The inverse of `encode`; items are not decoded.

        Raises:
            DamagedRecord: It cannot have made *data*.
        """
        record = Record.read(data, _CONVERSATION_PARTS)
        facts, (index, array, responses) = record.facts, record.parts
        if not has_members(facts, id=str, created_at=int, metadata=dict):
            raise DamagedRecord("its line has odd members")
        known = responses.decoded()
        if not isinstance(known, list) or not all(isinstance(each, str) for each in known):
            raise DamagedRecord("its responses are none")
        return cls(facts["id"], facts["created_at"], facts["metadata"], entries_of(index, array), known)

    def encode(self) -> bytes:
        """The record, for a store."""
        facts = {"id": self.id, "created_at": self.created_at, "metadata": dict(self.metadata)}
        parts = [index_of(self.entries)], array_of(self.entries), [dumps(list(self.responses))]
        return write_record(facts, *parts)

    @property
    def size(self) -> int:
        """Bytes of its items."""
        return sum(len(entry.data) for entry in self.entries)

    @property
    def values(self) -> int:
        """Values in them."""
        return sum(entry.values for entry in self.entries)

    @property
    def items(self) -> list[Item]:
        """Its items.

        Raises:
            DamagedRecord: One cannot be read.
        """
        return [entry.decoded() for entry in self.entries]

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
        taken = {entry.id for entry in self.entries}
        own = identified(_unnamed(items, taken), token)
        return evolve(self, entries=[*self.entries, *(Entry.of(item["id"], dumps(item)) for item in own)])

    def require_room(self, place: str) -> None:
        """Check that more may be added; the answer to that may go beyond the bound.

        Raises:
            RequestError: There are too many items, or values in them; *place* is the field that the client has to
                change.
        """
        if len(self.entries) >= CONVERSATION_ITEMS:
            raise invalid(place, f"it has {CONVERSATION_ITEMS} items, and no room for more; begin another conversation")
        self.require_readable(place)

    def require_readable(self, place: str) -> None:
        """Check that a request can build on all of it.

        Raises:
            RequestError: There are too many values in its items.
        """
        if self.values > JSON_VALUES:
            raise invalid(
                place, f"a conversation has at most {JSON_VALUES} values in its items; begin another conversation"
            )

    def without(self, item_id: str) -> Conversation:
        """The conversation without one of its items."""
        return evolve(self, entries=[entry for entry in self.entries if entry.id != item_id])

    def find(self, item_id: str) -> Entry | None:
        """One of its items."""
        return next((entry for entry in self.entries if entry.id == item_id), None)


def responses_of(data: bytes) -> Sequence[str]:
    """Ids of the responses that were given in the conversation of a record; none of one that is damaged."""
    try:
        known = Record.read(data, _CONVERSATION_PARTS).parts[2].decoded()
    except DamagedRecord:
        return ()
    return [each for each in known if isinstance(each, str)] if isinstance(known, list) else ()


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


def added_items(value: Any, known: Conversation) -> Sequence[Item]:
    """Items in the body of a request that make sense behind those of the conversation that is *known*.

    Raises:
        RequestError: They are too many, or one cannot be read where it stands; ``param`` names its place.
    """
    body = structure_value(value, ConversationBody, converter=CONVERTER)
    if len(body.items or ()) > _MOST_ADDED:
        raise invalid("items", f"at most {_MOST_ADDED} at a time")
    own: Sequence[Item] = value.get("items") or ()
    before = structure_value({"items": known.items}, ConversationBody, converter=CONVERTER).items or ()
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


_SEAL: Final = b'"encrypted_content"'

_STEP: Final = 256 * 1024
"""Bytes of an item that are looked through at a time, so that it is not copied."""


def unsealed(entry: Entry) -> bytes | memoryview:
    """JSON of an item as the API shows it to a client that has not asked for the seals of reasoning.

    Raises:
        DamagedRecord: It cannot be read.
    """
    data = memoryview(entry.data)
    if not any(_SEAL in bytes(data[at : at + _STEP + len(_SEAL)]) for at in range(0, len(data), _STEP)):
        return entry.data
    item = entry.decoded()
    if item.get("type") != "reasoning":
        return entry.data
    return dumps({name: value for name, value in item.items() if name != "encrypted_content"})
