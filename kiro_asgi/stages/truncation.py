"""Telling a tool call's arguments that were cut short from those that are merely wrong.

Output and time limits cut the JSON text of arguments anywhere, and the service then ends the call, or the stream, as if
nothing had happened.  The tests here are cheap and name a reason; whether a call may be delivered is decided by the
strict parser alone (`kiro_asgi.stages.tool_buffer`).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from attrs import frozen

from kiro_asgi.model.events import MalformedCall, TruncationInfo
from kiro_asgi.stages.mending import mended_text
from kiro_asgi.wire.json import Extent, extent

__all__ = ["TruncationDiagnosis", "diagnose_json_truncation", "is_cut", "malformed_call", "truncation_info"]

_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A JSON string, closed or not.  Possessive, so that a string of many MiB costs no backtracking memory."""

_CLOSERS: Final = (("{", "}", "mismatched delimiters"), ("[", "]", "mismatched brackets"))


@frozen
class TruncationDiagnosis:
    """Whether some JSON text looks cut short."""

    is_truncated: bool
    reason: str = ""
    """What gave it away; empty when nothing did."""

    size_bytes: int = 0
    """Length of the text in UTF-8 bytes."""


def diagnose_json_truncation(raw: str) -> TruncationDiagnosis:
    """Judge by delimiters whether *raw* was cut short; brackets inside strings do not count.

    Text that is balanced but malformed is not called truncated, and neither is empty text.
    """
    reason = _reason(raw.strip())
    return TruncationDiagnosis(bool(reason), reason, len(_utf8(raw)))


def truncation_info(call_id: str, name: str, raw: str, *, reason: str = "") -> TruncationInfo:
    """The record of a tool call that cannot be delivered.

    Args:
        call_id: The call's id.
        name: The tool's name, as far as it is known.
        raw: The arguments that did arrive.
        reason: Why it cannot be delivered, where that is not a matter of its text.
    """
    data = _utf8(raw)
    said = reason or _reason(raw.strip()) or ("malformed JSON" if raw.strip() else "no arguments arrived")
    return TruncationInfo(call_id, name, said, len(data), sha256(data).hexdigest())


def malformed_call(call_id: str, name: str, raw: str, *, reason: str) -> MalformedCall:
    """The record of a tool call that has come to its end and cannot be read; arguments as of `truncation_info`."""
    data = _utf8(raw)
    return MalformedCall(call_id, name, reason, len(data), sha256(data).hexdigest())


def is_cut(raw: str, *, stopped: bool) -> bool:
    """Whether arguments that do not parse were cut short; otherwise they are complete, and malformed.

    They were if more text could complete them, or if they neither hold a whole value nor end like one.

    Args:
        raw: What arrived.
        stopped: Whether the upstream called the arguments complete.  It does so where it cut them, too, but a word
            alone that it calls complete has no end to miss.
    """
    text = mended_text(raw)
    match extent(text):
        case Extent.BEGUN:
            return True
        case Extent.WHOLE:
            return False
    return not text.endswith(("}", "]")) and (not stopped or text.startswith(("{", "[", '"')))


def _reason(text: str) -> str:
    for opener, closer, reason in _CLOSERS:
        if text.startswith(opener) and not text.endswith(closer):
            return reason
    bare = _STRING.sub("", text)
    if any(bare.count(opener) != bare.count(closer) for opener, closer, _ in _CLOSERS):
        return "unbalanced delimiters"
    return ""


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
