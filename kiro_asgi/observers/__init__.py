"""The bases of those who watch the gateway at work, and the facts that they are told."""

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
