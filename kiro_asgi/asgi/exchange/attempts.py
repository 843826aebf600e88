"""The attempts at one answer, as many as the retry policy allows.

This is the one place where an error of an upstream is decided upon.  In this order: the same request in another form,
where the form was refused; the step of `kiro_asgi.net.retry`, which is the same again later, with a new token, with
another credential, or with a reminder; then the next upstream that the operator configured; then the error goes to the
client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from logging import DEBUG, getLogger
from typing import Any, Final

import anyio
from attrs import define, evolve, field

from kiro_asgi.asgi.exchange.admission import CredentialLimits
from kiro_asgi.asgi.exchange.call import Call
from kiro_asgi.asgi.exchange.charging import charge_of
from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.exchange.output import Output, Sending
from kiro_asgi.asgi.exchange.reading import AnswerContext, AnswerReading, Readable
from kiro_asgi.asgi.exchange.reports import (
    log_body,
    log_notes,
)
from kiro_asgi.asgi.exchange.settling import Settler
from kiro_asgi.asgi.protocol import Scope, Stalled, header_values
from kiro_asgi.errors import (
    KiroAsgiError,
    Reach,
    UnmetPromise,
    UpstreamLimitReached,
    UpstreamProtocolError,
    UpstreamQuotaSpent,
    UpstreamRejected,
    UpstreamTokenInvalid,
    UpstreamUnreachable,
)
from kiro_asgi.limits import ADAPTATIONS
from kiro_asgi.net.retry import Remedy
from kiro_asgi.upstreams.base import Credential, UpstreamRequest

_log = getLogger("kiro_asgi")

_CONNECTION_TROUBLE: Final = (UpstreamUnreachable, UpstreamProtocolError)
"""After these, idle connections are not trusted either."""

_COUNT: Final = re.compile(rb"[0-9]{1,3}")


def _attempts_before(scope: Scope, headers: Iterable[bytes]) -> int:
    """Times that the client has sent this request before, by its own count in one of *headers*."""
    counts = [value for name in headers for value in header_values(scope, name)]
    return max((int(value) for value in counts if _COUNT.fullmatch(value)), default=0) if counts else 0


@define
class Attempts:
    """The attempts at one request, counted for each upstream."""

    exchange: Readable
    """The facts of the latest attempt."""

    _exchanges: Settler[Any]
    _context: AnswerContext
    _credential_limits: CredentialLimits
    _call: Call
    _outputs: Callable[[Exchange], Output[Any]]
    """Makes the output for an exchange; called again where an answer of another kind needs another one."""

    output: Output[Any] = field(init=False)
    reading: AnswerReading[Any, Any] | None = field(init=False, default=None)
    """Of the latest attempt; ``None`` before the first."""

    _before: int = field(init=False)
    """Attempts that the client has made before: each had an answer that it might try again, so each was one call."""

    _number: int = field(init=False, default=1)
    """Of the latest attempt, wherever it was made."""

    _unchanged: int = field(init=False)
    """Attempts at this upstream that changed nothing."""

    _waited: float = field(init=False, default=0.0)
    """Seconds, between all attempts."""

    _renewed: bool = field(init=False, default=False)
    """Whether the credential in use had its one new token."""

    _moved: KiroAsgiError | None = field(init=False, default=None)
    """Why the credential in use was taken to the service's other host; ``None`` where it was not."""

    _away: bool = field(init=False, default=False)
    """Whether it is there now."""

    _adaptations: int = field(init=False, default=0)
    """Times that this upstream was asked in another form."""

    _reminded: bool = field(init=False, default=False)
    """Whether the model was reminded that its answer broke a promise."""

    _spent: list[Credential] = field(init=False, factory=list)
    """Credentials that failed; none is used again for this request, however short its cooldown."""

    _limited: list[UpstreamLimitReached] = field(init=False, factory=list)
    """Limits that credentials of this upstream were at."""

    _abandoned: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.output = self._outputs(self.exchange)
        self._before = self._unchanged = _attempts_before(self._call.scope, self._context.retry_count_headers)

    async def run(self) -> None:
        """Ask until an answer has gone out whole.

        Raises:
            KiroAsgiError: There is none, or it broke off, and there must be no other attempt.
        """
        while True:
            try:
                await self._attempt()
            except UpstreamLimitReached as reached:  # no upstream was asked
                await self._prepare_another(reached)
            except KiroAsgiError as error:
                self._observe(error)
                await self._prepare_another(error)
            else:
                self._observe(None)
                return

    def _observe(self, error: KiroAsgiError | None) -> None:
        if self._call.observation is not None:
            self._call.observation.attempted(error, self._call.charge)

    async def abandon(self) -> None:
        """Let go of the upstream: its connection is free at once, and there is no other attempt."""
        # Before the await: the connection breaks under the running attempt, whose error must find no other attempt.
        self._abandoned = True
        if self.reading is not None:
            await self.exchange.route.provider.transport.hang_up(self.reading)

    @property
    def silent_at(self) -> float:
        """When to look whether the service is silent, at the latest, by the clock."""
        if self.reading is not None:
            return self.reading.silent_at
        idle = self._context.settings.stream.idle_timeout or math.inf
        return self._context.clocks.steady() + min(self.exchange.first_event_timeout, idle)

    async def end_silence(self) -> None:
        """Let go of a service that has been silent for too long while it was read from: that attempt has failed."""
        if self.reading is not None and self.reading.give_up():
            await self.exchange.route.provider.transport.hang_up(self.reading)

    async def _attempt(self) -> None:
        """Ask an upstream once.

        Raises:
            UpstreamLimitReached: The credential is at its limit, and no upstream was asked.
            KiroAsgiError: The attempt has failed.
        """
        exchange, context, call = self.exchange, self._context, self._call
        provider = exchange.route.provider
        self.output.restart()
        reading = exchange.reading(self.output, context)
        async with self._credential_limits.reserved(call, exchange):
            # The first alone: another one may have a shorter limit, of which whoever looks at the time knows nothing.
            reading.attended = self.reading is None and exchange.streamed and provider.transport.ends_reads
            self.reading = reading
            call.upstream, call.notes = exchange.upstream.name, exchange.notes
            call.price = context.prices.of(exchange.upstream.name, exchange.route.model.id)
            call.end, call.counted = lambda: reading.end, lambda: reading.used
            if call.observation is not None:
                call.observation.plan(exchange, self._number, reading)
            if _log.isEnabledFor(DEBUG):
                log_notes(exchange)
                if context.settings.log_bodies:
                    log_body(exchange)
            with (
                self._charging(exchange, reading),
                provider.credentials.asking(exchange.credential, exchange.route.model.id) as accepted,
            ):
                reading.on_accept = accepted
                patience = context.settings.limits.request_timeout
                await self._fetch(exchange.rendered.request, reading, patience)
                while (following := await reading.next_part()) is not None:
                    request = await context.offload.run(exchange.request.size, following)
                    await self._fetch(request, reading, reading.left)
                await reading.finish()

    @contextmanager
    def _charging(self, exchange: Exchange, reading: AnswerReading[Any, Any]) -> Iterator[None]:
        """Charge the call for the attempt within the block, however that ends."""
        ended_by: BaseException | None = None
        try:
            yield
        except BaseException as error:
            ended_by = Stalled() if self._abandoned else error
            raise
        finally:
            self._call.charges.append(charge_of(self._call, exchange, reading, ended_by))

    async def _fetch(self, request: UpstreamRequest, reading: AnswerReading[Any, Any], patience: float) -> None:
        observation = self._call.observation
        if observation is not None:
            observation.ask(request)
        try:
            try:
                await self.exchange.route.provider.transport.fetch(request, reading, patience=patience)
            except KiroAsgiError:
                reading.require_sound()  # else it broke since it was hung up on
                raise
            reading.require_sound()  # nor is this an end, where that is all that ends a body
        except KiroAsgiError as error:
            if observation is not None:
                observation.end_body(error)
            raise
        if observation is not None:
            observation.end_body(None)

    async def _prepare_another(self, error: KiroAsgiError) -> None:
        """Change what has to be different about the next attempt, and wait as long as the policy decides.

        Raises:
            KiroAsgiError: There must be no other one; its reason need not be *error*.
        """
        before = self.exchange
        try:
            if self._abandoned or self.output.begun:
                raise error
            try:
                await self._prepare_same_upstream(error)
            except KiroAsgiError as failure:
                await self._prepare_another_upstream(failure)
        except KiroAsgiError as final:
            self._note_retries(final)
            if isinstance(final, UpstreamRejected):
                self.exchange.route.provider.forget(self.exchange.route.model, self.exchange.upstream)
            raise
        if not isinstance(error, UpstreamLimitReached):
            self._number += 1
        if type(self.exchange) is not type(before):
            self._change_output()

    def _note_retries(self, error: KiroAsgiError) -> None:
        """Note on *error*, after which there is no other attempt, that the client need not make one, if that is so."""
        error.retried = self._number > 1
        if error.retried and error.retry_safe and error.retry_after is None:
            error.retry_after = self._context.policy.backoff(error, self._unchanged + 1)

    def _change_output(self) -> None:
        """Use another output, where an answer is translated that was to go through, or the reverse."""
        output = self._outputs(self.exchange)
        if isinstance(output, Sending) and isinstance(self.output, Sending):
            output.take_over(self.output)
        self.output = output

    async def _prepare_same_upstream(self, error: KiroAsgiError) -> None:
        """As `_prepare_another`, as long as this upstream may be asked again."""
        context, exchange = self._context, self.exchange
        adapted = None if self._adaptations == ADAPTATIONS else await exchange.adapted(error, context.offload)
        if adapted is not None:
            self._adaptations += 1
            self._warn("sending an adapted request: %r", error)
            self.exchange = adapted
            return
        other = self._elsewhere(error)
        if other is not None and self._moved is not None and not self._may_renew(error):
            error, other = await self._settled(other, error), None
        step = context.policy.decide(
            error,
            self._unchanged + 1,
            context.clocks.draw,
            renewed=self._renewed,
            misplaced=other is not None,
            reminded=self._reminded,
            waited=self._waited,
        )
        if step is None:
            raise error
        match step.remedy:
            case Remedy.AGAIN:
                await self._wait(error, step.seconds)
            case Remedy.REMIND:
                assert isinstance(error, UnmetPromise), "a reminder of what was not promised"
                await self._remind(error)
            case Remedy.RENEW:
                await self._renew(error)
            case Remedy.OTHER_HOST:
                assert other is not None, "the service has no other host"
                await self._use_elsewhere(other, error)
            case Remedy.NEXT_CREDENTIAL:
                await self._use_next_credential(error)
            case Remedy.LEAVE_SERVICE:
                await self._cool(error)
                self.exchange = exchange.with_route(self._exchanges.models.without_service(exchange.route))
                raise error

    async def _wait(self, error: KiroAsgiError, seconds: float) -> None:
        self._unchanged += 1
        self._waited += seconds
        self._warn("next attempt in %.1f s: %r", seconds, error)
        # Idle connections to a peer that went away are as dead as the one that failed: each would cost an attempt.
        if isinstance(error, _CONNECTION_TROUBLE):
            await self.exchange.route.provider.transport.reset()
        await anyio.sleep(seconds)

    async def _remind(self, error: UnmetPromise) -> None:
        self._unchanged += 1
        self._reminded = True
        self._warn("reminding the model: %r", error)
        work = partial(self.exchange.reminded, error.complaint)
        self.exchange = await self._context.offload.run(self.exchange.request.size, work)

    async def _renew(self, error: KiroAsgiError) -> None:
        """Ask with a newer token, or where there is none to be had, with another credential."""
        self._renewed = True
        try:
            newer = await self.exchange.route.provider.credentials.renew(self.exchange.credential)
        except KiroAsgiError as why:
            newer, error = None, why
        if newer is not None:
            used = self.exchange.credential
            await self._use(evolve(newer, host=used.host, management_host=used.management_host), error)
        elif self._moved is None and (other := self._elsewhere(error)) is not None:
            await self._use_elsewhere(other, error)
        else:
            await self._use_next_credential(error)

    def _elsewhere(self, error: KiroAsgiError) -> Credential | None:
        """The credential for the service's other host; ``None`` where there is none, or *error* does not lead there."""
        exchange, hosts = self.exchange, self.exchange.route.provider.setup.hosts
        return None if hosts is None else hosts.elsewhere(exchange.credential, exchange.rendered.request, error)

    def _may_renew(self, error: KiroAsgiError) -> bool:
        return isinstance(error, UpstreamTokenInvalid) and not self._renewed

    async def _settled(self, first: Credential, error: KiroAsgiError) -> KiroAsgiError:
        """What to decide upon where neither host takes the credential: what the *first* said, at which it goes on."""
        if not self._away or self._moved is None:
            return error
        self._away = False
        work = partial(self.exchange.with_credential, first)
        self.exchange = await self._context.offload.run(self.exchange.request.size, work)
        return self._moved

    async def _use_elsewhere(self, other: Credential, error: KiroAsgiError) -> None:
        """Ask the service's other host, at once: nothing of the client's budget is spent."""
        self._moved, self._away = error, True
        await self._use(other, error)

    async def _use_next_credential(self, error: KiroAsgiError) -> None:
        """Ask with a credential that has not failed, while the one that was used cools down.

        Raises:
            KiroAsgiError: No other is left: *error*, or where one is at its limit, the limit with the shortest wait.
        """
        exchange = self.exchange
        # First of all: a cooldown may be shorter than the time until the next attempt, which would take it again.
        self._spent.append(exchange.credential)
        if isinstance(error, UpstreamLimitReached):
            self._limited.append(error)
        else:
            error = await self._cool(error)
        try:
            other = await exchange.route.provider.credentials.get(exchange.route.model.id, exclude=self._spent)
        except KiroAsgiError:
            raise min(self._limited, key=lambda reached: reached.retry_after or 0.0, default=error) from None
        self._renewed, self._moved, self._away = False, None, False
        await self._use(other, error)

    async def _use(self, credential: Credential, error: KiroAsgiError) -> None:
        work = partial(self.exchange.with_credential, credential)
        changed = await self._context.offload.run(self.exchange.request.size, work)
        if not isinstance(error, UpstreamLimitReached):
            place = f" at {credential.host}" if credential.host else ""
            self._warn("next attempt with %s%s: %r", credential.source, place, error)
        self.exchange = changed

    async def _cool(self, error: KiroAsgiError) -> KiroAsgiError:
        """Start the cooldown of the credential, unless *error* means nothing for further requests.

        Returns:
            *error*, with the time of the next quota where that is what it is about.
        """
        route, credential = self.exchange.route, self.exchange.credential
        provider, model = route.provider, route.model.id
        if not error.asked or error.reach is Reach.REQUEST:
            return error
        provider.credentials.cool(credential, error, model)
        # Cooled twice: the service is asked for the time of the next quota, and meanwhile no other request may take it.
        if isinstance(error, UpstreamQuotaSpent):
            error = await provider.with_reset(error, credential, self._context.clocks.wall())
            provider.credentials.cool(credential, error, model)
        return error

    async def _prepare_another_upstream(self, failure: KiroAsgiError) -> None:
        """Ask the next upstream that the operator configured.

        Raises:
            KiroAsgiError: *failure*, where there is none, or it would not help.
        """
        request, rest = self.exchange.request, self.exchange.route.rest
        if not rest:
            raise failure
        # The head and an opening are of the translated kind: bytes that go through would bring a second opening.
        if self.output.opened:
            request = request.without_passthrough()
        changed = await self._exchanges.settle_next(request, rest, failure)
        self._warn("next attempt with %s: %r", changed.upstream.name, failure)
        self.exchange = changed
        self._unchanged, self._renewed, self._moved, self._away = self._before, False, None, False
        self._limited, self._adaptations = [], 0

    def _warn(self, message: str, *arguments: object) -> None:
        extra = {"request_id": self._call.request_id}
        _log.warning("attempt %d failed, " + message, self._number, *arguments, extra=extra)
