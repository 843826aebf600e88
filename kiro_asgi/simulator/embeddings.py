"""Embeddings of simulated services: a vector is made of its text, so that equal texts have equal ones."""

from __future__ import annotations

import hashlib
from math import sqrt
from typing import Any


def vector(given: Any, dimensions: int) -> list[float]:
    """The vector of *given*, of length 1, in numbers that a 32-bit float can hold as they are written."""
    drawn = hashlib.shake_256(repr(given).encode(errors="surrogatepass")).digest(dimensions)
    numbers = [byte - 127.5 for byte in drawn]
    length = sqrt(sum(number * number for number in numbers))
    return [round(number / length, 7) for number in numbers]


def tokens_of(given: Any) -> int:
    """Tokens of a text, or of one that was cut into them."""
    return len(given.split()) + 1 if isinstance(given, str) else len(given)
