"""The gateway in front of Channels, where the host has WebSockets of its own."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from tests.e2e.hosts.clients import ASK
from tests.e2e.hosts.servers import served
from tests.e2e.hosts.test_hosts import get
from tests.websocket import connected, text_of, turn


def test_each_protocol_goes_to_its_owner(service, sim):
    """C03: below the prefix both protocols are the gateway's; outside both are the host's."""
    pytest.importorskip("channels")
    with served("hypercorn", "channels_site:everything", service.url) as site:
        assert ASK["openai"](f"{site.url}/llm", "sim:count=3", stream=True) == ("1 2 3 ", "stop")
        assert get(site.url, "/v1/models") == (200, "django /v1/models")
        with connected(site.url, path="/llm/v1/responses") as ours:
            assert text_of(turn(ours, "sim:count=3")) == "1 2 3 "
        with connected(site.url, path="/echo") as theirs:
            theirs.send("hello")
            assert theirs.recv(timeout=30) == "hello"
        with pytest.raises(InvalidStatus, match="401"), connected(site.url, key="", path="/llm/v1/responses"):
            pass
