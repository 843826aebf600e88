"""A state file in trouble: locked by another process, damaged, gone, full; and how long anybody waits for it."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.private import make_folder, require_own_file
from kiro_asgi.state import pending, sqlite
from kiro_asgi.state.base import scoped
from kiro_asgi.state.pending import Change
from kiro_asgi.state.sqlite import SqliteStore
from tests.state.engines import Clock

pytestmark = pytest.mark.anyio

LIMIT = 2.0
"""Seconds that nobody waits longer than, on a busy machine."""

HOLDER = textwrap.dedent(
    """
    import sqlite3
    import sys

    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute(f"PRAGMA locking_mode = {sys.argv[2]}")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("DELETE FROM held")
    print("held", flush=True)
    sys.stdin.read()
    """
)


@contextmanager
def held(path: Path, mode: str = "EXCLUSIVE") -> Iterator[None]:
    """Another process has the file for itself: against writers (NORMAL), or against everybody (EXCLUSIVE)."""
    command = [sys.executable, "-c", HOLDER, str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.communicate(timeout=20)


async def made(path: Path, **values: bytes) -> None:
    store = SqliteStore(path)
    async with anyio.create_task_group() as group:  # together, as each waits until it is written
        for key, value in {**values, "made": b"v"}.items():
            group.start_soon(store.set, key, value, 60.0)
    await store.aclose()


def quick(started: float) -> bool:
    return time.monotonic() - started < LIMIT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


# Locked.


@pytest.mark.parametrize("mode", ["NORMAL", "EXCLUSIVE"])
async def test_nobody_waits_for_a_locked_file(path, mode):
    """The issue: requests queued 5 s each.  Now a value that is set is there at once for whoever asks here, and in the
    file when that is free again; and 50 who read wait no longer than one."""
    await made(path, old=b"old")
    store = SqliteStore(path)
    with held(path, mode):
        started = time.monotonic()
        for number in range(50):
            await store.set(f"k{number}", b"%d" % number, 60.0)
        await store.delete("made")
        assert time.monotonic() - started < 1.5
        assert [await store.get(f"k{number}") for number in range(50)] == [b"%d" % number for number in range(50)]
        assert await store.get("made") is None
        answers: list[object] = []

        async def read() -> None:
            try:
                answers.append(await store.get("old"))
            except StoreUnavailable as error:
                answers.append(error.retry_after)

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(read)
        assert quick(started)
        assert len(answers) == 50
        assert all(answer == b"old" if mode == "NORMAL" else 0 < answer <= sqlite._REST for answer in answers)
    assert await store.flush(5.0)
    await store.aclose()

    other = SqliteStore(path)
    assert [await other.get(key) for key in ("k0", "k49", "made", "old")] == [b"0", b"49", None, b"old"]
    await other.aclose()


async def test_after_a_failure_it_is_tried_again_soon(path):
    """While a file cannot be read, one in two seconds finds that out for all; then all is as before."""
    await made(path, old=b"old")
    store = SqliteStore(path)
    with held(path):
        with pytest.raises(StoreUnavailable):
            await store.get("old")
        started = time.monotonic()
        for _ in range(100):
            with pytest.raises(StoreUnavailable) as caught:
                await store.get("old")
        assert caught.value.retry_after is not None and 0 < caught.value.retry_after <= 2.0
        assert time.monotonic() - started < 1.5
    await anyio.sleep(caught.value.retry_after)
    assert await store.get("old") == b"old"
    await store.aclose()


async def test_what_cannot_be_written_is_given_up_at_the_end(path, caplog):
    """Closing waits two seconds at most, says how much is lost, and leaves no thread."""
    await made(path)
    store = SqliteStore(path)
    with held(path):
        for number in range(3):
            await store.set(f"k{number}", b"v", 60.0)
        started = time.monotonic()
        await store.aclose()
        assert time.monotonic() - started < sqlite._PARTING + LIMIT
    assert any("3 values of the state are lost" in record.message for record in caplog.records)
    assert await store.flush(5.0)
    assert not [thread for thread in threading.enumerate() if thread.name == "kiro-asgi state"]


async def test_what_waits_is_bounded(path, monkeypatch, caplog):
    """R47: a file that cannot be written fills no memory: those with most lose what they set longest ago; and after a
    minute all that is left goes."""
    monkeypatch.setattr(pending, "STATE_PENDING_BYTES", 100_000)
    await made(path)
    store = SqliteStore(path)
    with held(path):
        for number in range(100):
            await store.set(f"k{number}", bytes(4_600), 60.0)
        assert store._pending._changes.size_bytes <= 100_000
        assert await store.get("k99") == bytes(4_600)
        monkeypatch.setattr(pending, "_LONGEST", 0.1)
        assert await store.flush(5.0)
    assert any("too many wait to be written" in record.message for record in caplog.records)
    assert any("20 values of the state are lost" in record.message for record in caplog.records)
    await store.aclose()


@pytest.mark.parametrize("locked", [False, True], ids=["free", "locked"])
def test_a_process_that_ends_without_closing_loses_nothing(path, locked):
    """A host that never sends lifespan events: the interpreter waits for what is on its way, but not for ever."""
    anyio.run(made, path)
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path

        import anyio

        from kiro_asgi.state.sqlite import SqliteStore


        async def main():
            store = SqliteStore(Path(sys.argv[1]))
            for number in range(20):
                await store.set(f"k{number}", b"v", 60.0)


        anyio.run(main)
        """
    )
    command = [sys.executable, "-c", script, str(path)]
    if locked:
        with held(path):
            done = subprocess.run(command, timeout=20, capture_output=True, text=True, check=True)
        assert "20 values of the state are lost" in done.stderr
        return
    subprocess.run(command, timeout=20, check=True)

    async def read() -> list[bytes | None]:
        store = SqliteStore(path)
        found = [await store.get(f"k{number}") for number in range(20)]
        await store.aclose()
        return found

    assert anyio.run(read) == [b"v"] * 20


# Slow, for one owner.


async def test_a_slow_read_of_one_owner_is_no_other_ones(path, monkeypatch):
    """The owner of a value that takes too long waits, once, and then for a while not at all; others read meanwhile."""
    store = SqliteStore(path)
    slow, quick_one = scoped("mallory", "", ""), scoped("alice", "", "")
    for key in (slow, quick_one):
        await store.set(key, b"v", 60.0)
    assert await store.flush()
    read = sqlite.SqliteConnection.read

    def held_up(self, key, now):
        if key == slow:
            time.sleep(sqlite._PATIENCE + 0.5)
        return read(self, key, now)

    monkeypatch.setattr(sqlite.SqliteConnection, "read", held_up)
    outcomes: list[object] = []

    async def wait() -> None:
        try:
            outcomes.append(await store.get(slow))
        except StoreUnavailable as error:
            outcomes.append(error.code)

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(wait)
        while len(outcomes) < 2:
            started = time.monotonic()
            assert await store.get(quick_one) == b"v"
            assert time.monotonic() - started < 1.5
            await anyio.sleep(0.05)
    started = time.monotonic()
    await wait()
    assert time.monotonic() - started < 1.5
    assert outcomes == ["state.busy"] * 3
    assert await store.get(quick_one) == b"v"
    assert store.is_reachable
    await anyio.sleep(0.7)
    await store.aclose()


# Damaged.


def spoil(path: Path, how: str) -> None:
    size = path.stat().st_size
    match how:
        case "truncated":
            os.truncate(path, size // 2)
        case "zero bytes":
            os.truncate(path, 0)
        case "zeros":
            path.write_bytes(bytes(size))
        case "no database":
            path.write_bytes(b"this is no database " * 1_000)
        case "noise in the middle":
            with path.open("r+b") as file:
                file.seek(4_096)
                file.write(b"\xff\x13" * ((size - 4_096) // 2))
        case "tables gone":
            with sqlite3.connect(path) as connection:
                connection.execute("DROP TABLE kept")
            connection.close()
        case "counts gone":
            with sqlite3.connect(path) as connection:
                connection.executescript(
                    "DELETE FROM total; DELETE FROM owners; INSERT INTO owners VALUES ('x', 'y', 7, 9, 'z')"
                )
            connection.close()


@pytest.mark.parametrize(
    "how", ["truncated", "zero bytes", "zeros", "no database", "noise in the middle", "tables gone", "counts gone"]
)
async def test_what_is_in_a_damaged_file_is_unknown(path, how, caplog, monkeypatch):
    """No error but ours ever comes out, nobody waits, what is set is found here, and the log says what is wrong.  What
    cannot be read is never said to be missing: only a file without tables, or without the row, has no value."""
    monkeypatch.setattr(SqliteStore.flush, "__defaults__", (0.2,))  # the file is not written in two seconds either
    await made(path, **{f"k{number}": bytes(3_000) for number in range(50)})
    spoil(path, how)
    store = SqliteStore(path, 40)
    started = time.monotonic()
    found, unknown = set(), 0
    for number in range(50):
        try:
            found.add(await store.get(f"k{number}"))
        except StoreUnavailable as error:
            assert error.code == "state.damaged"
            unknown += 1
    await store.set("new", b"v", 60.0)
    assert await store.get("new") == b"v"
    if how in ("zero bytes", "counts gone"):
        assert (found, unknown) == ({None} if how == "zero bytes" else {bytes(3_000)}, 0)
    else:
        assert unknown and found <= {bytes(3_000)}
        assert not store.is_reachable or found
    await store.flush()
    assert await store.get("new") == b"v"
    assert quick(started)
    if how not in ("zero bytes", "counts gone"):
        assert any("damaged" in record.message for record in caplog.records)
    await store.aclose()


def test_a_bug_of_the_writer_is_seen(monkeypatch, caplog):
    """The thread that writes ends with it, for all to see; what it lost is said, and the next change is written."""
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: seen.append(failure.exc_type))
    written: list[str] = []

    def write(changes, _uses):
        if not seen:
            raise ZeroDivisionError
        written.extend(key for key, _ in changes)

    queue = pending.WriteQueue(write)
    queue.put("lost", Change(b"v"))
    assert queue.flush(5.0)
    end = time.monotonic() + 10
    while not seen and time.monotonic() < end:
        time.sleep(0.01)
    queue.put("kept", Change(b"v"))
    assert queue.flush(5.0)

    assert (seen, written, queue.get("lost")) == ([ZeroDivisionError], ["kept"], None)
    assert "1 values of the state are lost: ZeroDivisionError" in caplog.text


def test_each_outage_is_told_once(monkeypatch, caplog):
    """Outage, recovery, outage, while more is waiting all the time: two warnings, however often it is tried; and only
    during an outage the queue says that it fails."""
    monkeypatch.setattr(pending, "_FIRST_PAUSE", 0.0)
    works = [False, False, False, True, False, False, True]
    failing: list[bool] = []

    def write(changes, _uses):
        failing.append(queue.is_failing)
        if not works[len(failing) - 1]:
            raise StoreUnavailable(detail="gone")
        if len(failing) < len(works):
            queue.put("another", Change(b"v"))

    queue = pending.WriteQueue(write)
    queue.put("first", Change(b"v"))
    assert queue.flush(5.0)

    assert [*failing, queue.is_failing] == [False, True, True, True, False, True, True, False]
    assert caplog.text.count("the state cannot be written") == 2


def test_a_batch_has_an_end(monkeypatch):
    """A lot that waits is written in several steps, between which others use the file; nothing is left out."""
    monkeypatch.setattr(pending, "_BATCH_BYTES", 100)
    batches: list[list[str]] = []
    queue = pending.WriteQueue(lambda changes, _uses: batches.append([key for key, _ in changes]))
    with queue._guard:
        for number in range(20):
            queue._changes.put(f"k{number}", pending._QueuedChange(Change(bytes(30)), 0.0), 30)
    queue.put("last", Change(b""))
    assert queue.flush(5.0)

    assert sorted(key for batch in batches for key in batch) == sorted(
        [*(f"k{number}" for number in range(20)), "last"]
    )
    assert max(map(len, batches)) == 4


async def test_the_file_is_private_from_its_creation(path, monkeypatch):
    """Not only afterwards: another user may have opened it in between."""
    monkeypatch.setattr(sqlite, "_make_private", sqlite._identity)
    mask = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.set("k", b"v", 60.0)
        assert await store.flush()
        mode = stat.S_IMODE(path.stat().st_mode)
        await store.aclose()
    finally:
        os.umask(mask)

    assert mode == 0o600


def test_waiting_for_the_end_takes_no_core():
    """What cannot be written is tried again at once when somebody waits for it, and then with pauses."""
    attempts = 0

    def write(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise StoreUnavailable("the file is locked", code="state.unreachable")

    queue = pending.WriteQueue(write)
    queue.put("k", Change(b"v"))
    assert not queue._thread.wait(0.3)  # by then the pauses are long
    before = attempts
    assert not queue.flush(0.6)
    queue.discard("this test ends")

    assert 3 <= attempts - before <= 6


async def test_rows_of_another_kind_are_missing(path, caplog):
    """The issue: a row whose value is no blob was a TypeError."""
    await made(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for key, value in {"text": "v", "number": 7, "null": b"", "real": 1.5}.items():
            row = (key, "", 400, 1e12, "odd", "odd", value)
            connection.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute("INSERT INTO kept VALUES ('end', '', 'odd', 'odd', 0, 0, x'00')")
    connection.close()
    store = SqliteStore(path)

    assert [await store.get(key) for key in ("text", "number", "null", "real", "end")] == [None, None, b"", None, None]
    assert await store.take("text") is None
    assert any("damaged" in record.message for record in caplog.records)
    for number in range(5):
        await store.set(f"k{number}", b"v", 60.0)
    assert await store.flush()
    await store.aclose()


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_a_file_of_others_is_left_alone(path, version):
    """A database of another program, or of another version, is neither read nor written; it stays as it is."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE kept (theirs TEXT)" if not version else "CREATE TABLE other (theirs TEXT)")
        if version:
            connection.execute("PRAGMA application_id = 0x6B69726F")
            connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    path.chmod(0o600)
    before = path.read_bytes()
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="another"):
        await store.get("k")
    await store.set("k", b"v", 60.0)
    assert await store.get("k") == b"v"
    await store.aclose()

    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["state.db"]


# Gone, full, forbidden.


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_a_file_that_goes_away_is_made_anew(path, tmp_path, how):
    """What is set after that is in the new file, not in one that nobody can find any more."""
    store = SqliteStore(path)
    await store.set("old", b"v", 60.0)
    assert await store.flush()
    assert await store.get("old") == b"v"
    if how == "deleted":
        for each in tmp_path.iterdir():
            each.unlink()
    else:
        path.rename(tmp_path / "moved")
    if how == "replaced":
        await made(path, theirs=b"t")
    await store.set("new", b"v", 60.0)
    assert await store.flush()
    assert await store.get("old") is None
    other = SqliteStore(path)
    assert await other.get("new") == b"v"
    assert await store.get("theirs") == (b"t" if how == "replaced" else None)
    await other.aclose()
    await store.aclose()


async def test_a_link_that_takes_the_name_is_not_followed(path, tmp_path):
    """Also while running: nothing is read or written through it, and its target keeps its mode."""
    target = tmp_path / "elsewhere" / "target.db"
    target.parent.mkdir()
    await made(target, secret=b"v")
    target.chmod(0o644)
    store = SqliteStore(path)
    await store.set("k", b"v", 60.0)
    assert await store.flush()
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        await store.get("secret")
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    await store.aclose()


@pytest.mark.parametrize("beside", ["state.db-wal", "state.db-shm", "state.db-journal"])
async def test_a_link_beside_the_file_is_not_followed(path, tmp_path, beside):
    """SQLite's own files beside it are refused where they are links, and made private where they are not."""
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    (tmp_path / beside).symlink_to(target)
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        await store.get("k")
    assert target.read_bytes() == b"theirs"
    await store.aclose()


async def test_a_full_disk_loses_only_what_is_new(path, caplog):
    """Values that are there stay readable; new ones are found here; nothing but our own errors comes out."""
    store = SqliteStore(path)
    await store.set("old", b"v", 60.0)
    assert await store.flush()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limit[1]))
    try:
        for number in range(10):
            await store.set(f"k{number}", bytes(100_000), 60.0)
        assert not await store.flush(0.3)
        assert await store.get("old") == b"v"
        assert await store.get("k9") == bytes(100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert await store.flush(10.0)
    assert any("waits in memory" in record.message for record in caplog.records)
    await store.aclose()

    other = SqliteStore(path)
    assert [await other.get(f"k{number}") for number in range(10)] == [bytes(100_000)] * 10
    await other.aclose()


# Clocks, and sizes.


async def test_a_clock_that_is_set_back_costs_nothing_new(path):
    """Uses are ordered by their number: after a jump of a year back, what is set is kept, and the oldest goes."""
    clock = Clock(now=1e9)
    store = SqliteStore(path, 3, clock=clock)
    for key in "abc":
        await store.set(key, b"v", 60.0)
        assert await store.flush()
    clock.now -= 365 * 86_400.0
    for key in "de":
        await store.set(key, b"v", 60.0)
        assert await store.flush()

    assert [await store.get(key) is not None for key in "abcde"] == [False, False, True, True, True]
    await store.aclose()


async def test_twenty_thousand_values_are_no_burden(path):
    """R47: 20,000 values by one client leave as many as allowed, in a file of bounded size; nobody waits meanwhile."""
    store = SqliteStore(path, 1_000, 1024 * 1024)
    slowest = 0.0
    for number in range(20_000):
        started = time.monotonic()
        await store.set(f"k{number}", bytes(200), 600.0)
        slowest = max(slowest, time.monotonic() - started)
        if number % 1_000 == 0:
            await anyio.sleep(0.001)
    assert await store.flush(60.0)

    assert await store.get("k19999") == bytes(200)
    await store.aclose()
    assert sum(each.stat().st_size for each in path.parent.iterdir()) < 4 * 1024 * 1024
    assert slowest < LIMIT


# Folders.


def test_missing_folders_are_private(tmp_path):
    """The issue: folders above the file were made 0777; now each that is missing is made 0700, others stay."""
    old = os.umask(0)
    try:
        (tmp_path / "there").mkdir(mode=0o755)
        make_folder(tmp_path / "there" / "a" / "b" / "c")
    finally:
        os.umask(old)

    made_modes = [stat.S_IMODE((tmp_path / "there" / each).stat().st_mode) for each in ("", "a", "a/b", "a/b/c")]
    assert made_modes == [0o755, 0o700, 0o700, 0o700]


async def test_the_folders_of_a_store_are_private(tmp_path):
    """The same by way of a store."""
    old = os.umask(0)
    try:
        await made(tmp_path / "a" / "b" / "state.db")
    finally:
        os.umask(old)

    modes = [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("a", "a/b", "a/b/state.db")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_folder_may_be_reached_by_a_link(tmp_path):
    """As ``/var`` is on some systems: only the last component must be none."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert require_own_file(tmp_path / "link" / "state.db") is None
    make_folder(tmp_path / "link" / "deeper")
    assert (tmp_path / "real" / "deeper").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path):
    """Who could open it before us could read it after us."""
    path = tmp_path / "state.db"
    path.touch()
    os.chown(path, 12_345, 12_345)
    with pytest.raises(PermissionError, match="another user"):
        require_own_file(path)
