"""Patterns of names, as operators write them: ``*`` stands for any text, and everything else for itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import field, frozen

T = TypeVar("T")


@frozen
class Pattern:
    """A name, or all names of one form."""

    text: str
    """As the operator wrote it."""

    _parts: tuple[str, ...] = field(init=False, eq=False, repr=False)
    """What stands between the stars."""

    @_parts.default
    def _split(self) -> tuple[str, ...]:
        return tuple(self.text.split("*"))

    def fits(self, name: str) -> bool:
        """Whether *name* is meant; each part is looked for once, behind the one before it."""
        first, *others = self._parts
        if not others:
            return name == first
        *middle, last = others
        at, end = len(first), len(name) - len(last)
        if end < at or not (name.startswith(first) and name.endswith(last)):
            return False
        for part in middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def first_of(rows: Iterable[tuple[Pattern, T]], names: Iterable[str]) -> T | None:
    """The value of the first row that fits one of *names*; ``None`` where none does."""
    wanted = tuple(names)
    return next((value for pattern, value in rows if any(map(pattern.fits, wanted))), None)
