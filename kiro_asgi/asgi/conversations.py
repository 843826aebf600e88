"""Names of conversations, for a service that wants one with every request.

What belongs together is told by clients: Claude Code names its session, Codex the key of a cache.  The service gets a
name that is the same for the same session, and from which nobody can tell whose it is or what the client called it.
"""

from __future__ import annotations

import hmac
import json
import secrets
from uuid import UUID, uuid4

from attrs import field, frozen

__all__ = ["Conversations"]


@frozen
class Conversations:
    """Names by a secret: without it they cannot be computed, and one gateway's are not another's."""

    _salt: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def by(cls, salt: str) -> Conversations:
        """Names that other processes and later ones give too; with no *salt*, of this object only."""
        return cls(salt.encode()) if salt else cls()

    def name(self, principal: str, session: str) -> str:
        """A UUID for what *principal* calls *session*; a new one each time where nobody said."""
        if not session:
            return str(uuid4())
        told = json.dumps([principal, session]).encode()
        return str(UUID(bytes=hmac.digest(self._salt, told, "sha256")[:16], version=4))
