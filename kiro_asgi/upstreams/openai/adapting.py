"""Adaptations of a request after a refusal: many servers know only a part of either API, and refuse the remainder; not
every account and model takes every field.

A field is left out only where the answer still fits the request.

Sources: https://platform.openai.com/docs/api-reference/chat/create,
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.model.features import Ask
from kiro_asgi.upstreams.errors import blames_member
from kiro_asgi.upstreams.openai.thinking import SWITCHED

RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
)
"""Field to its other name: newer models know only the first, many servers only the second."""

_CHAT_FIELDS: Final = frozenset(
    {
        *RENAMED,
        "stream_options",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning_effort",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "verbosity",
        *SWITCHED,
    }
)
"""Fields of Chat Completions that a request can do without, or with another name; at stop sequences the gateway ends an
answer itself."""

REPLAYED: Final = "reasoning_content"
"""Thinking of an earlier answer, refused: it is not handed back."""

SHORTER: Final = "reasoning"
"""The name that other servers have for it."""

DEMANDED: Final = "reasoning_content, demanded"
"""The same, missed: each earlier answer has it, a blank where the client has lost it."""

_MISSED: Final = re.compile(
    r"\bmissing\b|(?<!not )\brequire[ds]?\b"
    r"|\bmust (?:be (?:passed|provided|included|present|set)|have|include|contain)\b"
    r"|\b(?:cannot|can't|must not|should not|may not) be (?:empty|blank|null|missing|omitted|absent)\b",
    re.I,
)
"""Words that demand a field, whatever else is said."""

_WANTED: Final = re.compile(r"\b(?:needs?|should|expect(?:s|ed)|absent|empty|blank|not provided)\b", re.I)
"""Words that demand it where none stands with them that refuses it."""

_REFUSED: Final = re.compile(r"should not|cannot|can't|not required", re.I)
"""Words that refuse it, beside those that `blames_member` knows."""

DETAILED: Final = "reasoning_details"
"""The same in OpenRouter's form, which a server may send and not take."""

CALL_IDS: Final = "tool_call_id"
"""Ids of calls: some servers take nine letters and digits, and nothing else."""

_NINE: Final = re.compile(r"tool call id\b.{0,200}\blength of 9\b", re.I | re.S)

_FIELD: Final = re.compile(r"extra|missing|required|must be passed|array too long|at most \d+ items", re.I)
"""Phrases of messages that blame a field itself, not its value, or the length of a list, beside those of all APIs."""


CHAT_ASKS: Final[Mapping[str, Ask]] = MappingProxyType(
    {
        "max_completion_tokens": Ask.MAX_COMPLETION_TOKENS,
        "max_tokens": Ask.MAX_TOKENS,
        "stream_options": Ask.COUNTS,
        "stop": Ask.STOP,
        REPLAYED: Ask.THOUGHTS,
        DEMANDED: Ask.THOUGHTS,
        **dict.fromkeys(("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"), Ask.SAMPLING),
    }
)
"""Field to the feature that requests use it for, where that alone does not keep them from being relayed."""


def _is_missed(error: KiroAsgiError) -> bool:
    """Whether *error*, which is about a field, demands it, and does not refuse it."""
    refused = _REFUSED.search(error.message) or blames_member(error)
    return bool(_MISSED.search(error.message) or (_WANTED.search(error.message) and not refused))


def _blames_field(error: KiroAsgiError) -> bool:
    return bool(_FIELD.search(error.message)) or blames_member(error)


def chat_refusal(error: KiroAsgiError, document: Mapping[str, Any], without: tuple[str, ...]) -> str:
    """The field that *error*, the answer to *document*, is about; empty where leaving it out does not help.

    Args:
        without: Fields that were found before: none is tried a second time.
    """
    if not isinstance(error, UpstreamRejected):
        return ""
    if _NINE.search(error.message):
        return "" if CALL_IDS in without else CALL_IDS
    named = _WORD.findall(error.message)
    if not _blames_field(error) and not (REPLAYED in named and _is_missed(error)):
        return ""
    if REPLAYED in named or (SHORTER in named and any(SHORTER in message for message in document["messages"])):
        state = DEMANDED if _is_missed(error) else REPLAYED
        return "" if state in without else state
    if DETAILED in named and DETAILED not in without:
        return DETAILED
    return next((name for name in named if name in _CHAT_FIELDS and name in document and name not in without), "")


_WORD: Final = re.compile(r"[a-z_]+")


SUMMARY: Final = "summary"
"""Summary of reasoning, refused to accounts whose owner has not been verified."""

ENCRYPTED: Final = "encrypted_content"
"""Reasoning that was sealed for another account, or has changed on its way."""

_RESPONSES_FIELDS: Final = frozenset(
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
"""Fields of the Responses API that a request can do without."""

RESPONSES_ASKS: Final[Mapping[str, Ask]] = MappingProxyType(
    {
        ENCRYPTED: Ask.THOUGHTS,
        SUMMARY: Ask.EFFORT,
        "reasoning": Ask.EFFORT,
        "max_output_tokens": Ask.MAX_TOKENS,
        **dict.fromkeys(("temperature", "top_p"), Ask.SAMPLING),
    }
)
"""The same for fields, and parts of them, of the Responses API."""

_UNVERIFIED: Final = re.compile(r"\bmust be verified\b", re.I)
_BAD_SEAL: Final = re.compile(r"\bencrypted content\b.{0,100}\b(?:cannot be|not)\b", re.I | re.S)
_NOT_SEALED: Final = re.compile(r"\bencrypted content is not supported\b", re.I)


def responses_refusal(error: KiroAsgiError, document: Mapping[str, Any], without: Iterable[str]) -> str:
    """The field, or part, that *error*, the answer to *document*, blames; empty for none, or for one that was tried."""
    if not isinstance(error, UpstreamRejected):
        return ""
    return next((name for name in _blamed(error, document) if name not in without), "")


def _blamed(error: KiroAsgiError, document: Mapping[str, Any]) -> Iterable[str]:
    message = error.message
    if _NOT_SEALED.search(message):
        yield "include"
    elif _BAD_SEAL.search(message):
        yield ENCRYPTED
    elif _UNVERIFIED.search(message):
        yield SUMMARY
    elif _blames_field(error):
        yield from (name for name in _WORD.findall(message) if name in _RESPONSES_FIELDS and name in document)


def leave_out(body: dict[str, Any], without: Iterable[str]) -> None:
    """Remove the refused fields and parts from *body*, which is for the Responses API."""
    for name in without:
        if name == ENCRYPTED:
            body["input"] = [item for item in body["input"] if item["type"] != "reasoning"]
        elif name == SUMMARY:
            body.get("reasoning", {}).pop(SUMMARY, None)
        else:
            body.pop(name, None)
