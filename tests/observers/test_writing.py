"""The base of observers that write: in batches, in a thread, and nothing is lost silently."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from kiro_asgi import create_app
from kiro_asgi.limits import OBSERVED_WAITING
from kiro_asgi.observers import CallFacts, EndFacts, WritingObserver
from kiro_asgi.state import pending
from kiro_asgi.testing import SIMULATED, ask

Row = tuple[str, int]


class Table(WritingObserver[Row]):
    """Does not call the constructor of the base, as authors forget it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.batches: list[list[Row]] = []
        self.threads: set[int] = set()
        self.failure = failure

    def row(self, call: CallFacts, end: EndFacts) -> Row | None:
        return (call.route, end.status) if call.route else None

    def write(self, rows: Sequence[Row]) -> None:
        self.threads.add(threading.get_ident())
        if self.failure is not None:
            raise self.failure
        self.batches.append([*rows])


@pytest.mark.anyio
async def test_calls_are_written_when_the_application_is_closed() -> None:
    """In order, in one batch, in a thread; a call without a row is none."""
    table = Table()
    app = create_app(SIMULATED, observers=[table])
    for path in ("/v1/models", "/v1/nothing", "/v1/models"):
        await ask(app, path)
    assert table.batches == []
    await app.aclose()

    assert table.batches == [[("/v1/models", 200)] * 2]
    assert threading.get_ident() not in table.threads


@pytest.mark.anyio
async def test_what_comes_after_closing_is_written_too() -> None:
    """An application may be used again."""
    table = Table()
    app = create_app(SIMULATED, observers=[table])
    await app.aclose()
    await ask(app, "/v1/models")
    await app.aclose()

    assert table.batches == [[("/v1/models", 200)]]


@pytest.mark.anyio
async def test_closing_goes_on_where_the_end_is_cancelled() -> None:
    """Shielded."""
    table = Table()
    table.add(("a", 1))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await table.aclose()

    assert table.batches == [[("a", 1)]]


def test_they_are_written_now_and_then(monkeypatch) -> None:
    """Without a close, after the time between two writes."""
    monkeypatch.setattr(pending, "WRITE_EVERY", 0.0)
    table, written = Table(), threading.Event()
    table.write = lambda rows: written.set()  # type: ignore[method-assign]
    table.add(("a", 1))

    assert written.wait(10)


def test_what_cannot_be_written_waits(monkeypatch, caplog) -> None:
    """An outage is told once, with what it was; the rows go out in their order when it is over."""
    monkeypatch.setattr(pending, "WRITE_EVERY", 3600.0)
    table = Table(OSError(28, "No space left on device"))
    for number in range(3):
        table.add(("a", number))
        assert not table._write_all()
    table.failure = None
    table.flush()

    assert table.batches == [[("a", 0), ("a", 1), ("a", 2)]]
    assert [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING] == [
        "Table cannot write, and keeps its rows: OSError(28, 'No space left on device')"
    ]


def test_at_the_end_what_cannot_be_written_is_lost_and_told(monkeypatch, caplog) -> None:
    """The application does not wait for ever."""
    monkeypatch.setattr(pending, "_PARTING", 0.1)
    table = Table(OSError("gone"))
    table.add(("a", 1))
    table.flush()

    assert "1 rows of Table are lost: they could not be written" in caplog.messages
    table.failure = None
    table.flush()
    assert table.batches == []


def test_no_more_wait_than_the_limit(monkeypatch, caplog) -> None:
    """Further ones are counted."""
    monkeypatch.setattr(pending, "WRITE_EVERY", 3600.0)
    table = Table()
    for number in range(OBSERVED_WAITING + 5):
        table.add(("a", number))
    table.flush()

    assert [len(batch) for batch in table.batches] == [OBSERVED_WAITING]
    assert "5 rows of an observer are lost: too many wait to be written" in caplog.messages


def test_a_writer_that_hangs_is_not_waited_for(monkeypatch, caplog) -> None:
    """Longer than its part of the end."""
    from kiro_asgi.observers import writing

    monkeypatch.setattr(writing, "_PARTING", 0.1)
    gate = threading.Event()
    table = Table()
    table.write = lambda rows: gate.wait(10)  # type: ignore[method-assign,assignment,return-value]
    table.add(("a", 1))
    table.flush()

    assert "Table is still writing; the end does not wait for it" in caplog.messages
    gate.set()


def test_loops_in_threads_share_it() -> None:
    """Nothing is lost, nothing is there twice."""
    table = Table()

    def work(name: str) -> None:
        for number in range(500):
            table.add((name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table.flush()

    assert sorted(row for batch in table.batches for row in batch) == [(n, i) for n in "abc" for i in range(500)]


@pytest.mark.unexpected("ZeroDivisionError")
@pytest.mark.anyio
async def test_an_observer_that_fails_when_it_is_closed_keeps_nobody(caplog) -> None:
    """The log has it, and the rest is closed."""

    class Bad(Table):
        async def aclose(self) -> None:
            raise ZeroDivisionError

    closed = []

    class Good(Table):
        async def aclose(self) -> None:
            closed.append(1)

    app: Any = create_app(SIMULATED, observers=[Bad(), Good()])
    await app.aclose()

    assert closed == [1]
    assert "an observer could not be closed" in caplog.text
