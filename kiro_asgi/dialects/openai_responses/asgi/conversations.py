"""Conversations that clients name: made, changed, listed and deleted, each client's for that client alone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from logging import getLogger
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.operations import Gateway
from kiro_asgi.asgi.protocol import JSON, Scope, query_values
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.asgi.stored import Keep, Responses
from kiro_asgi.dialects.openai_responses.kept import Conversation, Item, Kept, added_items, metadata_of, page, unsealed
from kiro_asgi.dialects.openai_responses.request import SEALED
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import BodyTooLarge, ConversationNotFound
from kiro_asgi.wire.json import dumps

_PAGE: Final = 20
_LARGEST_PAGE: Final = 100
"""Items of one page, by default and at most."""


@frozen
class Page:
    """The part of a list that a request asks for."""

    limit: int = _PAGE
    newest_first: bool = False
    after: str | None = None
    """Id of the last item of the page before."""

    @classmethod
    def read(cls, scope: Scope) -> Page:
        """The page that a request's query asks for.

        Raises:
            RequestError: There is no such page; ``param`` names the parameter.
        """
        query = {name: values[-1] for name, values in query_values(scope).items()}
        limit, order = query.get("limit", str(_PAGE)), query.get("order", "desc")
        if not re.fullmatch("[0-9]{1,3}", limit) or not 1 <= int(limit) <= _LARGEST_PAGE:
            raise invalid("limit", f"expected a number from 1 to {_LARGEST_PAGE}")
        if order not in ("asc", "desc"):
            raise invalid("order", "expected asc or desc")
        return cls(int(limit), order == "desc", query.get("after"))

    def of(self, items: Sequence[Item]) -> bytes:
        """JSON of this page of *items*, which are oldest first.

        Raises:
            RequestError: No item has the id that the page is to come after.
        """
        body = page(items[::-1] if self.newest_first else items, self.after, self.limit)
        if body is None:
            raise invalid("after", "no item of this list has that id")
        return body


_log = getLogger("kiro_asgi")

_KIND: Final = "conversation"

_MAX_ECHO: Final = 80
"""Characters of an unknown id that are repeated."""

_ITEMS: Final = "/items/"
"""Stands between the two names of a path."""


@frozen
class Conversations:
    """The kept conversations.  Those of one client are found with its own principal only.

    Every change is made under the conversation's lock: two gateways on one store lose no item to each other.
    """

    _responses: Responses
    _max_bytes: int
    """Of one conversation."""

    _offload: Offload = field(factory=Offload)
    """Reads and writes records, which may be of megabytes, outside the event loop."""

    async def get(self, principal: str, conversation_id: str) -> tuple[Conversation, int]:
        """One conversation, and its size in bytes.

        Raises:
            ConversationNotFound: It is not kept, or not any more, or not this client's.
            StoreUnavailable: It cannot be looked for now.
        """
        data = await self._responses.read(principal, _KIND, conversation_id)
        found = None if data is None else await self._offload.run(len(data), partial(Conversation.decode, data))
        if data is None or found is None:
            if data is not None:
                _log.error("a conversation is damaged, and counts as missing: %s", conversation_id[:_MAX_ECHO])
            raise ConversationNotFound(f"Conversation with id '{conversation_id[:_MAX_ECHO]}' not found.", code="")
        return found, len(data)

    async def keep(self, principal: str, conversation: Conversation) -> None:
        """Keep a new conversation.

        Raises:
            BodyTooLarge: It is too large.
        """
        async with self._responses.locked(principal, _KIND, conversation.id):
            await self._write(principal, conversation, self._max_bytes)

    async def change(
        self, principal: str, conversation_id: str, change: Callable[[Conversation], Conversation]
    ) -> Conversation:
        """Put what *change* makes of a conversation in its place.

        Raises:
            ConversationNotFound: As for `get`.
            BodyTooLarge: It would be too large.
        """
        async with self._responses.locked(principal, _KIND, conversation_id):
            found, size = await self.get(principal, conversation_id)
            changed = change(found)
            await self._write(principal, changed, size)
            return changed

    async def forget(self, principal: str, conversation_id: str) -> None:
        """Delete a conversation, and the responses that were given in it.

        Raises:
            ConversationNotFound: As for `get`.
        """
        async with self._responses.locked(principal, _KIND, conversation_id):
            found, _ = await self.get(principal, conversation_id)
            for response_id in found.responses:
                await self._responses.discard(principal, response_id)
            await self._responses.discard(principal, conversation_id, _KIND)

    async def extend(
        self, principal: str, conversation_id: str, keep: Keep | None, response_id: str, data: bytes
    ) -> None:
        """Put a response's items into its conversation, and keep the response by *keep*, if that is set.

        Of a conversation that was deleted meanwhile, nothing is kept.
        """
        kept = Kept.decode(data)
        assert kept is not None, "what was just encoded can be decoded"

        def extended(conversation: Conversation) -> Conversation:
            longer = conversation.with_items(kept.items, response_id.removeprefix("resp_") + "_c")
            return longer if keep is None else evolve(longer, responses=[*longer.responses, response_id])

        with anyio.CancelScope(shield=True):  # the answer is complete: its client may leave, the record is whole
            try:
                await self.change(principal, conversation_id, extended)
            except (ConversationNotFound, BodyTooLarge) as error:
                _log.warning("an answer could not be added to its conversation: %r", error)
            else:
                if keep is not None:
                    await keep(response_id, data)

    async def _write(self, principal: str, conversation: Conversation, size: int) -> None:
        """Keep a conversation that has about *size* bytes."""
        data = await self._offload.run(size, conversation.encode)
        if len(data) > self._max_bytes:
            raise BodyTooLarge(
                f"a conversation has at most {self._max_bytes} bytes; begin another one", code="body_too_large"
            )
        await self._responses.write(principal, _KIND, conversation.id, data)


@define
class ConversationOperations:
    """The operations on conversations, of one app."""

    _gateway: Gateway
    _dialect: Dialect
    _responses: Responses = field(init=False)
    _conversations: Conversations = field(init=False)

    async def make_conversation(self, call: Call, argument: str) -> None:
        """Begin a conversation, be it with items."""
        value = await self._value(call, empty=True)
        token = secrets.token_hex(24)
        new = Conversation(f"conv_{token}", int(self._gateway.wall()), metadata_of(value))
        new = new.with_items(added_items(value), secrets.token_hex(12))
        await self._conversations.keep(call.principal, new)
        await call.respond(200, new.resource, [JSON])

    async def show_conversation(self, call: Call, argument: str) -> None:
        """Show a conversation, without its items."""
        found, _ = await self._conversations.get(call.principal, argument)
        await call.respond(200, found.resource, [JSON])

    async def change_conversation(self, call: Call, argument: str) -> None:
        """Replace the metadata of a conversation."""
        metadata = metadata_of(await self._value(call))
        changed = await self._conversations.change(
            call.principal, argument, lambda found: evolve(found, metadata=metadata)
        )
        await call.respond(200, changed.resource, [JSON])

    async def delete_conversation(self, call: Call, argument: str) -> None:
        """Delete a conversation, with all of its items."""
        await self._conversations.forget(call.principal, argument)
        body = dumps({"id": argument, "object": "conversation.deleted", "deleted": True})
        await call.respond(200, body, [JSON])

    async def add_items(self, call: Call, argument: str) -> None:
        """Append items to a conversation."""
        value = await self._value(call)
        own: list[Item] = []

        def extended(found: Conversation) -> Conversation:
            found.require_room("items")
            longer = found.with_items(added_items(value, found.items), secrets.token_hex(12))
            own[:] = longer.items[len(found.items) :]
            return longer

        await self._conversations.change(call.principal, argument, extended)
        await call.respond(200, Page(limit=max(len(own), 1)).of(self._shown(call, own)), [JSON])

    async def list_items(self, call: Call, argument: str) -> None:
        """List the items of a conversation, a page at a time."""
        page = Page.read(call.scope)
        found, _ = await self._conversations.get(call.principal, argument)
        await call.respond(200, page.of(self._shown(call, found.items)), [JSON])

    async def show_item(self, call: Call, argument: str) -> None:
        """Show one item of a conversation."""
        _, item = await self._item(call, argument)
        await call.respond(200, dumps(self._shown(call, [item])[0]), [JSON])

    async def delete_item(self, call: Call, argument: str) -> None:
        """Delete one item of a conversation."""
        found, item = await self._item(call, argument)
        changed = await self._conversations.change(call.principal, found.id, lambda now: now.without(item["id"]))
        await call.respond(200, changed.resource, [JSON])

    async def _item(self, call: Call, argument: str) -> tuple[Conversation, Item]:
        """The conversation and the item that a path names.

        Raises:
            ConversationNotFound: There is none.
        """
        conversation_id, _, item_id = argument.partition(_ITEMS)
        found, _ = await self._conversations.get(call.principal, conversation_id)
        item = found.find(item_id)
        if item is None:
            raise ConversationNotFound(f"Item with id '{item_id[:_MAX_ECHO]}' not found.", code="")
        return found, item

    def _shown(self, call: Call, items: Iterable[Item]) -> list[Item]:
        """Items as this request's client gets them."""
        included = [name for key in ("include", "include[]") for name in query_values(call.scope).get(key, ())]
        return list(items) if SEALED in included else list(map(unsealed, items))

    async def _value(self, call: Call, *, empty: bool = False) -> Any:
        """The body, an object; that of a request that may do without one is *empty*."""
        body = await call.body(self._gateway.settings.limits)
        value = {} if empty and not body else await self._gateway.offload.run(len(body), partial(read_json, body))
        if not isinstance(value, dict):
            raise invalid("body", "expected an object")
        return value
