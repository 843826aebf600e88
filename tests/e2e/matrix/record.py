"""What was found of each combination, as a file that the documentation reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from tests.e2e.matrix.features import FEATURES, LOSSES
from tests.e2e.matrix.pairing import APIS, SERVICES
from tests.e2e.matrix.table import CELLS, Cell

__all__ = ["FOUND", "Record"]

FOUND: Final = "found"
"""Name of the property of a test that says what it found."""

CLIENTS: Final = ("anthropic", "openai")


@define(eq=False)
class Record:
    """A plugin of pytest's that keeps what a run finds, and writes it to a file at its end."""

    file: Path
    found: dict[Cell, list[str]] = field(init=False, factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what a test found, streamed and collected."""
        properties = dict(report.user_properties)
        if report.when == "call" and FOUND in properties:
            feature, api, service, *marks = properties[FOUND]
            self.found[Cell(feature, api, service)] = marks

    def pytest_sessionfinish(self) -> None:
        """Write everything, as TOML."""
        self.file.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield "# Written by `tox -e matrix`; not to be edited."
        yield f"date = {datetime.now(UTC).date()}"
        yield f'python = "{platform.python_version()}"'
        yield from _table("versions", {name: version(name) for name in CLIENTS})
        yield from _table("apis", {name: api.title for name, api in APIS.items()})
        yield from _table("services", {name: service.title for name, service in SERVICES.items()})
        yield from _table("features", {name: feature.what for name, feature in FEATURES.items()})
        for name, loss in LOSSES.items():
            yield from _table(f"losses.{name}", {"why": loss.why, "rules": sorted(loss.rules)})
        for api in APIS:
            for service in SERVICES:
                cells = [cell for cell in CELLS if (cell.api, cell.service) == (api, service)]
                yield from _table(
                    f"cells.{api}.{service}", {it.feature: self.found.get(it, ["not tried"] * 2) for it in cells}
                )


def _table(name: str, members: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    yield from (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in members.items())
