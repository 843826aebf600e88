"""The facts that the gateway reads in Messages which another service has written.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.anthropic.encoder import SERVED
from kiro_asgi.dialects.anthropic.errors import stream_error_body
from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.passthrough import Format, Sign
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.stages.counts import messages_counts
from kiro_asgi.wire.json import text_of
from kiro_asgi.wire.sse import encode_sse

_ENDED: Final = Sign(ended=True)
_FAILED: Final = Sign(failed=True)
_TIERS: Final = MappingProxyType({word: tier for tier, word in SERVED.items()})


def _read(document: Mapping[str, Any]) -> Sign:
    match document:
        case {"type": "message_stop"}:
            return _ENDED
        case {"type": "error"} | {"error": dict() | str()}:  # servers that speak the API forget the type
            return _FAILED
        case {"type": "message_start", "message": {"usage": dict(usage)}}:
            tier = _TIERS.get(text_of(usage, "service_tier"))
            return Sign(usage=usage, tier=tier, opening=True)
        case {"usage": dict(usage)}:
            return Sign(usage=usage, tier=_TIERS.get(text_of(usage, "service_tier")))
    return Sign()


def _error(error: KiroAsgiError, _: ResponseMeta) -> list[bytes]:
    return [encode_sse("error", stream_error_body(error))]


MESSAGES_FORMAT: Final = Format(
    content=frozenset({"content"}),
    heartbeat=encode_sse("ping", b'{"type":"ping"}'),
    relevant=re.compile(rb'"(?:message_(?:start|delta|stop)|error)"'),
    read=_read,
    counts=messages_counts,
    named=b'"message_start"',
    place=("message", "model"),
    error=_error,
)
"""The Messages API."""
