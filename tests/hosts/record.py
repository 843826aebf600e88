"""How each cell did, as a file that the documentation reads."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from tests.hosts.matrix import HOSTS, SERVERS, Cell, Host, Server, impossible
from tests.hosts.running import DJANGO_5

__all__ = ["CHECK", "Record", "about"]

CHECK: Final = "check"
"""Name of the property of a test that says what it is about."""


def about(item: pytest.Function) -> tuple[str, tuple[str, ...]]:
    """The property of *item*: its check and what that holds, its host and its server; reports travel with it."""
    cell: Cell = item.callspec.params["server"]
    rule = " ".join((item.function.__doc__ or "").split())
    return CHECK, (item.originalname.removeprefix("test_"), rule, cell.host.name, cell.server.name)


@define(eq=False)
class Record:
    """A plugin of pytest's that keeps the outcomes of a run, and writes them to a file at its end."""

    file: Path
    checks: dict[str, str] = field(init=False, factory=dict)
    """Names to the rules that they hold."""

    cells: dict[tuple[str, ...], dict[str, str]] = field(init=False, factory=dict)
    """Host and server to checks, and these to "yes" or what is wrong."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember how a test went."""
        found = dict(report.user_properties)
        if report.when == "call" and CHECK in found:
            check, rule, *cell = found[CHECK]
            self.checks[check] = rule
            self.cells.setdefault(tuple(cell), {})[check] = _outcome(report)

    def pytest_sessionfinish(self) -> None:
        """Write everything, as TOML."""
        self.file.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield "# Written by `tox -e hosts`; not to be edited."
        yield f"date = {datetime.now(UTC).date()}"
        yield f'python = "{platform.python_version()}"'
        yield ""
        yield "[checks]"
        yield from (f"{check} = {_text(rule)}" for check, rule in sorted(self.checks.items()))
        yield ""
        yield "[versions]"
        yield from (f"{name} = {_text(number)}" for name, number in sorted(_versions().items()))
        for host in HOSTS:
            yield ""
            yield f"[cells.{_text(host.name)}]"
            yield from (f"{_text(server.name)} = {self._cell(host, server)}" for server in SERVERS)

    def _cell(self, host: Host, server: Server) -> str:
        """What is wrong, as an inline table."""
        if reason := impossible(host, server):
            return f"{{ impossible = {_text(reason)} }}"
        outcomes = self.cells.get((host.name, server.name), {})
        wrong = {
            check: outcome for check in sorted(self.checks) if (outcome := outcomes.get(check, "not tried")) != "yes"
        }
        return "{" + ",".join(f" {check} = {_text(outcome)}" for check, outcome in wrong.items()) + " }"


def _versions() -> dict[str, str]:
    """Of everything that hosts and servers are made of, and of the older Django."""
    packages = {name for part in (*HOSTS, *SERVERS) for name in part.packages}
    (older,) = distributions(name="django", path=[os.environ[DJANGO_5]])
    return {**{name: version(name) for name in packages}, "django-5": older.version}


def _text(value: Any) -> str:
    return json.dumps(value)  # a basic string of TOML is one of JSON


def _outcome(report: pytest.TestReport) -> str:
    """What is known to go wrong, also where it did not this time."""
    return getattr(report, "wasxfail", "") or ("yes" if report.passed else "failed")
