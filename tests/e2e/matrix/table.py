"""What each combination is said to carry: the table that the documentation is made of."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

__all__ = ["APIS", "CELLS", "LOSSES", "UPSTREAMS", "Cell", "Loss", "mark", "printed"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "explanation" / "matrix.toml"

APIS: Final = ("chat", "responses", "messages")
UPSTREAMS: Final = ("kiro", "anthropic", "openai", "gemini")


@frozen
class Loss:
    """What some combinations cannot carry."""

    name: str
    feature: str
    apis: tuple[str, ...]
    upstreams: tuple[str, ...]
    rules: frozenset[str]
    """The rules that the client is told of."""

    why: str


@frozen
class Cell:
    """A feature in one combination."""

    feature: str
    api: str
    upstream: str
    loss: Loss | None = None

    def __str__(self) -> str:
        return f"{self.feature}-{self.api}-{self.upstream}"


def _losses(document: Mapping[str, Any]) -> Iterator[Loss]:
    for name, told in document["losses"].items():
        apis, upstreams = tuple(told["apis"]), tuple(told["upstreams"])
        yield Loss(name, told["feature"], apis, upstreams, frozenset(told["rules"]), told["why"])


def _cells(document: Mapping[str, Any]) -> Iterator[Cell]:
    for feature in document["features"]:
        for api in APIS:
            for upstream in UPSTREAMS:
                known = (it for it in LOSSES if it.feature == feature and api in it.apis and upstream in it.upstreams)
                yield Cell(feature, api, upstream, next(known, None))


_DOCUMENT: Final = tomllib.loads(PAGE.read_text("utf-8"))
LOSSES: Final = tuple(_losses(_DOCUMENT))
CELLS: Final = tuple(_cells(_DOCUMENT))


def mark(cell: Cell) -> str:
    """What the table shows: ``yes``, or the number of what is lost."""
    return "yes" if cell.loss is None else str(1 + LOSSES.index(cell.loss))


def printed(found: Callable[[Cell], str]) -> Iterator[str]:
    """The table as plain text, a line for each feature and API, and what the numbers in it mean."""
    yield f"{'':<24}" + "".join(f"{upstream:>11}" for upstream in UPSTREAMS)
    for first in range(0, len(CELLS), len(UPSTREAMS)):
        row = CELLS[first : first + len(UPSTREAMS)]
        yield f"{row[0].feature:<12} {row[0].api:<11}" + "".join(f"{found(cell):>11}" for cell in row)
    for number, loss in enumerate(LOSSES, 1):
        yield f"{number:>3} {' '.join(loss.why.split())}"
