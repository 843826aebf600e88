"""A model that a simulated service offers."""

from __future__ import annotations

from attrs import frozen


@frozen
class Model:
    """One model."""

    id: str
    window: int = 200_000
    """Prompt tokens."""

    output: int = 64_000
    rate: float = 1.3
    efforts: tuple[str, ...] = ()
    """Effort levels; empty: the model takes no extra request fields."""

    family: str = "claude"
    """Whose it is, as far as it matters to what a service takes for it."""
