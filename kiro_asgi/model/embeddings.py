"""Embeddings: texts, and the vectors that a model makes of them.

A vector is `bytes`: its numbers as 32-bit floats, little-endian, as models compute them and as clients of OpenAI's API
get them in base64.  A list of Python's numbers would take eight times the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite

from attrs import evolve, field, frozen

from kiro_asgi.model.conversion import is_model

Input = str | tuple[int, ...]
"""A text, or the tokens of one, which only the tokenizer of the model that is asked can make."""

WIDTH = 4
"""Bytes of one number of a vector."""


@frozen
class EmbeddingPrompt:
    """What vectors are asked for."""

    model: str = field(validator=is_model)
    """As the client wrote it."""

    inputs: tuple[Input, ...]
    """One vector each, in this order."""

    dimensions: int | None = None
    """Numbers of each vector; ``None`` for as many as the model makes."""

    purpose: str = ""
    """What the vectors are for, in the words of the service; empty where the client does not say it."""

    user: str = ""
    """The client's name for its own user; empty where it sends none."""

    def parts(self, size: int) -> tuple[EmbeddingPrompt, ...]:
        """The same in parts of at most *size* inputs, in order."""
        starts = range(0, len(self.inputs), size)
        return tuple(evolve(self, inputs=self.inputs[start : start + size]) for start in starts)


@frozen
class Embeddings:
    """The vectors of some inputs, in their order."""

    vectors: tuple[bytes, ...]
    tokens: int | None = None
    """Tokens of the inputs together; ``None`` where the service does not count them."""


def packed(numbers: Sequence[float]) -> bytes:
    """The vector of *numbers*.

    Raises:
        ValueError: There is none, or one that is no number, or that no 32-bit float can hold.
    """
    try:
        vector = struct.pack(f"<{len(numbers)}f", *numbers)
    except (struct.error, OverflowError) as error:
        raise ValueError("no 32-bit float") from error
    return checked(vector)


def checked(vector: bytes) -> bytes:
    """*vector*, if it is one.

    Raises:
        ValueError: It is empty, torn, or holds what is no number.
    """
    if not vector or len(vector) % WIDTH:
        raise ValueError("no vector")
    highest = vector[WIDTH - 1 :: WIDTH]  # an exponent of ones, or nearly: only then is it worth looking at each
    if (b"\x7f" in highest or b"\xff" in highest) and not isfinite(sum(numbers_of(vector))):
        raise ValueError("no number")  # one infinity, or what is no number, makes the sum one
    return vector


def numbers_of(vector: bytes) -> tuple[float, ...]:
    """The numbers of *vector*."""
    return struct.unpack(f"<{len(vector) // WIDTH}f", vector)
