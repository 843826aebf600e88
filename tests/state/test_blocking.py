"""The base of stores whose engine blocks: a dictionary with a lock is enough, and what fails is one error."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import frozen

from kiro_asgi import BlockingStore, StoreUnavailable
from kiro_asgi.limits import STORE_THREADS
from kiro_asgi.testing import check_store

pytestmark = pytest.mark.anyio


class DriverError(Exception):
    """What a database's driver raises, with the values in its message."""


class Dictionary(BlockingStore):
    """Does not call the constructor of the base, as authors forget it."""

    failures = (OSError, DriverError)

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, float]] = {}
        self.guard = threading.Lock()
        self.failure: Exception | None = None
        self.threads: set[int] = set()

    def read(self, key: str) -> bytes | None:
        self.threads.add(threading.get_ident())
        if self.failure is not None:
            raise self.failure
        value, end = self.values.get(key, (None, 0.0))
        return value if end > time.time() else None

    def write(self, key: str, value: bytes, ttl: float) -> None:
        if self.failure is not None:
            raise self.failure
        self.values[key] = value, time.time() + ttl

    def remove(self, key: str) -> bytes | None:
        with self.guard:
            value = self.read(key)
            self.values.pop(key, None)
            return value


async def test_the_laws_hold_for_three_methods() -> None:
    """Whatever a store promises, locks among it."""
    await check_store(Dictionary)


async def test_its_methods_run_in_threads() -> None:
    """Never in that of the event loop, and in no more than the limit at once."""
    within, most, guard = 0, 0, threading.Lock()

    class Counting(Dictionary):
        def read(self, key: str) -> bytes | None:
            nonlocal within, most
            with guard:
                within += 1
                most = max(most, within)
            time.sleep(0.001)
            with guard:
                within -= 1
            return super().read(key)

    store = Counting()
    async with anyio.create_task_group() as group:
        for number in range(5 * STORE_THREADS):
            group.start_soon(store.get, str(number))

    assert threading.get_ident() not in store.threads
    assert 1 < most <= STORE_THREADS


async def test_an_engine_that_hangs_keeps_others_from_nothing_else() -> None:
    """Its threads are its own."""
    gate = threading.Event()

    class Hanging(Dictionary):
        def read(self, key: str) -> bytes | None:
            gate.wait(10)
            return None

    store = Hanging()
    async with anyio.create_task_group() as group:
        for number in range(60):  # more than all threads that anyio gives by itself
            group.start_soon(store.get, str(number))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            assert await anyio.to_thread.run_sync(lambda: 1) == 1
        gate.set()


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        (OSError(28, "No space left on device"), "Dictionary: OSError: No space left on device"),
        (DriverError("INSERT 'the prompt'"), "Dictionary: DriverError"),
    ],
)
async def test_what_the_engine_raises_is_one_error(failure, detail, caplog) -> None:
    """Readers get it; writers do without, and the log has it; no message of a driver, which may quote values."""
    store = Dictionary()
    store.failure = failure
    for read in (store.get, store.take):
        with pytest.raises(StoreUnavailable) as caught:
            await read("k")
        assert (caught.value.detail, caught.value.code) == (detail, "store.unavailable")
    await store.set("k", b"v", 1.0)
    await store.delete("k")

    assert caplog.messages == [f"the store cannot be used: {detail}"] * 2
    assert "prompt" not in caplog.text


async def test_any_other_exception_is_a_bug() -> None:
    """And stays what it is."""
    store = Dictionary()
    store.failure = ZeroDivisionError()

    with pytest.raises(ZeroDivisionError):
        await store.get("k")


async def test_it_closes_even_if_the_end_is_cancelled() -> None:
    """In a thread, too; and it may fail."""
    closed = []

    @frozen
    class Closing(BlockingStore):
        name: str

        def close(self) -> None:
            closed.append((self.name, threading.get_ident()))
            raise OSError(5, "gone")

    with anyio.CancelScope() as scope:
        scope.cancel()
        await Closing("a").aclose()

    assert [name for name, _ in closed] == ["a"]
    assert closed[0][1] != threading.get_ident()


async def test_an_author_is_told_what_is_missing() -> None:
    """With class and method."""

    class Half(BlockingStore):
        pass

    store: Any = Half()
    for wanted, ask in (("read", store.get("k")), ("remove", store.take("k")), ("write", store.set("k", b"", 1.0))):
        with pytest.raises(NotImplementedError, match=rf"Half\.{wanted}"):
            await ask


def test_two_loops_share_its_locks() -> None:
    """An application may serve several, each in a thread of its own."""
    store, order = Dictionary(), []

    async def work(name: str) -> None:
        for _ in range(20):
            async with store.lock("k"):
                order.append((name, "in"))
                await anyio.lowlevel.checkpoint()
                order.append((name, "out"))

    threads = [threading.Thread(target=anyio.run, args=(work, name)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(order) == 80
    assert all(one == (other[0], "in") for one, other in zip(order[::2], order[1::2], strict=True))
