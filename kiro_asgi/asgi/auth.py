"""Who the client is: one of our own keys, or the principal that the host's middleware has established."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from attrs import field, frozen

from kiro_asgi.asgi.cross_origin import CrossOrigin
from kiro_asgi.asgi.host_user import host_user
from kiro_asgi.asgi.http import header_values
from kiro_asgi.asgi.typing import Scope
from kiro_asgi.config import ClientSettings
from kiro_asgi.errors import ConfigError, Unauthorized

__all__ = ["Authenticator"]

_ANONYMOUS = "anonymous"
_AUTHORIZATION = b"authorization"


@frozen
class Authenticator:
    """Decides who a client is.

    A principal is a short text without secrets: ``key:`` and eight digits of the key's hash, ``host:`` and the host's
    name for its user, or ``anonymous``.
    """

    _settings: ClientSettings
    _cross_origin: CrossOrigin = field(factory=CrossOrigin)
    _names: tuple[bytes, ...] = (_AUTHORIZATION, b"x-api-key")
    """Headers in which clients show a key."""

    _keys: tuple[bytes, ...] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        keys = tuple(key.encode() for key in self._settings.api_keys)
        if not (keys or self._settings.allow_anonymous or self._settings.trust_host):
            raise ConfigError(
                "no client could authenticate: set client.api_keys, or client.trust_host where a host's middleware "
                "authenticates, or client.allow_anonymous to serve everybody",
                code="no_client_auth",
            )
        object.__setattr__(self, "_keys", keys)

    async def identify(self, scope: Scope) -> str:
        """Who asks: the host's user, where the host is trusted and has one, or else whose key it is.

        Raises:
            Unauthorized: Nobody we know.
            ForeignOrigin: A page of another site may have made the host's user ask.
            UnsupportedMediaType: The same.
        """
        if self._settings.trust_host and (name := await host_user(scope)):
            if self._match(_presented(scope, self._names)) is None:
                self._cross_origin.require_same_site(scope)
            return f"host:{name}"
        return self.principal(scope)

    def principal(self, scope: Scope) -> str:
        """Whose key it is.

        Raises:
            Unauthorized: Nobody's that we know.
        """
        matched = self._match(_presented(scope, self._names)) if self._keys else None
        if matched is not None:
            return f"key:{sha256(matched).hexdigest()[:8]}"
        if self._settings.allow_anonymous and not self._keys:
            return _ANONYMOUS
        raise Unauthorized("missing or invalid API key", code="invalid_api_key")

    def _match(self, presented: list[bytes]) -> bytes | None:
        """The key that was presented.  Every pair is compared, so the time tells nothing about which one nearly
        fits."""
        found = None
        for offer in presented:
            for key in self._keys:
                if hmac.compare_digest(offer, key):
                    found = key
        return found


def _presented(scope: Scope, names: Iterable[bytes]) -> list[bytes]:
    """The keys that a request shows in headers of these *names*; where one of them occurs twice, it shows none."""
    offers = []
    for name in names:
        values = header_values(scope, name)
        if len(values) > 1:
            return []
        for key in values:
            if name == _AUTHORIZATION:
                scheme, _, token = key.partition(b" ")
                key = token if scheme.lower() == b"bearer" else b""
            if key:
                offers.append(key.strip())
    return offers
