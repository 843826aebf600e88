"""What the answer to a key means, where keys are exchanged for tokens.

There is no standard for it.  Understood are ``{"token", "expires_at"}``, as GitHub has it, and ``{"access_token",
"expires_in"}``, as OAuth does; and ``{"endpoints": {"api"}}``, the address where a token is to be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kiro_asgi.errors import NotTheUpstream, UpstreamDenied, UpstreamError, UpstreamFault, UpstreamThrottled
from kiro_asgi.net.whole import WholeAnswer
from kiro_asgi.setting import is_base_url
from kiro_asgi.upstreams.base import Token

__all__ = ["token_of"]

_MILLISECONDS: Final = 1e11
"""From here on a number of seconds would be in the year 5138; it counts milliseconds."""

_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999; what claims to last longer does not say when it ends."""

_REFUSED: Final = 60.0
"""Seconds until a key that was not taken is tried again."""

_TEN_YEARS: Final = 10 * 365 * 86_400


def token_of(answer: WholeAnswer, name: str, url: str, now: float) -> Token:
    """The token that an answer holds.

    Args:
        answer: To a request with a key.
        name: What the key is called in messages.
        url: Who was asked.
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
        raise NotTheUpstream(f"{name}: what it is exchanged at gave no token", code="credentials.foreign")
    return Token(token, expires_at=_end(fields, now), endpoint=_endpoint(fields, name, url))


def _refusal(answer: WholeAnswer, name: str) -> UpstreamError:
    status = answer.status
    words = f"{name}: its exchange for a token was answered with status {status}"
    if status == 429:
        return UpstreamThrottled(words, code="credentials.throttled", retry_after=_wait(answer))
    if 400 <= status < 500 and status != 408:
        return UpstreamDenied(words, code="credentials.key", retry_after=_REFUSED)
    if status >= 500 or status == 408:
        return UpstreamFault(words, code="credentials.fault", retry_after=_wait(answer))
    return NotTheUpstream(words, code="credentials.foreign")


def _wait(answer: WholeAnswer) -> float | None:
    value = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"")
    return float(value) if re.fullmatch(rb"[0-9]{1,4}", value) else None


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if type(fields) is dict else {}


def _end(fields: Mapping[str, Any], now: float) -> float | None:
    """When the token ends; a length counts more than a time, which is by somebody else's clock."""
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
    """Where the token is used, if the answer says; never in the clear where the key was not presented so."""
    endpoints = fields.get("endpoints")
    api = endpoints.get("api") if type(endpoints) is dict else None
    if api is None:
        return ""
    if type(api) is not str or not is_base_url(api) or (url.startswith("https:") and not api.startswith("https:")):
        raise NotTheUpstream(f"{name}: the address that came with its token is none", code="credentials.foreign")
    return api
