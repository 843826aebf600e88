"""Names of clients."""

from __future__ import annotations

from typing import Final

ASK: Final = "kiro_asgi.principal"
"""Name in the state of a scope under which a function gives whom `kiro_asgi.mount` was told to take the client for."""

KEY: Final = "key:"
"""Before the name of a client's key."""


def principal_of(name: str) -> str:
    """The principal of clients with the key that the settings call *name*."""
    return f"{KEY}{name}"
