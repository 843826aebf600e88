"""Each host under each server, from its first page to its last byte; the tests of a cell share a process, in order."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from kiro_asgi.simulator import Pause, answer, text
from kiro_asgi.simulator.server import Simulator
from tests.hosts.asking import APIS, collect, converse, pieces
from tests.hosts.matrix import Host
from tests.hosts.running import KEY, Running
from tests.hosts.troubles import TROUBLES

WORDS = ("first ", "second ", "last")
PAUSE = 0.4
"""Seconds between two words of the service."""

MANY_LOOKS = 0.6
"""Seconds in which the gateway looks at the time three times at least, see `tests.hosts.running.environment`."""

SLOWLY = answer(*text(WORDS[0]), Pause(PAUSE), *text(WORDS[1]), Pause(PAUSE), *text(WORDS[2]))
ENDLESS = answer(*text(WORDS[0]), Pause(30), *text(WORDS[2]))


def leave_in_the_middle(server: Running, sim: Simulator) -> None:
    """Leave an answer of which the first word has come; the service's connection must be closed at once.

    Until then the gateway has looked at the time, for which it cancels ``receive`` and calls it again.
    """
    sim.enqueue(ENDLESS)
    answered = pieces(server, "chat")
    next(answered)
    asked = sim.requests[-1]
    time.sleep(MANY_LOOKS)
    answered.close()

    assert sim.wait_until(lambda: asked.peer_closed_at is not None, 3)


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Host:
    return request.node.callspec.params["server"].host


@pytest.fixture(autouse=True)
def _known(request: pytest.FixtureRequest) -> None:
    """Expect what is known to go wrong."""
    check, cell = request.node.originalname.removeprefix("test_"), request.node.callspec.params["server"]
    for trouble in TROUBLES:
        if trouble.concerns(cell.host.name, cell.server.name, check):
            request.applymarker(pytest.mark.xfail(reason=trouble.reason, strict=trouble.certain))


def test_page(server: Running, host: Host) -> None:
    """The site's own page is there, and twice in one session."""
    first = server.get("/")
    again = server.get("/", cookie=first.headers.get("set-cookie", "").partition(";")[0])

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.text.startswith("the site itself")
    if host.packages[-1:] == ("django",):
        assert again.text == f"the site itself at {host.root}/, visit 2"
        assert first.headers["x-awaited"] == "1"


def test_prefix(server: Running, host: Host) -> None:
    """What is below the prefix is the gateway's, through all layers; what only begins like it is the site's."""
    found = [server.get(path) for path in ("/llm/health", "/llm/v1/models", "/llm/v1/nothing", "/llmx/v1/models")]
    models = server.get("/llm/v1/models", authorization=f"Bearer {KEY}")

    assert [one.status_code for one in found] == [200, 401, 404, 404]
    assert "/llm/v1/nothing; the APIs are " in found[2].text
    assert "request-id" not in found[3].headers
    assert models.json()["data"]
    assert ("x-took" in models.headers) == host.app.endswith(":layered")


def test_collected(server: Running, sim: Simulator) -> None:
    """All three official clients get an answer in one piece."""
    sim.enqueue(*[answer(*text(*WORDS))] * len(APIS))

    assert {api: collect(server, api) for api in APIS} == dict.fromkeys(APIS, "".join(WORDS))


def test_streamed(server: Running, sim: Simulator) -> None:
    """All three official clients, at once, get each word when the service says it, not later with others."""
    for api in APIS:
        assert [
            *pieces(server, api)
        ]  # at their first stream, the clients' libraries build their types, which takes time
    sim.enqueue(*[SLOWLY] * len(APIS))
    with ThreadPoolExecutor(len(APIS)) as threads:
        answers = dict(zip(APIS, threads.map(lambda api: [*pieces(server, api)], APIS), strict=True))

    assert {api: "".join(words for words, _ in came) for api, came in answers.items()} == dict.fromkeys(
        APIS, "".join(WORDS)
    )
    for api, came in answers.items():
        for (_, before), (words, after) in pairwise(came):
            assert after - before > PAUSE / 2, (api, words)


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")  # the client's own use
def test_websocket(server: Running, sim: Simulator) -> None:
    """The official client opens a WebSocket for responses, and each answer goes on with the one before."""
    sim.enqueue(*[answer(*text(*WORDS))] * 2)

    assert converse(server, 2) == ["".join(WORDS)] * 2


def test_disconnect(server: Running, sim: Simulator) -> None:
    """A client that leaves in the middle: the connection to the service is closed at once."""
    leave_in_the_middle(server, sim)


def test_drain(server: Running, sim: Simulator) -> None:
    """A stream that is under way at SIGTERM comes to its proper end, and then the server does."""
    sim.enqueue(SLOWLY)
    answered = pieces(server, "messages")
    words = [next(answered)[0]]
    server.process.send_signal(signal.SIGTERM)
    words += [more for more, _ in answered]

    assert "".join(words) == "".join(WORDS)
    server.stop()


def test_quiet(server: Running) -> None:
    """Nothing of all this was an error to the server."""
    status, said = server.stop(), server.said()

    assert status in (0, -signal.SIGTERM), said
    assert "Traceback" not in said and "ERROR" not in said and "Task was destroyed" not in said, said
