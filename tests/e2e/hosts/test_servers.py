"""The gateway alone under each server: prefixes in both conventions, HTTP/2, the middleware form, shutdown."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e.hosts.clients import ASK, MODEL
from tests.e2e.hosts.servers import SERVERS, Served, served
from tests.websocket import connected, text_of, turn

LIBRARIES = pytest.mark.parametrize("library", ["openai", "anthropic"])
MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])


BRIEF = {"KIRO_ASGI__RESPONSES__IDLE_TIMEOUT": "0.5", "KIRO_ASGI__RESPONSES__FRAME_BYTES": "1000"}
"""Limits of WebSockets that a test can reach."""


@pytest.fixture(scope="module", params=SERVERS)
def alone(request: pytest.FixtureRequest, service) -> Iterator[Served]:
    with served(request.param, "alone:application", service.url, **BRIEF) as running:
        yield running


@LIBRARIES
@MODES
def test_it_stands_alone(library, stream, alone, sim):
    """C04: under each server and both event loops, for both libraries and modes."""
    assert ASK[library](alone.url, "sim:count=20", stream=stream) == ("".join(f"{n} " for n in range(1, 21)), "stop")


def test_responses_over_websocket(alone, sim):
    """A refused handshake has its real status; closing ends the answer; limits close with their codes."""

    def refused(**options: str) -> int:
        with pytest.raises(InvalidStatus) as caught, connected(alone.url, **options):
            pass
        return caught.value.response.status_code

    def closed(*frames: str) -> int | None:
        with connected(alone.url) as connection:
            told = text_of(turn(connection, "sim:count=3"))
            with pytest.raises(ConnectionClosed) as caught:
                for frame in frames:
                    connection.send(frame)
                connection.recv(timeout=10)
        assert told == "1 2 3 " and caught.value.rcvd is not None
        return caught.value.rcvd.code

    with connected(alone.url) as connection:
        connection.send(json.dumps({"type": "response.create", "model": MODEL, "input": "sim:stall-mid"}))
        assert json.loads(connection.recv(timeout=10))["type"] == "response.created"
    assert sim.wait_until(lambda: sim.requests[-1].peer_closed_at is not None), "closing did not end the answer"
    assert (refused(key=""), refused(origin="https://evil.example"), refused(path="/v1/messages")) == (401, 403, 426)
    assert (closed(), closed("x" * 1001)) == (1001, 1009)


@pytest.fixture(scope="module", params=SERVERS)
def prefixed(request: pytest.FixtureRequest, service) -> Iterator[tuple[str, Served]]:
    with served(request.param, "alone:application", service.url, "--root-path", "/llm") as running:
        yield request.param, running


@LIBRARIES
def test_a_prefix_that_the_proxy_strips(library, prefixed, sim):
    """C02: the server knows the prefix, the request no longer has it."""
    _, running = prefixed

    assert ASK[library](running.url, "sim:count=3", stream=True) == ("1 2 3 ", "stop")


def test_a_prefix_that_the_proxy_leaves(prefixed, sim):
    """C02: hypercorn hands the path over as it came; uvicorn adds the prefix, so there a proxy must strip it."""
    server, running = prefixed
    statuses = [
        httpx2.get(running.url + path, headers={"x-api-key": "k"}, trust_env=False).status_code
        for path in ("/llm/v1/models", "/llmx/v1/models")
    ]

    assert statuses == ([404, 404] if server == "uvicorn" else [200, 404])


@pytest.mark.parametrize("server", ["hypercorn", "hypercorn-trio"])
def test_http_2(server, service):
    """C04: many streams at once over one HTTP/2 connection."""
    question = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "sim:count=3"}]}
    with (
        served(server, "alone:application", service.url) as running,
        httpx2.Client(http1=False, http2=True, trust_env=False, headers={"x-api-key": "k"}) as client,
        client.stream("POST", f"{running.url}/v1/chat/completions", json=question) as first,
        client.stream("POST", f"{running.url}/v1/chat/completions", json=question) as second,
    ):
        bodies = [b"".join(answer.iter_bytes()) for answer in (second, first)]

    assert (first.http_version, first.status_code) == ("HTTP/2", 200)
    assert [body.endswith(b"data: [DONE]\n\n") for body in bodies] == [True, True]
    assert not {"connection", "transfer-encoding"} & set(first.headers)


@LIBRARIES
def test_around_another_application(library, service):
    """C07: our paths are ours, all others the inner application's."""
    with served("hypercorn", "alone:around", service.url) as running:
        page = httpx2.get(running.url + "/", trust_env=False).text
        told = ASK[library](running.url, "sim:count=3", stream=True)
        status, _, errors = running.stop()

    assert (page, told) == ("quart /", ("1 2 3 ", "stop"))
    assert (status, "Traceback" in errors) == (0, False)


@pytest.mark.parametrize(
    ("server", "app"),
    [
        ("hypercorn", "alone:application"),
        ("hypercorn-trio", "alone:application"),
        ("hypercorn", "django_site:everything"),
        ("hypercorn", "quart_site:everything"),
    ],
)
def test_a_stream_may_end_after_sigterm(server, app, service):
    """R45: within the graceful timeout the stream ends as it should, and then the server, with status 0."""
    prefix = "" if app.startswith("alone") else "/llm"
    question = {
        "model": MODEL,
        "stream": True,
        "messages": [{"role": "user", "content": "sim:count=10 sim:slow=0.1"}],
    }
    with (
        served(server, app, service.url) as running,
        httpx2.Client(trust_env=False, headers={"x-api-key": "k"}) as client,
        client.stream("POST", f"{running.url}{prefix}/v1/chat/completions", json=question) as answer,
    ):
        pieces = answer.iter_bytes()
        first = next(pieces)
        running.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        rest = b"".join(pieces)
        _, errors = running.process.communicate(timeout=10)
        took = time.monotonic() - began

    assert first.startswith(b"data: ")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert running.process.returncode == 0
    assert took < 6.5
    assert "Traceback" not in errors
