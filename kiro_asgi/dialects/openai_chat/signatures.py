"""The signature of a tool call, which stands on the call itself, where Google's own gateway to this API has it too.

The API has no place for thinking that is signed, so signatures of anything else are not told.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.model.signatures import CALL, GEMINI, marked, read_mark

__all__ = ["call_signature", "extra_content", "read_extra_content"]


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
