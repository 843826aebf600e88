"""A gateway for each event loop, in a process of its own, with everything behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.matrix.pairing import Bench, bench


@pytest.fixture(scope="module")
def on_asyncio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench("asyncio", tmp_path_factory.mktemp("matrix")) as running:
        yield running


@pytest.fixture(scope="module")
def on_trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench("trio", tmp_path_factory.mktemp("matrix")) as running:
        yield running
