"""A device flow from its first request to its token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Final

import anyio
import anyio.to_thread
from attrs import frozen

from kiro_asgi.errors import UpstreamDenied, UpstreamUnreachable
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.net.sign_in import ask_sign_in
from kiro_asgi.net.transport import Transport
from kiro_asgi.net.whole import WholeAnswer
from kiro_asgi.redaction import Redactor
from kiro_asgi.upstreams.base import Token
from kiro_asgi.upstreams.kiro.cli.sign_in_screen import Screen
from kiro_asgi.upstreams.kiro.renewal import oidc_host, social_host
from kiro_asgi.upstreams.kiro.signin import (
    SLOWER,
    DeviceCode,
    DeviceFlow,
    OidcFlow,
    Pending,
    SocialFlow,
    parse_device_code,
    parse_poll,
    parse_registration,
    registration_request,
)
from kiro_asgi.upstreams.kiro.vendor import REACHED_BY

__all__ = ["SigningIn"]

TICK: Final = 0.1
"""Seconds between two signs of life on the screen."""

PATIENCE: Final = 15.0
"""Seconds for each answer of the sign-in service."""

_ask: Final = partial(ask_sign_in, patience=PATIENCE, reached_by=REACHED_BY)

BROWSER_PATIENCE: Final = 5.0
"""Seconds that a browser may take to come up before we go on without it."""


@frozen
class SigningIn:
    """Who signs in, and where."""

    region: str
    base: str
    """Base URL of the sign-in service; empty for the public one."""

    provider: str
    """Whose account it is; empty for the OIDC service."""

    start_url: str

    async def run(
        self,
        transport: Transport,
        screen: Screen,
        browser: Callable[[str], object] | None,
        wall_clock: Callable[[], float],
    ) -> tuple[Token, str]:
        """The token, and who vouches for the user.

        Raises:
            UpstreamError: It did not come to a token, in one sentence.
        """
        flow = await self._flow(transport)
        answer = await _ask(transport, flow.code_request())
        code = parse_device_code(answer.status, _told(answer, flow.completed(Token("")).secrets))
        screen.code(code)
        if browser is not None:
            with anyio.move_on_after(BROWSER_PATIENCE):
                await anyio.to_thread.run_sync(browser, code.address, abandon_on_cancel=True)
        token = await _polled(transport, flow, code, screen, wall_clock)
        return flow.completed(token), flow.provider

    async def _flow(self, transport: Transport) -> DeviceFlow:
        base = self.base or (social_host if self.provider else oidc_host)(self.region)
        if self.provider:
            return SocialFlow(base, self.region, self.provider)
        answer = await _ask(transport, registration_request(base, self.start_url))
        return OidcFlow(base, self.region, self.start_url, parse_registration(answer.status, answer.body))


async def _polled(
    transport: Transport, flow: DeviceFlow, code: DeviceCode, screen: Screen, wall_clock: Callable[[], float]
) -> Token:
    end, interval = monotonic() + code.lifetime, code.interval
    while monotonic() + interval < end:
        await _wait(interval, end, screen)
        try:
            answer = await _ask(transport, flow.poll_request(code))
        except UpstreamUnreachable:  # the user is still busy, and networks come back
            interval += SLOWER
            continue
        told = _told(answer, (code.code, *flow.completed(Token("")).secrets))
        found = parse_poll(answer.status, told, wall_clock())
        if not isinstance(found, Pending):
            return found
        interval += found.slower
    raise UpstreamDenied("the code was not confirmed in time; sign in again", code="sign_in.expired")


def _told(answer: WholeAnswer, secrets: Iterable[str]) -> bytes:
    """The body of *answer*; without what we presented, where it is a refusal, which may quote it."""
    if answer.status == HTTPStatus.OK:
        return answer.body
    return Redactor.of(secrets).hide_in(answer.body[:REFUSAL_BYTES])


async def _wait(seconds: float, end: float, screen: Screen) -> None:
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0:
        screen.waiting(end - monotonic())
        await anyio.sleep(min(left, TICK))
