"""How many answers a request asks for at once: each of them is paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.limits import CHOICES
from kiro_asgi.wire.json import object_of

_NAMES: Final = ("n", "best_of", "candidate_count", "candidateCount", "choices", "num_return_sequences")
"""OpenAI's, Google's, and those of services that copy them."""

_WITHIN: Final = ("generation_config", "generationConfig")
"""Members that hold Google's."""

_DIGITS: Final = 9
"""Longest number that is read in a text; some services take numbers so."""


def choices_of(members: Mapping[str, Any]) -> int:
    """Answers that a request with these *members* asks for: from 1 to `CHOICES`."""
    return max((1, *_numbers(members), *(it for name in _WITHIN for it in _numbers(object_of(members.get(name))))))


def _numbers(members: Mapping[str, Any]) -> Iterator[int]:
    for name in _NAMES:
        value = members.get(name)
        if type(value) is str and value.isdecimal() and len(value) <= _DIGITS:
            value = int(value)
        if isinstance(value, int | float):
            yield int(min(value, CHOICES))
