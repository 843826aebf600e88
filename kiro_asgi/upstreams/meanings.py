"""What refusals mean where upstreams agree about it; each has tables of its own for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import (
    ContextTooLong,
    KiroAsgiError,
    NotTheUpstream,
    UpstreamFault,
    UpstreamProtocolError,
    UpstreamRejected,
)

__all__ = ["Class", "Meaning", "by_status", "worded"]

Class = type[KiroAsgiError]

Meaning = tuple[Class, str]
"""Class of an error, and its code where none is given."""

_HUNDREDS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        3: (NotTheUpstream, "upstream.redirect"),
        4: (UpstreamRejected, "rejected"),
        5: (UpstreamFault, "internal"),
    }
)
"""Of statuses that no table has.  A redirect is never followed: it would take our credential along."""

_OTHERWISE: Final[Meaning] = (UpstreamProtocolError, "upstream.status")


def by_status(status: int, known: Mapping[int, Meaning]) -> Meaning:
    """What *status* means when nothing else is known; *known* is the upstream's own table."""
    return known.get(status) or _HUNDREDS.get(status // 100) or _OTHERWISE


def worded(error: Class, message: str) -> str:
    """*message* with the words by which clients know that a conversation is too long."""
    if error is ContextTooLong and "prompt is too long" not in message.lower():
        return f"prompt is too long: {message}"
    return message
