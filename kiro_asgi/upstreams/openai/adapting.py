"""Adaptations of a request after a refusal: many servers know only a part of the API, and refuse the remainder.

A field is left out only if the answer is still one to what was asked.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.model.features import Ask

RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
)
"""Field to its other name: newer models know only the first, many servers only the second."""

OPTIONAL: Final = frozenset(
    {
        *RENAMED,
        "stream_options",
        "parallel_tool_calls",
        "reasoning_effort",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "verbosity",
    }
)
"""Fields that a request can do without, or with another name; at stop sequences the gateway ends an answer itself."""

REPLAYED: Final = "reasoning_content"
"""Thinking of an earlier answer: some servers demand it, some refuse it."""

DETAILED: Final = "reasoning_details"
"""The same in OpenRouter's form, which a server may send and not take."""

CALL_IDS: Final = "tool_call_id"
"""Ids of calls: some servers take nine letters and digits, and nothing else."""

_NINE: Final = re.compile(r"tool call id\b.{0,200}\blength of 9\b", re.I | re.S)

UNKNOWN_FIELD: Final = re.compile(
    r"unsupported|not supported|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected|extra|does not support"
    r"|no longer supported|must not|missing|required|must be passed|cannot be (?:used|set|specified)"
    r"|array too long|at most \d+ items",
    re.I,
)
"""Words that say that a field itself is the trouble, not its value, or that a list is too long."""


ASKS: Final[Mapping[str, Ask]] = MappingProxyType(
    {
        "max_completion_tokens": Ask.MAX_COMPLETION_TOKENS,
        "max_tokens": Ask.MAX_TOKENS,
        "stream_options": Ask.COUNTS,
        "stop": Ask.STOP,
        REPLAYED: Ask.THOUGHTS,
        **dict.fromkeys(("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"), Ask.SAMPLING),
    }
)
"""A field to what a request asks for by it, where that alone does not keep it from going through as it is."""


def refused_field(error: KiroAsgiError, document: Mapping[str, Any], without: tuple[str, ...]) -> str:
    """The field that *error*, the answer to *document*, is about; empty where leaving it out is no remedy.

    Args:
        without: Fields that were found before: none is tried a second time.
    """
    if not isinstance(error, UpstreamRejected):
        return ""
    if _NINE.search(error.message):
        return "" if CALL_IDS in without else CALL_IDS
    if not UNKNOWN_FIELD.search(error.message):
        return ""
    named = _WORD.findall(error.message)
    for name in (REPLAYED, DETAILED):
        if name in named and name not in without:
            return name
    return next((name for name in named if name in OPTIONAL and name in document and name not in without), "")


_WORD: Final = re.compile(r"[a-z_]+")
