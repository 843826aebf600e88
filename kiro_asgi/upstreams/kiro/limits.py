"""The account's usage limits: the quota that is left, and when it is reset.

Every number is optional: the service leaves out what does not apply to a plan, and adds what is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from attrs import frozen

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.wire.json import JsonError, loads, object_of, objects_of, text_of

RESOURCES: Final = ("CREDIT", "AGENTIC_REQUEST", "VIBE")
"""Resources that are counted, the most telling about chats first."""

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


def limits_request(
    endpoint: str, profile_arn: str, headers: tuple[tuple[bytes, bytes], ...], *, origin: str = "AI_EDITOR"
) -> UpstreamRequest:
    """Ask for the limits; *headers* are sent as they are.

    Some enterprise accounts are refused with 400 if the profile is named; ask them again
    `kiro_asgi.upstreams.kiro.auth.without_profile`.
    """
    query = {"origin": origin, "resourceType": "AGENTIC_REQUEST"}
    if profile_arn:
        query["profileArn"] = profile_arn
    return UpstreamRequest("GET", f"{endpoint}/getUsageLimits?{urlencode(query)}", headers)


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
    """When there is a new quota, in seconds since the epoch; ``None`` where the answer does not say."""
    try:
        return parse_limits(body).resets_at
    except UpstreamProtocolError:
        return None


def _counted(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The account's entry; of several resources the most telling one."""
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
