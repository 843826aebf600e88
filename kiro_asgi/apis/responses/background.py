"""Responses that are made in the background: looked at, streamed again and cancelled, from any gateway on the store.

What there is of such a response is in the store: the response as it stands, its events in chunks, and how it proceeds,
with a time until which its process is sure to be there.  So another gateway on the same store knows what this one is
doing, and when that time has passed, that no process is doing it any more.

A request to cancel is a record, too, which the process that makes the response looks for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from logging import getLogger
from typing import Any, Final

import anyio
from attrs import define, field, frozen

from kiro_asgi.apis.responses.owners import Owner
from kiro_asgi.apis.responses.stored import Recorded, Responses
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.protocol import Disconnected, Message, response_body, response_start, send_most
from kiro_asgi.asgi.scheduling import Offload, Tasks
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.errors import unsupported
from kiro_asgi.dialects.openai_responses.encoder import ResponsesEncoder
from kiro_asgi.dialects.openai_responses.kept import Item, Kept, encode, has_members
from kiro_asgi.dialects.openai_responses.records import DamagedRecord
from kiro_asgi.dialects.openai_responses.response import (
    UNFINISHED,
    RenderedResponse,
    ResponseObject,
    ResponseOutcome,
)
from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError, ResponseNotFound, StoreUnavailable, UpstreamTimeout
from kiro_asgi.model.events import MessageStart, Usage
from kiro_asgi.wire.json import JsonError, dumps, loads
from kiro_asgi.wire.sse import encode_comment

_log = getLogger("kiro_asgi")

_PROGRESS: Final = "response.progress"
_EVENTS: Final = "response.events"
_CANCEL: Final = "response.cancel"
"""Kinds of records."""

_LEASE: Final = 30.0
"""Seconds for which a process announces that it is there; clocks of several machines may differ by less."""

_RENEW: Final = 5.0
_STEP: Final = 0.1
"""Seconds between two looks for events to be kept, or to be sent."""

_CANCEL_LOOK: Final = 0.5
_CANCEL_WAIT: Final = 5.0
"""Seconds between two looks for a request to cancel, and for which that waits for its effect."""

_NUMBER: Final = re.compile(rb'"sequence_number":(\d{1,15})')

_COMMENT: Final = encode_comment("ping")

_LOST: Final = "the gateway that made this response has ended"


@frozen
class _Progress:
    chunks: int
    """Of events, that are kept."""

    until: float
    """Seconds since the epoch: its process is there till then."""

    done: bool

    def encode(self) -> bytes:
        return dumps({"chunks": self.chunks, "until": self.until, "done": self.done})

    @classmethod
    def decode(cls, data: bytes | None) -> _Progress | None:
        try:
            value: Any = None if data is None else loads(data)
        except JsonError:
            return None
        if not has_members(value, chunks=int, until=(int, float), done=bool):
            return None
        return cls(value["chunks"], value["until"], value["done"])


@frozen
class BackgroundResponses:
    """The responses of one store that are, or were, made in the background."""

    _responses: Responses
    _wall: Callable[[], float]
    _heartbeat: float
    """Seconds of silence after which a client gets a sign of life; 0 for none."""

    _offload: Offload
    """Works on records of megabytes, beside the event loop."""

    async def get(self, owner: Owner, response_id: str) -> Kept:
        """One response, made in the background or not, as it stands; one that no process makes any more has failed.

        Raises:
            ResponseNotFound: As for `Responses.get`.
        """
        kept = await self._responses.get(owner, response_id)
        if kept.status not in UNFINISHED or await self._is_made(owner.principal, response_id):
            return kept
        kept = await self._responses.get(owner, response_id)  # it may have ended between the two looks
        if kept.status not in UNFINISHED:
            return kept
        data = await self._offload.run(kept.size, partial(_lost, kept))
        await self._responses.keep(owner.principal, response_id, data)
        return Kept.decode(data)

    async def cancel(self, owner: Owner, response_id: str) -> Kept:
        """Have a response end, and wait a little for that; one that has ended is given as it is."""
        kept = await self.get(owner, response_id)
        if kept.status in UNFINISHED:
            await self._responses.write(owner.principal, _CANCEL, response_id, b"1")
            with anyio.move_on_after(_CANCEL_WAIT):
                while kept.status in UNFINISHED:
                    await anyio.sleep(_STEP)
                    kept = await self.get(Owner(owner.principal), response_id)
        return kept

    async def forget(self, principal: str, response_id: str) -> None:
        """Delete a response with its events; if it is still made, that ends, and its maker deletes them."""
        progress = await self._progress(principal, response_id)
        if progress is not None and not progress.done:
            await self._responses.write(principal, _CANCEL, response_id, b"1")
        await self._responses.forget(principal, response_id)
        progress = await self._progress(principal, response_id)
        if progress is not None and (progress.done or progress.until < self._wall()):
            await _clear(self._responses, principal, response_id, progress.chunks)

    async def stream(self, call: Call, response_id: str, after: int) -> None:
        """Give the events behind number *after* again, and those that are still to come as they come.

        Raises:
            RequestError: Of this response no events are kept.
        """
        await self.get(Owner(call.principal), response_id)
        if await self._progress(call.principal, response_id) is None:
            raise unsupported("stream", "only a response that was made in the background has events; leave this out")
        async with anyio.create_task_group() as group:
            tasks = Tasks(group)
            tasks.start(lambda: _left(call))
            await tasks.run(lambda: self._send(call, response_id, after))
        if tasks.failure is not None:
            raise tasks.failure

    async def _send(self, call: Call, response_id: str, after: int) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"), *call.headers]
        send = call.in_time(call.send)
        await send(response_start(200, headers))
        async for data in self._events(call, response_id, after):
            last = await send_most(send, [data])
            await send(response_body(last, more=True))
        await send(response_body(b""))

    async def _events(self, call: Call, response_id: str, after: int) -> AsyncIterator[bytes]:
        """The events behind *after*, and comments where there are none for long."""
        principal = call.principal
        last, read, since = after, 0, anyio.current_time()
        while True:
            progress = await self._progress(principal, response_id)
            while progress is not None and read < progress.chunks:
                chunk = await self._responses.read(Owner.of(call), _EVENTS, f"{response_id}/{read}") or b""
                read += 1
                fresh, number = await self._offload.run(len(chunk), partial(_behind, chunk, last))
                if fresh:
                    last, since = number, anyio.current_time()
                    yield fresh
                call.release_stored(len(chunk))  # a client that does not read holds one chunk
            if progress is None or progress.done:
                return
            if progress.until < self._wall():
                with suppress(ResponseNotFound):
                    yield _failed(last + 1, await self.get(Owner.of(call), response_id))
                return
            if 0 < self._heartbeat <= anyio.current_time() - since:
                since = anyio.current_time()
                yield _COMMENT
            await anyio.sleep(_STEP)

    async def _progress(self, principal: str, response_id: str) -> _Progress | None:
        return _Progress.decode(await self._responses.read(Owner(principal), _PROGRESS, response_id))

    async def _is_made(self, principal: str, response_id: str) -> bool:
        progress = await self._progress(principal, response_id)
        return progress is not None and progress.until >= self._wall()


async def _clear(responses: Responses, principal: str, response_id: str, chunks: int) -> None:
    """Delete all that is kept of a response but itself."""
    for number in range(chunks):
        await responses.discard(principal, f"{response_id}/{number}", _EVENTS)
    for kind in (_CANCEL, _PROGRESS):
        await responses.discard(principal, response_id, kind)


async def _left(call: Call) -> None:
    await call.until_left()
    raise Disconnected


def _behind(chunk: bytes, last: int) -> tuple[bytes, int]:
    """The events of *chunk* behind number *last*, and the number of the latest."""
    fresh = [event for event in _split(chunk) if _number(event) > last]
    return b"".join(fresh), _number(fresh[-1]) if fresh else last


def _split(chunk: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in chunk.split(b"\n\n") if event]


def _number(event: bytes) -> int:
    found = _NUMBER.search(event)
    return int(found[1]) if found else -1


def _failed(number: int, kept: Kept) -> bytes:
    head = b'event: response.failed\ndata: {"type":"response.failed","sequence_number":%d,"response":' % number
    return b"".join((head, *kept.response, b"}\n\n"))


def _lost(kept: Kept) -> bytes:
    """The record of a response whose gateway has ended.

    Raises:
        ResponseNotFound: It is damaged.
    """
    try:
        return kept.failed({"code": "server_error", "message": _LOST})
    except DamagedRecord as error:
        _log.error("a response is damaged, and counts as missing: %s", error)
        raise ResponseNotFound("what is stored of this response cannot be read any more", code="") from None


@define(eq=False)
class BackgroundJob:
    """One response that is made in the background: it is the client of the answer, and keeps it."""

    _responses: Responses
    _settings: Settings
    _wall: Callable[[], float]
    _principal: str
    _dialect: Recorded
    _meta: ResponseMeta
    _items: list[Item]
    """Its own input."""

    _offload: Offload
    """Encodes it, beside the event loop."""

    _size: int
    """Bytes of the request."""

    _answer: Callable[[BackgroundJob], Awaitable[Call]]
    """Answers by way of `receive` and `send`."""

    _over: anyio.Event = field(init=False, factory=anyio.Event)
    _cancelled: bool = field(init=False, default=False)
    _failure: KiroAsgiError | None = field(init=False, default=None)
    """Why it was broken off here."""

    _buffer: bytearray = field(init=False, factory=bytearray)
    """Bytes of events that are not kept yet."""

    _sent: int = field(init=False, default=0)
    """Bytes of all events."""

    _chunks: int = field(init=False, default=0)
    _begun: bool = field(init=False, default=False)

    @property
    def id(self) -> str:
        """Of the response."""
        return self._meta.id

    async def begin(self) -> bytes:
        """Keep the response as one that waits, and give its JSON."""
        queued = ResponseObject(self._meta).render(ResponseOutcome("queued"), [])
        rendered = RenderedResponse(queued[0], (), queued[-1])
        data = await self._offload.run(self._size, partial(encode, rendered, self._items, {}))
        # Progress first: an unfinished response without it counts as lost.
        await self._write_progress(done=False)
        await self._responses.keep(self._principal, self.id, data)
        return b"".join(queued)

    async def discard(self) -> None:
        """Forget a response that could not be begun."""
        await self._responses.discard(self._principal, self.id)
        await self._responses.discard(self._principal, self.id, _PROGRESS)

    async def run(self) -> None:
        """Make it; runs in an event loop of its own."""
        self._over = anyio.Event()
        call: Call | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_up)
                call = await self._answer(self)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(None if call is None else call.failure)

    async def receive(self) -> Message:
        """Stand in for a client, which leaves when the response is to end."""
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the message to a client; the call reports errors before the first event."""
        if message["type"] == "http.response.start":
            self._begun = message["status"] == 200
        elif self._begun:
            self._buffer += message["body"]
            self._sent += len(message["body"])
            if self._sent > self._settings.responses.background_bytes:
                self._break_off(AnswerTooLarge("its events have more bytes than responses.background_bytes allows"))

    async def _keep_up(self) -> None:
        """Keep events as they come, renew the lease, and look whether the response is to end."""
        ends_at = anyio.current_time() + self._settings.responses.background_timeout
        renew_at = look_at = anyio.current_time()
        shown = False
        while True:
            now = anyio.current_time()
            kept = await self._keep_events()
            if self._begun and not shown:
                shown = True
                await self._keep(self._encoder())
            if kept or now >= renew_at:
                renew_at = now + _RENEW
                await self._write_progress(done=False)
            if now >= look_at:
                look_at = now + _CANCEL_LOOK
                await self._look_for_cancel()
            if now >= ends_at:
                self._break_off(UpstreamTimeout("the response took longer than responses.background_timeout allows"))
            await anyio.sleep(_STEP)

    async def _look_for_cancel(self) -> None:
        try:
            asked = await self._responses.read(Owner(self._principal), _CANCEL, self.id, second_look=False)
        except StoreUnavailable:
            return
        if asked is not None:
            self._cancelled = True
            self._over.set()

    def _break_off(self, error: KiroAsgiError) -> None:
        self._failure = self._failure or error
        self._over.set()

    async def _end(self, failure: KiroAsgiError | None) -> None:
        """Keep how it has ended; one that is complete was kept when it was."""
        encoder = self._encoder()
        if not encoder.complete:
            if not self._begun:
                self._buffer += b"".join(encoder.feed([MessageStart(Usage())]))
            if self._cancelled:
                self._buffer += b"".join(encoder.cancel())
            else:
                error = self._failure or failure or KiroAsgiError("the response was broken off")
                self._buffer += b"".join(encoder.error(error))
            await self._keep(encoder)
        await self._keep_events()
        await self._write_progress(done=True)  # behind all events: streams of them end here
        if not await self._responses.has(self._principal, self.id):
            await _clear(self._responses, self._principal, self.id, self._chunks)

    def _encoder(self) -> ResponsesEncoder:
        """The encoder of the latest attempt; a new one where there has been none."""
        encoder = self._dialect.answers[-1][1] if self._dialect.answers else self._dialect.encoder(self._meta)
        assert isinstance(encoder, ResponsesEncoder), "an answer that goes through is not made in the background"
        return encoder

    async def _keep(self, encoder: ResponsesEncoder) -> None:
        """Keep the response as it stands, unless it was deleted."""
        if not encoder.response:
            return
        data = encode(encoder.rendered, self._items, encoder.seals)  # its thread makes nothing else
        try:
            await self._responses.replace(self._principal, self.id, data)
        except StoreUnavailable as error:
            _log.warning("a response could not be stored: %r", error)

    async def _keep_events(self) -> bool:
        """Keep the whole events that have come; whether there were any."""
        end = self._buffer.rfind(b"\n\n") + 1
        if not end:
            return False
        chunk, self._buffer = bytes(self._buffer[: end + 1]), self._buffer[end + 1 :]
        await self._responses.write(self._principal, _EVENTS, f"{self.id}/{self._chunks}", chunk)
        self._chunks += 1
        return True

    async def _write_progress(self, *, done: bool) -> None:
        progress = _Progress(self._chunks, self._wall() + _LEASE, done)
        await self._responses.write(self._principal, _PROGRESS, self.id, progress.encode())
