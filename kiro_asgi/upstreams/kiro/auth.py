"""Credentials, the headers that carry them, and the profiles of an account.

A profile belongs to one region, so profiles are listed in every region that has any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.upstreams.base import Credential, CredentialKind, UpstreamRequest
from kiro_asgi.wire.json import JsonError, loads

REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]")
"""The format of a region, which becomes part of a host name."""

TOKEN_TYPES: Final[Mapping[CredentialKind, bytes]] = MappingProxyType(
    {CredentialKind.API_KEY: b"API_KEY", CredentialKind.EXTERNAL_IDP: b"EXTERNAL_IDP"}
)
"""Kinds of credential that have to be announced; without it the service takes the secret for an access token."""


def credential(
    api_key: str = "", access_token: str = "", profile_arn: str = "", *, external_idp: bool = False
) -> Credential:
    """The credential of the settings, the official API key first.

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


REGIONS: Final[tuple[str, ...]] = ("us-east-1", "eu-central-1")
"""Regions of the service.

Source: https://github.com/aws/amazon-q-developer-cli (its constants)
"""


@frozen
class Profile:
    """One profile of an account."""

    arn: str
    name: str = ""
    status: str = ""
    """``ACTIVE``, or why not; empty where nobody said."""


def profile_requests(
    endpoint: str, region: str, headers: tuple[tuple[bytes, bytes], ...]
) -> tuple[UpstreamRequest, ...]:
    """Ask for the account's profiles, best place first.

    Args:
        endpoint: Base URL of the service; empty for the public hosts of all `REGIONS`.
        region: The region that is preferred.
        headers: Sent as they are, beside the content type.
    """
    regions = dict.fromkeys((region, *REGIONS))
    bases = [endpoint.rstrip("/")] if endpoint else [f"https://q.{it}.amazonaws.com" for it in regions]
    headers = ((b"content-type", b"application/json"), (b"accept", b"application/json"), *headers)
    return tuple(UpstreamRequest("POST", f"{base}/ListAvailableProfiles", headers, b"{}") for base in bases)


def parse_profiles(body: bytes) -> tuple[Profile, ...]:
    """The profiles of an answer, those that can be used before the others; none where it is no list of profiles."""
    try:
        listing = loads(body)
    except JsonError:
        return ()
    entries = listing.get("profiles") if type(listing) is dict else None
    found = [_profile(entry) for entry in entries if type(entry) is dict] if type(entries) is list else []
    usable = [profile for profile in found if re.fullmatch(r"[!-~]+", profile.arn)]
    return tuple(sorted(usable, key=lambda profile: profile.status not in ("", "ACTIVE")))


def _profile(entry: Mapping[str, Any]) -> Profile:
    arn, name, status = (entry.get(key) for key in ("arn", "profileName", "status"))
    return Profile(*(value if type(value) is str else "" for value in (arn, name, status)))
