"""Which client API a request body is for."""

from __future__ import annotations

from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import DialectManifest
from kiro_asgi.wire.json import loads

__all__ = ["guess"]


def guess(body: bytes) -> DialectManifest:
    """The API that *body* looks most like; of several, the first.

    Raises:
        KiroAsgiError: It is not JSON.
    """
    request = loads(body)
    if not isinstance(request, dict):
        return BUILTIN[0]
    return max(BUILTIN, key=lambda api: api.likeness(request))
