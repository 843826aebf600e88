"""Length and sampling within a service's bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Sampling


@frozen
class Bound:
    """How a service takes one of the numbers of `Sampling`."""

    wire: str
    """The service's name for it."""

    least: float = -inf
    most: float = inf
    rule: str = ""
    """By which a number that is out of bounds becomes the nearest that is not."""


def bounded(sampling: Sampling, bounds: Mapping[str, Bound], notes: Notes) -> dict[str, Any]:
    """The numbers that the client set, of those that *bounds* has by their fields of `Sampling`."""
    fields: dict[str, Any] = {}
    for name in sampling.given(bounds):
        bound, value = bounds[name], getattr(sampling, name)
        fields[bound.wire] = min(max(value, bound.least), bound.most)
        if fields[bound.wire] != value:
            notes.applies(bound.rule, name)
    return fields


def ignored(sampling: Sampling, names: Iterable[str], rule: str, notes: Notes) -> None:
    """Note by *rule* what the client set of *names*, where the service has no such fields."""
    for name in sampling.given(names):
        notes.applies(rule, name)


def length(wanted: int, least: int, most: int, notes: Notes) -> int:
    """The greatest length of an answer, in tokens, within a model's bounds."""
    found = min(max(wanted, least), most)
    return found if found != wanted and notes.applies("sampling.max_tokens", "max_tokens") else wanted


def visible_stops(sampling: Sampling, notes: Notes) -> list[str]:
    """The stop sequences that have a visible character; the service refuses others."""
    if blank_stops(sampling):
        notes.applies("sampling.stop_blank", "stop_sequences")
    return [sequence for sequence in sampling.stop if sequence.strip()]


def blank_stops(sampling: Sampling) -> tuple[str, ...]:
    """The stop sequences that `visible_stops` leaves out, but for empty ones: the gateway ends the answer at them."""
    return tuple(sequence for sequence in sampling.stop if sequence.isspace())
