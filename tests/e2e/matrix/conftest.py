"""Gateways for each event loop, with everything behind them, and the record of what was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.matrix.pairing import Bench, bench
from tests.e2e.matrix.record import Record
from tests.e2e.matrix.table import CELLS, SAMPLE


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="try every combination, and write what was found to this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--record", None)
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(file))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All combinations where they are recorded, else some of them."""
    if "cell" in metafunc.fixturenames and "stream" not in metafunc.fixturenames:
        metafunc.parametrize("cell", CELLS if metafunc.config.getoption("--record", None) else SAMPLE, ids=str)


@pytest.fixture(scope="module")
def on_asyncio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench("asyncio", tmp_path_factory.mktemp("matrix")) as running:
        yield running


@pytest.fixture(scope="module")
def on_trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench("trio", tmp_path_factory.mktemp("matrix")) as running:
        yield running
