"""Keys that stand in the settings: used as they are, or exchanged for tokens that last a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.limits import TOKEN_BYTES
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.net.credential_keeper import TokenKeeper
from kiro_asgi.net.credential_slot import Slot
from kiro_asgi.net.credential_sources import Unkept
from kiro_asgi.net.resting import RestPolicy
from kiro_asgi.net.token_answers import token_of
from kiro_asgi.net.transport import Transport
from kiro_asgi.net.whole import fetch_whole
from kiro_asgi.upstreams.access import KeyExchange
from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, UpstreamRequest

__all__ = ["TokenExchange", "key_slot"]

_TIMEOUT: Final = 15.0
"""Seconds for one exchange."""

_MARGIN: Final = 300.0
"""Seconds before its end at which a token is replaced."""


@define
class TokenExchange(Unkept):
    """One key's tokens, each asked for when it is wanted; as `kiro_asgi.net.credential_sources.Source`."""

    name: str
    _key: str = field(repr=False)
    _exchange: KeyExchange
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
    """Tokens that come without a profile; as `kiro_asgi.upstreams.access.Presenter`."""

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
    name: str, key: str, transport: Transport, clocks: Clocks, rests: RestPolicy, exchange: KeyExchange | None
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
