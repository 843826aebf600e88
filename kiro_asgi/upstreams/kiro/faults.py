"""What the service's refusals mean, whether they come as an HTTP status or as a frame in the middle of an answer.

The same trouble arrives under different statuses: a spent quota as 400, 402, 403 or 429.  So the most telling fact
decides: first the ``reason``, then well-known words of the message, then the exception's name, and only then the
status.  Each is a table of `kiro_asgi.upstreams.kiro.reasons`.

Source: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html (operation error serialization)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from kiro_asgi.errors import ContextTooLong, KiroAsgiError, UpstreamFault, UpstreamProtocolError
from kiro_asgi.upstreams.kiro.reasons import CLASSES, NAMES, PHRASES, REASONS, STATUSES, Class
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["MAX_MESSAGE", "MAX_RETRY_AFTER", "clean", "exception_fault", "fault", "is_report", "redacted"]

MAX_MESSAGE: Final = 500
"""Characters of the service's words that we pass on."""

MAX_RETRY_AFTER: Final = 3600.0
"""Seconds; a service that asks for more gets this."""


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    report = _report(body)
    name = fields.get("x-amzn-errortype") or _text(report, "code") or _text(report, "__type")
    by_status = STATUSES.get(status) or CLASSES.get(status // 100) or (UpstreamProtocolError, "upstream.status")
    said = _message(report) or clean(body.decode("utf-8", "replace")) or "no explanation"
    return _classify(report, name, by_status, f"{said} (HTTP {status})", _retry_after(fields))


def exception_fault(name: str, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an exception in the middle of an answer means; *report* is its payload."""
    said = _message(report) or f"the answer ended with {clean(name) or 'an unnamed exception'}"
    return _classify(report, name, (UpstreamFault, "internal"), said, None)


def is_report(body: bytes) -> bool:
    """Whether a JSON body reports an error."""
    report = _report(body)
    return bool(_message(report) and ("reason" in report or "code" in report or "__type" in report))


def clean(text: str) -> str:
    """*text* fit for a log line or an error body: one line, short, without secrets."""
    text = redacted(_UNPRINTABLE.sub(" ", text[: 4 * MAX_MESSAGE]).strip())
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def redacted(text: str) -> str:
    """*text* without secrets."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _classify(
    report: Mapping[str, Any], name: str, otherwise: tuple[Class, str], message: str, retry_after: float | None
) -> KiroAsgiError:
    reason = _NOT_WORD.sub("", _text(report, "reason"))[:64]
    phrase = next(((error, code) for words, error, code in PHRASES if words.search(message)), None)
    if reason in REASONS:
        error, code = REASONS[reason], reason
    elif phrase:
        error, code = phrase
    else:
        error, code = NAMES.get(_plain_name(name)) or otherwise
        code = reason or code
    if error is ContextTooLong and "prompt is too long" not in message.lower():
        message = f"prompt is too long: {message}"
    return error(message, code=code, retry_after=retry_after)


def _plain_name(name: str) -> str:
    """An exception's bare name: ``aws.api#ThrottlingException:http://…`` is ``Throttling``."""
    bare = name.partition(":")[0].rpartition("#")[2].strip()
    return bare.removesuffix("Exception").removesuffix("Error") or bare


def _report(body: bytes) -> Mapping[str, Any]:
    try:
        report = loads(body)
    except JsonError:
        return {}
    return report if type(report) is dict else {}


def _message(report: Mapping[str, Any]) -> str:
    return clean(_text(report, "message") or _text(report, "Message") or _text(report, "errorMessage"))


def _text(report: Mapping[str, Any], key: str) -> str:
    value = report.get(key)
    return value if type(value) is str else ""


def _retry_after(fields: Mapping[str, str]) -> float | None:
    """Seconds to wait.  A date is compared with the answer's own, so no clock is asked, ours or a wrong one."""
    value = fields.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,9})?", value):
        return min(float(value), MAX_RETRY_AFTER)
    then, now = _date(value), _date(fields.get("date", ""))
    if then is None or now is None:
        return None
    return min(max((then - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

_NOT_WORD: Final = re.compile(r"[^\w.-]", re.ASCII)

_SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(bearer\s+)[\w.~+/=:-]{16,}", re.I | re.A), r"\1[redacted]"),
    (re.compile(r"\bksk_[\w-]+", re.A), "[redacted]"),
    (re.compile(r"\bao[ar][\w+/=:-]{20,}", re.A), "[redacted]"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?", re.A), "[redacted]"),
    (re.compile(r"(\barn:[\w-]*:[\w-]*:[\w-]*:)[0-9]{12}", re.A), r"\1[redacted]"),
)
"""What must not be handed on: bearer tokens, API keys, access and refresh tokens, JWTs, account numbers."""
