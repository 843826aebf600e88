"""Reading one upstream answer within the time allowed, in any form."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

import anyio
from attrs import define, field, frozen

from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.exchange.output import PART, Output
from kiro_asgi.asgi.exchange.reports import log_refusal
from kiro_asgi.asgi.kept.secrets import Secrets
from kiro_asgi.asgi.scheduling import SHORT, Offload, Pace
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError, NotTheUpstream, ServiceReply, UpstreamTimeout
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.loops import PerLoop, Portion, give_way
from kiro_asgi.model.events import MessageEnd, ServerResult, Usage
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.prices import Prices
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.net.transport import Headers, StopReading
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.base import UpstreamRequest


def _nothing() -> None:
    """Do nothing: there is no listener."""


class AnswerListener(Protocol):
    """Is told what comes of an answer while it is read."""

    def take_head(self, status: int, headers: Headers) -> None:
        """The head has come."""

    def take_bytes(self, data: bytes) -> None:
        """Bytes of the body have come."""

    def take_results(self, results: Iterable[ServerResult]) -> None:
        """Tools that the client does not run have returned *results*."""


Facts = TypeVar("Facts", bound=Exchange)
Way = TypeVar("Way", bound=Output[Any])
Item = TypeVar("Item")

_MUCH: Final = 1024 * 1024
"""Bytes of one item from which on work leaves the event loop: it would take 20 to 50 ms."""

_LEAST: Final = 2 * 1024
_MOST: Final = 16 * 1024
"""Bytes of a read after which to look at the clock, where they lead to nothing: much that is passed over, or held.
They become fewer where it took long: small events of kinds that nobody knows take ten times as long as text."""

_LOOK: Final = 16
"""Items between two looks at the clock."""

_SOON: Final = 0.05
"""Seconds until the next look at a call whose limit has passed while its client took what came."""


@define
class _Part(Generic[Item]):
    """Iterates over *items*, and ends early where that takes long and is not all: then there is another part.

    What a part ends with may be sent at once, and the end of an answer must not be before the answer has been kept.
    """

    _items: Iterator[Item]
    _clock: Callable[[], float]
    _ahead: tuple[Item, ...] = field(init=False, default=())
    """The first item of the next part."""

    ended_early: bool = field(init=False, default=False)

    def __iter__(self) -> Iterator[Item]:
        due = self._clock() + PART
        items, self._ahead = chain(self._ahead, self._items), ()
        yield from islice(items, _LOOK)
        for item in items:
            if self._clock() >= due:
                self._ahead, self.ended_early = (item,), True
                return
            yield item
            yield from islice(items, _LOOK - 1)


@frozen(kw_only=True)
class AnswerContext:
    """Parts that all answers of one application share."""

    settings: Settings
    clocks: Clocks
    policy: RetryPolicy
    secrets: Secrets
    offload: Offload
    pace: PerLoop[Pace]
    retry_count_headers: tuple[bytes, ...]
    """Names of the request headers in which clients count their attempts."""

    prices: Prices = field(factory=Prices)

    pipeline: Callable[[Iterable[Stage[Any, Any]], Plan], Answer] = build_pipeline
    """Makes the stages of an answer."""


@define
class AnswerReading(ABC, Generic[Facts, Way]):
    """Reads one answer, as `kiro_asgi.net.transport.Reader`."""

    _exchange: Facts
    _output: Way
    _context: AnswerContext
    _settings: Settings = field(init=False)
    _clock: Callable[[], float] = field(init=False)
    _pace: Pace = field(init=False)
    first_event_timeout: float = field(init=False)
    """Seconds from asking to the first event, however many bytes come before it."""

    _accepted: bool = field(init=False, default=False)
    """Whether the upstream answered with 200."""

    asked: bool = field(init=False, default=False)
    """Whether a request has gone out."""

    _answered: bool = field(init=False, default=False)
    """Whether the upstream answered any part with 200."""

    _made: float = field(init=False)
    """From when the limit for the whole call counts: the wait for a connection is part of it."""

    _asked: float = field(init=False)
    """When the request went out."""

    _last_event: float = field(init=False)
    _first_content: float | None = field(init=False, default=None)
    status: int = field(init=False, default=0)
    """The upstream's; 0 before there is one."""

    _worked: float = field(init=False, default=0.0)
    """Seconds that the last part took."""

    _longest: float = field(init=False, default=0.0)
    """Seconds of the longest part of the last batch."""

    _turned: float = field(init=False, default=0.0)
    """When others last had a turn, by the clock."""

    _batch: Portion = field(init=False, factory=partial(Portion, _LEAST, _MOST, PART, _MOST))

    _headers: Headers = field(init=False, default=())
    _chunks: list[bytes] = field(init=False, factory=list)
    _held: int = field(init=False, default=0)
    """Bytes that have come since the client was sent anything."""

    working: anyio.Lock = field(init=False, factory=anyio.Lock)
    """Held where a thread works with the stages and the output."""

    on_accept: Callable[[], None] = field(init=False, default=_nothing)
    """Called when the upstream answers with 200."""

    listener: AnswerListener | None = field(init=False, default=None)
    """Who is told what comes; ``None`` where nobody observes bytes."""

    take: Callable[[bytes], None] = field(init=False)
    """Puts a chunk aside."""

    attended: bool = field(init=False, default=False)
    """Whether somebody looks at `silent_at`, so that a read needs no timer of its own."""

    _reads_until: float = field(init=False, default=math.inf)
    """When a read under way that is attended to has taken too long; ``inf`` outside of one."""

    _silent: bool = field(init=False, default=False)
    """Whether one had."""

    def __attrs_post_init__(self) -> None:
        context = self._context
        self._settings, self._clock, self._pace = context.settings, context.clocks.steady, context.pace.here()
        self.first_event_timeout = self._exchange.first_event_timeout
        self._made = self._asked = self._last_event = self._clock()
        self.take = self._chunks.append

    def tell(self, listener: AnswerListener) -> None:
        """Tell *listener* what comes, from now on."""
        self.listener, put_aside = listener, self.take

        def take(data: bytes) -> None:
            listener.take_bytes(data)
            put_aside(data)

        self.take = take

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether there has been an event since the upstream was asked."""

    @property
    def span(self) -> tuple[float, float] | None:
        """When the first content came, and the last event, by the clock; ``None`` without any."""
        return None if self._first_content is None else (self._first_content, self._last_event)

    @property
    def refused(self) -> bool:
        """Whether the upstream has said no, and no part of the answer had come before that."""
        return self.status not in (0, HTTPStatus.OK) and not self._answered

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether all of the answer has come."""

    @property
    @abstractmethod
    def used(self) -> Usage | None:
        """Tokens of what has come, by the service's count or else by an estimate; ``None`` where nothing has."""

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, where it was read to its end."""
        return None

    @property
    def left(self) -> float:
        """Seconds that are left for the whole answer."""
        return max(0.0, self._made + self._settings.limits.request_timeout - self._clock())

    @abstractmethod
    def open(self) -> Iterable[Any]:
        """Items that the output sends before the answer has any content."""

    async def next_part(self) -> Callable[[], UpstreamRequest] | None:
        """Makes the request for the rest, where the service has paused and is to go on; ``None`` where it is not.

        Raises:
            KiroAsgiError: What the end of the part revealed.
        """
        return None

    @abstractmethod
    async def finish(self) -> None:
        """Bring the rest to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means, or what the end of its answer revealed.
        """

    @abstractmethod
    def _accept(self, content_type: str) -> None:
        """Make ready for an answer of this media type."""

    @abstractmethod
    async def _advance(self) -> None:
        """Bring what has arrived to the client."""

    def start(self) -> float:
        """Count from now; the whole head must be here before the first event is."""
        self.asked, self._asked = True, self._clock()
        self._last_event = self._asked
        return self._patience()

    def begin(self, status: int, headers: Headers) -> None:
        """Choose what becomes of the answer by its head.

        Raises:
            NotTheUpstream: It is in a media type, or in an encoding, that was not asked for.
        """
        self.status, self._headers = status, headers
        if self.listener is not None:
            self.listener.take_head(status, headers)
        if status == 200:
            if (encoding := _value(headers, b"content-encoding").strip().lower()) not in ("", "identity"):
                raise NotTheUpstream(
                    f"the upstream's answer has the content-encoding {encoding[:60]!r}, which was not asked for",
                    code="upstream.content_encoding",
                )
            self._accept(_value(headers, b"content-type"))
            self._accepted = self._answered = True
            self.on_accept()

    async def process(self) -> float | None:
        """Bring what has arrived to the client; return how long the next read may take, in seconds.

        It is ``None`` where somebody else looks at the time.
        """
        self._reads_until = math.inf
        if self._chunks:
            if self._accepted:
                await self._advance()
            elif sum(map(len, self._chunks)) > REFUSAL_BYTES:
                raise StopReading
        left = self._patience()
        if not self.attended:
            return left
        self._reads_until = self._clock() + left
        return None

    @property
    def silent_at(self) -> float:
        """When to look whether the service is silent, at the latest, by the clock.

        A read that has not begun ends no sooner than a whole limit from now, or is one of these limits already.
        """
        if not self.attended:
            return math.inf
        if self._reads_until < math.inf:
            return self._reads_until
        idle = self._settings.stream.idle_timeout or math.inf
        return self._clock() + min(self.first_event_timeout, idle, max(self.left, _SOON))

    def give_up(self) -> bool:
        """Whether the read under way has taken too long: whoever finds that hangs up."""
        if self._reads_until > self._clock():
            return False
        self._silent, self._reads_until = True, math.inf
        return True

    def require_sound(self) -> None:
        """Raise what ended the reading where the service was silent."""
        self._reads_until = math.inf
        if self._silent:
            raise _silence()

    def _refuse(self) -> NoReturn:
        """Raise the error that a status other than 200 stands for."""
        # Before anything parses or logs it: some services quote the key that they refuse.
        body = self._exchange.credential.hidden_in(b"".join(self._chunks))
        refusal = self._exchange.upstream.fault(self.status, self._headers, body)
        self._keep(refusal, ServiceReply(self.status, _value(self._headers, b"content-type"), body))
        log_refusal(self._exchange, self.status, self._headers, refusal)
        raise refusal

    @property
    def _tier(self) -> Tier | None:
        """The service tier by the answer's head; ``None`` where it has none."""
        words = self._exchange.upstream.traits.words
        return words.headed.get(_value(self._headers, words.tier_header)) if words.tier_header else None

    def _keep(self, refusal: KiroAsgiError, reply: ServiceReply) -> None:
        """Keep the service's own words with *refusal*, where the client should have them: it speaks another API."""

    def _taken(self) -> list[bytes]:
        """Take the chunks that have arrived out of the buffer."""
        chunks = self._chunks.copy()
        self._chunks.clear()
        self._held += sum(map(len, chunks))
        return chunks

    def _batches(self) -> Iterator[list[bytes]]:
        """The same, no more at once than others should wait for, but where a thread takes it."""
        chunks = self._taken()
        if self._held >= _MUCH or sum(map(len, chunks)) <= self._batch.size:
            yield chunks
            return
        whole, start = b"".join(chunks), 0
        while start < len(whole):
            end = start + self._batch.size
            self._longest = 0.0
            yield [whole[start:end]]
            start = end
            self._batch.took(self._longest)

    async def _push(self) -> None:
        if await self._output.push():
            self._held = 0

    async def _give_way(self) -> None:
        """Send what there is, and let others have turns."""
        await self._push()
        await give_way()
        self._turned = self._clock()

    async def _put_held(self, part: Iterable[Any]) -> KiroAsgiError | None:
        """Take *part* in a thread: much has come of which the client has nothing, which may be one call or event."""
        async with self.working:
            return await self._context.offload.run(self._held, partial(self._output.put, part))

    async def _put(self, items: Iterable[Any]) -> None:
        """Take *items*, in parts where that takes long: one read can bring a thousand calls, an end all that was held.

        Where many answers are under way, one with much to take waits until there is time for it.  What came before a
        failure is sent first: it must not matter how the bytes were cut.
        """
        part = _Part(iter(items), self._clock)
        while True:
            if self._pace.is_busy and self._worked >= SHORT:
                await self._pace.wait()
            began = self._clock()
            part.ended_early = False  # an answer that is over takes nothing more
            error = await self._put_held(part) if self._held >= _MUCH else self._output.put(part)
            self._worked = self._clock() - began
            self._longest = max(self._longest, self._worked)
            if error is not None:
                await self._push()
                raise error
            if not part.ended_early:
                return
            await self._give_way()

    def _note_event(self, *, content: bool) -> None:
        """Remember when, and when there was *content* first: one look at the clock for all events of a read."""
        self._last_event = self._clock()
        if content and self._first_content is None:
            self._first_content = self._last_event

    def _patience(self) -> float:
        """Seconds until the next event must be here; waiting for the client does not count."""
        deadline = self._made + self._settings.limits.request_timeout
        if not self.begun:
            deadline = min(deadline, self._asked + self.first_event_timeout)
        elif self._settings.stream.idle_timeout:
            deadline = min(deadline, self._last_event + self._settings.stream.idle_timeout)
        left = deadline - self._clock()
        if left <= 0:
            raise _silence()
        return left


def _silence() -> UpstreamTimeout:
    return UpstreamTimeout("the upstream did not answer in time", code="timeout")


def _value(headers: Headers, wanted: bytes) -> str:
    """The first value of a header; empty where there is none."""
    return next((value.decode("latin-1") for name, value in headers if name.lower() == wanted), "")


class Readable(Exchange, Protocol):
    """An exchange whose answer can be read."""

    async def adapted(self, error: KiroAsgiError, offload: Offload) -> Readable | None:
        """The same request in another form, where *error* shows that the form was refused; else ``None``.

        Raises:
            RequestError: The upstream would have to be asked in a form that has no place for something in the prompt.
        """
        ...

    def reading(self, output: Any, context: AnswerContext) -> AnswerReading[Any, Any]:
        """Make the reader of one attempt's answer into *output*, which is of this exchange."""
        ...
