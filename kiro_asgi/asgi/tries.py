"""What is asked next where a try has failed: the same again, with another credential, or another upstream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain
from logging import getLogger
from typing import Final

import anyio
from attrs import define, field

from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.asgi.http import header_values
from kiro_asgi.asgi.service import Service
from kiro_asgi.asgi.typing import Scope
from kiro_asgi.errors import KiroAsgiError, UnmetPromise, UpstreamProtocolError, UpstreamUnreachable
from kiro_asgi.net.retry import Remedy, Step
from kiro_asgi.upstreams.base import Credential

__all__ = ["Tries", "tries_before"]

_log = getLogger("kiro_asgi")

_CONNECTION_TROUBLE: Final = (UpstreamUnreachable, UpstreamProtocolError)
"""After these, idle connections are not trusted either."""

_COUNT: Final = re.compile(rb"[0-9]{1,3}")


def tries_before(scope: Scope, headers: Iterable[bytes]) -> int:
    """Times that the client has sent this request before, by its own count in one of *headers*."""
    told = chain.from_iterable(header_values(scope, name) for name in headers)
    return max((int(value) for value in told if _COUNT.fullmatch(value)), default=0)


@define
class Tries:
    """The tries at one request, counted for each upstream."""

    exchange: Exchange
    """The facts of the latest try."""

    _service: Service
    _draw: Callable[[], float]
    opened: bool = field(init=False, default=False)
    """Whether the client has been shown the start of a translated answer, so that only such a one may follow."""

    _made: int = field(init=False, default=1)
    """Upstream calls, the one that is under way among them."""

    _before: int = 0
    """Tries that the client has made before: each had an answer that it might try again, so each was one call."""

    _again: int = field(init=False)
    """Tries at this upstream that changed nothing."""

    _waited: float = field(init=False, default=0.0)
    """Seconds, between all tries."""

    _renewed: bool = field(init=False, default=False)
    """Whether the credential in use had its one new token."""

    _reminded: bool = field(init=False, default=False)
    """Whether the model was told that its answer broke a promise."""

    _spent: list[Credential] = field(init=False, factory=list)
    """Credentials that failed; none is used again for this request, however short its rest."""

    def __attrs_post_init__(self) -> None:
        self._again = self._before

    async def prepare_another(self, error: KiroAsgiError) -> None:
        """Change what has to be different about the next try, and wait as long as the policy says.

        Raises:
            KiroAsgiError: There must be no other try; its reason need not be *error*.
        """
        try:
            await self._prepare_same_upstream(error)
        except KiroAsgiError as failure:
            changed = await self._at_another_upstream(failure)
            self._warn("next with %s: %r", changed.upstream.name, failure)
            self.exchange = changed
            self._again, self._renewed = self._before, False
        self._made += 1

    def give_up(self, error: KiroAsgiError) -> None:
        """Note on *error*, after which there is no other try, that the client need not try either, if that is so."""
        error.retried = self._made > 1
        if error.retried and error.retry_safe and error.retry_after is None:
            error.retry_after = self._service.policy.backoff(error, self._again + 1)

    async def _at_another_upstream(self, failure: KiroAsgiError) -> Exchange:
        changed = await self._service.at_another_upstream(self.exchange, failure)
        if self.opened and changed.passed is not None:
            changed.asked.passed = None
            changed = await self._service.at_another_upstream(self.exchange, failure)
        return changed

    async def _prepare_same_upstream(self, error: KiroAsgiError) -> None:
        """As `prepare_another`, as long as this upstream may be asked again."""
        changed = await self._service.healed(self.exchange, error)
        if changed is not None:
            self._warn("asking differently: %r", error)
            self.exchange = changed
            return
        step = self._service.policy.decide(
            error,
            self._again + 1,
            self._draw,
            renewed=self._renewed,
            reminded=self._reminded,
            waited=self._waited,
        )
        if step is None:
            raise error
        if isinstance(error, UnmetPromise):
            await self._remind(error)
        elif step.remedy is Remedy.AGAIN:
            await self._wait(error, step.seconds)
        elif step.remedy is Remedy.NOWHERE:
            await self._service.rest(self.exchange, error)
            self.exchange = self._service.without_service(self.exchange)
            raise error
        else:
            await self._use_another_credential(error, step)

    async def _remind(self, error: UnmetPromise) -> None:
        self._again += 1
        self._reminded = True
        self._warn("asking once more: %r", error)
        self.exchange = await self._service.reminded(self.exchange, error.complaint)

    async def _wait(self, error: KiroAsgiError, seconds: float) -> None:
        self._again += 1
        self._waited += seconds
        self._warn("next in %.1f s: %r", seconds, error)
        if isinstance(error, _CONNECTION_TROUBLE):
            await self.exchange.route.provider.transport.reset()
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
            changed = await self._service.elsewhere(self.exchange, error, besides=self._spent)
            self._renewed = False
        self._warn("next with %s: %r", changed.credential.source, error)
        self.exchange = changed

    def _warn(self, message: str, *arguments: object) -> None:
        extra = {"request_id": self.exchange.request_id}
        _log.warning("try %d failed, " + message, self._made, *arguments, extra=extra)
