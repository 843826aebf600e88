"""Ledger and budget agree: after any sequence of endings, what was taken from a budget is what the ledger has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quota.paid import ENDINGS, Ending, play
from tests.valkey_server import needs_server, running

AT_ONCE = 4
FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@FEW
@given(endings=st.lists(ENDINGS, min_size=8, max_size=16))
def test_ledger_and_budget_agree(loop: str, endings: Sequence[Ending]) -> None:
    """Of clients, their group, and the gateway's credentials, at two workers that share a file."""
    with TemporaryDirectory() as folder:
        state = {"engine": "sqlite", "path": str(Path(folder, "state.db"))}
        _, found = anyio.run(play, state, endings, AT_ONCE, backend=loop)
    assert found == []


@needs_server
@FEW
@given(endings=st.lists(ENDINGS, min_size=8, max_size=16))
def test_they_agree_on_a_shared_server(endings: Sequence[Ending]) -> None:
    """The same at two workers that share a Valkey server."""
    with running() as server:
        _, found = anyio.run(play, {"engine": "valkey", "url": server.url}, endings, AT_ONCE)
    assert found == []
