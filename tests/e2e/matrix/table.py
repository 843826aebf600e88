"""Which combinations there are, and what the last whole run found of each: the table that the documentation shows."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.e2e.matrix.features import FEATURES
from tests.e2e.matrix.pairing import APIS, SERVICES

__all__ = ["CELLS", "PAGE", "RECORDED", "SAMPLE", "YES", "Cell"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "matrix.toml"
RECORDED: Final = tomllib.loads(PAGE.read_text("utf-8")) if PAGE.exists() else {}

YES: Final = "yes"
"""What stands in a cell that carries its feature; else the name of a loss."""


@frozen
class Cell:
    """A feature in one combination of an API and a service."""

    feature: str
    api: str
    service: str

    def __str__(self) -> str:
        return f"{self.feature}-{self.api}-{self.service}"

    @property
    def recorded(self) -> list[str]:
        """What was found of it, streamed and collected."""
        found: list[str] = RECORDED["cells"][self.api][self.service][self.feature]
        return found


CELLS: Final = tuple(Cell(*names) for names in product(FEATURES, APIS, SERVICES))


def _sample(cells: Iterable[Cell]) -> Iterator[Cell]:
    """For each combination one feature, a different one each time; between them they have all features."""
    pairs, features = [*product(APIS, SERVICES)], [*FEATURES]
    for at, (api, service) in enumerate(pairs):
        yield next(it for it in cells if it == Cell(features[at % len(features)], api, service))


SAMPLE: Final = tuple(_sample(CELLS))
