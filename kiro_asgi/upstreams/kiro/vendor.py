"""All that is known about the service's tokens, as one value for whoever looks after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attrs import field, frozen

from kiro_asgi.upstreams.base import Credential, CredentialKind, Token, TokenKind, UpstreamRequest
from kiro_asgi.upstreams.kiro.auth import authorization, credential
from kiro_asgi.upstreams.kiro.profiles import parse_profiles, profile_requests
from kiro_asgi.upstreams.kiro.renewal import renewal_request, renewed
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.tokens import ROWS, merge_token, parse_token, parse_token_rows
from kiro_asgi.upstreams.settings import user_agent

__all__ = ["REACHED_BY", "KiroVendor"]

REACHED_BY: Final = "kiro.proxy and kiro.auth_endpoint"
"""The settings that say how the sign-in service is reached."""


@frozen
class KiroVendor:
    """The service's tokens, as `kiro_asgi.upstreams.access.Vendor`.

    Three regions are kept apart.  Tokens are renewed in the region of the sign-in: ``auth_region``, else the token's
    own.  Profiles are asked for in the service's regions, ``region`` first.  Calls then go where the profile is.

    Raises:
        ConfigError: A credential stands in the settings that cannot stand in a header.
    """

    settings: KiroSettings = field(factory=KiroSettings)
    table: str = field(kw_only=True, default="kiro")
    missing: str = field(
        kw_only=True,
        default="no Kiro credential: set KIRO_API_KEY, kiro.credentials_file or kiro.credentials_command",
    )
    reached_by: str = field(kw_only=True, default=REACHED_BY)
    rows: tuple[tuple[str, str], ...] = field(kw_only=True, default=ROWS)
    given: Credential | None = field(kw_only=True)
    """A credential that stands in the settings."""

    @given.default
    def _given_in_settings(self) -> Credential | None:
        kiro = self.settings
        if not (kiro.api_key or kiro.access_token):
            return None
        return credential(kiro.api_key, kiro.access_token, kiro.profile_arn, external_idp=kiro.external_idp)

    def parse(self, document: bytes, beside: Callable[[str], bytes | None], now: float) -> Token:
        """The token of a document; see `kiro_asgi.upstreams.kiro.tokens.parse_token`."""
        return parse_token(document, beside, now)

    def parse_rows(self, rows: Mapping[tuple[str, str], bytes], now: float) -> Token:
        """The token of a store; see `kiro_asgi.upstreams.kiro.tokens.parse_token_rows`."""
        return parse_token_rows(rows, now)

    def merge(self, document: bytes, token: Token) -> bytes:
        """*document* with *token* in it."""
        return merge_token(document, token)

    def credential(self, token: Token, source: str) -> Credential:
        """What is presented to the service.  It has no region: that of the sign-in says nothing about the service's."""
        external = token.kind is TokenKind.EXTERNAL_IDP
        kind = CredentialKind.EXTERNAL_IDP if external else CredentialKind.ACCESS_TOKEN
        return Credential(kind, token.access_token, self.settings.profile_arn or token.profile_arn, source=source)

    def renewal(self, token: Token) -> UpstreamRequest:
        """Ask for a new token; see `kiro_asgi.upstreams.kiro.renewal.renewal_request`."""
        kiro = self.settings
        agent = user_agent(kiro.user_agent)
        return renewal_request(token, auth_endpoint=kiro.auth_endpoint, auth_region=kiro.auth_region, user_agent=agent)

    def renewed(
        self, token: Token, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, now: float
    ) -> Token:
        """The new token that an answer holds; see `kiro_asgi.upstreams.kiro.renewal.renewed`."""
        return renewed(token, status, headers, body, now)

    def profile_requests(self, credential: Credential) -> tuple[UpstreamRequest, ...]:
        """Ask which profile belongs to *credential*; nothing for an API key, which has none."""
        known = credential.profile_arn or credential.kind is CredentialKind.API_KEY
        if known or not self.settings.discover_profile:
            return ()
        headers = (
            *authorization(credential),
            (b"accept-encoding", b"identity"),
            (b"user-agent", user_agent(self.settings.user_agent).encode()),
        )
        return profile_requests(self.settings.endpoint, self.settings.region, headers)

    def profile(self, bodies: Iterable[bytes]) -> str:
        """The first usable profile of the answers; empty where they list none."""
        return next((profile.arn for body in bodies for profile in parse_profiles(body)), "")
