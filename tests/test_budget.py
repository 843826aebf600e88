"""What one streamed answer of five events may enter: functions, modules, calls, and lines of code of our own.

A number may go down; who lets one go up writes a line beside it that says why.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from attrs import define, field, frozen

import kiro_asgi
from kiro_asgi import Settings, create_app, simulator
from tests.asgi.driver import post

PACKAGE = Path(kiro_asgi.__file__).parent
MODEL = "claude-sonnet-4.5"
SAID = {"messages": [{"role": "user", "content": "hi"}]}


@frozen
class Budget:
    """What there may be at most."""

    functions: int
    modules: int
    calls: int
    lines: int
    """Of the functions that are entered, without blanks, docstrings and comments."""


BUDGETS = {
    "/v1/messages": ({"max_tokens": 64, **SAID}, Budget(655, 108, 1321, 4053)),
    "/v1/chat/completions": (SAID, Budget(656, 109, 1325, 4030)),  # 3,996 was of a run in which all reads came together
    "/v1/responses": ({"input": "hi"}, Budget(745, 118, 1516, 4414)),
}
"""Path to the rest of the request's body, and what it may enter."""

SPARE = {"functions": 1.02, "modules": 1.02, "calls": 1.1, "lines": 1.02}
"""How far a run may differ from another: reads come together, or apart."""

RUNS = 10
"""Requests that are measured."""


@define
class Entered:
    """Counts calls of functions of the package; resuming a generator is a call."""

    calls: Counter[tuple[str, str, int]] = field(factory=Counter)

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            self.calls[code.co_filename, code.co_qualname, code.co_firstlineno] += 1

    @property
    def budget(self) -> Budget:
        """The numbers of this run."""
        files = {file for file, _, _ in self.calls}
        lines = {(file, line) for file, _, first in self.calls for line in lines_of(file).get(first, ())}
        return Budget(len(self.calls), len(files), sum(self.calls.values()), len(lines))


@cache
def lines_of(file: str) -> dict[int, frozenset[int]]:
    """First line of every function of a file, decorators included, to its lines of code."""
    text = Path(file).read_text()
    full = {at for at, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    found: dict[int, frozenset[int]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *rest = node.body
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            words = set(range(first.lineno, (first.end_lineno or 0) + 1)) if documented and rest else set()
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[begin] = frozenset(full.intersection(range(node.lineno, (node.end_lineno or 0) + 1)) - words)
    return found


@pytest.fixture
def service() -> Iterator[simulator.Simulator]:
    """The simulated service, in a thread of its own: what it calls is not counted."""
    ready, running = threading.Event(), []

    async def serve() -> None:
        async with simulator.serve() as sim:
            stop = anyio.Event()
            running.append((sim, stop, anyio.lowlevel.current_token()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert ready.wait(10)
    sim, stop, token = running[0]
    yield sim
    anyio.from_thread.run_sync(stop.set, token=token)
    thread.join()


@pytest.mark.parametrize("path", BUDGETS)
def test_a_streamed_answer_enters_no_more(path: str, service: simulator.Simulator) -> None:
    """Of functions, modules, calls and code, each request takes what its budget says, and a run says what it took.

    The least of several requests counts: how reads come together differs, and a timer only adds to it.
    """
    rest, budget = BUDGETS[path]
    body = json.dumps({"model": MODEL, "stream": True, **rest}).encode()
    runs: list[Budget] = []

    async def ask() -> Any:
        service.enqueue(simulator.answer(*(event for word in "abcde" for event in simulator.text(word))))
        exchange = await post(path, body).run(app)
        assert exchange.status == 200

    async def measure() -> None:
        await ask()  # connections and caches
        for _ in range(RUNS):
            sys.setprofile(entered := Entered())
            try:
                await ask()
            finally:
                sys.setprofile(None)
            runs.append(entered.budget)
        await app.aclose()

    settings = {"client": {"allow_anonymous": True}, "kiro": {"endpoint": service.url, "api_key": "ksk_test"}}
    app = create_app(Settings.from_mapping(settings))
    anyio.run(measure)

    for name in SPARE:
        most, took = getattr(budget, name), min(getattr(run, name) for run in runs)
        print(f"{path}: {took} {name}")
        assert took <= most * SPARE[name], f"{path} takes {took} {name}, not {most}"
