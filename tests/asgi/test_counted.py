"""Scopes, timers and tasks that a stream takes, and what a request asks of the store: counted, as their time could only
be estimated."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import trio
from anyio._backends import _asyncio
from trio._core import _run

from kiro_asgi import create_app
from kiro_asgi.simulator import Pause, answer, text
from kiro_asgi.state.memory import MemoryStore
from tests.asgi.answers import text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, post

pytestmark = pytest.mark.anyio

OURS = ("/kiro_asgi/asgi/", "/kiro_asgi/net/")

MADE: dict[str, list[tuple[Any, str]]] = {
    "scopes": [(_asyncio.CancelScope, "__init__"), (trio.CancelScope, "__enter__")],
    "timers": [(asyncio.BaseEventLoop, "call_at"), (_run.Deadlines, "add")],
    "tasks": [(asyncio.BaseEventLoop, "create_task"), (_run.Runner, "spawn_impl")],
}
"""What makes or arms one, on each event loop."""

MOST = {"scopes": 14, "timers": 4, "tasks": 1}
"""Of each in a stream.  Four scopes count twice, as anyio's own class makes them so on asyncio; five are the library's
below, with a timer.  The other timers are of the request's body, of the answer's head, and of the one task."""


def is_ours() -> bool:
    """Whether it is the gateway that calls, by however many frames of libraries."""
    frame = sys._getframe(2)
    while frame is not None:
        if any(folder in frame.f_code.co_filename for folder in OURS):
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """What the gateway has made since the last `clear`."""
    counts: Counter[str] = Counter()

    def counting(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            counts[kind] += is_ours()
            return original(*args, **kwargs)

        return count

    for kind, places in MADE.items():
        for owner, name in places:
            monkeypatch.setattr(owner, name, counting(kind, getattr(owner, name)))
    return counts


@pytest.mark.parametrize("dialect", ["anthropic", "openai", "responses"])
async def test_a_stream_takes_few_and_a_read_none(dialect, gateway, sim, counted):
    """However many reads an answer takes: the limits of time of all of them are looked at by one task."""
    app, taken = gateway(), []
    for pieces in (2, 2, 12):  # the first one connects
        sim.enqueue(answer(*(part for piece in "abcdefghijkl"[:pieces] for part in (*text(piece), Pause(0.02)))))
        counted.clear()
        exchange = await ask(dialect, "hi", stream=True).run(app)
        assert text_of(dialect, exchange) == "abcdefghijkl"[:pieces]
        taken.append(dict(counted))

    assert taken[1] == taken[2]
    assert [kind for kind, most in MOST.items() if taken[2][kind] > most] == [], taken


class CountedStore(MemoryStore):
    """Keeps nothing, and how much was looked for in each turn."""

    def __init__(self) -> None:
        super().__init__(entries=1)
        self.turns: list[int] = []

    async def get(self, key: str) -> bytes | None:
        self.turns.append(1)
        return None

    async def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        self.turns.append(len(keys))
        return {}


def history(calls: int) -> list[dict[str, Any]]:
    """A conversation with so many calls of a tool, as an agent sends it."""
    turns: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    for number in range(calls):
        name = f"call_{number}"
        function = {"name": "get_weather", "arguments": "{}"}
        turns.append({"role": "assistant", "tool_calls": [{"id": name, "type": "function", "function": function}]})
        turns.append({"role": "tool", "tool_call_id": name, "content": "sunny"})
    return turns


@pytest.mark.parametrize("model", ["claude-sonnet-4.5", "gemini-2.5-pro", "claude-opus-4-6"])
async def test_a_longer_history_costs_no_more_turns_of_the_store(model, sim):
    """What is looked for about its calls is looked for together: each turn is a thread, or a way to a server."""
    services = {name: {"api_key": "key", "endpoint": sim.url} for name in ("gemini", "anthropic")}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    turns = {}
    for calls in (2, 30):
        store = CountedStore()
        app = create_app(settings_for(sim.url, services), store=store)
        asked = {"model": model, "tools": tools, "messages": history(calls)}
        exchange = await post("/v1/chat/completions", asked).run(app)
        await app.aclose()
        assert exchange.status == 200, exchange.content
        turns[calls] = store.turns
    assert len(turns[30]) == len(turns[2]) <= 2
    assert sum(turns[30]) > sum(turns[2]) > 0
