"""The base classes of observers, and the facts that they receive."""

from __future__ import annotations

from kiro_asgi.observers.base import (
    AttemptFacts,
    ByteObserver,
    CallFacts,
    EndFacts,
    Observer,
    Outcome,
    PlanFacts,
)

__all__ = ["AttemptFacts", "ByteObserver", "CallFacts", "EndFacts", "Observer", "Outcome", "PlanFacts"]
