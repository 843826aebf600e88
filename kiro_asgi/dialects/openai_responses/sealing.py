"""Thinking in a form that only its owner can hand back: what ``reasoning.encrypted_content`` holds.

A seal proves that this gateway made it for this client, and that nothing in it was changed.  Whichever upstream answers
next, it opens: who may be handed the signature in it, the signature itself tells (`kiro_asgi.model.signatures`).  It
hides nothing: whoever has one can read the thinking in it, which is that client's own.  Layout::

    "kas2." base64url( HMAC-SHA256 of the rest, 32 bytes | JSON [text, signature, redacted] )
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from kiro_asgi.model.prompt import ThinkingPart
from kiro_asgi.wire.json import dumps

__all__ = ["Sealer"]

_PREFIX: Final = "kas2."
"""The version of the layout; part of what the key is made from, so no other version's seal is taken for one."""

_MAC_BYTES: Final = 32


@frozen
class Sealer:
    """Seals the thinking of one client's answers, and opens what it has sealed."""

    _key: bytes = field(repr=False)

    @classmethod
    def create(cls, key: bytes, principal: str) -> Sealer:
        """The sealer for one client.

        Args:
            key: The gateway's secret; whoever has it can forge seals.
            principal: Who the client is.
        """
        return cls(_mac(key, json.dumps([_PREFIX, principal]).encode()))

    def seal(self, thinking: ThinkingPart) -> str:
        """*thinking* as text for ``encrypted_content``; the same thinking gives the same text."""
        content = dumps([thinking.text, thinking.signature, thinking.redacted])
        return _PREFIX + urlsafe_b64encode(_mac(self._key, content) + content).decode("ascii")

    def open(self, seal: str) -> ThinkingPart | None:
        """The sealed thinking; ``None`` where *seal* was changed, or was not made by this sealer."""
        if not seal.startswith(_PREFIX):
            return None
        try:
            data = b64decode(seal[len(_PREFIX) :], altchars=b"-_", validate=True)
        except ValueError:
            return None
        mac, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(mac, _mac(self._key, content)):
            return None
        return ThinkingPart(*json.loads(content))


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, sha256)
