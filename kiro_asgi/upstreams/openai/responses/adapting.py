"""Adaptations of a request after a refusal: not every account, model and server takes every field.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.model.features import Ask
from kiro_asgi.upstreams.openai.adapting import UNKNOWN_FIELD

SUMMARY: Final = "summary"
"""Of reasoning: accounts whose owner has not been verified are refused it."""

ENCRYPTED: Final = "encrypted_content"
"""Reasoning that was sealed for another account, or has changed on its way."""

OPTIONAL: Final = frozenset(
    {
        "include",
        "max_output_tokens",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning",
        "store",
        "stream_options",
        "temperature",
        "top_p",
    }
)
"""Fields that a request can do without."""

ASKS: Final[Mapping[str, Ask]] = MappingProxyType(
    {
        ENCRYPTED: Ask.THOUGHTS,
        SUMMARY: Ask.EFFORT,
        "reasoning": Ask.EFFORT,
        "max_output_tokens": Ask.MAX_TOKENS,
        **dict.fromkeys(("temperature", "top_p"), Ask.SAMPLING),
    }
)
"""What was refused to what a request asks for by it, where that alone does not keep it from going through as it is."""

_UNVERIFIED: Final = re.compile(r"\bmust be verified\b", re.I)
_BAD_SEAL: Final = re.compile(r"\bencrypted content\b.{0,100}\b(?:cannot be|not)\b", re.I | re.S)
_NOT_SEALED: Final = re.compile(r"\bencrypted content is not supported\b", re.I)
_WORD: Final = re.compile(r"[a-z_]+")


def refused_field(error: KiroAsgiError, document: Mapping[str, Any], without: Iterable[str]) -> str:
    """What *error*, the answer to *document*, is about; empty where leaving it out is no remedy, or was tried."""
    if not isinstance(error, UpstreamRejected):
        return ""
    return next((name for name in _blamed(error.message, document) if name not in without), "")


def _blamed(message: str, document: Mapping[str, Any]) -> Iterable[str]:
    if _NOT_SEALED.search(message):
        yield "include"
    elif _BAD_SEAL.search(message):
        yield ENCRYPTED
    elif _UNVERIFIED.search(message):
        yield SUMMARY
    elif UNKNOWN_FIELD.search(message):
        yield from (name for name in _WORD.findall(message) if name in OPTIONAL and name in document)


def leave_out(body: dict[str, Any], without: Iterable[str]) -> None:
    """Leave out of *body* what was refused."""
    for name in without:
        if name == ENCRYPTED:
            body["input"] = [item for item in body["input"] if item["type"] != "reasoning"]
        elif name == SUMMARY:
            body.get("reasoning", {}).pop(SUMMARY, None)
        else:
            body.pop(name, None)
