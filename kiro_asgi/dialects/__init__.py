"""The client APIs in front of us, one folder each; and all that is needed to add one from outside."""

from __future__ import annotations

from kiro_asgi.dialects.base import (
    ApiOperation,
    ApiReply,
    ApiRequest,
    CountingDialect,
    Dialect,
    DialectTraits,
    Encoder,
    ErrorReply,
    ListingDialect,
    OperatingDialect,
    ParsedRequest,
    RequestHeaders,
    ResponseMeta,
    Writer,
)
from kiro_asgi.dialects.bases import (
    JSON_LINES,
    SERVER_SENT_EVENTS,
    AnswerWriter,
    Framing,
    JsonDialect,
    SimpleDialect,
    call_arguments,
)
from kiro_asgi.dialects.errors import error_headers, invalid, message_of, missing, unsupported
from kiro_asgi.dialects.manifest import (
    ANSWER,
    CONSTANT,
    COUNT,
    MODEL,
    MODELS,
    DialectManifest,
    DialectOptions,
    DialectSettings,
    Endpoint,
    RoutedDialect,
    constant,
)
from kiro_asgi.dialects.model_list import Card, Listing
from kiro_asgi.dialects.structure import Raw, Tagged
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.setting import Bounds, Choices, Shape, setting
from kiro_asgi.wire.json import dumps, loads

__all__ = [
    "ANSWER",
    "CONSTANT",
    "COUNT",
    "JSON_LINES",
    "MODEL",
    "MODELS",
    "SERVER_SENT_EVENTS",
    "AnswerWriter",
    "ApiOperation",
    "ApiReply",
    "ApiRequest",
    "Bounds",
    "Card",
    "Choices",
    "CountingDialect",
    "Dialect",
    "DialectManifest",
    "DialectOptions",
    "DialectSettings",
    "DialectTraits",
    "Encoder",
    "Endpoint",
    "ErrorReply",
    "Framing",
    "JsonDialect",
    "Listing",
    "ListingDialect",
    "Loss",
    "Note",
    "Notes",
    "OperatingDialect",
    "ParsedRequest",
    "Raw",
    "RequestHeaders",
    "ResponseMeta",
    "RoutedDialect",
    "Rule",
    "Shape",
    "SimpleDialect",
    "Tagged",
    "Writer",
    "call_arguments",
    "constant",
    "dumps",
    "error_headers",
    "invalid",
    "loads",
    "message_of",
    "missing",
    "setting",
    "unsupported",
]
