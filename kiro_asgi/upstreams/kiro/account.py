"""The account: its credential and the headers that carry it, its profiles, and the quota that is left.

A profile belongs to one region, so profiles are listed in every region that has any.  Every number of the limits is
optional: the service leaves out those that do not apply to a plan, and adds new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import ConfigError, UpstreamProtocolError
from kiro_asgi.upstreams.base import Credential, CredentialKind
from kiro_asgi.wire.json import JsonError, loads, object_of, objects_of, text_of

TOKEN_TYPES: Final[Mapping[CredentialKind, bytes]] = MappingProxyType(
    {CredentialKind.API_KEY: b"API_KEY", CredentialKind.EXTERNAL_IDP: b"EXTERNAL_IDP"}
)
"""Kinds of credential that have to be announced; without it the service takes the secret for an access token."""


def credential(
    api_key: str = "", access_token: str = "", profile_arn: str = "", *, external_idp: bool = False
) -> Credential:
    """The credential of the settings, the official API key first.

    Raises:
        ConfigError: There is none, or it has characters that a header cannot have.
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


def _header_text(secret: str, what: str) -> str:
    secret = secret.strip()
    if not re.fullmatch(r"[!-~]+", secret):
        raise ConfigError(f"the Kiro {what} holds characters that no {what} has", code="kiro.credential")
    return secret


@frozen
class Profile:
    """One profile of an account."""

    arn: str
    name: str = ""
    status: str = ""
    """``ACTIVE``, or why not; empty where it is not known."""


def parse_profiles(body: bytes) -> tuple[Profile, ...]:
    """The profiles of an answer, those that can be used before the others; none where it is not a list of profiles."""
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


RESOURCES: Final = ("CREDIT", "AGENTIC_REQUEST", "VIBE")
"""Resources that are counted, the most relevant to chats first."""

MOST: Final = 1e15
"""No amount is greater."""

LATEST: Final = 253_402_300_799.0
"""The last second that a calendar can show."""


@frozen
class UsageLimits:
    """The account's quota for the time until the next reset."""

    plan: str = ""
    """Its name, e.g. ``KIRO PRO``."""

    unit: str = ""
    """The unit that is counted, e.g. ``Credits``."""

    used: float = 0.0
    limit: float = 0.0
    """Of the plan, of an active trial and active bonuses, and of paid overages where they are enabled."""

    resets_at: float | None = None
    """Seconds since the epoch."""

    @property
    def remaining(self) -> float:
        """The amount that is left; never negative."""
        return max(self.limit - self.used, 0.0)


def limits_fields(profile_arn: str, origin: str) -> Mapping[str, str]:
    """The parameters of a question for the limits.

    Some enterprise accounts are refused with 400 if the profile is named; ask them again without it.
    """
    fields = {"origin": origin, "resourceType": "AGENTIC_REQUEST"}
    return {**fields, "profileArn": profile_arn} if profile_arn else fields


def parse_limits(body: bytes) -> UsageLimits:
    """The limits of an answer.

    Raises:
        UpstreamProtocolError: Code ``upstream.limits``: not a JSON object.
    """
    try:
        document = loads(body)
    except JsonError as error:
        raise UpstreamProtocolError(f"the usage limits are unreadable: {error}", code="upstream.limits") from None
    if type(document) is not dict:
        raise UpstreamProtocolError("the usage limits are not an object", code="upstream.limits")
    counted = _counted(document)
    parts = tuple(_parts(counted))
    overage = object_of(document.get("overageConfiguration")).get("overageStatus") == "ENABLED"
    return UsageLimits(
        plan=text_of(object_of(document.get("subscriptionInfo")), "subscriptionTitle"),
        unit=text_of(counted, "displayNamePlural") or text_of(counted, "displayName"),
        used=sum(_amount(part, "currentUsage") for part in parts),
        limit=sum(_amount(part, "usageLimit") for part in parts) + (_amount(counted, "overageCap") if overage else 0),
        resets_at=_time(document) or _time(counted),
    )


def parse_reset(body: bytes) -> float | None:
    """When there is a new quota, in seconds since the epoch; ``None`` where the answer does not name it."""
    try:
        return parse_limits(body).resets_at
    except UpstreamProtocolError:
        return None


def _counted(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The account's entry; of several resources the most relevant one."""
    listed = document.get("usageBreakdownList")
    entries = [object_of(entry) for entry in listed] if type(listed) is list else []
    entries.append(object_of(document.get("usageBreakdown")))
    kinds = {entry.get("resourceType"): entry for entry in reversed(entries) if type(entry.get("resourceType")) is str}
    return next((kinds[name] for name in RESOURCES if name in kinds), entries[0])


def _parts(counted: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The quotas that add up to the account's."""
    yield counted
    trial, bonuses = object_of(counted.get("freeTrialInfo")), counted.get("bonuses")
    if trial.get("freeTrialStatus") == "ACTIVE":
        yield trial
    for bonus in objects_of(bonuses):
        if bonus.get("status") == "ACTIVE":
            yield bonus


def _amount(part: Mapping[str, Any], key: str) -> float:
    for name in (f"{key}WithPrecision", key):
        value = _number(part.get(name))
        if value is not None:
            return value
    return 0.0


def _time(part: Mapping[str, Any]) -> float | None:
    value = _number(part.get("nextDateReset"))
    return value if value and value <= LATEST else None


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value <= MOST else None
