"""Conversations whose every request goes to the other of two gateways, one of which is killed in the middle.

What is compared is what the service was asked at the end with what the client had said: the truth, not another answer.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, Final

import openai
import pytest
from attrs import define, field

from kiro_asgi import simulator
from kiro_asgi.simulator import Simulator
from tests.cli.processes import Serving, serving
from tests.valkey_server import free_port, needs_server, running

pytestmark = needs_server

CONVERSATIONS: Final = 200
CLIENTS: Final = 16
"""That talk at the same time."""

MODEL: Final = "claude-sonnet-4.5"
TOOL: Final[Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
TURNS: Final = ("sim:thinking-tool", "sim:parallel", "sim:cut-tool", "sim:thinking", "sim:text")
"""What is asked, one after the other; calls that come are answered with the next."""


@define(eq=False)
class Pair:
    """Two gateways at fixed addresses, with one state."""

    folder: Path
    arguments: tuple[str, ...]
    environ: dict[str, str]
    stack: ExitStack
    ports: tuple[int, int] = field(init=False, factory=lambda: (free_port(), free_port()))
    processes: dict[int, Serving] = field(init=False, factory=dict)

    def start(self, number: int) -> None:
        """Start one of them, at its address."""
        port = ("--port", str(self.ports[number]))
        process = serving(*port, *self.arguments, cwd=self.folder, **self.environ)
        self.processes[number] = self.stack.enter_context(process)

    def kill(self, number: int) -> None:
        """End one of them as the lack of memory would."""
        self.processes[number].process.send_signal(signal.SIGKILL)
        self.processes[number].process.wait()


@define(eq=False)
class Client:
    """Goes to the other gateway at every request, and to the one that is there where one is not."""

    clients: tuple[openai.OpenAI, openai.OpenAI]
    outcomes: Counter[str]
    _turn: Iterator[int] = field(init=False, factory=count)

    def respond(self, **asked: Any) -> Any:
        """A response, streamed to its end."""
        for _ in range(20):
            try:
                last = None
                for event in self.clients[next(self._turn) % 2].responses.create(model=MODEL, stream=True, **asked):
                    last = event
                assert last is not None
                assert last.type in ("response.completed", "response.incomplete"), last
            except (openai.APIConnectionError, openai.APIError, OSError) as error:
                if isinstance(error, openai.APIStatusError):
                    raise
                self.outcomes[type(error).__name__] += 1  # it died, perhaps in the middle: asked again elsewhere
            else:
                self.outcomes[last.type] += 1
                return last.response
        raise AssertionError("neither gateway answers")


def converse(client: Client, number: int) -> None:
    """A conversation of several turns, each said with words of its own."""
    previous: str | None = None
    results: list[Any] = []
    for turn, marker in enumerate(TURNS):
        said = {"role": "user", "content": f"{marker} words-{number}-{turn}."}
        response = client.respond(
            input=[*results, said],
            previous_response_id=previous or openai.omit,
            tools=[TOOL],
            reasoning={"effort": "high"},
        )
        calls = [item for item in response.output if item.type == "function_call" and item.status == "completed"]
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"result-{number}-{turn}-{place}."}
            for place, call in enumerate(calls)
        ]
        previous = response.id


def missing(service: Simulator, number: int) -> list[str]:
    """What the service was not told with the last question of a conversation."""
    bodies = [request.body.decode() for request in service.requests]
    last = f"words-{number}-{len(TURNS) - 1}."
    asked = [body for body in bodies if last in body]
    assert asked, f"conversation {number} never came to its end"
    wanted = [f"words-{number}-{turn}." for turn in range(len(TURNS))]
    wanted += [f"result-{number}-{turn}-0." for turn in (0, 1)] + [f"result-{number}-1-1."]
    return [words for words in wanted if words not in asked[-1]]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_nothing_is_lost_between_two_gateways(loop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two hundred conversations with tools, thinking and cut answers; one gateway is killed and started anew."""
    outcomes, done, killed = Counter[str](), count(1), Event()
    with ExitStack() as stack:
        service = stack.enter_context(simulator.running(keep=20_000))
        server = stack.enter_context(running())
        environ = {
            "KIRO_ASGI__CLIENT__API_KEYS": "k",
            "KIRO_ASGI__KIRO__API_KEY": "ksk",
            "KIRO_ASGI__KIRO__ENDPOINT": service.url,
            "KIRO_ASGI__STATE__ENGINE": "valkey",
            "KIRO_ASGI__STATE__URL": server.url,
            "KIRO_ASGI__STATE__SEAL_KEY": "a-key-of-ours",
        }
        pair = Pair(tmp_path, ("--loop", loop), environ, stack)
        for number in (0, 1):
            pair.start(number)
        clients = tuple(
            stack.enter_context(openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="k", max_retries=0))
            for port in pair.ports
        )

        def talk(number: int) -> None:
            converse(Client(clients, outcomes), number)  # type: ignore[arg-type]
            if next(done) == CONVERSATIONS // 2:
                pair.kill(0)
                pair.start(0)
                killed.set()

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert [*pool.map(talk, range(CONVERSATIONS))] == [None] * CONVERSATIONS
        lost = {number: words for number in range(CONVERSATIONS) if (words := missing(service, number))}

    with capsys.disabled():
        print(f"\n{loop}: {CONVERSATIONS} conversations of {len(TURNS)} turns: {dict(outcomes)}")
    assert killed.is_set()
    assert lost == {}
