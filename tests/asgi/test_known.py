"""What is remembered of earlier requests: apart for each client, no more than is set, and not for long."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.asgi.door.parts import Internals
from kiro_asgi.asgi.exchange.explain import explain
from kiro_asgi.asgi.kept.known import Known
from kiro_asgi.create import new_app
from kiro_asgi.dialects.known import Element
from kiro_asgi.limits import KNOWN_BODY, KNOWN_SECONDS, KNOWN_SHARE
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.simulator.server import Simulator
from tests.asgi.conftest import Gateway, settings_for
from tests.asgi.driver import PATHS, post
from tests.dialects.recalled import APIS, Api

MOST = 256 * 1024
SHARE = MOST // KNOWN_SHARE


class Clock:
    """A clock that goes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def array(first: str, size: int = 1000) -> tuple[Element, ...]:
    """An array of one or two elements that takes *size* bytes, as far as it can."""
    element = Element(first, None)
    return element, Element("x" * max(0, (size - element.size - 640) // 2), None)


def sent(known: Known, principal: str, first: str, size: int = 1000) -> None:
    """A request of a client."""
    client = known.of(principal, "api")
    assert client is not None
    client.keep("messages", first, array(first, size))


def is_known(known: Known, principal: str, first: str) -> bool:
    client = known.of(principal, "api")
    assert client is not None
    return bool(client.find("messages", first))


def test_clients_know_nothing_of_each_other():
    """The same text of another client is not known, nor is that of another array, or in another API."""
    known = Known(MOST, Clock())
    sent(known, "one", "[{")

    assert is_known(known, "one", "[{")
    assert not is_known(known, "two", "[{")
    assert not is_known(known, "one", "[ {")
    assert not known.of("one", "api").find("tools", "[{")  # type: ignore[union-attr]
    assert not known.of("one", "other").find("messages", "[{")  # type: ignore[union-attr]


def test_the_latest_of_those_that_begin_alike_counts():
    """There is one conversation with one beginning."""
    known = Known(MOST, Clock())
    sent(known, "one", "[{", 5000)
    before = known.size
    sent(known, "one", "[{", 3000)

    assert known.size < before


def test_a_client_has_its_share():
    """Beyond it, what it sent first is forgotten; what is larger by itself is not remembered, and takes no place."""
    known = Known(MOST, Clock())
    for number in range(40):
        sent(known, "one", f"[{number}")
    sent(known, "two", "[")
    sent(known, "three", "[", SHARE + 4000)

    assert not is_known(known, "one", "[0")
    assert is_known(known, "one", "[39")
    assert is_known(known, "two", "[")
    assert not is_known(known, "three", "[")
    assert known.size <= SHARE + 8000


def test_many_clients_have_no_more_than_all():
    """Beyond what is set, the client is forgotten of which nothing was remembered longest."""
    known = Known(MOST, Clock())
    for number in range(100):
        sent(known, f"client {number}", "[", 4000)

    assert not is_known(known, "client 0", "[")
    assert is_known(known, "client 99", "[")
    assert MOST - 10_000 < known.size <= MOST


def test_what_is_not_sent_again_is_forgotten():
    """After a while without use nothing is known, and with the next request of anybody it takes no place."""
    clock = Clock()
    known = Known(MOST, clock)
    sent(known, "one", "[")
    sent(known, "two", "[")
    clock.now = KNOWN_SECONDS / 2
    sent(known, "one", "[")
    clock.now = KNOWN_SECONDS + 1

    assert is_known(known, "one", "[")
    assert not is_known(known, "two", "[")
    clock.now *= 2
    assert not is_known(known, "three", "[")
    assert known.size == 0


def test_nothing_is_remembered_where_that_is_set():
    """With 0 there is nothing to ask."""
    assert Known(0, Clock()).of("one", "api") is None


REQUESTS = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from("1234"),
    st.integers(0, SHARE + 2000),
    st.sampled_from((0.0, 1.0, KNOWN_SECONDS)),
)


@given(st.lists(REQUESTS, max_size=30))
def test_its_size_is_what_it_holds(requests: list[tuple[str, str, int, float]]):
    """Whatever is sent: no more than is set, no more than its share for any client, and none of it lost count of."""
    clock = Clock()
    known = Known(MOST, clock)
    for principal, first, size, later in requests:
        clock.now += later
        sent(known, principal, first, size)
        sizes = [
            sum(
                element.size
                for first in "1234"
                for element in known.of(principal, "api").find("messages", first)  # type: ignore[union-attr]
            )
            for principal in "abc"
        ]
        assert all(each <= SHARE for each in sizes)
        assert sum(sizes) <= known.size <= MOST


@pytest.mark.anyio
@pytest.mark.parametrize("most", [0, 1024 * 1024])
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_the_service_is_asked_the_same(gateway: Gateway, sim: Simulator, api: Api, most: int):
    """Turn after turn, whether anything is remembered or not."""
    app = gateway(limits={"known_bytes": most}, client={"api_keys": ["k", "l"]})
    for turns, key in ((20, "k"), (21, "k"), (21, "l"), (21, "k")):
        body = api.conversation(turns, "word " * 4)
        assert len(body) > KNOWN_BODY
        assert (
            await post(PATHS[api.name], body.replace(b'"m"', b'"claude-sonnet-4.5"'), key=key).run(app)
        ).status == 200
    asked = [json.loads(request.body)["conversationState"] for request in sim.requests]

    assert [len(each["history"]) for each in asked] == [40, 42, 42, 42]
    assert asked[1]["history"] == asked[2]["history"] == asked[3]["history"]
    assert asked[1]["history"][:40] == asked[0]["history"]


MANIFESTS = {"anthropic": "anthropic", "openai": "openai_chat", "responses": "openai_responses"}


def comparable(payload: Any) -> Any:
    """A request to the service without the ids that are drawn by lot."""
    return json.loads(RANDOM.sub("", json.dumps(payload)))


RANDOM = re.compile(r"[0-9a-f]{24}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|127\.0\.0\.1:\d+")
READ = ("up.bytes", "client.bytes")
"""Events of a tape that tell what came with one read, of which there may be more or fewer."""


def told(folder: Path) -> list[list[Any]]:
    """What the tapes of a *folder* say, without times, the settings, and what is drawn by lot."""
    return [
        [{**event, "t": 0, "settings": 0} for event in events if event["k"] not in READ]
        for path in sorted(
            folder.glob("*.tape.jsonl"), key=lambda path: json.loads(path.read_text().split("\n")[0])["at"]
        )
        for events in [list(map(json.loads, RANDOM.sub("", path.read_text()).splitlines()))]
    ]


async def asked_and_told(sim: Simulator, folder: Path, most: int, sent: list[tuple[Api, bytes, str]]) -> Any:
    """All that there is to see of the requests *sent*: the service's, the answers, and the tapes."""
    sim.reset()
    seconds = iter(range(10**6))
    slices = {"limits": {"known_bytes": most}, "tapes": {"path": str(folder), "when": "all", "content": "full"}}
    settings = settings_for(sim.url, {**slices, "client": {"api_keys": ["k", "l"]}})
    app = new_app(settings, internals=Internals(clocks=Clocks(wall=lambda: float(next(seconds)))))
    answers = []
    for api, body, key in sent:
        exchange = post(PATHS[api.name], body, key=key)
        exchange.scope["headers"].append((b"x-kiro-asgi-rules", b"1"))
        await exchange.run(app)
        answers.append((exchange.status, exchange.headers.get("x-kiro-asgi-rules"), exchange.json().get("error")))
    await app.aclose()
    return [comparable(json.loads(request.body)) for request in sim.requests], answers, told(folder)


@pytest.mark.anyio
async def test_nobody_can_tell_whether_anything_is_known(sim: Simulator, tmp_path: Path):
    """What the service is asked, the names of all adaptations, errors and tapes are the same; and `explain`, which
    remembers nothing, says of each request what the service was asked."""
    sent: list[tuple[Api, bytes, str]] = []
    for turns, key in ((20, "k"), (21, "k"), (21, "l"), (22, "k"), (20, "k"), (22, "l")):
        sent += [
            (api, api.conversation(turns, "word " * 4).replace(b'"m"', b'"claude-sonnet-4.5"'), key) for api in APIS
        ]
    sent += [(api, body[:-2] + b",5]}", key) for api, body, key in sent[-3:]]
    asked, answers, tapes = await asked_and_told(sim, tmp_path / "known", 1024 * 1024, sent)

    assert (asked, answers, tapes) == await asked_and_told(sim, tmp_path / "unknown", 0, sent)
    assert len(tapes) == len(sent)
    assert [status for status, _, _ in answers] == [200] * 18 + [400] * 3
    assert all("tools.undescribed" in rules for _, rules, _ in answers[:-3])
    settings = settings_for(sim.url, {})
    for (api, body, _), request in zip(sent, asked, strict=False):
        assert comparable(explain(body, settings, MANIFESTS[api.name], None, None)["payload"]) == request
