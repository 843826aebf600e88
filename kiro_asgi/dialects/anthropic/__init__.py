"""The Messages API of Anthropic.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import COUNT, DialectManifest, DialectOptions, Endpoint, QuotaHeaders, instant


def _make(options: DialectOptions) -> Dialect:
    from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages

    return AnthropicMessages(emit_code_references=options.emit_code_references)


ANTHROPIC_MESSAGES: Final = DialectManifest(
    name="anthropic",
    title="Anthropic Messages",
    endpoints=(Endpoint("POST", "/v1/messages"), Endpoint("POST", "/v1/messages/count_tokens", COUNT)),
    make=_make,
    request_id_headers=(b"request-id",),
    retry_count_headers=(b"x-stainless-retry-count",),
    key_headers=(b"authorization", b"x-api-key"),
    marks=(b"anthropic-version",),
    quota_headers=QuotaHeaders("anthropic-ratelimit-{kind}-{part}", instant),
    replaces=("/v1/complete",),
    likeness=lambda request: 1 if "max_tokens" in request else -1,  # which it must have
)
