"""Names of clients."""

from __future__ import annotations

from typing import Final

ASK: Final = "kiro_asgi.principal"
"""Name in the state of a scope under which a function gives whom `kiro_asgi.mount` was told to take the client for."""

KEY: Final = "key:"
"""Before the name of a client's key."""

HOST: Final = "host:"
"""Before the host's name for a user, or for a client of its table."""
