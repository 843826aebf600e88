"""The client APIs in front of us, one folder each; and all that somebody needs who adds one from outside."""

from __future__ import annotations

from kiro_asgi.dialects.base import (
    CountingDialect,
    Dialect,
    DialectTraits,
    Encoder,
    ErrorReply,
    Heading,
    Inquiry,
    RequestHeaders,
)
from kiro_asgi.dialects.errors import error_headers, message_of
from kiro_asgi.dialects.manifest import ANSWER, COUNT, DialectManifest, DialectOptions, Endpoint
from kiro_asgi.dialects.refusals import invalid, missing, unsupported
from kiro_asgi.wire.json import dumps, loads

__all__ = [
    "ANSWER",
    "COUNT",
    "CountingDialect",
    "Dialect",
    "DialectManifest",
    "DialectOptions",
    "DialectTraits",
    "Encoder",
    "Endpoint",
    "ErrorReply",
    "Heading",
    "Inquiry",
    "RequestHeaders",
    "dumps",
    "error_headers",
    "invalid",
    "loads",
    "message_of",
    "missing",
    "unsupported",
]
