"""One renewal for gateways on several machines: who renews a sign-in leaves the new tokens where the others look.

Gateways that share a store may have the same refresh token, each in a file of its own.  Who renews it holds the store's
lock of that refresh token, and leaves the new tokens under its hash.  Who comes later finds them, follows the chain of
renewals to its end, and asks the sign-in service for nothing.

What is left is encrypted with a key that is made from the refresh token that it replaces: only who has had that one can
read it, and whoever can read the store learns nothing.  Layout::

    nonce, 16 bytes | HMAC-SHA256 of nonce and ciphertext, 32 bytes | ciphertext: JSON [access, refresh, end, profile]
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import shake_256
from logging import getLogger
from math import inf
from typing import Final

from attrs import define, evolve, field

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.limits import RENEWALS_FOLLOWED
from kiro_asgi.state.base import Store, scoped
from kiro_asgi.upstreams.base import Token

_log = getLogger("kiro_asgi")

_KIND: Final = "renewed-1"
"""What is kept; the number is that of the layout, and part of what keys are made from."""

_TTL: Final = 30 * 86_400.0
"""Seconds that a renewal is kept: a gateway that was away for longer, with the tokens of then, signs in again."""

_NONCE_BYTES: Final = 16
_MAC_BYTES: Final = 32


@define(eq=False)
class SharedRenewals:
    """Renewals that gateways with one store tell each other of.  While it cannot be used each goes on by itself."""

    _store: Store
    _is_missed: bool = field(init=False, default=False)
    """Whether the store could not be used last."""

    async def newest(self, token: Token) -> Token:
        """What *token* has become, by the renewals of all gateways; *token* itself where nobody has renewed it."""
        for _ in range(RENEWALS_FOLLOWED):
            left: bytes | None = None
            with self._without_store():
                left = await self._store.get(_key(token))
            found = None if left is None else _opened(token, left)
            if found is None or not _is_newer(found, token):
                break
            token = found
        return token

    @asynccontextmanager
    async def exclusive(self, token: Token) -> AsyncIterator[None]:
        """Keep the other gateways from renewing *token*.  One that dies meanwhile keeps them from it for a minute."""
        async with AsyncExitStack() as stack:
            with self._without_store():
                await stack.enter_async_context(self._store.lock(_key(token)))
            yield

    async def leave(self, old: Token, new: Token) -> None:
        """Tell the other gateways that *old* has become *new*; inside `exclusive`, or they would not look in time."""
        await self._store.set(_key(old), _sealed(old, new), _TTL)

    @contextmanager
    def _without_store(self) -> Iterator[None]:
        """Go on after the block where the store cannot be used in it, and say so once."""
        try:
            yield
        except StoreUnavailable as error:
            if not self._is_missed:
                _log.warning("tokens are renewed by each gateway for itself, which may sign out others: %r", error)
            self._is_missed = True
        else:
            self._is_missed = False


def _key(token: Token) -> str:
    return scoped("", _KIND, token.refresh_token)


def _is_newer(found: Token, token: Token) -> bool:
    """Whether *found* came later: a service that keeps its refresh token tells its access tokens by their ends."""
    return found.refresh_token != token.refresh_token or (found.expires_at or inf) > (token.expires_at or inf)


def _sealed(old: Token, new: Token) -> bytes:
    """The tokens of *new*, to be read with the refresh token of *old*; never twice the same."""
    content = json.dumps([new.access_token, new.refresh_token, new.expires_at, new.profile_arn]).encode()
    nonce = secrets.token_bytes(_NONCE_BYTES)
    encrypted = _encrypted(old, nonce, content)
    return nonce + _mac(old, nonce, encrypted) + encrypted


def _opened(old: Token, sealed: bytes) -> Token | None:
    """What *old* has become; ``None`` where *sealed* is damaged, or was made with another refresh token."""
    nonce, mac = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES : _NONCE_BYTES + _MAC_BYTES]
    encrypted = sealed[_NONCE_BYTES + _MAC_BYTES :]
    if not hmac.compare_digest(mac, _mac(old, nonce, encrypted)):
        _log.error("tokens that another gateway has renewed are damaged, and count as missing")
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
