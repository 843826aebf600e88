"""Thinking and summaries in a form that only their owner can hand back: the content of ``encrypted_content``.

A seal proves that this gateway made it for this client, and that nothing in it was changed.  It opens whichever
upstream answers next: the signature in it names who may receive it (`kiro_asgi.model.signatures`).  It hides nothing:
its client can read the thinking in it, which is that client's own.  Layout::

    "kas2." base64url( HMAC-SHA256 of the rest, 32 bytes | JSON [text, signature, redacted] )
    "kac1." base64url( HMAC-SHA256 of "kac1." and the rest, 32 bytes | JSON of a summary )
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

_PREFIX: Final = "kas2."
"""The version of the layout; part of the key's input, so that no other version's seal is taken for one."""

_SUMMARY_PREFIX: Final = "kac1."
"""The same of a sealed summary; part of the proof's input, so that neither is taken for the other."""

_MAC_BYTES: Final = 32


def is_ours(seal: str) -> bool:
    """Whether a gateway of ours has made *seal*, for whichever client."""
    return seal.startswith((_PREFIX, _SUMMARY_PREFIX))


@frozen
class Sealer:
    """Seals the thinking of one client's answers, and opens what it has sealed."""

    _key: bytes = field(repr=False)

    @classmethod
    def create(cls, key: bytes, principal: str) -> Sealer:
        """The sealer for one client.

        Args:
            key: The gateway's secret; whoever has it can forge seals.
            principal: The client's principal.
        """
        return cls(_mac(key, json.dumps([_PREFIX, principal]).encode()))

    def seal(self, thinking: ThinkingPart) -> str:
        """*thinking* as text for ``encrypted_content``; the same thinking gives the same text."""
        content = dumps([thinking.text, thinking.signature, thinking.redacted])
        return _PREFIX + _packed(_mac(self._key, content), content)

    def open(self, seal: str) -> ThinkingPart | None:
        """The sealed thinking; ``None`` where *seal* was changed, or was not made by this sealer."""
        content = self._opened(seal, _PREFIX, b"")
        return None if content is None else ThinkingPart(*json.loads(content))

    def seal_summary(self, summary: str) -> str:
        """The summary of a conversation as text for the ``encrypted_content`` of a compaction."""
        content = dumps(summary)
        return _SUMMARY_PREFIX + _packed(_mac(self._key, _SUMMARY_PREFIX.encode() + content), content)

    def open_summary(self, seal: str) -> str | None:
        """The sealed summary; ``None`` as for `open`."""
        content = self._opened(seal, _SUMMARY_PREFIX, _SUMMARY_PREFIX.encode())
        return None if content is None else str(json.loads(content))

    def _opened(self, seal: str, prefix: str, domain: bytes) -> bytes | None:
        """The content of *seal*, if it begins with *prefix*, and *domain* and the content are proved by it."""
        if not seal.startswith(prefix):
            return None
        try:
            data = b64decode(seal[len(prefix) :], altchars=b"-_", validate=True)
        except ValueError:
            return None
        mac, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        return content if hmac.compare_digest(mac, _mac(self._key, domain + content)) else None


def _packed(mac: bytes, content: bytes) -> str:
    return urlsafe_b64encode(mac + content).decode("ascii")


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, sha256)
