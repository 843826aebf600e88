"""What an answer cost, by the prices that the operator has set; none come with the package."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from attrs import frozen

from kiro_asgi.model.events import Usage

__all__ = ["Price", "price_of", "read_prices"]

_MILLION = 1_000_000


@frozen
class Price:
    """Of a million tokens, in whatever money the operator thinks in."""

    pattern: str
    """A model's name; ``*`` stands for any text."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def cost(self, usage: Usage) -> float:
        """Of one answer."""
        tokens = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self.cache_read
            + usage.cache_write_tokens * self.cache_write
        )
        return tokens / _MILLION


def read_prices(rows: Iterable[str]) -> tuple[Price, ...]:
    """The prices that ``inspector.prices`` says; a cache costs what the input does where there is no more to read."""
    return tuple(map(_read, rows))


def _read(row: str) -> Price:
    pattern, _, numbers = row.rpartition("=")
    told = [float(number) for number in numbers.split("/")]
    both, caches = told[:2], told[2:]
    read = caches[0] if caches else both[0]
    return Price(pattern, both[0], both[1], read, caches[1] if len(caches) > 1 else both[0])


def price_of(prices: Iterable[Price], model: str) -> Price | None:
    """The first of *prices* that is *model*'s."""
    return next((price for price in prices if fnmatchcase(model, price.pattern)), None)
