"""A site below a prefix of the server's own, in front of which a proxy strips that prefix, or leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from attrs import evolve

from kiro_asgi.simulator.server import Simulator
from tests.hosts.matrix import HOSTS, SERVERS, Cell, Server, impossible
from tests.hosts.running import KEY, Running, running

OPTIONS: Final = {
    "Hypercorn": ("--root-path", "/site"),
    "Uvicorn, h11": ("--root-path", "/site"),
    "Granian": ("--url-path-prefix", "/site"),
    "Daphne": ("--root-path", "/site"),
}
"""How servers are told of the prefix."""

ADDING: Final = "Uvicorn, h11"
"""The server that puts the prefix in front of every path, so that a proxy must have stripped it."""

DEMANDING: Final = "Django with Channels"
"""The host that answers 500 where a path does not begin with the server's prefix, for its own pages too."""


def below(server: Server) -> Server:
    return evolve(server, command=(*server.command[:-1], *OPTIONS[server.name], server.command[-1]))


CELLS: Final = [
    pytest.param(Cell(host, below(server)), id=f"{host.name} / {server.name}")
    for server in SERVERS
    for host in HOSTS
    if server.name in OPTIONS
    and not impossible(host, server)
    and host.app.endswith(":application")
    and not host.environ
]


@pytest.fixture(scope="module", params=CELLS)
def site(request: pytest.FixtureRequest, service: Simulator) -> Iterator[Running]:
    with running(request.param, service.url) as found:
        yield found


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Cell:
    return request.node.callspec.params["site"]


def found(site: Running, prefix: str) -> list[int]:
    """Statuses of a list of models, and of what the gateway does not have."""
    models = site.get(f"{prefix}/llm/v1/models", authorization=f"Bearer {KEY}")
    nothing = site.get(f"{prefix}/llm/v1/nothing")
    if nothing.status_code == 404 and "request-id" in nothing.headers:
        assert "/llm/v1/nothing; the APIs are " in nothing.text
    return [models.status_code, nothing.status_code]


def test_the_proxy_strips(site: Running, cell: Cell) -> None:
    """C02/R38: the request no longer has the prefix, the server knows it."""
    strange = cell.host.name == DEMANDING and cell.server.name != ADDING

    assert found(site, "") == ([500, 500] if strange else [200, 404])
    assert not strange or site.get("/").status_code == 500


def test_the_proxy_does_not(site: Running, cell: Cell) -> None:
    """C02/R38: the request has the prefix, as ASGI wants it."""
    assert found(site, "/site") == ([404, 404] if cell.server.name == ADDING else [200, 404])
