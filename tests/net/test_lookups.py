"""Names that clients bring are looked up in few threads, whoever waits for them, and for how long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from attrs import define, field

from kiro_asgi.limits import FETCHES_AT_ONCE, LOOKUP_THREADS
from kiro_asgi.net.lookups import OWNER, Lookups, Shares

pytestmark = pytest.mark.anyio

PATIENCE = 15.0


@define(eq=False)
class Names:
    """A resolver whose answers for names that begin with ``slow`` come when they may."""

    may_answer: threading.Event = field(factory=threading.Event)
    asked: list[str] = field(factory=list)
    threads: int = 0
    """That are in it now."""

    guard: threading.Lock = field(factory=threading.Lock)

    def __call__(self, host: str, port: int, **more: Any) -> list[tuple[Any, ...]]:
        with self.guard:
            self.asked.append(host)
            self.threads += 1
        try:
            if host.startswith("slow"):
                self.may_answer.wait(60)
            if host == "none":
                raise socket.gaierror
            return [(0, 0, 0, "", ("192.0.2.1", port)), (0, 0, 0, "", ("192.0.2.1", port))]
        finally:
            with self.guard:
                self.threads -= 1


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.may_answer.set()


async def until(condition: Any) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - a thread has no event of ours
            await anyio.sleep(0.01)


async def give_up(lookups: Lookups, names: Names, owners: list[str], count: int, threads: int) -> None:
    """Let each of *owners* look up *count* slow names, and give up when *threads* are in the resolver.

    Not after a time: on a busy machine no thread may have begun by then.  Too many have a moment to come.
    """
    async with anyio.create_task_group() as tasks:
        for owner in owners:
            OWNER.set(owner)
            for number in range(count):
                tasks.start_soon(lookups.addresses, f"slow-{number}", 443)
        await until(lambda: names.threads >= threads)
        await anyio.sleep(0.1)
        tasks.cancel_scope.cancel()


async def test_a_client_has_its_share_of_threads(names: Names) -> None:
    """Also when it gives up and comes again; others look up their names, and so does the event loop; it may go on
    when its threads have ended."""
    lookups = Lookups(names)
    for _ in range(3):
        await give_up(lookups, names, ["a"], 16, FETCHES_AT_ONCE)
    assert (names.threads, len(names.asked)) == (FETCHES_AT_ONCE, FETCHES_AT_ONCE)
    OWNER.set("b")
    with anyio.fail_after(PATIENCE):
        assert await lookups.addresses("fast", 443) == ["192.0.2.1"]
        assert await anyio.getaddrinfo("localhost", 443)
    names.may_answer.set()
    await until(lambda: not names.threads)
    OWNER.set("a")
    with anyio.fail_after(PATIENCE):
        assert await lookups.addresses("slow-again", 443) == ["192.0.2.1"]


async def test_all_clients_have_so_many_threads(names: Names) -> None:
    """However many clients there are."""
    lookups = Lookups(names)
    await give_up(lookups, names, [f"client-{number}" for number in range(10)], 10, LOOKUP_THREADS)
    assert names.threads == LOOKUP_THREADS


async def test_a_name_without_addresses(names: Names) -> None:
    """It is an error, and its place is free again."""
    lookups = Lookups(names)
    for _ in range(FETCHES_AT_ONCE * 2):
        with anyio.fail_after(PATIENCE), pytest.raises(OSError):
            await lookups.addresses("none", 443)


async def test_nothing_is_kept_of_a_client_that_has_no_place() -> None:
    """Whether it had one, or gave up waiting."""
    shares = Shares(2, 1)
    async with shares.place("a"), shares.place("b"):
        for owner in ("a", "c"):
            with anyio.move_on_after(0.01) as waiting:
                async with shares.place(owner):
                    pass
            assert waiting.cancelled_caught
    async with shares.place("a"), shares.place("c"):
        pass

    assert not shares._own
