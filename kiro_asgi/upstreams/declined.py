"""Why a service declined to answer, in its own words, and what it recommends instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiro_asgi.failures.texts import clean
from kiro_asgi.model.events import Declined, Notice
from kiro_asgi.wire.json import text_of


def declined(record: Mapping[str, Any]) -> Declined | None:
    """What *record* says of why the service declined; ``None`` where it says nothing."""
    model = text_of(record, "recommended_model") or text_of(record, "recommendedModel")
    found = Declined(*map(clean, (text_of(record, "category"), text_of(record, "explanation"), model)))
    return None if found == Declined() else found


def recommended(why: Declined | None) -> tuple[Notice, ...]:
    """The model that a service recommends in its place, for clients whose API has no place for it."""
    model = why.recommended_model if why is not None else ""
    return (Notice("declined.recommended_model", model),) if model else ()
