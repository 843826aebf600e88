"""The clients' own retries: tried again when and only when it makes sense.

The gateway asks the service once for one request, so what the service saw are the clients' tries.  Numbers are those of
the project's list of conformance assertions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.conformance.asking import MODEL, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import Gateway, watched

APIS = pytest.mark.parametrize("api", ["openai", "anthropic"])


def ask(clients: Clients, gateway: Gateway, api: str, content: str, retries: int) -> Any:
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 99, "messages": user(content)}
    if api == "openai":
        return clients.openai(gateway, max_retries=retries).chat.completions.create(**asked)
    return clients.anthropic(gateway, max_retries=retries).messages.create(**asked)


@APIS
def test_66_retry_after_is_honoured(clients: Clients, impatient: Gateway, api: str) -> None:
    """The second try comes after the second that was asked for, twice what the client would wait on its own."""
    content = f"sim:once-429-retry-after=1 for {api}"
    ask(clients, impatient, api, content, retries=1)
    first, second = impatient.asked(content)

    assert 0.95 < second.received_at - first.received_at < 2


@APIS
@pytest.mark.parametrize("marker", ["429", "overloaded", "reset-first"])
def test_66_what_passes_is_tried_again(clients: Clients, impatient: Gateway, api: str, marker: str) -> None:
    """Without a word about when, after a second, or, where the status says nothing of a wait, the client's own."""
    content = f"sim:once-{marker} for {api}"
    ask(clients, impatient, api, content, retries=1)
    first, second = impatient.asked(content)

    assert second.received_at - first.received_at < 2


@APIS
@pytest.mark.parametrize("marker", ["quota", "suspicious", "403", "bad-request", "too-long", "bad-model"])
def test_66_what_is_final_is_not(clients: Clients, impatient: Gateway, api: str, marker: str) -> None:
    """One try, also for a spent quota, whose status alone would invite more."""
    content = f"sim:{marker} for {api}"
    with pytest.raises(Exception, match=r"Error code: [45]\d\d") as caught:
        ask(clients, impatient, api, content, retries=2)

    assert caught.value.response.headers["x-should-retry"] == "false"  # type: ignore[attr-defined]
    assert len(impatient.asked(content)) == 1


def test_66_tries_leave_other_requests_their_connection(clients: Clients, tmp_path: Path) -> None:
    """A connection that was in use while another failed, and idle ones were given up, is kept for the next request."""
    with watched(tmp_path, KIRO_ASGI__RETRY__BASE="0.01") as gateway:
        asked: Any = {"model": MODEL, "messages": user("sim:count=9 sim:slow=0.1"), "stream": True}
        with clients.openai(gateway).chat.completions.create(**asked) as stream:
            next(stream)
            with pytest.raises(openai.InternalServerError):
                ask(clients, gateway, "openai", "sim:reset-first", retries=0)
            assert list(stream)
        assert gateway.observed(lambda service: service.connections_open == 1)
        ask(clients, gateway, "openai", "sim:text", retries=0)
        first, *_, last = [each.connection for each in gateway.asked("sim:")]

    assert last == first
