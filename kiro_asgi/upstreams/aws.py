"""Facts of AWS that several services need: the variables that name a region, and the life of a Bedrock API key."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from kiro_asgi.errors import UpstreamTokenInvalid

REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Variables that name a region; the first that is set counts."""


def region_in(environ: Mapping[str, str]) -> str:
    """The region that the variables name; empty where they name none."""
    return next(filter(None, (environ.get(name, "") for name in REGIONS)), "")


def key_life(key: str, now: float) -> str:
    """How long an API key is good, where it shows that: a short-term key is a signed URL, good for a day at most.

    Args:
        key: The key.
        now: Seconds since the epoch.

    Raises:
        UpstreamTokenInvalid: It has ended.
    """
    ends = _end_of(key)
    if ends is None:
        return "it does not say when it ends"
    left = (ends - now) / 3600
    if left <= 0:
        raise UpstreamTokenInvalid(
            f"the short-term key ended {-left:.1f} hours ago: make another", code="aws.key_ended"
        )
    return f"of short term, good for {left:.1f} hours more"


def _end_of(key: str) -> float | None:
    """When *key* ends, in seconds since the epoch; ``None`` where it does not show it."""
    begins, _, encoded = key.rpartition("-")
    if begins != _SHORT_TERM:
        return None
    try:
        address = b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        query = dict(parse_qsl(urlsplit(f"//{address}").query))
        begun = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return begun.timestamp() + int(query["X-Amz-Expires"])
    except (KeyError, ValueError):
        return None


_SHORT_TERM: Final = "bedrock-api-key"
"""Beginning of short-term keys."""
