"""Rows of usage added up, by whatever somebody wants to know."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.quota.base import UsageRow
from kiro_asgi.quota.ledger import AMOUNTS

__all__ = ["PARTS", "Total", "as_csv", "totals"]

PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"day": "day", "key": "principal", "upstream": "upstream", "model": "model"}
)
"""What rows can be grouped by, and what of their key that is."""

_ROUND: Final = 6
"""Digits of a sum behind the point: the rest is an error of adding."""

_FORMULA: Final = re.compile(r"\s*[=+\-@]")
"""Beginning of a text that spreadsheets calculate; a model's name may be anything that a client wrote."""

_CONTROLS: Final = dict.fromkeys((*range(32), 127), " ")


@frozen
class Total:
    """The sums of one group of rows."""

    group: tuple[str, ...]
    amounts: Mapping[str, float]

    def values(self, names: Iterable[str]) -> list[float]:
        """The sums by *names*: whole numbers where they are."""
        sums = (round(self.amounts.get(name, 0.0), _ROUND) for name in names)
        return [int(each) if each == int(each) else each for each in sums]

    def named(self, parts: Sequence[str]) -> dict[str, object]:
        """The same as one object, with *parts* of the group by name."""
        return {**dict(zip(parts, self.group, strict=True)), **dict(zip(AMOUNTS, self.values(AMOUNTS), strict=True))}


def totals(rows: Iterable[UsageRow], parts: Sequence[str]) -> list[Total]:
    """Add *rows* up whose *parts* are the same, in their order."""
    sums: dict[tuple[str, ...], defaultdict[str, float]] = {}
    for row in rows:
        group = tuple(getattr(row.key, PARTS[part]) for part in parts)
        line = sums.setdefault(group, defaultdict(float))
        for name, amount in row.amounts.items():
            line[name] += amount
    return [Total(group, sums[group]) for group in sorted(sums)]


def as_csv(found: Iterable[Total], parts: Sequence[str]) -> str:
    """A table for spreadsheets, a line for each, of which no cell is a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*parts, *AMOUNTS])
    for total in found:
        names = (name.translate(_CONTROLS) for name in total.group)
        shown = (f"'{name}" if _FORMULA.match(name) else name for name in names)
        writer.writerow([*shown, *total.values(AMOUNTS)])
    return text.getvalue()
