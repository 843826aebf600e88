"""What the service's refusals mean, whether they come as an HTTP status or as an event in the middle of an answer.

The most telling fact decides: first well-known words of the message, then ``error.type``, and only then the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from kiro_asgi.upstreams.anthropic.reasons import (
    MODEL,
    PHRASES,
    STATUSES,
    TYPES,
    UNKNOWN_MODEL,
)
from kiro_asgi.upstreams.errors import Meaning, by_status, clean, fields_of, report_of, retry_after, worded
from kiro_asgi.wire.members import text_of

__all__ = ["event_fault", "fault"]


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields, error = fields_of(headers), _error(report_of(body))
    said = clean(text_of(error, "message")) or clean(body.decode("utf-8", "replace")) or "no explanation"
    return _classify(error, by_status(status, STATUSES), said, f" (HTTP {status})", retry_after(fields))


def event_fault(report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an ``error`` event means; *report* is its data."""
    error = _error(report)
    said = clean(text_of(error, "message")) or "the answer ended with an error that was not explained"
    return _classify(error, (UpstreamFault, "internal"), said, "", None)


def _error(report: Mapping[str, Any]) -> Mapping[str, Any]:
    error = report.get("error")
    return error if type(error) is dict else {"message": error} if type(error) is str else {}


def _classify(
    error: Mapping[str, Any], otherwise: Meaning, said: str, behind: str, wait: float | None
) -> KiroAsgiError:
    kind, code = TYPES.get(text_of(error, "type"), otherwise)
    if code == TYPES["not_found_error"][1] and MODEL.match(said):
        kind, code = UNKNOWN_MODEL
    kind, code = next(((found, word) for words, found, word in PHRASES if words.search(said)), (kind, code))
    return kind(worded(kind, said) + behind, code=code, retry_after=wait)
