"""The store in memory: its bounds, and several event loops."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.state.memory import MemoryStore
from tests.state.engines import Clock

pytestmark = pytest.mark.anyio

OVERHEAD = 400
"""Bytes that an entry counts for besides its value."""


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["set", "get"]), st.sampled_from("abcdef"), st.sampled_from([0, 1, 400, 1_700])),
        min_size=10,
    ),
    entries=st.integers(1, 4),
    max_bytes=st.sampled_from([OVERHEAD, 4 * OVERHEAD, 10 * OVERHEAD]),
)
async def test_what_was_used_longest_ago_makes_room(steps, entries, max_bytes):
    """R47: never more values, nor more bytes, than allowed; what is left are those used last."""
    store = MemoryStore(entries, max_bytes, Clock())
    used: list[tuple[str, int]] = []
    for operation, key, size in steps:
        known = next((entry for entry in used if entry[0] == key), None)
        if operation == "get":
            assert (await store.get(key) is not None) is (known is not None)
            entry = known
        else:
            await store.set(key, bytes(size), 60.0)
            entry = (key, size)
        if known is not None:
            used.remove(known)
        if entry is not None and entry[1] + OVERHEAD <= max_bytes:
            used.append(entry)
        while len(used) > entries or sum(size + OVERHEAD for _, size in used) > max_bytes:
            used.pop(0)

        assert len(store) == len(used)
        assert store.size_bytes == sum(size + OVERHEAD for _, size in used) <= max_bytes

    assert [key for key in "abcdef" if await store.get(key) is not None] == sorted(key for key, _ in used)


async def test_a_value_that_can_never_fit_drives_nothing_else_out():
    """What is too large is not kept; neither is what it was to replace, and all else stays."""
    store = MemoryStore(max_bytes=3 * OVERHEAD)
    await store.set("a", b"small", 60.0)
    await store.set("b", b"small", 60.0)
    await store.set("a", bytes(3 * OVERHEAD), 60.0)

    assert (await store.get("a"), await store.get("b"), len(store)) == (None, b"small", 1)


async def test_what_has_expired_leaves_when_it_is_asked_for():
    """The memory of a value that nobody may have any more is given back."""
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.set("a", b"v", 10.0)
    clock.now += 10.0

    assert (await store.get("a"), len(store), store.size_bytes) == (None, 0, 0)


def test_two_event_loops_share_one_store():
    """A store belongs to no loop: values pass between loops, and a lock excludes tasks of both."""
    store = MemoryStore()
    rounds = 40

    async def count():
        for _ in range(rounds):
            async with store.lock("n"):
                value = int(await store.get("n") or b"0")
                await anyio.lowlevel.checkpoint()
                await store.set("n", b"%d" % (value + 1), 60.0)

    async def both_tasks():
        async with anyio.create_task_group() as group:
            group.start_soon(count)
            group.start_soon(count)

    threads = [
        threading.Thread(target=anyio.run, args=(both_tasks,), kwargs={"backend": name}) for name in ("asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert int(anyio.run(store.get, "n") or b"0") == 2 * 2 * rounds
