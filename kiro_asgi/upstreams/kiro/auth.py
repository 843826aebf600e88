"""How we present ourselves: the credential, and the headers that carry it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import evolve

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.base import Credential, CredentialKind

__all__ = ["authorization", "credential", "region_of", "without_profile"]

REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]")
"""What may become part of a host name."""

TOKEN_TYPES: Final[Mapping[CredentialKind, bytes]] = MappingProxyType(
    {CredentialKind.API_KEY: b"API_KEY", CredentialKind.EXTERNAL_IDP: b"EXTERNAL_IDP"}
)
"""Kinds of credential that have to be announced; without it the service takes the secret for an access token."""


def credential(
    api_key: str = "", access_token: str = "", profile_arn: str = "", *, external_idp: bool = False
) -> Credential:
    """What we were given, the official API key first.

    Raises:
        ConfigError: Nothing was given, or it cannot stand in a header.
    """
    if api_key:
        return Credential(CredentialKind.API_KEY, _header_text(api_key, "API key"), source="kiro.api_key")
    if access_token:
        kind = CredentialKind.EXTERNAL_IDP if external_idp else CredentialKind.ACCESS_TOKEN
        return Credential(
            kind, _header_text(access_token, "access token"), profile_arn.strip(), source="kiro.access_token"
        )
    raise ConfigError("no Kiro credential: set KIRO_API_KEY, or name an access token", code="kiro.credential")


def authorization(credential: Credential) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that carry *credential*."""
    bearer = (b"authorization", b"Bearer " + credential.secret.encode("ascii"))
    token_type = TOKEN_TYPES.get(credential.kind)
    return (bearer,) if token_type is None else (bearer, (b"tokentype", token_type))


def region_of(profile_arn: str) -> str:
    """The region of ``arn:aws:codewhisperer:REGION:…``, where a profile's calls must go; empty if it names none."""
    fields = profile_arn.split(":")
    return fields[3] if len(fields) > 4 and REGION.fullmatch(fields[3]) else ""


def without_profile(credential: Credential) -> Credential:
    """*credential*, asked in the region of its profile, which is not named."""
    return evolve(credential, profile_arn="", region=region_of(credential.profile_arn) or credential.region)


def _header_text(secret: str, what: str) -> str:
    secret = secret.strip()
    if not re.fullmatch(r"[!-~]+", secret):
        raise ConfigError(f"the Kiro {what} holds characters that no {what} has", code="kiro.credential")
    return secret
