"""Signatures, which the API itself has no place for: those that extensions in use have one for.

That of a tool call stands on the call, where Google's own gateway to this API has it.  What a service behind this API
says of its thinking (`DETAILS`) stands in ``reasoning_details``, where OpenRouter has it, as one entry that nobody
needs to read.  No other is told.

Sources: https://ai.google.dev/gemini-api/docs/thought-signatures,
https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kiro_asgi.model.signatures import CALL, DETAILS, GEMINI, marked, read_mark
from kiro_asgi.wire.members import objects_of, text_of

__all__ = ["call_signature", "extra_content", "read_extra_content", "read_reasoning_details", "reasoning_details"]


def call_signature(signature: str) -> str:
    """The *signature* as calls carry it; empty where it is not a call's."""
    mark = read_mark(signature)
    return mark.signature if (mark.owner, mark.part) == (GEMINI, CALL) else ""


def extra_content(signature: str) -> dict[str, Any]:
    """``extra_content`` of a call that has a `call_signature`."""
    return {"google": {"thought_signature": signature}}


def read_extra_content(value: Any) -> str:
    """The signature with its mark, as it was given; empty where there is none."""
    google = value.get("google") if isinstance(value, Mapping) else None
    signature = google.get("thought_signature") if isinstance(google, Mapping) else None
    return marked(GEMINI, CALL, signature) if isinstance(signature, str) and signature else ""


def reasoning_details(signatures: Iterable[str], start: int = 0) -> list[dict[str, Any]]:
    """The entries of ``reasoning_details`` for those of the *signatures* that have a place there.

    Args:
        signatures: Of thinking.
        start: The first entry's index: clients join what has the same.
    """
    kept = (signature for signature in signatures if read_mark(signature).part == DETAILS)
    return [
        {"type": "reasoning.encrypted", "data": signature, "id": None, "format": "unknown", "index": index}
        for index, signature in enumerate(kept, start)
    ]


def read_reasoning_details(value: Any) -> Iterator[str]:
    """The signatures in ``reasoning_details``; of another gateway's entries nobody knows whose they are."""
    for entry in objects_of(value):
        if read_mark(signature := text_of(entry, "data")).part == DETAILS:
            yield signature
