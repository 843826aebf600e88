"""A response as it is kept, and a request that builds on such ones.

Every response holds its own input only; what was said before is found by way of ``previous_response_id``.  The id of an
item tells which response it belongs to, so that an item can be found without an index of its own.

The API lists input items afterwards: each with an id, and messages in their full form.

Source: https://platform.openai.com/docs/api-reference/responses/input-items
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.limits import REQUEST_DEPTH
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
        items: As in `kiro_asgi.dialects.openai_responses.options.ResponsesOptions.input_items`.
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
        said = item.get("role") == "assistant"
        part = {"type": "output_text", "text": content, "annotations": []}
        content = [part] if said else [{"type": "input_text", "text": content}]
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
"""What `response_of` gives for an id that tells of no response, as a service's own may be."""


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
