"""What vendors demand of a gateway, as the pages on Claude Code and Codex have it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["CONTRACTS", "printed"]

CONTRACTS: Final[Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "contracts.toml").read_text("utf-8")
)
"""Client to its title, the version that is tested, and its demands."""

_ELSEWHERE: Final = "in the suite"
"""What became of a test that is not of this run."""


def printed(outcomes: Mapping[str, str]) -> Iterator[str]:
    """The tables in lines; *outcomes* has what became of each test of the run, by its path and name."""
    for client in CONTRACTS.values():
        yield f"{client['title']} {client['version']}"
        for row in client["demands"]:
            yield f"  {row['what'].replace('``', '')}"
            for test in row["tests"]:
                yield f"    {outcomes.get(test, _ELSEWHERE):<13} {test}"
