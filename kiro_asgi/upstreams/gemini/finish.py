"""Why an answer ended, in the service's words.

Source: https://ai.google.dev/api/generate-content#FinishReason
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import UpstreamError, UpstreamFault, UpstreamProtocolError, UpstreamRejected
from kiro_asgi.model.events import Stop, StopReason
from kiro_asgi.upstreams.errors import clean

__all__ = ["BROKEN", "NOTHING", "STOPS", "verdict"]

NOTHING: Final = "stream.empty"
"""Code of an answer without a word."""


STOPS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "STOP": StopReason.END,
        "MAX_TOKENS": StopReason.LENGTH,
        **dict.fromkeys(
            (
                "SAFETY",
                "RECITATION",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "LANGUAGE",
                "IMAGE_SAFETY",
                "IMAGE_PROHIBITED_CONTENT",
                "IMAGE_RECITATION",
            ),
            StopReason.CONTENT_FILTER,
        ),
    }
)
"""``finishReason`` of an answer that is good as far as it goes."""

BROKEN: Final[Mapping[str, type[UpstreamError]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"),
            UpstreamFault,
        ),
        "MISSING_THOUGHT_SIGNATURE": UpstreamRejected,
    }
)
"""``finishReason`` of an answer that went wrong.  What it says beside that may quote the answer, and is not told."""


def verdict(reason: str, block_reason: str, *, empty: bool) -> Stop:
    """How an answer ended.

    Args:
        reason: The last ``finishReason``; empty where there was none.
        block_reason: The last ``promptFeedback.blockReason``: the prompt was filtered, so that there is no answer.
        empty: Whether nothing was answered.

    Raises:
        UpstreamError: It broke.
        UpstreamProtocolError: Code ``stream.cut``: neither reason was given.
    """
    if reason in STOPS:
        return Stop(STOPS[reason])
    if reason in BROKEN:
        raise BROKEN[reason](f"the model's answer broke: {reason}", code=reason)
    if block_reason:
        return Stop(StopReason.CONTENT_FILTER)
    if not reason:
        raise UpstreamProtocolError("the upstream's answer ends without a reason: it was cut", code="stream.cut")
    if empty:
        raise UpstreamFault(f"the model answered nothing: {clean(reason)}", code=NOTHING)
    return Stop(StopReason.END)
