"""Adaptations of a request after a refusal: many servers know only a part of either API, and refuse the remainder; not
every account and model takes every field.

A field is left out only where the answer still fits the request.

Sources: https://platform.openai.com/docs/api-reference/chat/create,
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.failures.members import blames_member
from kiro_asgi.failures.remedies import Lesson
from kiro_asgi.wire.json import objects_of

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

HEARD: Final = "thinking_field"
"""Feature of a remedy: the member in which the server has sent thinking, and which counts then."""


def _is_missed(error: KiroAsgiError) -> bool:
    """Whether *error*, which is about a field, demands it, and does not refuse it."""
    refused = _REFUSED.search(error.message) or blames_member(error)
    return bool(_MISSED.search(error.message) or (_WANTED.search(error.message) and not refused))


def _names(error: KiroAsgiError, *members: str) -> bool:
    return not {*_WORD.findall(error.message)}.isdisjoint(members)


def _speaks_of_thinking(error: KiroAsgiError, document: Mapping[str, Any]) -> bool:
    """Whether *error*, the answer to *document*, is about the thinking of earlier answers."""
    if not blames_member(error) and not (_names(error, REPLAYED) and _is_missed(error)):
        return False
    return _names(error, REPLAYED) or (
        _names(error, SHORTER) and any(SHORTER in message for message in objects_of(document.get("messages")))
    )


CHAT_LESSONS: Final = (
    Lesson(CALL_IDS, "adapted.call_ids", hears=lambda error, _: _NINE.search(error.message) is not None),
    Lesson(
        DEMANDED,
        "adapted.reasoning",
        hears=lambda error, document: _speaks_of_thinking(error, document) and _is_missed(error),
    ),
    Lesson(
        REPLAYED,
        "adapted.reasoning",
        hears=lambda error, document: _speaks_of_thinking(error, document) and not _is_missed(error),
    ),
    Lesson(DETAILED, "adapted.reasoning", hears=lambda error, _: blames_member(error) and _names(error, DETAILED)),
)
"""What servers of Chat Completions teach."""

_WORD: Final = re.compile(r"[a-z_]+")


SUMMARY: Final = "summary"
"""Summary of reasoning, refused to accounts whose owner has not been verified."""

ENCRYPTED: Final = "encrypted_content"
"""Reasoning that was sealed for another account, or has changed on its way."""


_UNVERIFIED: Final = re.compile(r"\bmust be verified\b", re.I)
_BAD_SEAL: Final = re.compile(r"\bencrypted content\b.{0,100}\b(?:cannot be|not)\b", re.I | re.S)
_NOT_SEALED: Final = re.compile(r"\bencrypted content is not supported\b", re.I)


SEALS: Final = "include"
"""Sealed reasoning, which the server does not make."""

RESPONSES_LESSONS: Final = (
    Lesson(SEALS, "adapted.field", hears=lambda error, _: _NOT_SEALED.search(error.message) is not None),
    Lesson(
        ENCRYPTED,
        "adapted.field",
        ("invalid_encrypted_content",),
        lambda error, _: _BAD_SEAL.search(error.message) is not None and _NOT_SEALED.search(error.message) is None,
    ),
    Lesson(SUMMARY, "adapted.field", hears=lambda error, _: _UNVERIFIED.search(error.message) is not None),
)
"""What servers of the Responses API teach."""


def leave_out(body: dict[str, Any], without: Iterable[str]) -> None:
    """Remove the refused fields and parts from *body*, which is for the Responses API."""
    for name in without:
        if name == ENCRYPTED:
            body["input"] = [item for item in body["input"] if item["type"] != "reasoning"]
        elif name == SUMMARY:
            body.get("reasoning", {}).pop(SUMMARY, None)
        else:
            body.pop(name, None)
