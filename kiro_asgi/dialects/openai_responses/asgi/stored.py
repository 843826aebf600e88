"""Responses that clients go back to: kept when complete, found again by their ids, each client's for it alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from logging import getLogger
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.protocol import Message, Send
from kiro_asgi.dialects.base import ParsedRequest, ResponseMeta
from kiro_asgi.dialects.openai_responses.compaction import kept_messages, untriggered
from kiro_asgi.dialects.openai_responses.compaction_encoder import CompactionEncoder, compaction_object
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import (
    NO_RESPONSE,
    Conversation,
    Item,
    Kept,
    encode,
    references,
    response_of,
)
from kiro_asgi.dialects.openai_responses.passthrough import ResponsePassthrough
from kiro_asgi.dialects.openai_responses.request import ResponsesOptions, options_of
from kiro_asgi.dialects.openai_responses.response import UNFINISHED
from kiro_asgi.dialects.passthrough import Fault
from kiro_asgi.errors import BodyTooLarge, RequestError, ResponseNotFound, StoreUnavailable
from kiro_asgi.limits import PREVIOUS_RESPONSES, REFERRED_ITEMS
from kiro_asgi.model.message import Message as Answer
from kiro_asgi.model.message import replay
from kiro_asgi.state.base import Store, scoped
from kiro_asgi.wire.json import dumps

_log = getLogger("kiro_asgi")

_KIND: Final = "response"

_ITEM: Final = "response_item"

_MAX_ECHO: Final = 80
"""Characters of an unknown id that are repeated."""


Keep = Callable[[str, bytes], Awaitable[None]]
"""Keeps a response under its id, as bytes that `kiro_asgi.dialects.openai_responses.kept.encode` has made."""

Refer = Callable[[str, Iterable[str]], Awaitable[None]]
"""Makes items findable by their own ids, which belong to the response of an id."""


@frozen
class StoredConversation:
    """A request with everything in it that it builds on."""

    value: dict[str, Any]
    """The request, as one that has the whole conversation in its input."""

    earlier: int = 0
    """Items at the beginning of the input that stem from the responses before."""

    size: int = 0
    """Bytes of what it builds on."""


@frozen
class Responses:
    """The kept responses.  Those of one client are found with its own principal only."""

    _store: Store
    _ttl: float
    """Seconds."""

    _max_bytes: int
    """Of all the responses that one request builds on."""

    _second_look: float = 0.0
    """Seconds after which a missing record is looked for again, as another process may just be writing it."""

    _missed: Callable[[], None] = lambda: None
    """Called where one is not there."""

    @property
    def unstored(self) -> Keep | None:
        """Keeps a response that is not to be stored, as long as its client is there; ``None``: nothing does."""
        return None

    async def get(self, principal: str, response_id: str) -> Kept:
        """One response.

        Raises:
            ResponseNotFound: It is not kept, or not any more, or not this client's.
            StoreUnavailable: It cannot be looked for now.
        """
        kept, _ = await self._kept(principal, response_id)
        if kept is None:
            raise _not_found(response_id)
        return kept

    async def keep(self, principal: str, response_id: str, data: bytes) -> None:
        """Keep a response, which `kiro_asgi.dialects.openai_responses.kept.encode` has made *data* of."""
        await self.write(principal, _KIND, response_id, data)

    async def refer(self, principal: str, response_id: str, item_ids: Iterable[str]) -> None:
        """Make items of this response findable whose ids do not name it."""
        for item_id in islice(item_ids, REFERRED_ITEMS):
            if response_of(item_id) == NO_RESPONSE:
                await self.write(principal, _ITEM, item_id, response_id.encode())

    async def write(self, principal: str, kind: str, name: str, data: bytes) -> None:
        """Keep a record of some kind."""
        await self._store.set(scoped(principal, kind, name), data, self._ttl)

    async def has(self, principal: str, response_id: str) -> bool:
        """Whether a response is kept."""
        return await self._store.get(scoped(principal, _KIND, response_id)) is not None

    async def replace(self, principal: str, response_id: str, data: bytes) -> None:
        """Keep a response in the place of its earlier state, unless that was deleted."""
        if await self.has(principal, response_id):
            await self.keep(principal, response_id, data)

    async def read(self, principal: str, kind: str, name: str, *, second_look: bool = True) -> bytes | None:
        """A record of some kind; *second_look* where another process may just be writing it.

        Raises:
            StoreUnavailable: It cannot be looked for now.
        """
        key = scoped(principal, kind, name)
        data = await self._store.get(key)
        if data is None and second_look and self._second_look:
            await anyio.sleep(self._second_look)
            data = await self._store.get(key)
        return data

    async def discard(self, principal: str, name: str, kind: str = _KIND) -> None:
        """Delete a record, if there is one."""
        await self._store.delete(scoped(principal, kind, name))

    def locked(self, principal: str, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        """Exclude others who change the same record."""
        return self._store.lock(scoped(principal, kind, name))

    async def forget(self, principal: str, response_id: str) -> None:
        """Delete a response.

        Raises:
            ResponseNotFound: As for `get`.
        """
        if await self._store.take(scoped(principal, _KIND, response_id)) is None:
            raise _not_found(response_id)

    def of_connection(self, held: Store, connection: str) -> ConnectionResponses:
        """These, and those that the *connection* of that name alone can go on with, which are in *held*."""
        return ConnectionResponses(
            self._store, self._ttl, self._max_bytes, self._second_look, self._missed, held=held, connection=connection
        )

    async def complete(
        self, principal: str, value: dict[str, Any], conversation: tuple[Conversation, int] | None = None
    ) -> StoredConversation:
        """Put what the request *value* builds on before its input, and stored items in the place of references.

        Args:
            principal: Whose request it is.
            value: Its body.
            conversation: The conversation that it names, and the bytes of that.

        Values of a wrong type are left to the reader of the request.

        Raises:
            RequestError: A response that it builds on is not kept (code ``previous_response_not_found``), or there are
                too many of them.
            BodyTooLarge: They are too large.
            StoreUnavailable: They cannot be looked for now.
        """
        previous, items = value.get("previous_response_id"), value.get("input")
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        continues = conversation is not None or isinstance(previous, str)
        if not isinstance(items, list) or not (continues or any(references(items))):
            return StoredConversation(value)
        earlier, size = await self._earlier(principal, previous) if isinstance(previous, str) else ([], 0)
        if conversation is not None:
            earlier, size = list(conversation[0].items), conversation[1]
            self._check(size)
        own, more = await self._resolved(principal, items, earlier if conversation is not None else ())
        return StoredConversation({**value, "input": [*earlier, *own]}, len(earlier), size + more)

    async def _earlier(self, principal: str, previous: str | None) -> tuple[list[Any], int]:
        """Every item of the responses up to *previous*, oldest first, and the bytes of these responses."""
        chain: list[Kept] = []
        size = 0
        while previous is not None:
            kept, more = await self._kept(principal, previous)
            if kept is None:
                raise not_built_on(previous)
            if kept.response.get("status") in UNFINISHED:
                raise _chain_error(f"response {previous[:_MAX_ECHO]} is still being made", "not_finished")
            size += more
            self._check(size)
            if len(chain) == PREVIOUS_RESPONSES:
                raise _chain_error(
                    f"more than {PREVIOUS_RESPONSES} responses come before; send the conversation", "too_long"
                )
            if kept.response.get("conversation") is not None:
                raise _chain_error(
                    f"response {previous[:_MAX_ECHO]} is part of a conversation: name that instead", "in_conversation"
                )
            chain.append(kept)
            previous = kept.previous
        return [item for kept in reversed(chain) for item in kept.items], size

    async def _resolved(self, principal: str, items: list[Any], near: Sequence[Item] = ()) -> tuple[list[Any], int]:
        """*items* with those that are referred to, and the bytes of these; what is not kept stays a reference.

        Those *near* are looked at first: items of a conversation belong to no response that could be found.
        """
        resolved, size = list(items), 0
        known: dict[str, dict[str, tuple[Item, int]]] = {}
        here = {item["id"]: item for item in near}
        for place, item_id in references(items):
            if item_id in here:
                resolved[place] = here[item_id]
                size += len(dumps(here[item_id]))
                self._check(size)
                continue
            owner = await self._owner(principal, item_id)
            if owner not in known:
                kept, more = await self._kept(principal, owner)
                known[owner] = {} if kept is None else kept.sized
                size += more
            resolved[place], more = known[owner].get(item_id, (items[place], 0))
            size += more  # each time anew: a hundred references to a large item are a large request
            self._check(size)
        return resolved, size

    async def _owner(self, principal: str, item_id: str) -> str:
        """Id of the response that an item belongs to; some text where none is known."""
        named = response_of(item_id)
        if named != NO_RESPONSE:
            return named
        data = await self._store.get(scoped(principal, _ITEM, item_id))
        return named if data is None else data.decode()

    def _check(self, size: int) -> None:
        """Build on no more than a request may hold that sends it all."""
        if size > self._max_bytes:
            raise BodyTooLarge(f"the conversation is larger than {self._max_bytes} bytes", code="body_too_large")

    async def _kept(self, principal: str, response_id: str) -> tuple[Kept | None, int]:
        """A response, and its size in bytes.  What is damaged is not there."""
        data = await self.read(principal, _KIND, response_id)
        if data is None:
            self._missed()
            return None, 0
        return _decoded(response_id, data)


@frozen
class ConnectionResponses(Responses):
    """Those of a client, and those that one connection alone can go on with: they were not to be stored.

    All connections share the room for the latter; each gives its part back at its end.
    """

    _held: Store = field(kw_only=True)
    _connection: str = field(kw_only=True)
    """A name that no other connection has."""

    _ids: set[str] = field(init=False, factory=set)

    @property
    def unstored(self) -> Keep:
        """Keeps a response for this connection."""
        return self._hold

    async def _hold(self, response_id: str, data: bytes) -> None:
        self._ids.add(response_id)
        await self._held.set(self._key(response_id), data, self._ttl)

    async def let_go(self, response_id: str) -> None:
        """Forget a response, if it is one of this connection's."""
        if response_id in self._ids:
            self._ids.discard(response_id)
            await self._held.delete(self._key(response_id))

    async def let_go_all(self) -> None:
        """Forget what this connection holds."""
        for response_id in tuple(self._ids):
            await self.let_go(response_id)

    async def _kept(self, principal: str, response_id: str) -> tuple[Kept | None, int]:
        data = await self._held.get(self._key(response_id)) if response_id in self._ids else None
        return await super()._kept(principal, response_id) if data is None else _decoded(response_id, data)

    def _key(self, response_id: str) -> str:
        return scoped(self._connection, _KIND, response_id)


def _decoded(response_id: str, data: bytes) -> tuple[Kept | None, int]:
    """A response, and its size in bytes.  What is damaged is not there."""
    kept = Kept.decode(data)
    if kept is None:
        _log.error("a response is damaged, and counts as missing: %s", response_id[:_MAX_ECHO])
    return kept, len(data)


def _not_found(response_id: str) -> ResponseNotFound:
    return ResponseNotFound(f"Response with id '{response_id[:_MAX_ECHO]}' not found.", code="")


def not_built_on(response_id: str) -> RequestError:
    """The error for a request that builds on a response that is not kept."""
    return _chain_error(f"Previous response with id '{response_id[:_MAX_ECHO]}' not found.", "not_found")


def _chain_error(message: str, code: str) -> RequestError:
    return RequestError(message, code=f"previous_response_{code}", param="previous_response_id")


@frozen
class Recorded(OpenAIResponses):
    """The dialect for one request: it remembers the stages of the answer, which know what the client received."""

    answers: list[tuple[ResponseMeta, ResponsesEncoder | ResponsePassthrough]] = field(factory=list)
    settled: ResponseMeta | None = None
    """Facts of the answer that the client knows already."""

    passed: ResponsesOptions | None = None
    """Options of a request that goes on as it is."""

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        meta = self.settled or super().meta(parsed, token, created)
        return meta if meta.options is not None else evolve(meta, options=self.passed)

    def passthrough(self, fault: Fault, meta: ResponseMeta, name: str = "") -> ResponsePassthrough:
        """A fresh stage for an answer that a service of this API gives, the last of which counts."""
        stage = super().passthrough(fault, meta, name)
        self.answers.append((meta, stage))
        return stage

    def encoder(self, meta: ResponseMeta) -> ResponsesEncoder:
        """A fresh encoder, the last of which counts."""
        encoder = super().encoder(meta)
        self.answers.append((meta, encoder))
        return encoder


@frozen
class Compacting(Recorded):
    """The dialect for a request to compact, which is answered with an object of another form."""

    def render(self, message: Answer, meta: ResponseMeta) -> Iterator[bytes]:
        """The JSON body."""
        encoder = self.encoder(meta)
        assert isinstance(encoder, CompactionEncoder), "a request to compact"
        for _ in encoder.feed(replay(message)):
            yield b""
        yield compaction_object(meta, encoder, self.repeated(meta))

    def repeated(self, meta: ResponseMeta) -> Iterable[Item]:
        """Messages that the answer repeats before the compaction."""
        return kept_messages(options_of(meta).input_items)


@frozen
class CompactingAlone(Compacting):
    """One that is answered with the compaction alone."""

    def repeated(self, meta: ResponseMeta) -> Iterable[Item]:
        """None."""
        return ()


@define
class Keeping:
    """Keeps one answer when it has come to its end, before the client learns of that: its next request may follow.

    That delays no client: a store takes what it is given, and writes it down later.
    """

    _keep_as: Keep
    _dialect: Recorded
    _earlier: int
    """Items at the beginning of the input that are not the request's own."""

    _send: Send
    _refer: Refer | None = None
    """Makes the items of an answer that went through findable, by the service's ids."""

    _kept: bool = field(init=False, default=False)

    async def send(self, message: Message) -> None:
        """Send; before the message that holds the end of the answer, keep that."""
        if not self._kept and message["type"] == "http.response.body":
            answers = self._dialect.answers  # none before the first event of an answer that goes through
            if answers and answers[-1][1].complete:
                self._kept = True
                await self._keep(*answers[-1])
        await self._send(message)

    async def _keep(self, meta: ResponseMeta, encoder: ResponsesEncoder | ResponsePassthrough) -> None:
        items = untriggered(options_of(meta).input_items[self._earlier :])
        data = encode(meta.id, encoder.response, items, encoder.seals)
        try:
            await self._keep_as(meta.id, data)
            if self._refer is not None and isinstance(encoder, ResponsePassthrough):
                await self._refer(meta.id, encoder.item_ids)
        except StoreUnavailable as error:
            _log.warning("a response could not be stored: %r", error)
