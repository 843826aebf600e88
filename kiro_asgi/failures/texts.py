"""Texts of services, fit for log lines and for messages to clients."""

from __future__ import annotations

import re
from typing import Final

MAX_MESSAGE: Final = 500
"""Characters of a service's message that are passed on."""

_LOOKED_AT: Final = 4 * MAX_MESSAGE
"""Characters of it that are read at all."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

_SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\b(bearer\s+)[\w.~+/=:-]{16,}", re.I | re.A), r"\1[redacted]"),
    (re.compile(r"\bksk_[\w-]+", re.A), "[redacted]"),
    (re.compile(r"\b(?:sk-|xai-|gsk_)[\w-]{8,}", re.A), "[redacted]"),
    (re.compile(r"\bAIza[\w-]{16,}", re.A), "[redacted]"),
    (re.compile(r"\bao[ar][\w+/=:-]{20,}", re.A), "[redacted]"),
    (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]++){0,2}", re.A), "[redacted]"),
    (re.compile(r"(\barn:[\w-]*:[\w-]*:[\w-]*:)[0-9]{12}", re.A), r"\1[redacted]"),
    (
        re.compile(
            r"""((?:access|refresh|id|auth|session)[_-]?token|api[_-]?key|secret|passw(?:or)?d)(["']?\s*[:=]\s*["']?)"""
            r"""(?!\[redacted)[^\s"',;}&]{4,}""",
            re.I | re.A,
        ),
        r"\1\2[redacted]",
    ),
)
"""Secrets that must not be passed on: bearer tokens, API keys, access and refresh tokens, JWTs, account numbers, and
what stands behind the name of a secret."""


def redacted(text: str) -> str:
    """*text* without secrets."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def clean(text: str) -> str:
    """*text* fit for a log line or an error body: one line, short, without secrets."""
    # Redacted before it is cut to its final length: a part of a secret may match no pattern.
    text = redacted(_UNPRINTABLE.sub(" ", text[:_LOOKED_AT]).strip())
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
