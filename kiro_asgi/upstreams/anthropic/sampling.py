"""How tokens are drawn, as far as the service lets a client say so.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from typing import Any, Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Sampling
from kiro_asgi.upstreams.anthropic.families import Family

__all__ = ["LAST_SAMPLED", "sampling_fields"]

LAST_SAMPLED: Final = "2026-10-21"
"""Version of the API that is the first without temperature, ``top_p`` and ``top_k``."""


def sampling_fields(
    sampling: Sampling, family: Family, version: str, notes: Notes, *, thinking: bool
) -> dict[str, Any]:
    """``temperature``, ``top_p``, ``top_k`` and ``stop_sequences``.

    Args:
        sampling: What the client says.
        family: Of the model.
        version: Of the API, a date.
        notes: What was not carried.
        thinking: Whether thinking is asked for.
    """
    for name in sampling.given(("seed", "presence_penalty", "frequency_penalty")):
        notes.applies("sampling.ignored", name)
    fields = {name: getattr(sampling, name) for name in sampling.given(("temperature", "top_p", "top_k"))}
    refused = not family.sampled or version >= LAST_SAMPLED
    if refused or thinking:
        for name in fields:
            notes.applies("sampling.model" if refused else "sampling.thinking", name)
        fields = {}
    if fields.get("temperature", 0) > 1:
        notes.applies("sampling.temperature", "temperature")
        fields["temperature"] = 1
    if family.sampled_once and "temperature" in fields and "top_p" in fields:
        notes.applies("sampling.top_p", "top_p")
        del fields["top_p"]
    return {**fields, **_stop(sampling.stop, notes)}


def _stop(sequences: tuple[str, ...], notes: Notes) -> dict[str, Any]:
    kept = [sequence for sequence in sequences if sequence and not sequence.isspace()]
    if len(kept) != len(sequences):
        notes.applies("sampling.stop_blank", "stop_sequences")
    return {"stop_sequences": kept} if kept else {}
