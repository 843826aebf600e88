"""The processes that serve one port together."""

from __future__ import annotations

from attrs import frozen


@frozen
class Siblings:
    """The processes that share a port, this one among them, as far as the inspector of each can be reached."""

    inspectors: tuple[str, ...] = ()
    """Base URL of each one's inspector, by its number; empty where this process knows of no other."""

    number: int = 0
    """Of this process."""
