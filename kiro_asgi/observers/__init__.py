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
from kiro_asgi.observers.writing import WritingObserver

__all__ = [
    "AttemptFacts",
    "ByteObserver",
    "CallFacts",
    "EndFacts",
    "Observer",
    "Outcome",
    "PlanFacts",
    "WritingObserver",
]
