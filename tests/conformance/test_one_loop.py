"""There is one retry loop in the whole stack, the gateway's, however much its clients try by themselves (R41)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from kiro_asgi.simulator import refusal
from tests.conformance.callers import CALLERS, FAILURES, calls_made
from tests.conformance.gateways import TRANSIENT_RETRIES, Gateway, watched

EACH = pytest.mark.parametrize("name", CALLERS)
ATTEMPTS = 3
"""``retry.attempts`` where nobody says otherwise."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """All settings as they are by default, but for how long is waited between two tries."""
    waits = {**TRANSIENT_RETRIES, "KIRO_ASGI__RETRY__MAX_WAIT": "0.5"}
    with watched(tmp_path_factory.mktemp("loop"), **waits) as running:
        yield running


@EACH
@pytest.mark.parametrize("failure", FAILURES)
def test_one_call_of_a_client_costs_no_more_than_the_gateways_tries(gateway: Gateway, name: str, failure: str) -> None:
    """R41: a failure that stays is met as often as the gateway tries, and not once for each try of the client."""
    calls, raised = calls_made(gateway, CALLERS[name], f"sim:{failure} for {name}")

    assert raised is not None
    assert calls == ATTEMPTS
    headers = raised.response.headers  # type: ignore[attr-defined]
    assert headers["x-should-retry"] == "false"
    assert int(headers["retry-after"]) >= 1
    assert int(headers["retry-after-ms"]) > 0


@EACH
def test_a_wait_that_is_too_long_here_is_the_clients(gateway: Gateway, name: str) -> None:
    """R41: the service asks for more than may be waited here; clients wait, and try no more often than the gateway."""
    calls, raised = calls_made(gateway, CALLERS[name], f"sim:429-retry-after=1 for {name}")

    assert calls == ATTEMPTS
    assert raised is not None
    assert "x-should-retry" not in raised.response.headers  # type: ignore[attr-defined]
    assert raised.response.headers["retry-after"] == "1"  # type: ignore[attr-defined]


@EACH
def test_tries_of_both_are_counted_together(gateway: Gateway, name: str) -> None:
    """R41: after a client's own second try, the gateway has one try less; SDKs say how often they have tried."""
    assert gateway.service is not None
    refusals = chain([refusal(429, "Later.", retry_after="1")], repeat(refusal(500, "Broken.")))
    gateway.service.answer_with(lambda request: next(refusals) if b"hello" in request.body else None)
    calls, raised = calls_made(gateway, CALLERS[name], f"hello for {name}")
    gateway.service.answer_with(lambda request: None)

    assert (calls, raised is not None) == (ATTEMPTS, True)
