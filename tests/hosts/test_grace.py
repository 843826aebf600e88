"""Streams that outlive the patience of a server that was told to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anthropic
import openai
import pytest

from kiro_asgi.simulator.server import Simulator
from tests.hosts.asking import APIS, pieces
from tests.hosts.matrix import SERVERS, Server
from tests.hosts.running import Running, environment, started
from tests.hosts.test_cells import ENDLESS

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEARING = [pytest.param(it, id=it.name) for it in SERVERS if it.packages[0] in ("uvicorn", "gunicorn", "granian")]
"""Servers that have their handler before they send lifespan events."""


def end_of(server: Running, api: str, begun: Callable[[], object]) -> type[Exception]:
    """What the official client raises at the end of a stream whose first word it has told to *begun*."""
    answered = pieces(server, api)
    next(answered)
    begun()
    with pytest.raises((openai.OpenAIError, anthropic.AnthropicError)) as raised:
        next(answered)
    return raised.type


@pytest.mark.parametrize("hearing", HEARING)
def test_what_is_interrupted_ends_with_an_error_of_its_api(hearing: Server, sim: Simulator) -> None:
    """R45: with the example of the documentation no client sees a stream that is merely cut."""
    sim.enqueue(*[ENDLESS] * len(APIS))
    command = [part.replace("{app}", "ending_streams:application") for part in hearing.command]
    with (
        started(command, environment(sim.url, PYTHONPATH=str(EXAMPLES)), cwd=EXAMPLES) as server,
        ThreadPoolExecutor(len(APIS)) as threads,
    ):
        begun: list[str] = []
        ends = [threads.submit(end_of, server, api, lambda: begun.append("")) for api in APIS]
        assert sim.wait_until(lambda: len(begun) == len(APIS), 10)
        server.process.send_signal(signal.SIGTERM)
        raised = [end.result(20) for end in ends]
        server.stop()
        said = server.said()

    assert raised == [openai.APIError, openai.APIError, anthropic.APIStatusError]
    assert "Traceback" not in said and "ERROR" not in said, said
