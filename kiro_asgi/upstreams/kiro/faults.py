"""What the service's refusals mean, whether they come as an HTTP status or as a frame in the middle of an answer.

The same trouble arrives under different statuses: a spent quota as 400, 402, 403 or 429.  So the most telling fact
decides: first the ``reason``, then well-known words of the message, then the exception's name, and only then the
status.  Each is a table of `kiro_asgi.upstreams.kiro.reasons`.

Source: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html (operation error serialization)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from kiro_asgi.upstreams.errors import Meaning, by_status, clean, fields_of, report_of, retry_after, worded
from kiro_asgi.upstreams.kiro.reasons import NAMES, PHRASES, REASONS, STATUSES
from kiro_asgi.wire.members import text_of

__all__ = ["exception_fault", "fault", "is_report"]


def fault(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> KiroAsgiError:
    """The error that an answer with a *status* other than 200 means.

    Its message is the service's own, redacted and cut, with the status behind it.
    """
    fields = fields_of(headers)
    report = report_of(body)
    name = fields.get("x-amzn-errortype") or text_of(report, "code") or text_of(report, "__type")
    said = _message(report) or clean(body.decode("utf-8", "replace")) or "no explanation"
    return _classify(report, name, by_status(status, STATUSES), f"{said} (HTTP {status})", retry_after(fields))


def exception_fault(name: str, report: Mapping[str, Any]) -> KiroAsgiError:
    """The error that an exception in the middle of an answer means; *report* is its payload."""
    said = _message(report) or f"the answer ended with {clean(name) or 'an unnamed exception'}"
    return _classify(report, name, (UpstreamFault, "internal"), said, None)


def is_report(body: bytes) -> bool:
    """Whether a JSON body reports an error."""
    report = report_of(body)
    return bool(_message(report) and ("reason" in report or "code" in report or "__type" in report))


def _classify(
    report: Mapping[str, Any], name: str, otherwise: Meaning, message: str, retry_after: float | None
) -> KiroAsgiError:
    reason = _NOT_WORD.sub("", text_of(report, "reason"))[:64]
    phrase = next(((error, code) for words, error, code in PHRASES if words.search(message)), None)
    if reason in REASONS:
        error, code = REASONS[reason], reason
    elif phrase:
        error, code = phrase
    else:
        error, code = NAMES.get(_plain_name(name)) or otherwise
        code = reason or code
    return error(worded(error, message), code=code, retry_after=retry_after)


def _plain_name(name: str) -> str:
    """An exception's bare name: ``aws.api#ThrottlingException:http://…`` is ``Throttling``."""
    bare = name.partition(":")[0].rpartition("#")[2].strip()
    return bare.removesuffix("Exception").removesuffix("Error") or bare


def _message(report: Mapping[str, Any]) -> str:
    return clean(text_of(report, "message") or text_of(report, "Message") or text_of(report, "errorMessage"))


_NOT_WORD: Final = re.compile(r"[^\w.-]", re.ASCII)
