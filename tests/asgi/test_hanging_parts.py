"""What a program hands in may hang, or hold the event loop: nobody waits for ever, and the log names it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import anyio
import pytest
from attrs import define

from kiro_asgi import BlockingStore, Observer, ToolOutput, create_app, mount
from kiro_asgi.asgi.kept.guarded import GuardedStore
from kiro_asgi.asgi.kept.hosted import HostedEstimator, HostedParts
from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get, post

pytestmark = pytest.mark.anyio

SOON = 0.1
SHORT = {"state": {"timeout": SOON}}
METHODS = ("get", "get_many", "set", "take", "delete", "lock")


class Hanging(MemoryStore):
    """Keeps values, but for those methods that hang."""

    def __init__(self, *hanging: str) -> None:
        super().__init__(100, 1_000_000)
        self.hanging = set(hanging)
        self.uses: list[str] = []

    async def _begin(self, method: str) -> None:
        self.uses.append(method)
        if method in self.hanging:
            await anyio.sleep_forever()

    async def get(self, key: str) -> bytes | None:
        await self._begin("get")
        return await super().get(key)

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        await self._begin("get_many")
        return {}

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await self._begin("set")
        await super().set(key, value, ttl)

    async def take(self, key: str) -> bytes | None:
        await self._begin("take")
        return await super().take(key)

    async def delete(self, key: str) -> None:
        await self._begin("delete")
        await super().delete(key)


CALL = {"name": "f", "arguments": "{}"}
CALLED: list[dict[str, Any]] = [
    {"role": "user", "content": "sim:text"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
]
AGENT = {"model": "claude-sonnet-4.5", "messages": CALLED}


async def degraded(app: Any) -> list[str]:
    found: list[str] = (await get("/ready").run(app)).json()["degraded"]
    return found


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_agent_goes_on_without_a_store_that_hangs(stream, sim, caplog):
    """What is looked up for it is optional: its answer comes, now and the next time at once, and one line says so."""
    store = Hanging(*METHODS)
    app = create_app(settings_for(sim.url, SHORT), store=store)
    with anyio.fail_after(20):
        for _ in range(3):
            answer = await post("/v1/chat/completions", {**AGENT, "stream": stream}).run(app)
            assert (answer.status, answer.complete) == (200, True)
    uses = len(store.uses)
    assert await degraded(app) == ["store"]
    assert caplog.text.count("the store did not answer in get") == 1
    await app.aclose()
    assert uses <= 2, "it is left alone, once it has hung"


@pytest.mark.parametrize("hanging", METHODS)
@pytest.mark.parametrize("dialect", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("prompt", ["sim:text", "sim:cut-tool"])
async def test_every_answer_has_its_end(dialect, prompt, hanging, sim):
    """Whatever method hangs, an answer that came is not held back, streamed or whole."""
    app = create_app(settings_for(sim.url, SHORT), store=Hanging(hanging))
    for stream in (True, False):
        with anyio.fail_after(20):
            answer = await ask(dialect, prompt, stream=stream).run(app)
        assert answer.status == 200
        assert answer.complete
    await app.aclose()


async def test_who_needs_what_is_kept_gets_503(sim, caplog):
    app = create_app(settings_for(sim.url, SHORT), store=Hanging("get"))
    with anyio.fail_after(20):
        answers = [await get("/v1/responses/resp_1").run(app) for _ in range(2)]
    await app.aclose()

    assert [each.status for each in answers] == [503, 503]
    assert answers[0].json()["error"]["code"] == "store.timeout"
    assert caplog.text.count("the store did not answer in get within 0.1 s (state.timeout)") == 1


async def test_a_store_that_answers_again_is_used_again(caplog):
    """It is tried by one use at a time; the others do not wait for that one."""
    now = 0.0
    inner = Hanging("get")
    store = GuardedStore(inner, SOON, lambda: now)
    with anyio.fail_after(10):
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await store.get("key")
        assert inner.uses == ["get"]
        await store.set("key", b"v", 60.0)
        assert not store.is_reachable
        now = 6.0
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(refused, store)
        assert inner.uses == ["get", "set", "get"]
        inner.hanging.clear()
        now = 12.0
        assert await store.get("key") == b"v"
    assert store.is_reachable
    assert "the store answers again in get" in caplog.text


async def refused(store: GuardedStore) -> None:
    with pytest.raises(StoreUnavailable):
        await store.get("key")


async def test_a_blocking_store_that_hangs_has_so_many_threads(sim):
    """A thread cannot be ended: those that hang keep their places, and no more are begun."""
    released, inside = threading.Event(), 0

    class Stuck(BlockingStore):
        def read(self, key: str) -> bytes | None:
            nonlocal inside
            inside += 1
            released.wait(30)
            return None

        write = remove = read

    store = Stuck()
    try:
        for _ in range(80):
            with pytest.raises((StoreUnavailable, TimeoutError)), anyio.fail_after(0.01):
                await store.get("key")
        assert 8 <= inside <= 32
    finally:
        released.set()


class Tool:
    kind = "own"
    names = ("f",)

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> Any:
        if self.gives is None:
            await anyio.sleep_forever()
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


@pytest.mark.parametrize(
    ("gives", "words", "kinds"),
    [
        pytest.param(None, ["the tool Tool (f) took longer than 0.1 s (server"], ["tools"], id="hangs"),
        pytest.param("42", ["the tool Tool (f) failed", "call gave str; it must give a kiro_asgi.ToolOutput",
                            "Traceback"], [], id="text"),
        pytest.param(ToolOutput(text=42), ["call gave a ToolOutput with int for its text"], [], id="number"),  # type: ignore[arg-type]
        pytest.param(KeyError("k"), ["the tool Tool (f) failed: KeyError", "in call"], [], id="raises"),
    ],
)  # fmt: skip
async def test_a_tool_that_fails_is_named(gives, words, kinds, sim, caplog):
    """The model reads an error, the client gets its answer, and the log has what is needed to find the fault."""
    settings = settings_for(sim.url, {"kiro": {"server_tool_timeout": SOON}})
    app = create_app(settings, server_tools=[Tool(gives)])
    body = {"model": "claude-sonnet-4.5", "messages": [{"role": "user", "content": "sim:tool=f"}], "tools": TOOLS}
    with anyio.fail_after(20):
        answers = [await post("/v1/chat/completions", body).run(app) for _ in range(2)]
    found = await degraded(app)
    await app.aclose()

    assert [each.status for each in answers] == [200, 200]
    for each in words:
        assert each in caplog.text
    assert caplog.text.count("Traceback") <= 1
    assert found == kinds


class SlowObserver(Observer):
    def began(self, call: Any) -> None:
        time.sleep(0.3)

    async def aclose(self) -> None:
        await anyio.sleep_forever()


@define
class Slow:
    """A stage that blocks once."""

    def feed(self, items: Iterable[Any], /) -> Iterator[Any]:
        yield from items

    def flush(self) -> Iterator[Any]:
        time.sleep(0.3)
        yield from ()


class SlowEstimator(TokenEstimator):
    def count(self, text: str, /) -> int:
        time.sleep(0.3)
        return -1

    def estimate_tokens(self, text: str, /) -> float:
        time.sleep(0.3)
        return -1.0


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        pytest.param({"observers": [SlowObserver()]}, "observers", "the observer SlowObserver", id="observer"),
        pytest.param({"stages": [lambda prompt: Slow()]}, "stages", "the stage of stages[0], Slow", id="stage"),
    ],
)
async def test_a_part_that_blocks_is_named(given, kind, name, sim, caplog, monkeypatch):
    """Nothing can break it off, so the log says who held the event loop, once, and ``/ready`` has the kind."""
    monkeypatch.setattr("kiro_asgi.asgi.exchange.observation.CLOSING_SECONDS", SOON)
    app = create_app(settings_for(sim.url, {}), **given)
    for _ in range(2):
        assert (await ask("openai", "sim:text", stream=True).run(app)).status == 200
    assert await degraded(app) == [kind]
    with anyio.fail_after(5):
        await app.aclose()
    assert caplog.text.count(f"{name} held the event loop for 0.") == 1


def test_an_estimator_that_blocks_is_named_and_counts_nothing_below_zero(caplog):
    """Counts of tokens are paid for: -1 would give something back."""

    parts = HostedParts()
    estimator = HostedEstimator(SlowEstimator(), parts)

    assert (estimator.count("x"), estimator.estimate_tokens("x")) == (0, 0.0)
    assert [*parts.troubled()] == ["estimator"]
    assert caplog.text.count("the estimator, SlowEstimator, held the event loop") == 1


def test_what_was_long_ago_is_forgotten(caplog):
    """A minute later the part counts as good, and is logged again if it is late again."""
    now = [0.0]
    parts = HostedParts(lambda: now[0])
    for now[0] in (0.0, 30.0, 100.0):
        parts.late("tools", "the tool x", "took long")
    assert caplog.text.count("the tool x took long") == 2
    now[0] = 161.0
    assert [*parts.troubled()] == []


@define
class Holding:
    """A stage that holds text back until the end."""

    held: list[Any]

    def feed(self, items: Iterable[Any], /) -> Iterator[Any]:
        self.held.extend(items)
        yield from ()

    def flush(self) -> Iterator[Any]:
        yield from self.held


class Slotted:
    __slots__ = ("held",)
    feed, flush = Holding.feed, Holding.flush

    def __init__(self) -> None:
        self.held: list[Any] = []


@pytest.mark.unexpected("TypeError")
@pytest.mark.parametrize("make", [lambda: Holding([]), Slotted], ids=["referable", "slots"])
async def test_one_stage_for_two_requests_is_refused(make, sim, caplog):
    """It would give one client's text to another: an error names it, whatever became of the first answer."""
    one = make()
    app = create_app(settings_for(sim.url, {}), stages=[lambda prompt: one])
    first = await ask("openai", "sim:exception", stream=True).run(app)
    second = await ask("openai", "1 2", stream=False).run(app)
    await app.aclose()

    assert first.status in (200, 500, 502)
    assert second.status == 500
    assert b"simulated answer" not in second.content
    assert f"stages[0] made the same {type(one).__name__} again" in caplog.text


@pytest.mark.unexpected("TypeError")
async def test_a_pool_of_stages_is_refused(sim, caplog):
    """Two that take turns are no better than one."""
    pool = [Holding([]), Holding([])]
    app = create_app(settings_for(sim.url, {}), stages=[lambda prompt: pool[len(pool[0].held) % 2]])
    caplog.clear()
    statuses = [(await ask("openai", "sim:text", stream=False).run(app)).status for _ in range(3)]
    await app.aclose()

    assert statuses[-1] == 500


async def test_a_host_that_never_says_who_is_signed_in(sim, caplog):
    """Its function for users has the time that the one for keys has."""

    async def principal(scope: Any) -> str:
        await anyio.sleep_forever()
        return "nobody"

    app = create_app(settings_for(sim.url, {"client": {"trust_host": True, "keys_timeout": SOON}}))
    mounted = mount(app, "/llm", app, principal=principal)
    with anyio.fail_after(10):
        answer = await post("/llm/v1/chat/completions", AGENT, key=None).run(mounted)
    await app.aclose()

    assert (answer.status, answer.json()["error"]["code"]) == (503, "keys.timeout")
    assert "the host did not say within 0.1 s who is signed in (client.keys_timeout)" in caplog.text
