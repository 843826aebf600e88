"""From an exchange to its end: tries, signs of life, and a client that may leave at any moment.

Up to three tasks share one answer.  The main one asks the upstream, as often as the retry policy allows, and brings
what it says to the client.  One waits for the client to leave, because a server may swallow what is sent to a client
that is gone.  Beside a stream, one looks at the time: it keeps the client patient while the upstream thinks, and drops
one that takes nothing any more.  When the first ends, or the client is gone, all end.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from logging import getLogger
from typing import Final, NoReturn

import anyio
from attrs import define, field

from kiro_asgi.asgi.attempts import Attempts
from kiro_asgi.asgi.call import Call
from kiro_asgi.asgi.plan import early_commit
from kiro_asgi.asgi.protocol import Disconnected, Stalled
from kiro_asgi.asgi.reading import AnswerContext
from kiro_asgi.asgi.reports import localized, notices_in
from kiro_asgi.asgi.scheduling import Tasks
from kiro_asgi.errors import InternalError, KiroAsgiError
from kiro_asgi.model.events import StopReason
from kiro_asgi.observers.base import Outcome
from kiro_asgi.stages.tool_spelling import CORRECTED

_log = getLogger("kiro_asgi")

_EXPECTED: Final = frozenset({"event.unknown", CORRECTED})
"""The service adds kinds of events without notice, which is no reason for one; names have lines of their own."""


@define
class Relay:
    """Answers one exchange."""

    _attempts: Attempts
    _call: Call
    _context: AnswerContext
    outcome: Outcome = field(init=False, default=Outcome.DISCONNECTED)
    failure: KiroAsgiError | None = field(init=False, default=None)
    """Error that broke an answer off after its head was sent."""

    _clock: Callable[[], float] = field(init=False)
    _started: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._clock = self._context.clocks.steady
        self._started = self._clock()

    async def run(self) -> None:
        """Answer, or find out that nobody listens any more.

        Raises:
            KiroAsgiError: There is no answer, and nothing has been sent.
            Exception: Nobody foresaw it; a client that has been sent anything was told that there is no more.
        """
        call = self._call
        try:
            async with anyio.create_task_group() as group:
                tasks = Tasks(group)
                tasks.start(self._watch)
                if call.meanwhile is not None:
                    tasks.start(call.meanwhile)
                if self._attempts.exchange.streamed:
                    call.tell = self._tell
                    tasks.start(self._look_at_time)
                with self._context.pace.here():
                    await tasks.run(self._answer)
            if tasks.failure is not None:
                if not isinstance(tasks.failure, KiroAsgiError):
                    await self._end(InternalError(call.request_id))
                raise tasks.failure
        finally:
            if (reading := self._attempts.reading) is not None:
                call.usage, call.span = reading.usage, reading.span
        call.outcome, call.failure = self.outcome, self.failure

    async def _watch(self) -> None:
        """Break off when the client leaves; but not within the last send, where some servers announce it too."""
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        # After the last piece the answer is complete: leaving then must not be logged as a client that left.
        if not self._attempts.output.closing:
            raise Disconnected

    async def _look_at_time(self) -> None:
        """Show signs of life: the head after a while even without an event, and heartbeats whenever it is silent.

        Between them, see whether the client takes what the main task sends.
        """
        stream, call = self._context.settings.stream, self._call
        after = early_commit(self._attempts.exchange, self._context.settings)
        commit_at = self._started + after if after else math.inf
        while True:
            left = call.patience(others_wait=self._attempts.exchange.route.provider.transport.is_crowded)
            if left <= 0:
                await self._drop_stalled()
            beat_at = self._attempts.output.last_sent + stream.heartbeat if stream.heartbeat else math.inf
            due = min(commit_at, beat_at)
            await anyio.sleep(max(0.0, min(due - self._clock(), left, call.look)))
            now = self._clock()
            if commit_at <= now:
                commit_at = math.inf
                await self._show(self._commit_early())
            elif now - self._attempts.output.last_sent >= stream.heartbeat > 0:
                await self._show(self._attempts.output.beat())

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
        await self._attempts.abandon()
        raise Stalled

    async def _commit_early(self) -> None:
        reading = self._attempts.reading
        if reading is None:
            return
        # Looked at under the lock: the first event may commit while this waits for a thread to leave the output.
        async with reading.working:
            if not self._attempts.output.committed:
                await self._attempts.output.open(reading.open())

    async def _answer(self) -> None:
        try:
            await self._attempts.run()
        except Stalled:
            self.outcome = Outcome.STALLED
            raise
        except KiroAsgiError as error:
            # The connection was closed by `_drop_stalled`: this error is its echo, and nobody is there to read it.
            if self.outcome is Outcome.STALLED:
                return
            if not self._attempts.output.committed:
                raise
            await self._break_off(error)
        else:
            self.outcome = Outcome.COMPLETE
            self._report()

    async def _tell(self, error: KiroAsgiError) -> None:
        """End a stream whose work was cancelled."""
        await self._end(error)
        self._call.outcome, self._call.failure = self.outcome, self.failure

    async def _end(self, error: KiroAsgiError) -> None:
        """End an answer, if the client has been sent something of it and it has not ended."""
        output = self._attempts.output
        if output.committed and not output.closing:
            with suppress(Disconnected):
                await self._call.taken(self._break_off(error))

    async def _break_off(self, error: KiroAsgiError) -> None:
        self.outcome, self.failure = Outcome.CUT, error
        self._warn("answer broken off: %r", error)
        told = localized(error, self._context.settings.stream.language)
        await self._attempts.output.fail(self._context.secrets.shown(told))

    def _warn(self, message: str, *arguments: object) -> None:
        _log.warning(message, *arguments, extra={"request_id": self._call.request_id})

    def _report(self) -> None:
        """Write down that something in the answer was passed over: codes only, since details may quote it.

        Names of tools are no secret: those that were corrected are told.
        """
        reading = self._attempts.reading
        end = None if reading is None else reading.end
        if end is None:
            return
        for notice in end.notices:
            if notice.code == CORRECTED:
                self._warn("tool name corrected: %s", notice.detail)
        codes = notices_in(end)
        if end.stop_reason is StopReason.PAUSED:
            codes["turn.paused"] += 1
        if told := ", ".join(f"{code} ({times})" for code, times in codes.items() if code not in _EXPECTED):
            self._warn("answer complete, but: %s", told)
