"""Ledger and budget agree, after a thousand endings at two workers that share a Valkey server."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quota.paid import ENDINGS, Ending, play
from tests.valkey_server import needs_server, running

EXAMPLES = 50
ENDINGS_EACH = 20


@needs_server
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(endings=st.lists(ENDINGS, min_size=ENDINGS_EACH, max_size=ENDINGS_EACH))
def test_a_thousand_endings(endings: Sequence[Ending]) -> None:
    """Of clients, their group, and the gateway's credentials: tokens, credits and money."""
    with running() as server:
        _, found = anyio.run(play, {"engine": "valkey", "url": server.url}, endings, 8)
    assert found == []
