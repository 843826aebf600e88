"""Conversations that clients name: made, changed, listed and deleted, each client's for that client alone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from logging import getLogger
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.apis.operations import Gateway
from kiro_asgi.apis.responses.owners import Owner
from kiro_asgi.apis.responses.stored import Keep, Responses
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.protocol import JSON, Scope, query_values, respond_in_pieces
from kiro_asgi.asgi.scheduling import Offload, T
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.errors import invalid
from kiro_asgi.dialects.openai_responses.kept import (
    Conversation,
    Kept,
    added_items,
    metadata_of,
    page,
    responses_of,
    unsealed,
)
from kiro_asgi.dialects.openai_responses.parsing import SEALED
from kiro_asgi.dialects.openai_responses.records import DamagedRecord, Entry
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

    def of(
        self, entries: Sequence[Entry], render: Callable[[Entry], bytes | memoryview]
    ) -> Sequence[bytes | memoryview]:
        """JSON of this page of *entries*, which are oldest first, each made by *render*; in pieces.

        Raises:
            RequestError: No item has the id that the page is to come after.
        """
        listed = entries[::-1] if self.newest_first else entries
        body = page([entry.id for entry in listed], self.after, self.limit, lambda at: render(listed[at]))
        if body is None:
            raise invalid("after", "no item of this list has that id")
        return body


_log = getLogger("kiro_asgi")

_KIND: Final = "conversation.2"
"""The number is the version of the layout."""

_MAX_ECHO: Final = 80
"""Characters of an unknown id that are repeated."""

_ITEMS: Final = "/items/"
"""Stands between the two names of a path."""

Change = Callable[[Conversation], Conversation]


@frozen
class Conversations:
    """The kept conversations.  Those of one client are found with its own principal only.

    Every change is made under the conversation's lock: two gateways on one store lose no item to each other.
    """

    _responses: Responses
    _max_bytes: int
    """Of one conversation."""

    _offload: Offload = field(factory=Offload)
    """Checks what clients add, beside the event loop."""

    _apart: Offload = field(factory=Offload)
    """Reads records, and adds answers to them, likewise: no answer waits for what clients add."""

    async def get(self, owner: Owner, conversation_id: str) -> tuple[Conversation, int]:
        """One conversation, and the bytes of its record.

        Raises:
            ConversationNotFound: It is not kept, or not any more, or not this client's.
            StoreUnavailable: It cannot be looked for now.
            TooBusy: The client reads too much of what it has stored.
        """
        data = await self._responses.read(owner, _KIND, conversation_id)
        if data is None:
            raise _not_found(conversation_id)
        try:
            return await self._apart.run(len(data), partial(Conversation.decode, data)), len(data)
        except DamagedRecord as error:
            raise _damaged(conversation_id, error) from None

    async def keep(self, principal: str, make: Callable[[], Conversation], size: int) -> Conversation:
        """Keep a new conversation, and return it.

        Args:
            principal: Whose it is.
            make: Makes it, of *size* bytes.
            size: As much as is to be done for that.

        Raises:
            RequestError: It cannot be read, or has too many values.
            BodyTooLarge: It is too large.
        """
        made, data = await self._offload.run(size, lambda: self._encoded(make()))
        async with self._responses.locked(principal, _KIND, made.id):
            await self._responses.write(principal, _KIND, made.id, data)
        return made

    async def change(self, owner: Owner, conversation_id: str, change: Change, more: int = 0) -> Conversation:
        """Replace a conversation by the result of *change*, and return it.

        Args:
            owner: Whose it is.
            conversation_id: Which.
            change: Makes the new one of the old one.
            more: Bytes that it works on beside the record.

        Raises:
            ConversationNotFound: As for `get`.
            RequestError: It would have too many values.
            BodyTooLarge: It would be too large.
        """
        return await self._change(owner, conversation_id, change, more, self._offload)

    async def _change(
        self, owner: Owner, conversation_id: str, change: Change, more: int, offload: Offload
    ) -> Conversation:
        async with self._responses.locked(owner.principal, _KIND, conversation_id):
            found, size = await self.get(owner, conversation_id)
            try:
                changed, data = await offload.run(size + more, lambda: self._encoded(change(found)))
            except DamagedRecord as error:
                raise _damaged(conversation_id, error) from None
            await self._responses.write(owner.principal, _KIND, conversation_id, data)
            return changed

    async def forget(self, principal: str, conversation_id: str) -> None:
        """Delete a conversation, and the responses that were given in it.

        Nothing of it is decoded but their ids; one that is damaged is deleted as well.

        Raises:
            ConversationNotFound: As for `get`.
        """
        async with self._responses.locked(principal, _KIND, conversation_id):
            data = await self._responses.read(Owner(principal), _KIND, conversation_id)
            if data is None:
                raise _not_found(conversation_id)
            for response_id in await self._apart.run(len(data), partial(responses_of, data)):
                await self._responses.discard(principal, response_id)  # first, as only the conversation has their ids
            await self._responses.discard(principal, conversation_id, _KIND)

    async def extend(
        self, principal: str, conversation_id: str, keep: Keep | None, response_id: str, data: bytes
    ) -> None:
        """Put a response's items into its conversation, and keep the response by way of *keep*, if at all.

        Of a conversation that was deleted meanwhile, nothing is kept.
        """

        def extended(conversation: Conversation) -> Conversation:
            longer = conversation.with_items(Kept.decode(data).items, response_id.removeprefix("resp_") + "_c")
            return longer if keep is None else evolve(longer, responses=[*longer.responses, response_id])

        with anyio.CancelScope(shield=True):  # the answer is complete: its client may leave, the record is whole
            try:
                await self._change(Owner(principal), conversation_id, extended, len(data), self._apart)
            except (ConversationNotFound, BodyTooLarge) as error:
                _log.warning("an answer could not be added to its conversation: %r", error)
            else:
                if keep is not None:
                    await keep(response_id, data)

    def _encoded(self, conversation: Conversation) -> tuple[Conversation, bytes]:
        """A conversation, and its record."""
        data = conversation.encode()
        if len(data) > self._max_bytes:
            raise BodyTooLarge(
                f"a conversation has at most {self._max_bytes} bytes; begin another one", code="body_too_large"
            )
        return conversation, data


def _damaged(conversation_id: str, error: DamagedRecord) -> ConversationNotFound:
    """The error for a conversation that cannot be read; logs it."""
    _log.error("a conversation is damaged, and counts as missing: %s: %s", conversation_id[:_MAX_ECHO], error)
    return _not_found(conversation_id)


def _not_found(conversation_id: str) -> ConversationNotFound:
    return ConversationNotFound(f"Conversation with id '{conversation_id[:_MAX_ECHO]}' not found.", code="")


@define
class ConversationOperations:
    """The operations on conversations, of one app."""

    _gateway: Gateway
    _dialect: Dialect
    _responses: Responses = field(init=False)
    _conversations: Conversations = field(init=False)
    _apart: Offload = field(init=False)
    """Works on what is stored: who looks at it does not wait until other requests have been read."""

    async def make_conversation(self, call: Call, argument: str) -> None:
        """Begin a conversation, be it with items."""
        await self._gateway.count(call)
        value, size = await self._value(call, empty=True)

        def made() -> Conversation:
            new = Conversation(f"conv_{secrets.token_hex(24)}", int(self._gateway.wall()), metadata_of(value))
            return _extended(new, value)

        new = await self._conversations.keep(call.principal, made, size)
        await call.respond(200, new.resource, [JSON])

    async def show_conversation(self, call: Call, argument: str) -> None:
        """Show a conversation, without its items."""
        await self._gateway.count(call)
        found, _ = await self._conversations.get(Owner.of(call), argument)
        await call.respond(200, found.resource, [JSON])

    async def change_conversation(self, call: Call, argument: str) -> None:
        """Replace the metadata of a conversation."""
        await self._gateway.count(call)
        metadata = metadata_of((await self._value(call))[0])
        changed = await self._conversations.change(
            Owner.of(call), argument, lambda found: evolve(found, metadata=metadata)
        )
        await call.respond(200, changed.resource, [JSON])

    async def delete_conversation(self, call: Call, argument: str) -> None:
        """Delete a conversation, with all of its items."""
        await self._gateway.count(call)
        await self._conversations.forget(call.principal, argument)
        body = dumps({"id": argument, "object": "conversation.deleted", "deleted": True})
        await call.respond(200, body, [JSON])

    async def add_items(self, call: Call, argument: str) -> None:
        """Put items behind those of a conversation."""
        await self._gateway.count(call)
        value, size = await self._value(call)
        before = 0

        def extended(found: Conversation) -> Conversation:
            nonlocal before
            before = len(found.entries)
            found.require_room("items")
            return _extended(found, value)

        changed = await self._conversations.change(Owner.of(call), argument, extended, size)
        own = changed.entries[before:]
        await self._send_page(call, Page(limit=max(len(own), 1)), own, size)

    async def list_items(self, call: Call, argument: str) -> None:
        """List the items of a conversation, a page at a time."""
        await self._gateway.count(call)
        page = Page.read(call.scope)
        found, size = await self._conversations.get(Owner.of(call), argument)
        await self._send_page(call, page, found.entries, size)

    async def show_item(self, call: Call, argument: str) -> None:
        """Show one item of a conversation."""
        await self._gateway.count(call)
        _, item = await self._item(call, argument)
        body = await self._stored(len(item.data), partial(_shown(call), item))
        await self._send(call, [body])

    async def delete_item(self, call: Call, argument: str) -> None:
        """Delete one item of a conversation."""
        await self._gateway.count(call)
        found, item = await self._item(call, argument)
        owner = Owner(call.principal)  # who has paid for it
        changed = await self._conversations.change(owner, found.id, lambda now: now.without(item.id))
        await call.respond(200, changed.resource, [JSON])

    async def _item(self, call: Call, argument: str) -> tuple[Conversation, Entry]:
        """The conversation and the item that a path names.

        Raises:
            ConversationNotFound: There is none.
        """
        conversation_id, _, item_id = argument.partition(_ITEMS)
        found, _ = await self._conversations.get(Owner.of(call), conversation_id)
        item = found.find(item_id)
        if item is None:
            raise ConversationNotFound(f"Item with id '{item_id[:_MAX_ECHO]}' not found.", code="")
        return found, item

    async def _send_page(self, call: Call, page: Page, entries: Sequence[Entry], size: int) -> None:
        """Send a page of *entries*, which have *size* bytes in all, as this request's client gets them."""
        await self._send(call, await self._stored(size, partial(page.of, entries, _shown(call))))

    async def _send(self, call: Call, body: Sequence[bytes | memoryview]) -> None:
        """Send JSON in pieces, which may be parts of a record."""
        await respond_in_pieces(call.in_time(call.send), 200, body, [JSON, *call.headers])

    async def _stored(self, size: int, work: Callable[[], T]) -> T:
        """Do *work* on *size* bytes of a record beside the event loop.

        Raises:
            ConversationNotFound: They are damaged.
        """
        try:
            return await self._apart.run(size, work)
        except DamagedRecord as error:
            _log.error("a record is damaged, and counts as missing: %s", error)
            raise ConversationNotFound("what is stored there cannot be read any more", code="") from None

    async def _value(self, call: Call, *, empty: bool = False) -> tuple[Any, int]:
        """The body, an object, and its bytes; that of a request that may do without one is *empty*."""
        body = await call.body(self._gateway.settings.limits)
        value = {} if empty and not body else await self._gateway.offload.run(len(body), partial(read_json, body))
        if not isinstance(value, dict):
            raise invalid("body", "expected an object")
        return value, len(body)


def _extended(found: Conversation, value: Any) -> Conversation:
    """*found* with the items in the body *value* of a request; decodes what is there, as that has to fit.

    Raises:
        RequestError: They do not make sense there, or are too many.
    """
    longer = found.with_items(added_items(value, found), secrets.token_hex(12))
    longer.require_readable("items")
    return longer


def _shown(call: Call) -> Callable[[Entry], bytes | memoryview]:
    """Makes JSON of items as the client of *call* gets them."""
    included = [name for key in ("include", "include[]") for name in query_values(call.scope).get(key, ())]
    return (lambda entry: entry.data) if SEALED in included else unsealed
