"""From an exchange to its end: tries, signs of life, and a client that may leave at any moment.

Up to three tasks share one answer.  The main one asks the upstream, as often as the retry policy allows, and brings
what it says to the client.  One waits for the client to leave, because a server may swallow what is sent to a client
that is gone.  Beside a stream, one looks at the time: it keeps the client patient while the upstream thinks, and drops
one that takes nothing any more.  When the first ends, or the client is gone, all end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from logging import getLogger
from typing import Any, Final, NoReturn

import anyio
from attrs import define, field

from kiro_asgi.asgi.attempt import Attempt
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.http import Disconnected, Stalled
from kiro_asgi.asgi.output import Output, Sending
from kiro_asgi.asgi.passed_output import PassedStream, PassedWhole
from kiro_asgi.asgi.passing import Passing
from kiro_asgi.asgi.plan import early_commit
from kiro_asgi.asgi.reading import Reading
from kiro_asgi.asgi.refusals import log_body
from kiro_asgi.asgi.reports import log_notes
from kiro_asgi.asgi.service import Service
from kiro_asgi.asgi.tasks import Tasks
from kiro_asgi.asgi.tries import Tries
from kiro_asgi.asgi.wording import translated
from kiro_asgi.config import Settings
from kiro_asgi.errors import InternalError, KiroAsgiError
from kiro_asgi.model.events import MessageEnd, StopReason, Usage
from kiro_asgi.stages.tool_spelling import CORRECTED

__all__ = ["Outcome", "Relay"]

_log = getLogger("kiro_asgi")

_EXPECTED: Final = frozenset({"event.unknown", CORRECTED})
"""The service adds kinds of events without notice, which is no reason for one; names have lines of their own."""


class Outcome(Enum):
    """How an exchange ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    """In-band, after the commit."""

    DISCONNECTED = "disconnected"
    STALLED = "stalled"
    """The client took nothing for too long, and was dropped."""


@define
class Relay:
    """Answers one exchange."""

    _tries: Tries
    _call: Call
    _service: Service
    _settings: Settings
    _clock: Callable[[], float]
    outcome: Outcome = field(init=False, default=Outcome.DISCONNECTED)
    failure: KiroAsgiError | None = field(init=False, default=None)
    """What broke an answer off that had been committed."""

    _outputs: Callable[[Exchange], Output[Any]] = field(init=False)
    _output: Output[Any] = field(init=False)
    _reading: Reading[Any] | None = field(init=False, default=None)
    _started: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._started = self._clock()

    @property
    def exchange(self) -> Exchange:
        """The facts of the latest try."""
        return self._tries.exchange

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, where it came to an end."""
        return None if self._reading is None else self._reading.end

    @property
    def span(self) -> tuple[float, float] | None:
        """When the first content of the answer came, and its last event; ``None`` without any."""
        return None if self._reading is None else self._reading.span

    @property
    def usage(self) -> Usage | None:
        """What the answer took, where that is known."""
        return None if self._reading is None else self._reading.usage

    async def run(self, outputs: Callable[[Exchange], Output[Any]]) -> None:
        """Answer, or find out that nobody listens any more.

        Args:
            outputs: Makes the way out for an exchange; asked again where another upstream's answer takes another way.

        Raises:
            KiroAsgiError: There is no answer, and nothing has been sent.
            Exception: Nobody foresaw it; a client that has been sent anything was told that there is no more.
        """
        self._outputs, self._output = outputs, outputs(self.exchange)
        async with anyio.create_task_group() as group:
            tasks = Tasks(group)
            tasks.start(self._watch)
            if self.exchange.inquiry.stream:
                tasks.start(self._look_at_time)
            with self._service.pace.here():
                await tasks.run(self._answer)
        if tasks.failure is not None:
            await self.break_off(InternalError(self.exchange.request_id))
            raise tasks.failure

    async def _watch(self) -> None:
        """Break off when the client leaves; but not within the last send, where some servers announce it too."""
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        if not self._output.closing:
            raise Disconnected

    async def _look_at_time(self) -> None:
        """Show signs of life: the head after a while even without an event, and heartbeats whenever it is silent.

        Between them, see whether the client takes what the main task sends.
        """
        stream, call = self._settings.stream, self._call
        after = early_commit(self.exchange, self._settings)
        commit_at = self._started + after if after else math.inf
        while True:
            left = call.patience(others_wait=self.exchange.route.provider.transport.is_crowded)
            if left <= 0:
                await self._drop_stalled()
            beat_at = self._output.last_sent + stream.heartbeat if stream.heartbeat else math.inf
            due = min(commit_at, beat_at)
            await anyio.sleep(max(0.0, min(due - self._clock(), left, call.look)))
            now = self._clock()
            if commit_at <= now:
                commit_at = math.inf
                await self._show(self._commit_early())
            elif now - self._output.last_sent >= stream.heartbeat > 0:
                await self._show(self._output.beat())

    async def _show(self, sending: Awaitable[None]) -> None:
        """Send a sign of life, during which nothing else is looked at."""
        try:
            await self._call.taken(sending)
        except Stalled:
            await self._drop_stalled()

    async def _drop_stalled(self) -> NoReturn:
        """Break off when the client has taken nothing for too long; its upstream connection is free at once.

        Some servers shield what is sent from cancellation: there the rest of this exchange stays until the server gives
        the client up.
        """
        self.outcome = Outcome.STALLED
        if self._reading is not None:
            await self.exchange.route.provider.transport.hang_up(self._reading)
        raise Stalled

    async def _commit_early(self) -> None:
        reading = self._reading
        if reading is None:
            return
        async with reading.working:
            if not self._output.committed:
                self._tries.opened = self.exchange.passed is None
                await self._output.open(reading.open())

    async def _answer(self) -> None:
        while True:
            try:
                await self._try()
            except Stalled:
                self.outcome = Outcome.STALLED
                raise
            except KiroAsgiError as error:
                if self.outcome is Outcome.STALLED or not await self._goes_on(error):
                    return
            else:
                self.outcome = Outcome.COMPLETE
                self._report()
                return

    async def _goes_on(self, error: KiroAsgiError) -> bool:
        """Whether there is another try; a client that has been shown anything is told where there is none."""
        passed = self.exchange.passed
        try:
            if self._output.begun:
                raise error
            await self._tries.prepare_another(error)
        except KiroAsgiError as final:
            self._tries.give_up(final)
            if not self._output.committed:
                raise
            await self._break_off(final)
            return False
        if (self.exchange.passed is None) is not (passed is None):
            self._find_way_out()
        return True

    def _find_way_out(self) -> None:
        """Take another way out, where an answer is translated that was to go through, or the other way round."""
        output = self._outputs(self.exchange)
        if isinstance(output, Sending) and isinstance(self._output, Sending):
            output.take_over(self._output)
        self._output = output

    async def break_off(self, error: KiroAsgiError) -> None:
        """End an answer after `run`, if the client has been sent something of it and it has not ended."""
        if not self._output.committed or self._output.closing:
            return
        with suppress(Disconnected):
            await self._call.taken(self._break_off(error))

    async def _break_off(self, error: KiroAsgiError) -> None:
        self.outcome, self.failure = Outcome.FAILED, error
        self._warn("answer broken off: %r", error)
        told = translated(error, self._settings.stream.language)
        await self._output.fail(self._service.secrets.shown(told))

    def _warn(self, message: str, *arguments: object) -> None:
        _log.warning(message, *arguments, extra={"request_id": self.exchange.request_id})

    def _report(self) -> None:
        """Write down that something in the answer was passed over: codes only, since details may quote it.

        Names of tools are no secret: those that were corrected are told.
        """
        if self.end is None:
            return
        for notice in self.end.notices:
            if notice.code == CORRECTED:
                self._warn("tool name corrected: %s", notice.detail)
        codes = Counter(notice.code for notice in self.end.notices if notice.code not in _EXPECTED)
        codes.update("call.cut" for _ in self.end.truncations)
        codes.update("call.malformed" for _ in self.end.malformed)
        if self.end.stop_reason is StopReason.PAUSED:
            codes["turn.paused"] += 1
        if codes:
            told = ", ".join(f"{code} ({times})" for code, times in codes.items())
            self._warn("answer complete, but: %s", told)

    async def _try(self) -> None:
        self._output.restart()
        self._reading = reading = self._next_reading()
        log_notes(self.exchange.notes, self.exchange.request_id)
        if self._settings.log_bodies:
            log_body(self.exchange)
        provider, patience = self.exchange.route.provider, self._settings.limits.request_timeout
        with provider.credentials.asking(self.exchange.credential, self.exchange.model.id) as accepted:
            reading.on_accept = accepted
            await provider.transport.fetch(self.exchange.rendered.request, reading, patience=patience)
            while (following := await reading.next_part()) is not None:
                request = await self._service.offload.run(self.exchange.asked.size, following)
                await provider.transport.fetch(request, reading, patience=reading.left)
            await reading.finish()

    def _next_reading(self) -> Reading[Any]:
        exchange, output = self.exchange, self._output
        pace, offload = self._service.pace.here(), self._service.offload
        if isinstance(output, PassedStream | PassedWhole):
            return Passing(exchange, self._settings, output, self._clock, pace, offload)
        learn = partial(self._service.finished, exchange)
        opened = self._tries.opened and output.committed  # some outputs keep even the start of a message back
        return Attempt(exchange, self._settings, output, self._clock, pace, offload, learn, opened)
