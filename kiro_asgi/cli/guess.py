"""Which client API a request body is for."""

from __future__ import annotations

from collections.abc import Sequence

from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.wire.json import loads

__all__ = ["guess"]


def guess(body: bytes, apis: Sequence[DialectManifest]) -> DialectManifest:
    """Of *apis* the one that *body* looks most like; of several, the first.

    Raises:
        KiroAsgiError: It is not JSON.
    """
    request = loads(body)
    if not isinstance(request, dict):
        return apis[0]
    return max(apis, key=lambda api: api.likeness(request))
