"""Refreshing a token so that it is never lost: by this process, by another one, or by a kill in the middle.

The source is read again inside the lock, because another process may have refreshed the token meanwhile; a new token is
saved in the source, durably, before it is used.  Gateways on other machines, which do not share the source, learn of it
from `SharedRenewals`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import shake_256
from http import HTTPStatus
from logging import getLogger
from math import inf
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.errors import KiroAsgiError, StoreUnavailable, UpstreamDenied, UpstreamFault
from kiro_asgi.limits import REFUSAL_BYTES, RENEWALS_FOLLOWED
from kiro_asgi.net.credentials.sources import Source
from kiro_asgi.net.requests import ask_sign_in
from kiro_asgi.net.transport import Transport
from kiro_asgi.redaction import Redactor
from kiro_asgi.state.base import Store, scoped
from kiro_asgi.upstreams.access import Renewer
from kiro_asgi.upstreams.base import Token

_log = getLogger("kiro_asgi")

_HELD: Final = 3
"""Tokens that may still be quoted: the newest and those before it."""

_TIMEOUT: Final = 15.0
"""Seconds for one request to the sign-in service."""


@define(eq=False)
class TokenRefresher:
    """Refreshes the token of one source.  Used by one thread at a time."""

    source: Source
    token: Token | None
    """The newest that is known; ``None`` before the source was first read."""

    _renewer: Renewer | None
    """Makes the requests for a new token; ``None`` where the source gives a new one itself."""

    _transport: Transport
    _now: Callable[[], float]
    _shared: SharedRenewals | None = None
    """Renewals of all gateways with the same store; ``None`` where the store is this process's alone."""

    unsaved: bool = field(init=False, default=False)
    """Whether the newest token is in memory only, because it could not be written."""

    _seen: tuple[str, str] = field(init=False, repr=False)
    """The token that the source held when it was last read or written."""

    _held: deque[Token] = field(init=False, factory=lambda: deque(maxlen=_HELD), repr=False)
    """The tokens known last."""

    _dead: str = field(init=False, default="", repr=False)
    """A refresh token that the sign-in service has refused for good."""

    _refusal: KiroAsgiError | None = field(init=False, default=None)
    """The error that it was refused with."""

    def __attrs_post_init__(self) -> None:
        self._seen = _pair(self.token)
        self._hold(self.token)

    @property
    def secrets(self) -> Iterator[str]:
        """Secrets of its tokens, and of those that were replaced, as answers may still quote them."""
        for token in tuple(self._held):
            yield from token.secrets

    async def renew(self, refused: str) -> Token:
        """Return a token whose access token is not *refused*.

        Raises:
            UpstreamDenied: Code ``credentials.login``: only signing in again helps.
            UpstreamError: It could not be refreshed now.
        """
        async with self.source.exclusive():
            known = await self._newest()
            if self._is_usable(known, refused):
                return known
            if self._renewer is None:
                raise UpstreamFault(
                    f"{self.source.name}: it still gives the token that the service has refused",
                    code="credentials.same",
                )
            if self._shared is None or not known.refresh_token:
                await self._replace(self._renewer, known, refused)
            else:
                await self._replace_once(self._shared, self._renewer, known, refused)
            assert self.token is not None
            return self.token

    async def look(self) -> Token | None:
        """The token that the source holds now; ``None`` where it is the one that is known, or cannot be read."""
        try:
            found = await self.source.read()
        except KiroAsgiError:
            return None
        if _pair(found) == self._seen:
            return None
        self._hold(found)
        self.token, self._seen = found, _pair(found)
        return found

    async def save(self) -> None:
        """Try again to write the token that could not be written, unless another process has written meanwhile."""
        async with self.source.exclusive():
            before = self.token
            self.unsaved = False
            if await self._newest() is before and before is not None:
                self._save(before)

    async def _replace_once(self, shared: SharedRenewals, renewer: Renewer, known: Token, refused: str) -> None:
        """Replace *known* by its renewal from another machine, or renew it for all machines."""
        while True:
            token = await shared.newest(known)
            if token is not known:
                self._save(token)
            if self._is_usable(token, refused):
                return
            async with shared.exclusive(token):
                if await shared.newest(token) is token:
                    await self._replace(renewer, token, refused)
                    return
            known = token  # another gateway renewed it between the look and the lock

    async def _replace(self, renewer: Renewer, known: Token, refused: str) -> None:
        try:
            await self._refresh(renewer, known)
        except UpstreamDenied:
            later = await self._newest()  # a program that does not use our lock may have renewed it first
            if later is known:
                raise
            if not self._is_usable(later, refused):
                await self._refresh(renewer, later)

    async def _refresh(self, renewer: Renewer, token: Token) -> None:
        """Have *token* renewed, save the new one, and only then publish it to other gateways."""
        renewed = await self._ask(renewer, token)
        self._save(renewed)
        if self._shared is not None and token.refresh_token:
            await self._shared.publish(token, renewed)

    async def _newest(self) -> Token:
        """Return the newest token: the source's, if that has changed since it was last read or written, else the known.

        A source that could be read before and cannot be read now counts as unchanged.
        """
        # The writer of a changed source had read our token before, so its token is newer.
        try:
            found = await self.source.read()
        except KiroAsgiError as error:
            if self.token is None or self._renewer is None:
                raise
            _log.warning("the token file cannot be read, so the token in memory is used: %s", error.message)
            return self.token
        if self.token is None or _pair(found) != self._seen:
            self._hold(found)
            self.token, self._seen = found, _pair(found)
        return self.token

    def _hold(self, token: Token | None) -> None:
        if token is not None:
            self._held.append(token)

    def _is_usable(self, token: Token, refused: str) -> bool:
        alive = token.expires_at is None or token.expires_at > self._now()
        return alive and token.access_token not in ("", refused)

    async def _ask(self, renewer: Renewer, token: Token) -> Token:
        if self._refusal is not None and token.refresh_token == self._dead:
            raise self._refusal
        try:
            request = renewer.renewal(token)
            answer = await ask_sign_in(self._transport, request, patience=_TIMEOUT, reached_by=renewer.reached_by)
            body = answer.body
            if answer.status != HTTPStatus.OK:  # an error may quote the token that it refuses
                body = Redactor.of(token.secrets).hide_in(body[:REFUSAL_BYTES])
            return renewer.renewed(token, answer.status, answer.headers, body, self._now())
        except UpstreamDenied as error:
            self._dead, self._refusal = token.refresh_token, error
            raise

    def _save(self, token: Token) -> None:
        """Save *token*, then use it; where it cannot be saved it stays in memory."""
        self._hold(token)
        if self.source.keeps:
            try:
                self.source.write(token)
            except OSError as error:
                reason = error.strerror or error
                _log.warning(
                    "the refreshed token is in memory only, %s cannot be written: %s", self.source.name, reason
                )
                self.unsaved = True
            else:
                self._seen, self.unsaved = _pair(token), False
        self.token = token


def _pair(token: Token | None) -> tuple[str, str]:
    return ("", "") if token is None else (token.access_token, token.refresh_token)


_KIND: Final = "renewed-1"
"""Kind of the store's entries, with the version of their layout; keys are derived from it, too."""

_TTL: Final = 30 * 86_400.0
"""Seconds that a renewal is kept: a gateway that was down for longer, with old tokens, has to sign in again."""

_NONCE_BYTES: Final = 16
_MAC_BYTES: Final = 32


@define(eq=False)
class SharedRenewals:
    """One renewal for gateways on several machines: the one that renews publishes the new tokens in the store.

    Gateways that share a store may have the same refresh token, each in a file of its own.  The one that renews it
    holds the store's lock of that refresh token, and publishes the new tokens under its hash.  A later one finds them,
    follows the chain of renewals to its end, and sends the sign-in service no request.  While the store cannot be used,
    each renews for itself.

    An entry is encrypted with a key that is derived from the refresh token that it replaces: only a gateway that had
    that one can read it, and a reader of the store learns nothing.  Layout::

        nonce, 16 bytes | HMAC-SHA256 of nonce and ciphertext, 32 | ciphertext: JSON [access, refresh, end, profile]
    """

    _store: Store
    _is_missed: bool = field(init=False, default=False)
    """Whether the last use of the store failed."""

    async def newest(self, token: Token) -> Token:
        """The latest renewal of *token* by any gateway; *token* itself where none has renewed it."""
        for _ in range(RENEWALS_FOLLOWED):
            sealed: bytes | None = None
            with self._without_store():
                sealed = await self._store.get(_key(token))
            found = None if sealed is None else _opened(token, sealed)
            if found is None or not _is_newer(found, token):
                break
            token = found
        return token

    @asynccontextmanager
    async def exclusive(self, token: Token) -> AsyncIterator[None]:
        """Keep the other gateways from renewing *token*.  One that dies meanwhile blocks them for a minute."""
        async with AsyncExitStack() as stack:
            with self._without_store():
                await stack.enter_async_context(self._store.lock(_key(token)))
            yield

    async def publish(self, old: Token, new: Token) -> None:
        """Publish that *old* was replaced by *new*; inside `exclusive`, so that the others look only afterwards."""
        await self._store.set(_key(old), _sealed(old, new), _TTL)

    @contextmanager
    def _without_store(self) -> Iterator[None]:
        """Go on after the block where the store cannot be used in it, and log that once."""
        try:
            yield
        except StoreUnavailable as error:
            if not self._is_missed:
                _log.warning(
                    "the store cannot be used, so each gateway renews tokens for itself, which may sign out others: %r",
                    error,
                )
            self._is_missed = True
        else:
            self._is_missed = False


def _key(token: Token) -> str:
    return scoped("", _KIND, token.refresh_token)


def _is_newer(found: Token, token: Token) -> bool:
    """Whether *found* came later; of access tokens with one refresh token, the one that expires later did."""
    return found.refresh_token != token.refresh_token or (found.expires_at or inf) > (token.expires_at or inf)


def _sealed(old: Token, new: Token) -> bytes:
    """The tokens of *new*, to be read with the refresh token of *old*; never twice the same."""
    content = json.dumps([new.access_token, new.refresh_token, new.expires_at, new.profile_arn]).encode()
    nonce = secrets.token_bytes(_NONCE_BYTES)
    encrypted = _encrypted(old, nonce, content)
    return nonce + _mac(old, nonce, encrypted) + encrypted


def _opened(old: Token, sealed: bytes) -> Token | None:
    """The replacement of *old*; ``None`` where *sealed* is damaged, or was made with another refresh token."""
    nonce, mac = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES : _NONCE_BYTES + _MAC_BYTES]
    encrypted = sealed[_NONCE_BYTES + _MAC_BYTES :]
    if not hmac.compare_digest(mac, _mac(old, nonce, encrypted)):
        _log.error("the tokens that another gateway has stored are damaged, and are ignored")
        return None
    access, refresh, expires_at, profile = json.loads(_encrypted(old, nonce, encrypted))
    return evolve(old, access_token=access, refresh_token=refresh, expires_at=expires_at, profile_arn=profile)


def _encrypted(token: Token, nonce: bytes, content: bytes) -> bytes:
    """*content* under a key stream that is used once, as no nonce comes twice; the same again is *content*."""
    stream = shake_256(_derived(token, b"encrypt", nonce)).digest(len(content))
    return bytes(a ^ b for a, b in zip(content, stream, strict=True))


def _mac(token: Token, nonce: bytes, encrypted: bytes) -> bytes:
    return hmac.digest(_derived(token, b"authenticate", nonce), encrypted, "sha256")


def _derived(token: Token, purpose: bytes, nonce: bytes) -> bytes:
    """A key for one purpose and one message; the refresh token is random itself, so it needs no stretching."""
    return hmac.digest(
        token.refresh_token.encode("utf-8", "surrogatepass"), b".".join((_KIND.encode(), purpose, nonce)), "sha256"
    )
