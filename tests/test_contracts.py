"""The pages on what Claude Code and Codex demand name tests that exist, for the versions that are run."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.clients.contracts import CONTRACTS, printed

ROOT = Path(__file__).parent.parent
PROGRAMS = {"claude-code": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
RUN = {
    "claude-code": ("tests/clients/test_claude_code.py",),
    "codex": ("tests/clients/test_codex.py", "tests/clients/test_codex_signed_in.py"),
}

DEMANDS = [(client, row) for client, named in CONTRACTS.items() for row in named["demands"]]


@cache
def collected() -> frozenset[str]:
    """What pytest finds in the files that the pages name: a function that it does not run holds nothing."""
    paths = {test.partition("::")[0] for _, row in DEMANDS for test in row["tests"]} | {*chain(*RUN.values())}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(paths)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    return frozenset(line.partition("[")[0] for line in told.stdout.splitlines() if "::" in line)


def named_in(path: str) -> frozenset[str]:
    """Names of the tests in a file."""
    return frozenset(test.partition("::")[2] for test in collected() if test.startswith(f"{path}::"))


@pytest.mark.parametrize(("client", "row"), DEMANDS, ids=lambda value: value if isinstance(value, str) else "")
def test_each_demand_is_held(client: str, row: dict[str, Any]) -> None:
    """By a test, at least, that there is."""
    assert row["what"] and row["here"] and row["tests"]
    for test in row["tests"]:
        path, _, name = test.partition("::")
        assert name in named_in(path), test


@pytest.mark.parametrize("client", CONTRACTS)
def test_each_test_of_the_program_holds_a_demand(client: str) -> None:
    """What is run with the real program is on its page."""
    named = {test for row in CONTRACTS[client]["demands"] for test in row["tests"]}

    assert {f"{path}::{name}" for path in RUN[client] for name in named_in(path)} <= named


@pytest.mark.parametrize("client", CONTRACTS)
def test_the_version_is_the_one_that_is_run(client: str) -> None:
    """A newer program is a newer page."""
    package = json.loads((ROOT / "tests" / "clients" / "package.json").read_text("utf-8"))

    assert CONTRACTS[client]["version"] == package["dependencies"][PROGRAMS[client]]
    page = (ROOT / "docs" / "reference" / f"{client}.rst").read_text("utf-8")
    assert f".. generated:: contract-{client}\n" in page


def test_the_run_prints_what_became_of_each() -> None:
    """With those that the run does not have."""
    test = CONTRACTS["codex"]["demands"][0]["tests"][0]
    lines = [*printed({test: "failed"})]

    assert f"    failed        {test}" in lines
    assert sum(line.startswith("    in the suite") for line in lines) > 20
    assert len([line for line in lines if line.startswith("  ") and line[2] != " "]) == len(DEMANDS)
