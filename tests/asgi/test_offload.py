"""What a large request takes is done beside the event loop, which goes on for everybody else."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.from_thread
import pytest
from attrs import field, frozen

from kiro_asgi import App, create_app
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.simulator.server import Simulator
from kiro_asgi.stages.estimate import TokenEstimator
from tests.asgi.answers import DIALECTS
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask

pytestmark = pytest.mark.anyio

LARGE = 64 * 1024


@frozen
class Witness(TokenEstimator):
    """Remembers which threads have weighed the prompts of requests."""

    threads: set[int] = field(factory=set)

    def estimate_tokens(self, text: str, /) -> float:
        if text.startswith("weigh me x"):
            self.threads.add(threading.get_ident())
        return TokenEstimator.estimate_tokens(self, text)


@pytest.fixture
async def witness(sim: Simulator) -> AsyncIterator[tuple[App, Witness]]:
    estimator = Witness()
    app = create_app(settings_for(sim.url, {}), estimator=estimator)
    yield app, estimator
    await app.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("size", "beside"), [(LARGE // 2, False), (LARGE, True)])
async def test_a_large_request_is_rendered_beside_the_event_loop(
    witness: tuple[App, Witness], dialect: str, size: int, beside: bool
):
    """A prompt of 64 KiB is put into the service's words in another thread; a smaller one is not worth a thread."""
    app, estimator = witness
    exchange = await ask(dialect, "weigh me " + "x" * size, stream=True).run(app)

    assert exchange.status == 200
    assert {thread == threading.get_ident() for thread in estimator.threads} == {not beside}


async def test_the_event_loop_goes_on_and_work_waits_in_line():
    """While one piece of work runs, everybody else is served, and the next piece waits for its turn."""
    offload, steps = Offload(), []

    def work(name: str) -> None:
        steps.append(f"{name} begins")
        anyio.from_thread.run(anyio.sleep, 0.02)  # needs the event loop: on its own thread this would never end
        steps.append(f"{name} ends")

    async with anyio.create_task_group() as group:
        for name in ("first", "second"):
            group.start_soon(offload.run, LARGE, lambda name=name: work(name))

    [one, *_] = steps
    other = {"first begins": "second", "second begins": "first"}[one]
    assert steps == [one, one.replace("begins", "ends"), f"{other} begins", f"{other} ends"]


async def test_failures_come_back():
    """What work raises, its caller gets."""

    def fail() -> Any:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await Offload().run(LARGE, fail)
