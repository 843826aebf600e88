"""A known service: what its documentation says of it, as values of settings.

A table of settings that names one has these values where the operator sets no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class KnownService:
    """One service that speaks an API of somebody else, and what differs there.

    A package offers one by an entry point with its name, in the group ``kiro_asgi.services``.
    """

    name: str
    """As ``service`` of a table of settings names it."""

    title: str
    """Name in messages and pages."""

    settings: Mapping[str, Any]
    """Values of that table, by the names of its settings; lists as tuples."""

    source: str
    """Address of the documentation that says so."""

    dated: str
    """Day on which that was read, as ``2026-11-26``."""
