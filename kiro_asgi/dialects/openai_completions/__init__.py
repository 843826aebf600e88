"""The older Completions API of OpenAI, which has a prompt instead of messages.

Source: https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import DialectManifest, DialectOptions, Endpoint


def _make(options: DialectOptions) -> Dialect:
    from kiro_asgi.dialects.openai_completions.dialect import OpenAICompletions

    return OpenAICompletions(usage_in_finish_chunk=options.usage_chunk == "finish")


OPENAI_COMPLETIONS: Final = DialectManifest(
    name="openai_completions",
    title="OpenAI Completions",
    base="/v1",
    endpoints=(Endpoint("POST", "/v1/completions"),),
    make=_make,
    retry_count_headers=(b"x-stainless-retry-count",),
    likeness=lambda request: 2 if "prompt" in request and "messages" not in request else -1,
)
