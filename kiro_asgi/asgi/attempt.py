"""One upstream call: its answer's bytes through the stages into an output, within the time allowed."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain

from attrs import define, field

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.output import Output
from kiro_asgi.asgi.plan import first_event_timeout, plan_answer
from kiro_asgi.asgi.refusals import log_refusal
from kiro_asgi.config import Settings
from kiro_asgi.errors import UpstreamTimeout
from kiro_asgi.model.events import Event, MessageStart, Usage
from kiro_asgi.net.transport import Enough, Headers
from kiro_asgi.stages.answer import Answer, build_pipeline

__all__ = ["Attempt"]

_MAX_REFUSAL_BYTES = 64 * 1024


@define
class Attempt:
    """Reads one answer, as `kiro_asgi.net.transport.Reader`."""

    _exchange: Exchange
    _settings: Settings
    _output: Output
    _clock: Callable[[], float]
    _learn: Callable[[Answer], Awaitable[None]]
    """Told of a whole answer before its end is sent: the client's next request may follow at once."""

    _opened: bool = False
    """Whether the client has been shown the start of the message before the stages existed."""

    answer: Answer | None = field(init=False, default=None)
    """The stages; ``None`` until the upstream says 200."""

    first_event_timeout: float = field(init=False)
    _started: float = field(init=False)
    _last_event: float = field(init=False)
    _status: int = field(init=False, default=0)
    _headers: Headers = field(init=False, default=())
    _chunks: list[bytes] = field(init=False, factory=list)
    take: Callable[[bytes], None] = field(init=False)
    """Puts a chunk aside."""

    def __attrs_post_init__(self) -> None:
        self.first_event_timeout = first_event_timeout(self._exchange, self._settings)
        self._started = self._last_event = self._clock()
        self.take = self._chunks.append

    def begin(self, status: int, headers: Headers) -> None:
        """Choose the stages by the head of the answer."""
        self._status, self._headers = status, headers
        if status == 200:
            decoder = self._exchange.upstream.decoder(_content_type(headers))
            self.answer = build_pipeline(decoder, plan_answer(self._exchange, self._settings))
            if self._opened:
                deque(self.answer.begin(), maxlen=0)

    def open(self) -> Iterable[Event]:
        """The start of the message, before there is anything in it."""
        if self.answer is not None:
            return self.answer.begin()
        self._opened = True
        return [MessageStart(Usage(input_tokens=self._exchange.input_tokens))]

    async def turn(self) -> float | None:
        """Bring what has arrived to the client, then say how long the next read may take."""
        if self.answer is None:
            if sum(map(len, self._chunks)) > _MAX_REFUSAL_BYTES:
                raise Enough
        elif self._chunks:
            await self._advance(self.answer)
        return self._patience()

    async def finish(self) -> None:
        """Bring the rest to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means, or what the end of its answer revealed.
        """
        if self.answer is None:
            refusal = self._exchange.upstream.fault(self._status, self._headers, b"".join(self._chunks))
            log_refusal(self._exchange, self._status, self._headers, refusal)
            raise refusal
        await self._put(chain(self.answer.feed(self._chunks), self.answer.drain()))
        await self._run_server_tools(self.answer)
        await self._put(self.answer.flush())
        await self._learn(self.answer)
        await self._output.finish()

    async def _run_server_tools(self, answer: Answer) -> None:
        """Run what the model called and the client does not run; it is shown what was called while it waits."""
        if calls := answer.pending:
            await self._output.push()
            results = await self._exchange.toolbox.run(calls, self._exchange.inquiry.prompt)
            await self._put(answer.resolve(results))

    async def _put(self, events: Iterable[Event]) -> None:
        """Take *events*.  What came before a failure is sent first."""
        error = self._output.put(events)
        if error is not None:
            await self._output.push()
            raise error

    async def _advance(self, answer: Answer) -> None:
        """One pass through the stages.  What came before a failure is sent too: it must not matter how it was cut."""
        heard = answer.heard
        chunks = self._chunks.copy()
        self._chunks.clear()
        error = self._output.put(answer.feed(chunks))
        await self._output.push()
        if error is not None:
            raise error
        if answer.heard != heard:
            self._last_event = self._clock()
        if answer.enough:
            raise Enough

    def _patience(self) -> float | None:
        """Seconds that the upstream may stay silent now; waiting for the client does not count."""
        now = self._clock()
        deadlines = [self._started + self._settings.limits.request_timeout]
        if self.answer is None or not self.answer.heard:
            deadlines.append(self._started + self.first_event_timeout)
        elif self._settings.stream.idle_timeout:
            deadlines.append(self._last_event + self._settings.stream.idle_timeout)
        left = min(deadlines) - now
        if left <= 0:
            raise UpstreamTimeout("the upstream did not answer in time", code="timeout")
        return left


def _content_type(headers: Headers) -> str:
    values = [value for name, value in headers if name.lower() == b"content-type"]
    return values[0].decode("latin-1") if values else ""
