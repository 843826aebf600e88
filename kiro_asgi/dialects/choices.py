"""How many answers a request asks for at once, and how long they may be: each of them is paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.limits import CHOICES
from kiro_asgi.wire.json import object_of

_NAMES: Final = ("n", "best_of", "candidate_count", "candidateCount", "choices", "num_return_sequences")
"""OpenAI's, Google's, and those of services that copy them."""

_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""Names of the greatest length of an answer, in tokens."""

_WITHIN: Final = ("generation_config", "generationConfig")
"""Members that hold Google's."""

_DIGITS: Final = 9
"""Longest number that is read in a text; some services take numbers so."""


def choices_of(members: Mapping[str, Any]) -> int:
    """Answers that a request with these *members* asks for: from 1 to `CHOICES`."""
    return max((1, *(int(min(number, CHOICES)) for number in _numbers(members, _NAMES))))


def length_of(members: Mapping[str, Any]) -> int | None:
    """Tokens that an answer to a request with these *members* may have; ``None`` where none says so."""
    return max((int(min(number, _MOST)) for number in _numbers(members, _LENGTHS) if number > 0), default=None)


def _numbers(members: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[float]:
    for holder in (members, *(object_of(members.get(name)) for name in _WITHIN)):
        for name in names:
            value = holder.get(name)
            if type(value) is str and value.isdecimal() and len(value) <= _DIGITS:
                value = int(value)
            if isinstance(value, int | float):
                yield value


_MOST: Final = 10**9
"""Greatest length that is read; no model has one that comes near."""
