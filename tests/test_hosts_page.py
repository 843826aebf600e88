"""The table of hosts and servers is that of the last run, of all that there is, and nothing in it failed."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.hosts import test_cells
from tests.hosts.matrix import HOSTS, SERVERS, impossible
from tests.hosts.troubles import TROUBLES

RUN = tomllib.loads((Path(__file__).parent.parent / "docs" / "reference" / "hosts.toml").read_text("utf-8"))


def test_every_check_was_made() -> None:
    """The page says what each check holds, in the words of its test."""
    tests = {name: test for name, test in vars(test_cells).items() if name.startswith("test_")}

    assert RUN["checks"] == {
        name.removeprefix("test_"): " ".join((test.__doc__ or "").split()) for name, test in tests.items()
    }


def test_every_cell_was_tried() -> None:
    """What is wrong in a cell is known with its reason, or the two cannot be together."""
    expected = {}
    for host in HOSTS:
        for server in SERVERS:
            reason = impossible(host, server)
            known = {it.check: it.reason for it in TROUBLES if it.concerns(host.name, server.name, it.check)}
            expected[host.name, server.name] = {"impossible": reason} if reason else known

    assert {(host, server): wrong for host, row in RUN["cells"].items() for server, wrong in row.items()} == expected


def test_every_part_has_its_version() -> None:
    """A table without versions would be true of nothing."""
    parts = {package for part in (*HOSTS, *SERVERS) for package in part.packages}

    assert {*RUN["versions"]} == parts | {"django-5"}
