"""Which profile an account may use: asked of every region that has any, since a profile belongs to one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["REGIONS", "Profile", "parse_profiles", "profile_requests"]

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
