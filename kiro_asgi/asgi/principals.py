"""Names of clients."""

from __future__ import annotations

from typing import Final

KEY: Final = "key:"
"""Before the name of a client's key."""


def principal_of(name: str) -> str:
    """The principal of clients with the key that the settings call *name*."""
    return f"{KEY}{name}"
