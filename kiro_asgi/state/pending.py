"""Queues of changes to be written by a thread, so that no caller waits for a write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from logging import getLogger
from time import monotonic, sleep
from typing import Final

from attrs import define, field, frozen

from kiro_asgi.errors import StoreUnavailable
from kiro_asgi.limits import STATE_PENDING_BYTES, STATE_PENDING_CHANGES
from kiro_asgi.state.memory import Room, Shelf

_log = getLogger("kiro_asgi")

_LONGEST: Final = 60.0
"""Seconds that a change waits while it cannot be written."""

_PARTING: Final = 2.0
"""The same where the interpreter ends: it waits for this thread."""

_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Values that are written at once: a tenth of a second."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
"""Seconds between two attempts to write: doubled from the first to the longest."""


@define(eq=False)
class WriterThread:
    """A thread that runs for as long as something waits to be written, so that an application that is never closed
    loses nothing when its process ends.

    The owner calls `start` and `end` under the lock that guards its queue: else the thread could end just as a change
    is added, which would then not be written.
    """

    _run: Callable[[], None]
    _what: str
    """Name of the content, in messages and in the thread's name."""

    _is_running: bool = field(init=False, default=False)
    _idle: threading.Event = field(init=False, factory=threading.Event, repr=False)

    def __attrs_post_init__(self) -> None:
        self._idle.set()

    def start(self) -> None:
        """Start the thread, unless it is running."""
        if self._is_running:
            return
        try:
            threading.Thread(target=self._run, name=f"kiro-asgi {self._what}").start()
        except RuntimeError as error:  # a machine may have no threads left; the next change tries again
            _log.warning("%s cannot be written now: %s", self._what, error)
            return
        self._is_running = True
        self._idle.clear()

    def end(self) -> None:
        """Note that the thread ends; it has to call this itself."""
        self._is_running = False
        self._idle.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to write, at most so long, and return whether that is so; blocks."""
        return self._idle.wait(seconds)


WRITE_EVERY: Final = 5.0
"""Seconds between two writes of a `PeriodicWriter`: how much is lost where a process is killed."""

_POLL: Final = 0.25
"""Seconds between two checks whether the interpreter ends, which waits for this thread."""

_PAUSE: Final = 0.1
"""Seconds between two attempts to write what still waits then."""


@define(eq=False)
class PeriodicWriter:
    """Writes what waits in a thread: every few seconds, when it is flushed, and when the interpreter ends."""

    _what: str
    """Name of the content, in messages and in the thread's name."""

    _write: Callable[[], bool]
    """Write what waits, and return whether all of it was written; blocks."""

    _count: Callable[[], int]
    """Count what waits."""

    _discard: Callable[[], object]
    """Forget what waits, as the end has come and it cannot be written."""

    _thread: WriterThread = field(init=False)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _closing: threading.Event = field(init=False, factory=threading.Event, repr=False)

    def __attrs_post_init__(self) -> None:
        self._thread = WriterThread(self._run, self._what)

    def wake(self) -> None:
        """Have what waits written, soon."""
        with self._guard:
            self._thread.start()

    def flush(self, seconds: float | None = None) -> bool:
        """Write now, and return whether nothing is left to write; it can go on afterwards.  Blocks, at most so long."""
        self._closing.set()
        try:
            return self._thread.wait(seconds)
        finally:
            self._closing.clear()

    def _run(self) -> None:
        """Write until nothing waits, or nothing more can be written and the process ends."""
        try:
            self._write_until_done()
        except BaseException:  # a bug must not make `flush` wait for ever
            with self._guard:  # else `wake` may note after this that the thread runs
                self._thread.end()
            raise

    def _write_until_done(self) -> None:
        parting: float | None = None
        while True:
            if parting is None and self._ends_soon():
                parting = monotonic()
            if not self._write() and parting is not None:
                if monotonic() - parting > _PARTING:
                    _log.warning("%d rows of %s are lost: they could not be written", self._count(), self._what)
                    self._discard()
                sleep(_PAUSE)
            with self._guard:
                if not self._count():
                    self._thread.end()
                    return

    def _ends_soon(self) -> bool:
        """Wait until it is time to write; whether the writer or the process is about to end."""
        until = monotonic() + WRITE_EVERY
        while monotonic() < until:
            if self._closing.wait(_POLL) or not threading.main_thread().is_alive():
                return True
        return False


@frozen
class Change:
    """A change of one key."""

    value: bytes | None
    """``None`` to forget it."""

    expires_at: float = 0.0


_Write = Callable[[Sequence[tuple[str, Change]], Collection[str]], None]


@frozen(eq=False)
class _QueuedChange:
    change: Change
    since: float


@define(eq=False)
class WriteQueue:
    """A queue of changes by key, of which the last counts, and of keys whose values were used.

    They are written by a thread, whichever event loops make them, so that no caller waits.
    """

    _write: _Write
    """Writes changes and uses, all or none; `StoreUnavailable` where that is not possible now."""

    _changes: Shelf[_QueuedChange] = field(init=False)
    _uses: set[str] = field(init=False, factory=set)
    _thread: WriterThread = field(init=False)
    is_failing: bool = field(init=False, default=False)
    """Whether the last attempt to write has failed."""

    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _hurry: threading.Event = field(init=False, factory=threading.Event, repr=False)

    def __attrs_post_init__(self) -> None:
        self._changes = Shelf(Room(STATE_PENDING_CHANGES, STATE_PENDING_BYTES))
        self._thread = WriterThread(self._run, "state")

    def get(self, key: str) -> Change | None:
        """The queued change of *key*; ``None`` where there is none."""
        with self._guard:
            waiting = self._changes.get(key)
        return None if waiting is None else waiting.change

    def split(self, keys: Iterable[str], now: float) -> tuple[dict[str, bytes], list[str]]:
        """The living values of *keys* that wait here, and the keys of which nothing does: the engine knows those."""
        found, others = dict[str, bytes](), list[str]()
        for key in keys:
            change = self.get(key)
            if change is None:
                others.append(key)
            elif change.value is not None and change.expires_at > now:
                found[key] = change.value
        return found, others

    def put(self, key: str, change: Change) -> None:
        """Have *change* written, in place of any for the same key."""
        with self._guard:
            dropped = self._changes.put(key, _QueuedChange(change, monotonic()), len(change.value or b""))
            self._thread.start()
        if dropped:
            _log.warning("%d values of the state are lost: too many wait to be written", len(dropped))

    def use(self, key: str) -> None:
        """Have the use of the value recorded."""
        with self._guard:
            if len(self._uses) < STATE_PENDING_CHANGES:
                self._uses.add(key)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written, at most so long, and return whether it is; blocks."""
        self._hurry.set()
        try:
            return self._thread.wait(seconds)
        finally:
            self._hurry.clear()

    def discard(self, why: str) -> None:
        """Forget what is not written."""
        with self._guard:
            left = [key for key, _ in self._changes]
            for key in left:
                self._changes.remove(key)
        if left:
            _log.warning("%d values of the state are lost: %s", len(left), why)

    def _run(self) -> None:
        failures = 0
        while (batch := self._batch()) is not None:
            changes, uses = batch
            try:
                self._write([(key, waiting.change) for key, waiting in changes], uses)
            except StoreUnavailable as error:
                if failures == 0:
                    _log.warning("the state cannot be written, and waits in memory: %r", error)
                self.is_failing = True
                self._expire(error)
                failures = min(failures + 1, 10)
                if self._hurry.wait(min(_FIRST_PAUSE * 2 ** (failures - 1), _LONGEST_PAUSE)):
                    self._hurry.clear()  # it skips one pause only: trying without pauses would take a whole core
                    failures = 1
            except BaseException as error:  # a bug of ours must not keep the thread, or the values, for ever
                self.discard(type(error).__name__)
                with self._guard:  # else `put` may note after this that the thread runs
                    self._thread.end()
                raise
            else:
                failures, self.is_failing = 0, False
                self._written(changes)

    def _batch(self) -> tuple[list[tuple[str, _QueuedChange]], set[str]] | None:
        """What waits, at most `_BATCH_BYTES` of it or one change: others use the file between two batches.

        Where nothing waits, note the end of this thread and return ``None``.
        """
        with self._guard:
            changes, uses, self._uses = [*self._first()], self._uses, set()
            if changes or uses:
                return changes, uses
            self._thread.end()
            return None

    def _first(self) -> Iterator[tuple[str, _QueuedChange]]:
        size = 0
        for key, waiting in self._changes:
            size += len(waiting.change.value or b"")
            yield key, waiting
            if size >= _BATCH_BYTES:
                return

    def _written(self, changes: Iterable[tuple[str, _QueuedChange]]) -> None:
        with self._guard:
            for key, waiting in changes:
                if self._changes.get(key) is waiting:
                    self._changes.remove(key)

    def _expire(self, error: StoreUnavailable) -> None:
        """Give up what has waited for too long."""
        longest = _LONGEST if threading.main_thread().is_alive() else _PARTING
        since = monotonic() - longest
        with self._guard:
            old = [key for key, waiting in self._changes if waiting.since <= since]
            for key in old:
                self._changes.remove(key)
        if old:
            _log.warning("%d values of the state are lost: %r", len(old), error)
