"""Responses that clients go back to: kept when complete, found again by their ids, each client's for it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import chain, islice
from logging import getLogger
from typing import Any, Final

import anyio
from attrs import define, field, frozen

from kiro_asgi.apis.responses.owners import Owner, Turns
from kiro_asgi.asgi.protocol import Message, Send
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.dialects.base import ParsedRequest, ResponseMeta
from kiro_asgi.dialects.errors import invalid
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
from kiro_asgi.dialects.openai_responses.parsing import options_of
from kiro_asgi.dialects.openai_responses.passthrough import ResponsePassthrough
from kiro_asgi.dialects.openai_responses.records import DamagedRecord, Entry
from kiro_asgi.dialects.openai_responses.response import UNFINISHED
from kiro_asgi.dialects.passthrough import Fault
from kiro_asgi.errors import BodyTooLarge, RequestError, ResponseNotFound, StoreUnavailable
from kiro_asgi.limits import ID_CHARACTERS, JSON_VALUES, PREVIOUS_RESPONSES, REFERENCES, REFERRED_ITEMS
from kiro_asgi.model.message import Message as Answer
from kiro_asgi.model.message import replay
from kiro_asgi.state.base import Store, scoped

_log = getLogger("kiro_asgi")

_KIND: Final = "response.2"
"""The number is the version of the layout."""

_ITEM: Final = "response_item"

_VALUE_BYTES: Final = 192
"""Memory for a value of what a request builds on, in addition to its JSON, from the value to the prompt: some 140 where
parts have one character each, and more to be safe."""

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


@define
class _Built:
    """What a request builds on: it may have as much as the body of a request, and is counted before it is decoded."""

    _max_bytes: int
    before: list[Kept | Conversation] = field(init=False, factory=list)
    """Newest first."""

    referred: dict[str, Entry] = field(init=False, factory=dict)
    """Items that are referred to, by their ids."""

    size: int = field(init=False, default=0)
    values: int = field(init=False, default=0)

    def add(self, record: Kept | Conversation, place: str) -> None:
        """Build on all items of *record*, which *place* names.

        Raises:
            BodyTooLarge: They have too many bytes.
            RequestError: They have too many values.
        """
        self.count(record.size, record.values, place)
        self.before.append(record)

    def count(self, size: int, values: int, place: str) -> None:
        """Count what is decoded for *place*; raises as `add`."""
        self.size, self.values = self.size + size, self.values + values
        if self.size > self._max_bytes:
            raise BodyTooLarge(f"the conversation is larger than {self._max_bytes} bytes", code="body_too_large")
        if self.values > JSON_VALUES:
            raise invalid(place, f"the conversation has more than {JSON_VALUES} values; begin a shorter one")

    def put_before(self, value: dict[str, Any], items: list[Any], place: str) -> StoredConversation:
        """The request *value*, whose own input is *items*, with all of this in it.  Decodes: for a thread.

        Raises:
            RequestError: With its own values there are too many.
            DamagedRecord: A record cannot be read.
        """
        self.count(0, _values_of(value), place)
        earlier = [item for record in reversed(self.before) for item in record.items]
        known = {item_id: entry.decoded() for item_id, entry in self.referred.items()}
        own = list(items)
        for at, item_id in references(items):
            own[at] = known.get(item_id, own[at])
        return StoredConversation({**value, "input": [*earlier, *own]}, len(earlier), self.size)


def _values_of(value: Any) -> int:
    """Elements and members in *value*, as they are counted in JSON."""
    count, rest = 0, [value]
    while rest:
        inner = rest.pop()
        if isinstance(inner, (dict, list)):
            count += max(len(inner), 1)
            rest += inner.values() if isinstance(inner, dict) else inner
    return count


@frozen
class Responses:
    """The kept responses.  Those of one client are found with its own principal only."""

    _store: Store
    _ttl: float
    """Seconds."""

    _max_bytes: int
    """Of all that one request builds on."""

    _second_look: float = 0.0
    """Seconds after which a missing record is looked for again, as another process may just be writing it."""

    _missed: Callable[[], None] = lambda: None
    """Called where one is not there."""

    _offload: Offload = field(factory=Offload)
    """Decodes what requests build on, as it reads requests."""

    _turns: Turns = field(factory=Turns)
    """Turns to read."""

    @property
    def unstored(self) -> Keep | None:
        """Keeps a response that is not to be stored, as long as its client is there; ``None``: nothing does."""
        return None

    async def get(self, owner: Owner, response_id: str) -> Kept:
        """One response.

        Raises:
            ResponseNotFound: It is not kept, or not any more, or not this client's.
            StoreUnavailable: It cannot be looked for now.
            TooBusy: The client reads too much of what it has stored.
        """
        kept = await self._kept(owner, response_id)
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
        return await self._read(Owner(principal), _KIND, response_id) is not None

    async def replace(self, principal: str, response_id: str, data: bytes) -> None:
        """Keep a response in the place of its earlier state, unless that was deleted."""
        if await self.has(principal, response_id):
            await self.keep(principal, response_id, data)

    async def read(self, owner: Owner, kind: str, name: str, *, second_look: bool = True) -> bytes | None:
        """A record of some kind; *second_look* where another process may just be writing it.

        Raises:
            StoreUnavailable: It cannot be looked for now.
            TooBusy: The client reads too much of what it has stored.
        """
        data = await self._read(owner, kind, name)
        if data is None and second_look and self._second_look:
            await anyio.sleep(self._second_look)
            data = await self._read(owner, kind, name)
        return data

    async def _read(self, owner: Owner, kind: str, name: str) -> bytes | None:
        if len(name) > ID_CHARACTERS:  # nothing is kept under such a name
            return None
        async with self._turns.turn(owner.principal):
            data = await self._store.get(scoped(owner.principal, kind, name))
            if data is not None:
                owner.hold(len(data))
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
        async with self._turns.turn(principal):
            if await self._store.take(scoped(principal, _KIND, response_id)) is None:
                raise _not_found(response_id)

    def of_connection(self, held: Store, connection: str) -> ConnectionResponses:
        """These, and those that the *connection* of that name alone can go on with, which are in *held*."""
        return ConnectionResponses(
            self._store,
            self._ttl,
            self._max_bytes,
            self._second_look,
            self._missed,
            self._offload,
            self._turns,
            held=held,
            connection=connection,
        )

    async def complete(
        self, owner: Owner, value: dict[str, Any], conversation: Conversation | None = None
    ) -> StoredConversation:
        """Put what the request *value* builds on before its input, and stored items in the place of references.

        Args:
            owner: Whose request it is.
            value: Its body.
            conversation: The conversation that it names.

        Values of a wrong type are left to the reader of the request.

        Raises:
            RequestError: A response that it builds on is not kept (code ``previous_response_not_found``), or there are
                too many of them, of references, or of values in all of it.
            BodyTooLarge: It is too large.
            StoreUnavailable: They cannot be looked for now.
            TooBusy: The client reads too much of what it has stored.
        """
        previous, items = value.get("previous_response_id"), value.get("input")
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        continues = conversation is not None or isinstance(previous, str)
        if not isinstance(items, list) or not (continues or any(references(items))):
            return StoredConversation(value)
        built = _Built(self._max_bytes)
        place = "conversation" if conversation is not None else "previous_response_id" if continues else "input"
        if isinstance(previous, str):
            await self._build_on(owner, previous, built)
        if conversation is not None:
            built.add(conversation, place)
        await self._refer_to(owner, items, built)
        owner.hold(_VALUE_BYTES * built.values)  # as values, short texts take many times their bytes
        try:
            return await self._offload.run(built.size, partial(built.put_before, value, items, place))
        except DamagedRecord as error:
            _log.error("a conversation is damaged, and counts as missing: %s", error)
            if isinstance(previous, str):
                raise not_built_on(previous) from None
            raise invalid(place, "what is stored of it cannot be read any more") from None

    async def _build_on(self, owner: Owner, previous: str | None, built: _Built) -> None:
        """Build on every response up to *previous*."""
        while previous is not None:
            kept = await self._kept(owner, previous)
            if kept is None:
                raise not_built_on(previous)
            if kept.status in UNFINISHED:
                raise _chain_error(f"response {previous[:_MAX_ECHO]} is still being made", "not_finished")
            if len(built.before) == PREVIOUS_RESPONSES:
                raise _chain_error(
                    f"more than {PREVIOUS_RESPONSES} responses come before; send the conversation", "too_long"
                )
            built.add(kept, "previous_response_id")
            if kept.in_conversation:
                raise _chain_error(
                    f"response {previous[:_MAX_ECHO]} is part of a conversation: name that instead", "in_conversation"
                )
            previous = kept.previous

    async def _refer_to(self, owner: Owner, items: list[Any], built: _Built) -> None:
        """Find the items that *items* refer to; what is not kept stays a reference.

        Those of a conversation are in it: they belong to no response that could be found.
        """
        named = list(references(items))
        if len(named) > REFERENCES:
            place = f"input[{named[REFERENCES][0]}]"
            raise invalid(place, f"at most {REFERENCES} items of a request may refer to stored ones")
        wanted = {item_id for _, item_id in named}
        near = (each.entries for each in built.before if isinstance(each, Conversation))
        built.referred |= {entry.id: entry for entry in chain.from_iterable(near) if entry.id in wanted}
        owners = await self._owners(owner, wanted.difference(built.referred))
        async for kept, size in self._all(owner, owners):
            found = await self._offload.run(size, partial(_found, kept, owners[kept.id]))
            built.count(kept.size, 0, "input")
            built.referred |= found
        for at, item_id in named:  # each time anew: a hundred references to a large item are a large request
            if (entry := built.referred.get(item_id)) is not None:
                built.count(len(entry.data), entry.values, f"input[{at}]")

    async def _owners(self, owner: Owner, item_ids: Iterable[str]) -> dict[str, set[str]]:
        """Items by the ids of the responses that they belong to, as far as those are known."""
        owners: dict[str, set[str]] = {}
        for item_id in item_ids:
            response_id = response_of(item_id)
            if response_id == NO_RESPONSE and len(item_id) <= ID_CHARACTERS:
                data = await self._store.get(scoped(owner.principal, _ITEM, item_id))
                response_id = "" if data is None else data.decode(errors="replace")
            if response_id:
                owners.setdefault(response_id, set()).add(item_id)
        return owners

    async def _all(self, owner: Owner, response_ids: Iterable[str]) -> AsyncIterator[tuple[Kept, int]]:
        """Those of the responses that are kept, and their sizes; there is one second look for all that are missing."""
        missing = []
        for response_id in response_ids:
            if (kept := await self._kept(owner, response_id, second_look=False)) is None:
                missing.append(response_id)
            else:
                yield kept, kept.size
        if missing and self._second_look:
            await anyio.sleep(self._second_look)
            for response_id in missing:
                if (kept := await self._kept(owner, response_id, second_look=False)) is not None:
                    yield kept, kept.size

    async def _kept(self, owner: Owner, response_id: str, *, second_look: bool = True) -> Kept | None:
        """A response.  What is damaged is not there."""
        data = await self.read(owner, _KIND, response_id, second_look=second_look)
        if data is None:
            self._missed()
            return None
        return _decoded(response_id, data)


def _found(kept: Kept, item_ids: set[str]) -> dict[str, Entry]:
    try:
        return kept.find(item_ids)
    except DamagedRecord as error:
        _log.error("a response is damaged, and its items count as missing: %s: %s", kept.id[:_MAX_ECHO], error)
        return {}


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

    async def _kept(self, owner: Owner, response_id: str, *, second_look: bool = True) -> Kept | None:
        data = await self._held.get(self._key(response_id)) if response_id in self._ids else None
        if data is None:
            return await super()._kept(owner, response_id, second_look=second_look)
        owner.hold(len(data))
        return _decoded(response_id, data)

    def _key(self, response_id: str) -> str:
        return scoped(self._connection, _KIND, response_id)


def _decoded(response_id: str, data: bytes) -> Kept | None:
    """A response.  What is damaged is not there."""
    try:
        return Kept.decode(data)
    except DamagedRecord as error:
        _log.error("a response is damaged, and counts as missing: %s: %s", response_id[:_MAX_ECHO], error)
        return None


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

    def meta(self, parsed: ParsedRequest, token: Callable[[], str], created: int) -> ResponseMeta:
        """Facts for one answer."""
        return self.settled or super().meta(parsed, token, created)

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

    _size: int
    """Bytes of the request, with what it builds on."""

    _offload: Offload
    """Encodes what is kept, which may be of megabytes, beside the event loop."""

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
        data = await self._offload.run(
            self._size + encoder.size, lambda: encode(encoder.rendered, items, encoder.seals)
        )
        try:
            await self._keep_as(meta.id, data)
            if self._refer is not None and isinstance(encoder, ResponsePassthrough):
                await self._refer(meta.id, encoder.item_ids)
        except StoreUnavailable as error:
            _log.warning("a response could not be stored: %r", error)
