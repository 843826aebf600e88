"""A client that leaves takes its request to the service with it.

Numbers are those of the project's list of conformance assertions.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiro_asgi.simulator import Simulator
from tests.conformance.asking import MODEL, user
from tests.conformance.clients import Clients
from tests.conformance.gateways import KEY, Gateway
from tests.conformance.raw import PATHS, connect, request_bytes

SLOW = "sim:count=400 sim:slow=0.05"


def _left(gateway: Gateway, content: str) -> bool:
    """Whether the service sees its one request for *content* be given up."""

    def given_up(_: Simulator) -> bool:
        (request,) = gateway.asked(content)
        return request.peer_closed_at is not None

    return gateway.observed(given_up)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_25_closing_a_stream(clients: Clients, impatient: Gateway, api: str) -> None:
    """F022: the client closes its stream after the first words; the service's connection is closed too."""
    content = f"{SLOW} for {api}"
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 9999, "messages": user(content), "stream": True}
    stream: Any = (
        clients.openai(impatient).chat.completions.create(**asked)
        if api == "openai"
        else clients.anthropic(impatient).messages.create(**asked)
    )
    with stream:
        for _, event in zip(range(3), stream, strict=False):
            assert event

    assert _left(impatient, content)
    (request,) = impatient.asked(content)
    assert not request.complete


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("content", [SLOW, "sim:late=20", "sim:stall"], ids=["talking", "silent", "stalled"])
def test_25_hanging_up_on_a_whole_answer(impatient: Gateway, api: str, content: str) -> None:
    """F022: the same for an answer in one body, of which nothing has come yet."""
    content = f"{content} for whole {api}"
    document = {"model": MODEL, "max_tokens": 9999, "messages": user(content)}
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with connect(impatient) as connection:
        connection.sendall(request_bytes("POST", PATHS[api], headers, json.dumps(document).encode()))
        assert impatient.observed(lambda _: impatient.asked(content))

    assert _left(impatient, content)
