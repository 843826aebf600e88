"""The client APIs in front of us, one folder each; and all that is needed to add one from outside."""

from __future__ import annotations

from kiro_asgi.dialects.base import (
    CountingDialect,
    Dialect,
    DialectTraits,
    EmbeddingDialect,
    Encoder,
    ErrorReply,
    ListingDialect,
    ParsedEmbeddings,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
)
from kiro_asgi.dialects.errors import error_headers, invalid, message_of, missing, unsupported
from kiro_asgi.dialects.manifest import (
    ANSWER,
    COUNT,
    EMBED,
    MODEL,
    MODELS,
    DialectManifest,
    DialectOptions,
    DialectSettings,
    Endpoint,
)
from kiro_asgi.dialects.model_list import Card, Listing
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.setting import Bounds, Choices, Shape, setting
from kiro_asgi.wire.json import dumps, loads

__all__ = [
    "ANSWER",
    "COUNT",
    "EMBED",
    "MODEL",
    "MODELS",
    "Bounds",
    "Card",
    "Choices",
    "CountingDialect",
    "Dialect",
    "DialectManifest",
    "DialectOptions",
    "DialectSettings",
    "DialectTraits",
    "EmbeddingDialect",
    "EmbeddingPrompt",
    "Embeddings",
    "Encoder",
    "Endpoint",
    "ErrorReply",
    "Listing",
    "ListingDialect",
    "ParsedEmbeddings",
    "ParsedRequest",
    "RequestHeaders",
    "ResponseMeta",
    "Shape",
    "dumps",
    "error_headers",
    "invalid",
    "loads",
    "message_of",
    "missing",
    "setting",
    "unsupported",
]
