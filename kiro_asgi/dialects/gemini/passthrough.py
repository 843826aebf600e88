"""The facts that the gateway reads in answers of Google, and in requests that may go there as they are.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.gemini.encoder import SERVED, SseEncoder
from kiro_asgi.dialects.passthrough import Format, Sign
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.stages.counts import gemini_counts
from kiro_asgi.wire.json import object_of, objects_of, text_of

_TIERS: Final = MappingProxyType({word: tier for tier, word in SERVED.items()})
_EMPTY_EVENT: Final = b"\n\n"


def _read(document: Mapping[str, Any]) -> Sign:
    if "error" in document:
        return Sign(failed=True)
    blocked = text_of(object_of(document.get("promptFeedback")), "blockReason")
    finished = any(text_of(candidate, "finishReason") for candidate in objects_of(document.get("candidates")))
    usage = object_of(document.get("usageMetadata"))
    tier = _TIERS.get(text_of(usage, "trafficType"))
    return Sign(ended=bool(blocked) or finished, usage=usage or None, tier=tier)


def _error(error: KiroAsgiError, meta: ResponseMeta) -> list[bytes]:
    return SseEncoder(meta).error(error)


GENERATED: Final = Format(
    content=frozenset({"candidates", "promptFeedback"}),
    heartbeat=_EMPTY_EVENT,
    early_heartbeat=_EMPTY_EVENT,
    relevant=re.compile(rb'"(?:finishReason|usageMetadata|promptFeedback|error)"'),
    read=_read,
    counts=gemini_counts,
    error=_error,
)
"""``streamGenerateContent`` as events."""
