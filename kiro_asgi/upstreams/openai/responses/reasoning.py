"""Reasoning as an item that goes back whole: what only the service can read, and the summary that stands with it.

Clients have it as one opaque signature, which no other service is given.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from kiro_asgi.model.signatures import REASONING, marked, read_mark
from kiro_asgi.wire.json import JsonError, dumps, loads
from kiro_asgi.wire.members import text_of

__all__ = ["opened", "sealed"]


def sealed(item: Mapping[str, Any], service: str) -> str:
    """The signature that stands for *item* of the upstream named *service*; empty where nothing in it is sealed."""
    if not text_of(item, "encrypted_content"):
        return ""
    kept = {name: item[name] for name in ("id", "summary", "encrypted_content") if name in item}
    return marked(service, REASONING, urlsafe_b64encode(dumps(kept)).decode("ascii"))


def opened(signature: str, service: str) -> dict[str, Any] | None:
    """The item in a *signature* of this service's; ``None`` for any other, or one that was changed."""
    mark = read_mark(signature)
    if (mark.owner, mark.part) != (service, REASONING):
        return None
    try:
        kept = loads(urlsafe_b64decode(mark.signature))
    except (JsonError, ValueError):
        return None
    if type(kept) is not dict or not text_of(kept, "encrypted_content"):
        return None
    return {"type": "reasoning", "summary": [], **kept}
