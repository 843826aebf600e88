"""The store in a file: its bounds, other processes, and what a crash leaves."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.state.sqlite import SqliteStore
from tests.state.engines import Clock

pytestmark = pytest.mark.anyio

OVERHEAD = 400
"""Bytes that an entry counts for besides its value."""

MINUTE = 61.0
"""Seconds after which a use is written down."""


@pytest.fixture
async def opened(tmp_path):
    """Makes stores of one file, each as a process of its own would have it."""
    stores = []

    def make(**more):
        stores.append(SqliteStore(tmp_path / "state" / "kept.db", **more))
        return stores[-1]

    yield make
    for store in stores:
        await store.aclose()


async def test_what_was_used_longest_ago_makes_room(opened):
    """R47: never more values than allowed; reading counts as using, and so does writing."""
    clock = Clock()
    store = opened(entries=3, clock=clock)
    for key in "abc":
        await store.set(key, key.encode(), 3600.0)
        assert await store.flush()
        clock.now += MINUTE
    await store.get("a")
    await store.set("d", b"d", 3600.0)
    assert await store.flush()

    assert [await store.get(key) for key in "abcd"] == [b"a", None, b"c", b"d"]


async def test_never_more_bytes_than_allowed(opened):
    """R47: a large value drives out as many as it needs; one that can never fit drives out nothing but its own key."""
    store = opened(max_bytes=4 * OVERHEAD, clock=Clock())
    for key in "abc":
        await store.set(key, b"", 3600.0)
    assert await store.flush()
    await store.set("d", bytes(2 * OVERHEAD), 3600.0)
    assert await store.flush()

    assert [await store.get(key) is not None for key in "abcd"] == [False, False, True, True]

    await store.set("d", bytes(4 * OVERHEAD), 3600.0)
    assert await store.flush()

    assert [await store.get(key) is not None for key in "abcd"] == [False, False, True, False]


async def test_many_more_keys_than_allowed_leave_a_small_file(opened, tmp_path):
    """R47: the file stays within its bounds whatever is put in, also expired values that nobody asks for."""
    clock = Clock()
    store = opened(entries=500, clock=clock)
    for number in range(2_000):
        clock.now += 1.0
        await store.set(f"k{number}", bytes(500), 100.0)
    await store.aclose()

    with sqlite3.connect(tmp_path / "state" / "kept.db") as file:
        kept, counted = file.execute("SELECT count(*), (SELECT entries FROM total) FROM kept").fetchone()
    file.close()
    assert (kept, counted) == (100, 100)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.db*")) < 1024 * 1024


async def test_only_the_owner_may_read_the_file(opened, tmp_path):
    """The conversations in it are nobody else's: neither in the files that SQLite puts beside it, nor in one that was
    there before."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kept.db").touch(mode=0o644)
    store = opened()
    await store.set("k", b"v", 60.0)
    assert await store.flush()

    files = list((tmp_path / "state").iterdir())
    assert {path.name for path in files} == {"kept.db", "kept.db-wal", "kept.db-shm"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


async def test_another_store_of_the_same_file_sees_everything(opened):
    """Values and locks hold for all processes, and after a restart."""
    one, other = opened(), opened()
    await one.set("k", b"v", 60.0)
    assert await one.flush()

    assert await other.take("k") == b"v"
    assert await one.get("k") is None
    async with one.lock("k"):
        with anyio.move_on_after(0.1) as waiting:
            async with other.lock("k"):
                pytest.fail("a lock was given to two")
    assert waiting.cancelled_caught
    with anyio.fail_after(10):
        async with other.lock("k"):
            pass


async def test_the_lock_of_a_process_that_died_is_free_after_a_minute(opened):
    """Nobody waits for ever for somebody who is gone."""
    clock = Clock()
    dead, living = opened(clock=clock), opened(clock=clock)
    lock = dead.lock("k")
    await lock.__aenter__()
    clock.now += 60.0
    with anyio.fail_after(10):
        async with living.lock("k"):
            await lock.__aexit__(None, None, None)
            with anyio.move_on_after(0.05) as waiting:
                async with dead.lock("k"):
                    pytest.fail("the lock of another was given back")

    assert waiting.cancelled_caught


async def test_a_cancelled_operation_is_done_or_not_begun(opened):
    """Whoever gives up leaves nothing half done, and does not disturb who comes next."""
    store = opened()
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.set, f"k{number}", b"v", 60.0)
        await anyio.sleep(0.002)
        group.cancel_scope.cancel()

    await store.set("last", b"v", 60.0)
    assert await store.get("last") == b"v"
    assert {await store.get(f"k{number}") for number in range(20)} <= {b"v", None}


async def test_what_is_no_file_is_an_error_of_ours(tmp_path):
    """What goes wrong with the file is said in the log, and clients are not told its path, which is none of theirs."""
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreUnavailable, match="is no ordinary file") as caught:
        await store.get("k")

    assert (caught.value.status, caught.value.retry_after) == (503, 2.0)
    assert str(tmp_path) not in caught.value.message
    await store.aclose()


WRITER = textwrap.dedent(
    """
    import os
    import sys
    from pathlib import Path

    import anyio

    from kiro_asgi.state.sqlite import SqliteStore


    async def main(path, me):
        store = SqliteStore(Path(path))
        while await store.get("jobs") is None:
            await anyio.sleep(0.01)
        for number in range(40):
            await store.set(f"{me}.{number}", me.encode(), 60.0)
            async with store.lock("n"):
                await store.set("n", b"%d" % (int(await store.get("n") or b"0") + 1), 60.0)
        won = [number for number in range(40) if await store.take(f"job.{number}")]
        assert await store.flush()
        print(*won)
        if me == "a":
            await store.aclose()
        sys.stdout.flush()
        os._exit(0)  # as a process ends that is killed: nothing is closed


    anyio.run(main, *sys.argv[1:])
    """
)


def test_two_processes_share_a_file(tmp_path):
    """What one writes the other reads, what is taken is taken once, nobody counts the same twice; also where a process
    ends without closing, and where both make the file at the same moment."""
    path = tmp_path / "kept.db"

    async def jobs():
        store = SqliteStore(path)
        for number in range(40):
            await store.set(f"job.{number}", b"v", 60.0)
        await store.set("jobs", b"ready", 60.0)
        await store.aclose()

    command = [sys.executable, "-c", WRITER, str(path)]
    processes = [subprocess.Popen([*command, me], stdout=subprocess.PIPE, text=True) for me in "ab"]
    anyio.run(jobs)
    outputs = [process.communicate(timeout=30)[0] for process in processes]

    async def read():
        store = SqliteStore(path)
        found = {f"{me}.{number}": await store.get(f"{me}.{number}") for me in "ab" for number in range(40)}
        counted = await store.get("n")
        await store.aclose()
        return found, counted

    found, counted = anyio.run(read)
    assert found == {f"{me}.{number}": me.encode() for me in "ab" for number in range(40)}
    assert counted == b"80"
    assert sorted(int(number) for output in outputs for number in output.split()) == list(range(40))
    assert Path(path).stat().st_mode & 0o777 == 0o600
