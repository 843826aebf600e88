"""The simulated service, each cell's server in its turn, and the record of how all of them did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kiro_asgi import simulator
from kiro_asgi.simulator.server import Simulator
from tests.conformance.clients import undisturbed
from tests.hosts.matrix import CELLS
from tests.hosts.record import Record, about
from tests.hosts.running import Running, running

CELLS_OF = Path(__file__).with_name("test_cells.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="write how every cell did to this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--record")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(file))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker take all tests of a cell, which share a process."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path == CELLS_OF:
            item.user_properties.append(about(item))
            item.add_marker(pytest.mark.xdist_group(str(item.callspec.params["server"])))


@pytest.fixture(scope="session")
def service() -> Iterator[Simulator]:
    with undisturbed(), simulator.running() as found:
        yield found


@pytest.fixture
def sim(service: Simulator) -> Simulator:
    service.reset()
    return service


@pytest.fixture(scope="module", params=CELLS, ids=str)
def server(request: pytest.FixtureRequest, service: Simulator) -> Iterator[Running]:
    with running(request.param, service.url) as found:
        yield found
