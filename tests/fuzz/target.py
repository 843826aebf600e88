"""A target and its oracles: steps, and results that do not depend on where an input was cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from tests.fuzz.source import Source
from tests.fuzz.steps import calls
from tests.helpers import byte_by_byte, cut

__all__ = ["Target", "cut_text", "made", "refuse", "same", "ways_to_cut"]

LITERAL: Final = b"="
"""With it an input begins that is to be taken as it stands."""

BYTEWISE: Final = 600
"""Bytes up to which an input is also fed one byte at a time: beyond it, that is all that would be done."""

LARGEST: Final = 1 << 18
"""Bytes beyond which a made input is cut: repeats of repeats would be slow only because they are long."""


@frozen
class Target:
    """One function under attack."""

    run: Callable[[bytes], int]
    """Takes an input; the number of bytes that came of it, to which its steps are compared."""

    constant: int
    """Steps that any input may take."""

    each: int
    """Steps that it may take for each byte more."""

    def check(self, data: bytes) -> None:
        """Run, and see that it took no more steps than it may; the first time may also have filled caches."""
        taken, size = calls(lambda: self.run(data))
        if taken > self.constant + self.each * size:
            taken, size = calls(lambda: self.run(data))
        assert taken <= self.constant + self.each * size, f"{taken} steps for {size} bytes"


def made(data: bytes, make: Callable[[Source], bytes]) -> tuple[bytes, Source]:
    """The bytes for a target, and where its further choices come from."""
    if data.startswith(LITERAL):
        return data[1:], Source(data[:0:-1][:8])
    source = Source(data)
    return make(source)[:LARGEST], source


def ways_to_cut(data: bytes, source: Source) -> list[list[bytes]]:
    """Ways to cut *data*."""
    ways = [[data], cut(data, source.cuts(len(data)))]
    return [*ways, byte_by_byte(data)] if len(data) <= BYTEWISE else ways


def same(results: Iterable[Any]) -> None:
    """Fail unless all are alike."""
    first, *others = results
    for other in others:
        assert other == first, "the result depends on where the input was cut"


def cut_text(text: str, source: Source) -> list[str]:
    places = sorted({0, len(text), *source.cuts(len(text))})
    return [text[start:end] for start, end in pairwise(places)]


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")
