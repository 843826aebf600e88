"""There is one retry loop in the whole stack, the gateway's, however much its clients try by themselves (R41)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from kiro_asgi.simulator import refusal
from tests.conformance.callers import CALLERS, FAILURES, calls_made
from tests.conformance.gateways import EVERY_SERVICE, TRANSIENT_RETRIES, Gateway, watched

OTHERS = ("openai/gpt-4o", "gemini/gemini-2.5-flash", "anthropic/claude-haiku-4-5")
"""Models of the other services; to the first and the last, bytes go through from clients of their own API."""

EACH = pytest.mark.parametrize("name", CALLERS)
ATTEMPTS = 3
"""``retry.attempts`` where nobody says otherwise."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """All settings as they are by default, but for how long is waited between two tries."""
    waits = {**TRANSIENT_RETRIES, "KIRO_ASGI__RETRY__MAX_WAIT": "0.5"}
    services = {**EVERY_SERVICE, "KIRO_ASGI__STREAM__RELAY": "auto"}
    with watched(tmp_path_factory.mktemp("loop"), **waits, **services) as running:
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


@pytest.mark.parametrize(
    ("name", "model", "failure"),
    [
        *((name, model, failure) for name in CALLERS for model in OTHERS for failure in FAILURES if failure != "429"),
        *((name, OTHERS[-1], "429") for name in CALLERS),
        ("openai-chat", OTHERS[0], "429"),  # these two ask for two seconds, which clients wait
        ("anthropic-messages-streamed", OTHERS[1], "429"),
    ],
)
def test_so_it_is_at_every_service(gateway: Gateway, name: str, model: str, failure: str) -> None:
    """R41: also where bytes go through."""
    calls, raised = calls_made(gateway, CALLERS[name], f"sim:{failure} for {name}", model)

    assert (calls, raised is not None) == (ATTEMPTS, True)


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
