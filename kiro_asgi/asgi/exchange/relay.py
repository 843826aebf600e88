"""From an exchange to its end: signs of life, and a client that may leave at any moment.

`Relay` is what goes on around the attempts at an answer (`kiro_asgi.asgi.exchange.attempts`).  Two tasks share one
answer.  The main one makes the attempts, and brings the upstream's answer to the client.  The other waits for the
client to leave, because a server may swallow what is sent to a client that is gone.  With a stream, it interrupts that
to look at the time: it keeps the client patient while the upstream thinks, and drops one that takes nothing any more.
When the first ends, or the client is gone, both end.

`Replies` is what the operations of client APIs call.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from logging import getLogger
from typing import Any, Final, NoReturn

import anyio
from attrs import define, field, frozen

from kiro_asgi.asgi.exchange.admission import Admission, CredentialLimits
from kiro_asgi.asgi.exchange.attempts import Attempts
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.facts import Exchange, Request
from kiro_asgi.asgi.exchange.output import Output
from kiro_asgi.asgi.exchange.plan import early_commit
from kiro_asgi.asgi.exchange.reading import AnswerContext
from kiro_asgi.asgi.exchange.reports import (
    UNKNOWN,
    cost_headers,
    localized,
    notices_in,
    rules_header,
    wants_rules,
)
from kiro_asgi.asgi.exchange.settling import Settler
from kiro_asgi.asgi.protocol import Disconnected, Headers, Send, Stalled
from kiro_asgi.asgi.scheduling import Tasks, with_companion
from kiro_asgi.errors import (
    InternalError,
    KiroAsgiError,
)
from kiro_asgi.model.events import StopReason
from kiro_asgi.model.message import replay
from kiro_asgi.observers.base import Outcome
from kiro_asgi.stages.tool_spelling import CORRECTED

_log = getLogger("kiro_asgi")

_EXPECTED: Final = frozenset({UNKNOWN, CORRECTED})
"""No warning for these: services add kinds of events at any time, and corrected names have lines of their own."""


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
        """Answer, or find out that the client has left.

        Raises:
            KiroAsgiError: There is no answer, and nothing has been sent.
            Exception: An unexpected one; a client that was sent anything was sent an error, too.
        """
        call = self._call
        try:
            beside = self._watch
            if self._attempts.exchange.streamed:
                call.break_off, beside = self._end_cancelled, self._attend
            with self._context.pace.here():
                failure = await self._concurrently(beside, call.meanwhile)
            if failure is not None:
                if not isinstance(failure, KiroAsgiError):
                    await self._end(InternalError(call.request_id))
                raise failure
        finally:
            if (reading := self._attempts.reading) is not None:
                call.span = reading.span
        call.outcome, call.failure = self.outcome, self.failure

    async def _concurrently(
        self, beside: Callable[[], Awaitable[None]], meanwhile: Callable[[], Awaitable[None]] | None
    ) -> Exception | None:
        """Answer, and do what goes on beside that; the first failure."""
        if meanwhile is None:
            return await with_companion(self._answer, beside)
        async with anyio.create_task_group() as group:
            tasks = Tasks(group)
            tasks.start(beside)
            tasks.start(meanwhile)
            await tasks.run(self._answer)
        return tasks.failure

    async def _watch(self) -> None:
        """Break off when the client leaves; but not within the last send, where some servers announce it too."""
        await self._call.until_left()
        # After the last piece the answer is complete: leaving then must not be logged as a client that left.
        if not self._attempts.output.closing:
            raise Disconnected
        await anyio.sleep_forever()  # some servers announce it again and again

    async def _attend(self) -> None:
        """Watch the client, and interrupt that to look at the time.

        Shows signs of life: the head after a while even without an event, and heartbeats whenever it is silent.
        Between them, sees whether the client takes what the main task sends.
        """
        stream, call = self._context.settings.stream, self._call
        after = early_commit(self._attempts.exchange, self._context.settings)
        commit_at = self._started + after if after else math.inf
        while True:
            left = call.patience(others_wait=self._attempts.exchange.route.provider.transport.is_crowded)
            if left <= 0:
                await self._drop_stalled()
            beat_at = self._attempts.output.last_sent + stream.heartbeat if stream.heartbeat else math.inf
            silent_at = self._attempts.silent_at
            due = min(commit_at, beat_at, silent_at)
            with anyio.move_on_after(min(due - self._clock(), left, call.look)):
                await self._watch()
            now = self._clock()
            if silent_at <= now:
                await self._attempts.end_silence()
            if commit_at <= now:
                commit_at = math.inf
                await self._show(self._commit_early())
            elif stream.heartbeat and self._attempts.output.last_sent + stream.heartbeat <= now:  # as it was due
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
            # The connection was closed by `_drop_stalled`: this error is its echo, and has no reader.
            if self.outcome is Outcome.STALLED:
                return
            if not self._attempts.output.committed:
                raise
            await self._break_off(error)
        else:
            self.outcome = Outcome.COMPLETE
            self._report()

    async def _end_cancelled(self, error: KiroAsgiError) -> None:
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
        shown = localized(error, self._context.settings.stream.language)
        await self._attempts.output.fail(self._context.secrets.shown(shown))

    def _warn(self, message: str, *arguments: object) -> None:
        _log.warning(message, *arguments, extra={"request_id": self._call.request_id})

    def _report(self) -> None:
        """Log what was skipped in the answer: codes only, since details may quote it.

        Names of tools are no secret: those that were corrected are named.  Nor are those of unknown events.  What the
        operator's own stages report is expected.
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
        own = {notice.code for notice in end.notices if notice.source}
        expected = [code for code in codes if code.partition(":")[0] in _EXPECTED or code in own]
        if known := ", ".join(code for code in expected if code.startswith(UNKNOWN) or code in own):
            _log.info("answer complete, with %s", known, extra={"request_id": self._call.request_id})
        if unexpected := ", ".join(f"{code} ({times})" for code, times in codes.items() if code not in expected):
            self._warn("answer complete, but: %s", unexpected)


@frozen
class Replies:
    """Answers requests of one kind: settles where each goes, admits it, and relays what comes."""

    _context: AnswerContext
    _exchanges: Settler[Any]
    """Settles requests of the kind that is answered."""

    _admission: Admission
    _credential_limits: CredentialLimits
    _renewal: Callable[[Call], Callable[[], Awaitable[None]] | None]
    """Makes the work that keeps the leases of a call for as long as it is answered."""

    async def reply(self, call: Call, request: Request, send: Send) -> None:
        """Ask an upstream what *request* asks, and send the answer by *send*.

        Raises:
            KiroAsgiError: There is none, and nothing has been sent.
        """
        call.model = request.model
        exchange = await self._exchanges.settle(request)
        call.upstream, call.notes = exchange.upstream.name, exchange.notes
        output = partial(self._output, call, request, send)
        if (answer := exchange.known_answer) is not None:
            known = output(exchange)
            known.put(replay(answer))
            await known.finish()
            return
        call.meanwhile = self._renewal(call)
        async with self._admission.admit(call, exchange):
            attempts = Attempts(exchange, self._exchanges, self._context, self._credential_limits, call, output)
            await Relay(attempts, call, self._context).run()

    def _output(self, call: Call, request: Request, send: Send, exchange: Exchange) -> Output[Any]:
        """Where the answer to *exchange* goes."""
        traits, shows_rules = request.dialect.traits, wants_rules(call.scope)
        shows_cost = self._context.settings.prices.header and not exchange.streamed

        def headers() -> Headers:
            usual: Headers = (content_type, *call.headers)
            if shows_cost:
                usual = (*usual, *cost_headers(call.cost_with(call.counted())))
            return (*usual, rules_header(call.notes, call.end())) if shows_rules else usual

        content_type = b"content-type", traits.stream_type if exchange.streamed else traits.body_type
        channel = send if exchange.streamed else call.in_time(send)
        return exchange.output(channel, headers, self._context.settings, self._context.clocks.steady)
