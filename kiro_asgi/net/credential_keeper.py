"""Renewing a token so that nobody loses it: not we, not another process, not who is killed in the middle.

What is in the source is looked at again inside the lock, because another process may have renewed it meanwhile; what
comes from the sign-in service is in the source, durably, before anybody uses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from logging import getLogger
from typing import Final

from attrs import define, field

from kiro_asgi.errors import KiroAsgiError, UpstreamDenied, UpstreamFault
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.net.credential_sources import Source
from kiro_asgi.net.sign_in import ask_sign_in
from kiro_asgi.net.transport import Transport
from kiro_asgi.redaction import Redactor
from kiro_asgi.upstreams.access import Renewer
from kiro_asgi.upstreams.base import Token

__all__ = ["TokenKeeper"]

_log = getLogger("kiro_asgi")

_HELD: Final = 3
"""Tokens that may still be quoted: the newest and those before it."""

_TIMEOUT: Final = 15.0
"""Seconds for one question to the sign-in service."""


@define(eq=False)
class TokenKeeper:
    """Keeps the token of one source.  Used by one thread at a time."""

    source: Source
    token: Token | None
    """The newest that we know; ``None`` before the source was first asked."""

    _renewer: Renewer | None
    """Who makes a new token of an old one; ``None`` where the source gives a new one itself."""

    _transport: Transport
    _now: Callable[[], float]
    unsaved: bool = field(init=False, default=False)
    """Whether the newest token is here only, because it could not be written."""

    _seen: tuple[str, str] = field(init=False, repr=False)
    """The token that the source held when it was last read or written."""

    _held: deque[Token] = field(init=False, factory=lambda: deque(maxlen=_HELD), repr=False)
    """The tokens known last."""

    _dead: str = field(init=False, default="", repr=False)
    """A refresh token that nobody needs to try again."""

    _end: KiroAsgiError | None = field(init=False, default=None)
    """What the sign-in service said of it."""

    def __attrs_post_init__(self) -> None:
        self._seen = _pair(self.token)
        self._hold(self.token)

    @property
    def secrets(self) -> Iterator[str]:
        """What of its tokens must not be told: also of those that were replaced, as answers may still quote them."""
        for token in tuple(self._held):
            yield from token.secrets

    async def renew(self, refused: str) -> Token:
        """A token whose access token is not *refused*.

        Raises:
            UpstreamDenied: Code ``credentials.login``: only signing in again helps.
            UpstreamError: There is none now.
        """
        async with self.source.exclusive():
            known = await self._look()
            if self._is_other(known, refused):
                return known
            if self._renewer is None:
                raise UpstreamFault(f"{self.source.name}: it gives the same token again", code="credentials.same")
            try:
                self._keep(await self._ask(self._renewer, known))
            except UpstreamDenied:
                later = await self._look()  # a program that knows nothing of our lock may have been faster
                if later is known:
                    raise
                if not self._is_other(later, refused):
                    self._keep(await self._ask(self._renewer, later))
            assert self.token is not None
            return self.token

    async def save(self) -> None:
        """Try again to write what could not be written, unless somebody else has written meanwhile."""
        async with self.source.exclusive():
            before = self.token
            self.unsaved = False
            if await self._look() is before and before is not None:
                self._keep(before)

    async def _look(self) -> Token:
        """The newest token: what the source holds, if that has changed, for who wrote it knew ours; else what we know.

        A source that could be read before and cannot be read now has not changed.
        """
        try:
            found = await self.source.read()
        except KiroAsgiError as error:
            if self.token is None or self._renewer is None:
                raise
            _log.warning("token file unreadable, going on from memory: %s", error.message)
            return self.token
        if self.token is None or _pair(found) != self._seen:
            self._hold(found)
            self.token, self._seen = found, _pair(found)
        return self.token

    def _hold(self, token: Token | None) -> None:
        if token is not None:
            self._held.append(token)

    def _is_other(self, token: Token, refused: str) -> bool:
        alive = token.expires_at is None or token.expires_at > self._now()
        return alive and token.access_token not in ("", refused)

    async def _ask(self, renewer: Renewer, token: Token) -> Token:
        if self._end is not None and token.refresh_token == self._dead:
            raise self._end
        try:
            request = renewer.renewal(token)
            answer = await ask_sign_in(self._transport, request, patience=_TIMEOUT, reached_by=renewer.reached_by)
            body = answer.body
            if answer.status != HTTPStatus.OK:  # which may quote what it refuses
                body = Redactor.of(token.secrets).hide_in(body[:REFUSAL_BYTES])
            return renewer.renewed(token, answer.status, answer.headers, body, self._now())
        except UpstreamDenied as error:
            self._dead, self._end = token.refresh_token, error
            raise

    def _keep(self, token: Token) -> None:
        """Write *token* down, then let it be used; from memory, where it cannot be written."""
        self._hold(token)
        if self.source.keeps:
            try:
                self.source.write(token)
            except OSError as error:
                words = error.strerror or error
                _log.warning("renewed token kept in memory only: %s: %s", self.source.name, words)
                self.unsaved = True
            else:
                self._seen, self.unsaved = _pair(token), False
        self.token = token


def _pair(token: Token | None) -> tuple[str, str]:
    return ("", "") if token is None else (token.access_token, token.refresh_token)
