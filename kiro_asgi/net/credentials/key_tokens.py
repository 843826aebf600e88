"""Keys of the settings: used as they are, or exchanged for tokens that last a while.

There is no standard for the answer to an exchange.  Understood are ``{"token", "expires_at"}``, as GitHub has it, and
``{"access_token", "expires_in"}``, as OAuth does; and ``{"endpoints": {"api"}}``, the address where a token is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import define, field, frozen

from kiro_asgi.config.gateway import RetrySettings
from kiro_asgi.errors import NotTheUpstream, UpstreamDenied, UpstreamError, UpstreamFault, UpstreamThrottled
from kiro_asgi.limits import TOKEN_BYTES
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credentials.refresh import TokenRefresher
from kiro_asgi.net.credentials.sources import EphemeralSource
from kiro_asgi.net.credentials.state import CredentialState
from kiro_asgi.net.requests import HttpResponse, fetch_whole
from kiro_asgi.net.transport import Transport
from kiro_asgi.setting import is_base_url
from kiro_asgi.upstreams.access import KeyExchange
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, UpstreamRequest

_MILLISECONDS: Final = 1e11
"""From here on a number of seconds would be in the year 5138; it counts milliseconds."""

_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999; a later time is not taken for an end."""

_REFUSED: Final = 60.0
"""Seconds until a key that was refused is tried again."""

_TEN_YEARS: Final = 10 * 365 * 86_400


def token_of(answer: HttpResponse, name: str, url: str, now: float) -> Token:
    """Read the token of an exchange's answer.

    Args:
        answer: The response to a request with a key.
        name: The key's name in messages.
        url: The address that answered.
        now: Seconds since the epoch.

    Raises:
        UpstreamDenied: Code ``credentials.key``: the key is not taken.
        UpstreamThrottled: Code ``credentials.throttled``.
        UpstreamFault: Code ``credentials.fault``.
        NotTheUpstream: Code ``credentials.foreign``: there is no token in it.
    """
    if answer.status != 200:
        raise _refusal(answer, name)
    fields = _object(answer.body)
    token = next((it for key in ("token", "access_token") if type(it := fields.get(key)) is str and it), "")
    if not re.fullmatch(r"[!-~]+", token):
        raise NotTheUpstream(f"{name}: the answer of {url} holds no token", code="credentials.foreign")
    return Token(token, expires_at=_end(fields, now), endpoint=_endpoint(fields, name, url))


def _refusal(answer: HttpResponse, name: str) -> UpstreamError:
    status = answer.status
    message = f"{name}: its exchange for a token was answered with status {status}"
    if status == 429:
        return UpstreamThrottled(message, code="credentials.throttled", retry_after=_wait(answer))
    if 400 <= status < 500 and status != 408:
        return UpstreamDenied(f"{message}; check the key", code="credentials.key", retry_after=_REFUSED)
    if status >= 500 or status == 408:
        return UpstreamFault(message, code="credentials.fault", retry_after=_wait(answer))
    return NotTheUpstream(message, code="credentials.foreign")


def _wait(answer: HttpResponse) -> float | None:
    value = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"")
    return float(value) if re.fullmatch(rb"[0-9]{1,4}", value) else None


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if type(fields) is dict else {}


def _end(fields: Mapping[str, Any], now: float) -> float | None:
    """When the token ends; a duration counts before a time, which is by another machine's clock."""
    lasts = _number(fields.get("expires_in"))
    return now + lasts if lasts is not None and 0 < lasts <= _TEN_YEARS else _moment(fields.get("expires_at"))


def _moment(value: Any) -> float | None:
    """Seconds since the epoch: given as such, in milliseconds, or in ISO 8601, which is UTC if it names no offset."""
    seconds = _number(value)
    if seconds is None:
        seconds = _of_iso(value if type(value) is str else "")
    elif seconds >= _MILLISECONDS:
        seconds /= 1000
    return seconds if seconds is not None and 0 <= seconds <= _LATEST else None


def _of_iso(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(value: Any) -> float | None:
    known = (type(value) is int and abs(value) <= 1000 * _LATEST) or type(value) is float
    return float(value) if known else None


def _endpoint(fields: Mapping[str, Any], name: str, url: str) -> str:
    """The address where the token is used, if the answer names it; never plain http where the key was sent by https."""
    endpoints = fields.get("endpoints")
    api = endpoints.get("api") if type(endpoints) is dict else None
    if api is None:
        return ""
    if type(api) is not str or not is_base_url(api) or (url.startswith("https:") and not api.startswith("https:")):
        raise NotTheUpstream(
            f"{name}: the address that came with its token is not an https address", code="credentials.foreign"
        )
    return api


_TIMEOUT: Final = 15.0
"""Seconds for one exchange."""

_MARGIN: Final = 300.0
"""Seconds before its end at which a token is replaced."""


@define
class TokenExchange(EphemeralSource):
    """One key's tokens, each asked for when it is needed; a `kiro_asgi.net.credentials.sources.Source`."""

    name: str
    _key: str = field(repr=False)
    _exchange: KeyExchange
    _transport: Transport
    _now: Callable[[], float]

    async def read(self) -> Token:
        """Ask for a token.

        Raises:
            UpstreamDenied: Code ``credentials.key``: the key is refused.
            UpstreamError: There is no token now.
        """
        request = self._exchange.request(self._key)
        answer = await fetch_whole(self._transport, request, patience=_TIMEOUT, limit=TOKEN_BYTES)
        return token_of(answer, self.name, self._exchange.url, self._now())


@frozen
class _Bearers:
    """Tokens that come without a profile; a `kiro_asgi.upstreams.access.Presenter`."""

    def credential(self, token: Token, source: str) -> Credential:
        """The token, and where it is to be used."""
        return Credential(CredentialKind.ACCESS_TOKEN, token.access_token, source=source, endpoint=token.endpoint)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """No requests."""
        return ()

    def profile(self, bodies: Iterable[bytes]) -> str:
        """No profile."""
        return ""


def key_credential(
    name: str, key: str, transport: Transport, clocks: Clocks, policy: RetrySettings, exchange: KeyExchange | None
) -> CredentialState:
    """Make the credential of *key*, or, where there is an *exchange*, of the tokens that it gives."""
    credential: Credential | None = None
    refresher: TokenRefresher | None = None
    if exchange is None:
        credential = Credential(CredentialKind.API_KEY, key, source=name)
    else:
        source = TokenExchange(name, key, exchange, transport, clocks.wall)
        refresher = TokenRefresher(source, None, None, transport, clocks.wall)
    return CredentialState(
        name=name,
        vendor=_Bearers(),
        transport=transport,
        clocks=clocks,
        margin=_MARGIN,
        policy=policy,
        refresher=refresher,
        credential=credential,
    )
