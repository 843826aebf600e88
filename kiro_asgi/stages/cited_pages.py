"""Leaving out sources without an address, for which the client's API has no place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.model.events import Citation, Delta, Notice

__all__ = ["WITHOUT_ADDRESS", "CitedPages"]

WITHOUT_ADDRESS: Final = "citation.without_address"
"""Sources without an address, such as documents of the request, are left out; said once an answer."""


@define
class CitedPages:
    """Pass everything on but a `Citation` without an address."""

    _told: bool = field(init=False, default=False)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """*items* without such sources, and a `Notice` for the first."""
        for item in items:
            if type(item) is not Citation or item.url:
                yield item
            elif not self._told:
                self._told = True
                yield Notice(WITHOUT_ADDRESS)

    def flush(self) -> Iterator[Delta]:
        """Nothing is held back."""
        yield from ()
