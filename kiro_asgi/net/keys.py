"""Keys that stand in the settings: used as they are, or exchanged for tokens that last a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.config import DirectSettings, OpenAISettings
from kiro_asgi.limits import TOKEN_BYTES
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credential_keeper import TokenKeeper
from kiro_asgi.net.credential_slot import Slot
from kiro_asgi.net.credential_sources import Unkept
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.token_answers import token_of
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.net.whole import fetch_whole
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, UpstreamRequest

__all__ = ["Exchange", "TokenExchange", "exchange_in", "key_slot", "keys_in"]

_TIMEOUT: Final = 15.0
"""Seconds for one exchange."""

_MARGIN: Final = 300.0
"""Seconds before its end at which a token is replaced."""

_SCHEMES: Final[Mapping[str, str]] = MappingProxyType({"bearer": "Bearer", "token": "token"})
"""Setting to what stands before a key."""


@frozen
class Exchange:
    """Where a key becomes a token."""

    url: str
    scheme: str = "Bearer"
    """How the key is presented: ``Bearer`` or ``token``."""

    headers: Headers = field(default=(), repr=False)
    """What the request says besides."""

    def request(self, key: str) -> UpstreamRequest:
        """Ask for a token for *key*."""
        authorization = (b"authorization", f"{self.scheme} {key}".encode("ascii"))
        return UpstreamRequest("GET", self.url, (authorization, (b"accept", b"application/json"), *self.headers))


@define
class TokenExchange(Unkept):
    """One key's tokens, each asked for when it is wanted; as `kiro_asgi.net.credential_sources.Source`."""

    name: str
    _key: str = field(repr=False)
    _exchange: Exchange
    _transport: Transport
    _now: Callable[[], float]

    async def read(self) -> Token:
        """Ask for a token.

        Raises:
            UpstreamDenied: Code ``credentials.key``: the key is not taken.
            UpstreamError: There is no token now.
        """
        request = self._exchange.request(self._key)
        answer = await fetch_whole(self._transport, request, patience=_TIMEOUT, limit=TOKEN_BYTES)
        return token_of(answer, self.name, self._exchange.url, self._now())


@frozen
class _Bearers:
    """Tokens that come without a profile; as `kiro_asgi.net.vendor.Presenter`."""

    def credential(self, token: Token, source: str) -> Credential:
        """The token, and where it is to be used."""
        return Credential(CredentialKind.ACCESS_TOKEN, token.access_token, source=source, endpoint=token.endpoint)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Nothing."""
        return ()

    def profile(self, bodies: Iterable[bytes]) -> str:
        """None."""
        return ""


def key_slot(
    name: str, key: str, transport: Transport, clocks: Clocks, rests: RestPolicy, exchange: Exchange | None
) -> Slot:
    """The slot of *key*, or, where there is an *exchange*, of the tokens that it gives."""
    credential: Credential | None = None
    keeper: TokenKeeper | None = None
    if exchange is None:
        credential = Credential(CredentialKind.API_KEY, key, source=name)
    else:
        source = TokenExchange(name, key, exchange, transport, clocks.wall)
        keeper = TokenKeeper(source, None, None, transport, clocks.wall)
    return Slot(
        name=name,
        vendor=_Bearers(),
        transport=transport,
        clocks=clocks,
        margin=_MARGIN,
        rests=rests,
        keeper=keeper,
        credential=credential,
    )


def keys_in(table: str, settings: DirectSettings) -> tuple[tuple[str, str], ...]:
    """Each key of *settings*, the slice that is called *table*, after its name; an empty one where there is none.

    A key that is there twice counts once.
    """
    names: dict[str, str] = {}
    if settings.api_key:
        names[settings.api_key] = f"{table}.api_key"
    for at, key in enumerate(settings.fallback_api_keys):
        names.setdefault(key, f"{table}.fallback_api_keys[{at}]")
    return tuple((name, key) for key, name in names.items()) or ((f"{table}.api_key", ""),)


def exchange_in(settings: DirectSettings, headers: Headers) -> Exchange | None:
    """How keys become tokens; ``None`` where they are used as they are.  *headers* are those of every request."""
    if not isinstance(settings, OpenAISettings) or not settings.token_url:
        return None
    return Exchange(settings.token_url, _SCHEMES[settings.token_scheme], headers)
