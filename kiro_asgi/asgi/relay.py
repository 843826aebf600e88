"""From an exchange to its end: tries, signs of life, and a client that may leave at any moment.

Three tasks share one answer.  The main one asks the upstream, as often as the retry policy allows, and brings what it
says to the client.  One waits for the client to leave, because a server may swallow what is sent to a client that is
gone.  One keeps the client patient while the upstream thinks.  When the first ends, or the client leaves, all end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from itertools import count
from logging import getLogger
from typing import Final

import anyio
from attrs import define, field

from kiro_asgi.asgi.attempt import Attempt
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.http import Disconnected
from kiro_asgi.asgi.output import Output
from kiro_asgi.asgi.plan import early_commit
from kiro_asgi.asgi.refusals import log_body
from kiro_asgi.asgi.service import Service
from kiro_asgi.asgi.typing import Receive
from kiro_asgi.asgi.wording import translated
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError, UpstreamProtocolError, UpstreamUnreachable
from kiro_asgi.model.events import MessageEnd
from kiro_asgi.net.retry import Remedy, Step
from kiro_asgi.upstreams.base import Credential

__all__ = ["Outcome", "Relay"]

_log = getLogger("kiro_asgi")

_CONNECTION_TROUBLE: Final = (UpstreamUnreachable, UpstreamProtocolError)
"""After these, idle connections are not trusted either."""


_EXPECTED = "event.unknown"
"""The service adds kinds of events without notice; that is no reason for one."""


class Outcome(Enum):
    """How an exchange ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    """In-band, after the commit."""

    DISCONNECTED = "disconnected"


@define
class Relay:
    """Answers one exchange."""

    exchange: Exchange
    """The facts of the latest try."""

    _receive: Receive
    _service: Service
    _settings: Settings
    _clock: Callable[[], float]
    _draw: Callable[[], float]
    outcome: Outcome = field(init=False, default=Outcome.DISCONNECTED)
    attempts: int = field(init=False, default=0)
    """Upstream calls made."""

    failure: KiroAsgiError | None = field(init=False, default=None)
    """What broke an answer off that had been committed."""

    _again: int = field(init=False, default=0)
    """Tries that changed nothing."""

    _renewed: bool = field(init=False, default=False)
    """Whether the credential in use had its one new token."""

    _spent: list[Credential] = field(init=False, factory=list)
    """Credentials that failed; none is used again for this exchange, however short its rest."""

    _output: Output = field(init=False)
    _attempt: Attempt | None = field(init=False, default=None)
    _started: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._started = self._clock()

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, where it came to an end."""
        return self._attempt.answer.end if self._attempt and self._attempt.answer else None

    async def run(self, output: Output) -> None:
        """Answer into *output*, or find out that nobody listens any more.

        Raises:
            KiroAsgiError: There is no answer, and nothing has been sent.
        """
        self._output = output
        failure: Exception | None = None

        async def guarded(work: Callable[[], Awaitable[None]]) -> None:
            nonlocal failure
            try:
                await work()
            except Disconnected:
                group.cancel_scope.cancel()
            except Exception as error:  # noqa: BLE001 - raised below: leaving the group it would be wrapped
                failure = error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(guarded, self._watch)
            if self.exchange.inquiry.stream:
                group.start_soon(guarded, self._keep_alive)
            await guarded(self._answer)
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _watch(self) -> None:
        """Break off when the client leaves; but not within the last send, where some servers announce it too."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._output.closing:
            raise Disconnected

    async def _keep_alive(self) -> None:
        """Show signs of life: the head after a while even without an event, and heartbeats whenever it is silent."""
        stream = self._settings.stream
        after = early_commit(self.exchange, self._settings)
        commit_at = self._started + after if after else None
        while commit_at is not None or stream.heartbeat:
            beat_at = self._output.last_sent + stream.heartbeat if stream.heartbeat else None
            due = min(moment for moment in (commit_at, beat_at) if moment is not None)
            await anyio.sleep(max(0.0, due - self._clock()))
            if due == commit_at:
                commit_at = None
                await self._commit_early()
            elif self._clock() - self._output.last_sent >= stream.heartbeat:
                await self._output.beat()

    async def _commit_early(self) -> None:
        if self._attempt is not None and not self._output.committed:
            await self._output.open(self._attempt.open())

    async def _answer(self) -> None:
        for self.attempts in count(1):
            try:
                await self._try()
            except KiroAsgiError as error:
                if self._output.committed:
                    await self._break_off(error)
                    return
                await self._prepare_another(error)
            else:
                self.outcome = Outcome.COMPLETE
                self._report()
                return

    async def _break_off(self, error: KiroAsgiError) -> None:
        self.outcome, self.failure = Outcome.FAILED, error
        self._warn("answer broken off: %r", error)
        await self._output.fail(translated(error, self._settings.stream.language))

    async def _prepare_another(self, error: KiroAsgiError) -> None:
        """Change what has to be different about the next try, and wait as long as the policy says.

        Raises:
            KiroAsgiError: *error*, where there must be no other try.
        """
        changed = self._service.healed(self.exchange, error)
        if changed is not None:
            self._warn("try %d failed, asking differently: %r", self.attempts, error)
            self.exchange = changed
            return
        step = self._service.policy.decide(error, self._again + 1, self._draw, renewed=self._renewed)
        if step is None:
            raise error
        if step.remedy is Remedy.AGAIN:
            await self._wait(error, step.seconds)
        else:
            await self._use_another_credential(error, step)

    async def _wait(self, error: KiroAsgiError, seconds: float) -> None:
        self._again += 1
        self._warn("try %d failed, next in %.1f s: %r", self.attempts, seconds, error)
        if isinstance(error, _CONNECTION_TROUBLE):
            await self._service.transport.reset()
        await anyio.sleep(seconds)

    async def _use_another_credential(self, error: KiroAsgiError, step: Step) -> None:
        changed = None
        if step.remedy is Remedy.RENEW:
            self._renewed = True
            try:
                changed = await self._service.renewed(self.exchange)
            except KiroAsgiError as why:
                error = why
        if changed is None:
            self._spent.append(self.exchange.credential)
            changed = await self._service.elsewhere(self.exchange, error, step.seconds, besides=self._spent)
            self._renewed = False
        self._warn("try %d failed, next with %s: %r", self.attempts, changed.credential.source, error)
        self.exchange = changed

    def _warn(self, message: str, *arguments: object) -> None:
        _log.warning(message, *arguments, extra={"request_id": self.exchange.request_id})

    def _report(self) -> None:
        """Write down that something in the answer was passed over: codes only, since details may quote it."""
        if self.end is None:
            return
        codes = Counter(notice.code for notice in self.end.notices if notice.code != _EXPECTED)
        codes.update("call.cut" for _ in self.end.truncations)
        if codes:
            told = ", ".join(f"{code} ({times})" for code, times in codes.items())
            self._warn("answer complete, but: %s", told)

    async def _try(self) -> None:
        self._output.restart()
        opened = self._output.committed
        learn = partial(self._service.finished, self.exchange)
        attempt = Attempt(self.exchange, self._settings, self._output, self._clock, learn, opened)
        self._attempt = attempt
        timeout = attempt.first_event_timeout
        if self._settings.kiro.log_bodies:
            log_body(self.exchange)
        await self._service.transport.fetch(self.exchange.rendered.request, attempt, head_timeout=timeout)
        await attempt.finish()
