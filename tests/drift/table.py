"""The table of names that the documentation shows, and how it differs from what is found now."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tests.drift.answers import FAMILIES, uses
from tests.drift.requests import APIS, Fate, fates

__all__ = [
    "PAGE",
    "SDKS",
    "Table",
    "differences",
    "found_in_answers",
    "found_in_requests",
    "recorded",
    "silent",
    "written",
]

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "drift.toml"

SDKS: Final = ("anthropic", "botocore", "google-genai", "openai")

Table = Mapping[str, Mapping[str, list[str]]]
"""Place to what becomes of its members, to their names."""


def recorded() -> Mapping[str, Any]:
    """The table of the last run that was recorded."""
    return tomllib.loads(PAGE.read_text("utf-8"))


def found_in_requests(api: str) -> Table:
    """What becomes of the members of requests."""
    rows: dict[str, dict[str, list[str]]] = {}
    for place, name, fate in fates(APIS[api]):
        rows.setdefault(place.name or "request", {}).setdefault(fate.value, []).append(name)
    return rows


def found_in_answers(family: str) -> Table:
    """What becomes of the members of answers."""
    rows: dict[str, dict[str, list[str]]] = {}
    for place, name, use in uses(FAMILIES[family]):
        rows.setdefault(place, {}).setdefault(use.value, []).append(name)
    return rows


def silent(table: Table) -> Iterator[str]:
    """Members of which nobody says anything."""
    for place, row in table.items():
        yield from (f"{place}.{name}" for name in row.get(Fate.SILENT.value, ()))


def differences(now: Table, then: Table) -> Iterator[str]:
    """What is not as it was recorded, one name a line."""
    new, old = _flat(now), _flat(then)
    for key in sorted({*new, *old}):
        if new.get(key) != old.get(key):
            yield f"{'.'.join(key)}: {new.get(key, 'gone')}, and was {old.get(key, 'not there')}"


def _flat(table: Table) -> dict[tuple[str, str], str]:
    return {(place, name): use for place, row in table.items() for use, names in row.items() for name in names}


def written(requests: Mapping[str, Table], answers: Mapping[str, Table]) -> str:
    """Everything, as TOML."""
    return "\n".join(_lines(requests, answers)) + "\n"


def _lines(requests: Mapping[str, Table], answers: Mapping[str, Table]) -> Iterator[str]:
    yield "# Written by `tox -e drift -- --record`; not to be edited."
    yield f"date = {datetime.now(UTC).date()}"
    yield from _table("versions", {name: version(name) for name in SDKS})
    for kind, tables in (("requests", requests), ("answers", answers)):
        for api, table in tables.items():
            for place, row in table.items():
                yield from _table(f"{kind}.{api}.{json.dumps(place)}", row)


def _table(name: str, members: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    yield from (f"{json.dumps(key) if ' ' in key else key} = {json.dumps(value)}" for key, value in members.items())
