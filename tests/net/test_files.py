"""Files that hold secrets, and rows of stores."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from kiro_asgi.errors import UpstreamTimeout
from kiro_asgi.net.credentials.sources import (
    change_row,
    exposed,
    is_store,
    locked,
    read_private,
    read_rows,
    write_private,
)


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes_seen(folder: Path, stop: threading.Event, seen: set[int]) -> None:
    while not stop.is_set():
        for entry in os.scandir(folder):
            try:
                seen.add(entry.stat(follow_symlinks=False).st_mode & 0o777)
            except FileNotFoundError:  # replaced meanwhile
                continue


def test_a_file_is_private_from_its_first_moment(tmp_path, open_umask):
    """R34: whoever looks, however often, under umask 000, never sees another mode than 0600; the folder is 0700."""
    path = tmp_path / "new" / "token.json"
    write_private(path, b"0")
    stop, seen = threading.Event(), set()
    watcher = threading.Thread(target=modes_seen, args=(path.parent, stop, seen))
    watcher.start()
    for number in range(100):
        write_private(path, b"%d" % number)
    stop.set()
    watcher.join()

    assert seen == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["token.json"]
    assert read_private(path) == b"99"


def test_an_open_file_becomes_private_when_it_is_replaced(tmp_path):
    """R34: a file that others may read is noticed, and is private once we have written it."""
    path = tmp_path / "token.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    assert exposed(path)
    write_private(path, b"new")

    assert not exposed(path)


def test_a_symbolic_link_is_not_written_through(tmp_path):
    """R34: neither the link nor what it points to is touched."""
    target, link = tmp_path / "target", tmp_path / "token.json"
    target.write_bytes(b"untouched")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        write_private(link, b"new")

    assert (target.read_bytes(), link.is_symlink()) == (b"untouched", True)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    """R33: whichever step fails, as on a full disk, the old file is whole and no draft is left."""
    path = tmp_path / "token.json"
    write_private(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"kiro_asgi.net.credentials.sources.os.{step}", fail)
        with pytest.raises(OSError, match="No space"):
            write_private(path, b"new")

    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("token.json", b"old")]


def test_what_is_no_small_file_is_not_read(tmp_path):
    """A device or an endless file cannot stop the gateway."""
    (tmp_path / "big").write_bytes(b"x" * (1024 * 1024 + 1))

    with pytest.raises(OSError, match="too large"):
        read_private(tmp_path / "big")
    with pytest.raises(OSError, match="not an ordinary file"):
        read_private(Path("/dev/null"))
    with pytest.raises(IsADirectoryError):
        read_private(tmp_path)


def test_a_named_pipe_is_refused_at_once(tmp_path):
    """Nobody writes into it, and nobody waits for that: as a token file, and as a store."""
    pipe = tmp_path / "token.json"
    os.mkfifo(pipe)
    for look in (
        read_private,
        is_store,
        lambda path: read_rows(path, [TOKEN]),
        lambda path: change_row(path, TOKEN, bytes),
    ):
        with pytest.raises(OSError, match="not an ordinary file"):
            look(pipe)


@pytest.mark.anyio
async def test_one_holder_at_a_time(tmp_path):
    """R35: the second waits until the first has finished; it does not wait for ever."""
    path, inside, most = tmp_path / "token.json", 0, 0

    async def hold() -> None:
        nonlocal inside, most
        async with locked(path, 5.0):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0.01)
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(hold)
    assert most == 1
    async with locked(path, 5.0):
        with pytest.raises(UpstreamTimeout):
            async with locked(path, 0.05):
                raise AssertionError("two holders")


@pytest.mark.anyio
async def test_who_holds_the_lock_clears_away_what_a_crash_has_left(tmp_path):
    """R33: drafts hold tokens; they do not pile up.  Other files stay."""
    for name in (".token.json.123456.tmp", "token.json", ".other.json.1.tmp"):
        (tmp_path / name).touch()
    async with locked(tmp_path / "token.json", 5.0):
        assert {entry.name for entry in tmp_path.iterdir()} == {"token.json", "token.json.lock", ".other.json.1.tmp"}


@pytest.mark.anyio
async def test_a_file_system_without_locks_holds_nobody_up(tmp_path, monkeypatch):
    """Where nobody can lock, nobody waits; only who finds the lock held does."""
    path, answers = tmp_path / "token.json", [OSError(errno.ENOLCK, "No locks available"), BlockingIOError()]

    def flock(descriptor: int, operation: int) -> None:
        raise answers[0]

    monkeypatch.setattr("fcntl.flock", flock)
    async with locked(path, 0.05):
        pass
    answers.pop(0)
    with pytest.raises(UpstreamTimeout):
        async with locked(path, 0.05):
            pass


@pytest.mark.anyio
async def test_without_a_place_for_a_lock_there_is_none(tmp_path):
    """A folder that cannot be written, or a trap in the lock's place, does not stop the gateway."""
    (tmp_path / "token.json.lock").symlink_to(tmp_path / "target")
    async with locked(tmp_path / "token.json", 0.1), locked(tmp_path / "token.json", 0.1):
        assert not (tmp_path / "target").exists()


# Stores.

TOKEN, STATE = ("auth_kv", "kirocli:social:token"), ("state", "api.codewhisperer.profile")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "data ?#%.sqlite3"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE auth_kv (key TEXT PRIMARY KEY, value TEXT)")
        made.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB)")
        made.execute("INSERT INTO auth_kv VALUES (?, ?)", (TOKEN[1], "ä1"))
        made.execute("INSERT INTO state VALUES (?, ?)", (STATE[1], b"2"))
        made.commit()
    return path


def test_rows_are_read_whatever_their_type(store):
    """A column declared BLOB may hold text, and the other way round; what is missing is left out."""
    wanted = [TOKEN, STATE, ("state", "missing"), ("no_table", "x")]

    assert read_rows(store, wanted) == {TOKEN: "ä1".encode(), STATE: b"2"}
    assert is_store(store)


def test_reading_changes_nothing(store):
    """A store that is not ours is opened read-only: not a byte of it changes, and no file appears beside it."""
    before, folder = store.read_bytes(), sorted(store.parent.iterdir())
    store.chmod(0o400)
    read_rows(store, [TOKEN])

    assert (store.read_bytes(), sorted(store.parent.iterdir())) == (before, folder)


def test_a_row_is_changed_in_its_own_type(store):
    """Where we may write, one value changes, and text stays text."""
    change_row(store, TOKEN, lambda value: value + b"!")
    change_row(store, STATE, lambda value: value + b"!")

    with closing(sqlite3.connect(store)) as made:
        assert made.execute("SELECT value FROM auth_kv").fetchone() == ("ä1!",)
        assert made.execute("SELECT value FROM state").fetchone() == (b"2!",)
    with pytest.raises(OSError, match="no row gone any more"):
        change_row(store, ("state", "gone"), bytes)


@pytest.mark.parametrize("value", [10**9, -1, 1.5, None, b"x" * (1024 * 1024 + 1), "x" * (1024 * 1024 + 1)], ids=type)
def test_a_value_of_another_kind_is_missing(store, value):
    """A number was taken for a length, of a gigabyte; and what is far too large for a token is none."""
    with closing(sqlite3.connect(store)) as made:
        made.execute("CREATE TABLE odd (key TEXT, value)")
        made.executemany("INSERT INTO odd VALUES ('k', ?)", [(value,)] * 3)
        made.commit()

    assert read_rows(store, [TOKEN, ("odd", "k")]) == {TOKEN: "ä1".encode()}
    with pytest.raises(OSError, match="no row k any more"):
        change_row(store, ("odd", "k"), bytes)


def test_a_damaged_store_is_an_ordinary_failure(tmp_path):
    """Callers know one kind of error."""
    path = tmp_path / "data.sqlite3"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)

    with pytest.raises(OSError, match=r"data\.sqlite3"):
        read_rows(path, [TOKEN])
