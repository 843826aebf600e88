"""Marks on signatures that name their owner: only the service that issued one can check it, so no other gets it.

Clients keep signatures as they are and hand them back.  A signature of Anthropic's models stands as it was received;
those of others carry a mark: ``gemini.call:`` and the signature, where ``call`` is the kind of part that it came on.
No signature has a colon.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

GEMINI: Final = "gemini"
"""Owner of what Google's models sign; each signature is of one part, and goes back on a part of that kind."""

CALL: Final = "call"
"""The signature of a tool call; it stands before it."""

THOUGHT: Final = "thought"
"""The signature of thinking; it stands at its end."""

TEXT: Final = "text"
"""The signature of text, or of anything else; it stands after it."""

DETAILS: Final = "details"
"""All that a service with the Chat Completions API sends of thinking, its text among it, for the upstream whose name is
the owner.  It stands at the end of the thinking, or before what comes of it."""

REASONING: Final = "reasoning"
"""An item of reasoning of the Responses API, its summary among it, for the upstream whose name is the owner.  It stands
where `DETAILS` does."""

SEAL: Final = "seal"
"""What a service with the Chat Completions API hands out beside the text of thinking, for itself alone, with the name
that it has for the text, for the upstream whose name is the owner.  It stands where `DETAILS` does."""

KEPT: Final = "kept"
"""Thinking that led to a call, with the name that the service has for it, as JSON, for the upstream whose name is the
owner.  It is kept here by the call's id, and sent to no client."""

UNSIGNED: Final = "nobody.thought:"
"""Stands in an answer for the signature of thinking that has none: a client hands an empty one back as if it were real,
and so would a gateway that does not look.  It comes back to us only."""


@frozen
class Mark:
    """A signature with what is known about it."""

    owner: str
    """Name of the upstream or its kind, e.g. ``gemini``; empty for Anthropic's models."""

    part: str
    """Kind of part that it came on, in the owner's words; empty without an owner."""

    signature: str


def marked(owner: str, part: str, signature: str) -> str:
    """*signature* with its mark, as sent to clients."""
    return f"{owner}.{part}:{signature}"


def read_mark(signature: str) -> Mark:
    """Parse a signature as clients hand it back."""
    mark, colon, rest = signature.partition(":")
    owner, _, part = mark.partition(".")
    return Mark(owner, part, rest) if colon else Mark("", "", signature)


def unless_unsigned(signature: str) -> str:
    """*signature*, but nothing for `UNSIGNED`."""
    return "" if signature == UNSIGNED else signature
