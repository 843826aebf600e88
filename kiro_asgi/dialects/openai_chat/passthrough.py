"""The facts that the gateway reads in chat completions which another service has written.

Many services speak this API, not all to the letter: an answer may lack the sentinel at its end, and an error may come
under any status.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from kiro_asgi.dialects.base import ResponseMeta
from kiro_asgi.dialects.openai_chat.encoder import ChatEncoder
from kiro_asgi.dialects.openai_common import served_tier
from kiro_asgi.dialects.passthrough import Format, Sign
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.stages.counts import chat_counts
from kiro_asgi.wire.json import count_of, objects_of, text_of
from kiro_asgi.wire.sse import encode_comment

_DONE: Final = b"[DONE]"
_FAILED: Final = Sign(failed=True)


def _read(document: Mapping[str, Any]) -> Sign:
    if document.get("error"):
        return _FAILED
    ended = any(choice.get("finish_reason") for choice in objects_of(document.get("choices")))
    usage = document.get("usage")
    return Sign(ended, usage=usage if type(usage) is dict else None, tier=served_tier(document))


def _answer_meta(document: Mapping[str, Any], meta: ResponseMeta) -> ResponseMeta:
    """Facts of the answer by its first chunk; those that it lacks are *meta*'s."""
    created = count_of(document, "created")
    return evolve(
        meta,
        id=text_of(document, "id") or meta.id,
        model=text_of(document, "model") or meta.model,
        created=meta.created if created is None else created,
    )


def _error(error: KiroAsgiError, meta: ResponseMeta) -> list[bytes]:
    return ChatEncoder(meta).error(error)


COMPLETIONS: Final = Format(
    content=frozenset({"choices"}),
    heartbeat=encode_comment("ping"),
    relevant=re.compile(rb'"(?:error"|usage"\s*:\s*\{|finish_reason"\s*:\s*")'),
    done=_DONE,
    read=_read,
    counts=chat_counts,
    named=b'"model"',
    place=("model",),
    meta=_answer_meta,
    error=_error,
)
"""The Chat Completions API."""
