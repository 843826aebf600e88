"""The folder of tapes: which exchanges are kept, and how tapes are written and read.

A thread takes secrets and prose out of a recording, and writes the file.
"""

from __future__ import annotations

import gzip
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from logging import getLogger
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final
from zlib import error as ZlibError  # noqa: N812 - the name that exceptions have

from attrs import define, field

from kiro_asgi.limits import TAPES_PENDING_BYTES
from kiro_asgi.observers.base import CallFacts, EndFacts, Outcome
from kiro_asgi.private import make_folder, open_ordinary, write_new_file
from kiro_asgi.state.pending import WriterThread
from kiro_asgi.tapes.format import Tape, TapeError, read_tape
from kiro_asgi.tapes.recorder import Recording, TapeMaker
from kiro_asgi.tapes.settings import TapeSettings

SUFFIXES: Final = (".tape.jsonl", ".tape.jsonl.gz")
"""File suffixes of tapes; a file that is named by the user may have any, and is unpacked if it ends in ``.gz``."""

_CHUNK: Final = 1024 * 1024


def load_tape(path: Path) -> Tape:
    """The tape in a file.

    Raises:
        TapeError: The file cannot be read, or is none.
    """
    try:
        with open_ordinary(path) as file:
            return read_tape(_chunks(gzip.open(file) if path.suffix == ".gz" else file))
    except (OSError, EOFError, ZlibError) as error:
        words = getattr(error, "strerror", None) or "is damaged"
        raise TapeError(f"{path}: {words}", code="tape.file") from error


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def load_tapes(folder: Path) -> list[Tape]:
    """The tapes in a folder, in the order of their names, which begin with the time.

    Raises:
        TapeError: One cannot be read, or there is none.
    """
    found = sorted(path for path in folder.glob("*.tape.jsonl*") if path.name.endswith(SUFFIXES))
    if not found:
        raise TapeError(
            f"{folder} has no *.tape.jsonl; set tapes.path = {str(folder)!r} to record some", code="tape.file"
        )
    return [load_tape(path) for path in found]


_log = getLogger("kiro_asgi")

_ASKED_BY: Final = b"x-kiro-asgi-tape"

_FAILED: Final = frozenset({Outcome.REFUSED, Outcome.CUT, Outcome.STALLED})
_BROKEN_OFF: Final = frozenset({Outcome.CUT, Outcome.STALLED})

_STRANGERS: Final = frozenset({401, 403, 404, 405})
"""Statuses of requests that need no key: they must not push the tapes of clients out of the folder."""

_WANTED: Final[Mapping[str, Callable[[CallFacts, EndFacts], bool]]] = MappingProxyType(
    {
        "error": lambda call, end: end.outcome in _FAILED,
        "noticed": lambda call, end: end.outcome in _FAILED or bool(end.notices),
        "cut": lambda call, end: end.outcome in _BROKEN_OFF,
        "retried": lambda call, end: end.outcome in _FAILED or end.attempts > 1,
        "header": lambda call, end: any(name == _ASKED_BY for name, _ in call.headers),
        "all": lambda call, end: True,
    }
)


@define(eq=False)
class TapeFolder:
    """Writes the tapes that are wanted."""

    _settings: TapeSettings
    _maker: TapeMaker
    _pending: deque[Recording] = field(init=False, factory=deque, repr=False)
    _pending_bytes: int = field(init=False, default=0)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _thread: WriterThread = field(init=False)
    _is_failing: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._thread = WriterThread(self._run, "tapes")

    def take(self, recording: Recording, end: EndFacts) -> None:
        """Have the tape written, if it is wanted."""
        call = recording.call
        is_wanted = end.status not in _STRANGERS or self._settings.when == "all"
        if not is_wanted or not _WANTED[self._settings.when](call, end):
            return
        with self._guard:
            is_full = self._pending_bytes + recording.size > TAPES_PENDING_BYTES
            if not is_full:
                self._pending.append(recording)
                self._pending_bytes += recording.size
                self._thread.start()
        if is_full:
            _log.warning("the tape of %s is not kept: too many tapes wait for the disk", call.request_id)

    def close(self) -> None:
        """Wait until the tapes of calls that have ended are written; blocks."""
        self._thread.wait()

    def _run(self) -> None:
        try:
            while (recording := self._next()) is not None:
                self._write(recording)
        except BaseException:  # a bug of ours must not make close() wait for ever
            with self._guard:
                self._pending.clear()
                self._pending_bytes = 0
                self._thread.end()
            raise

    def _next(self) -> Recording | None:
        with self._guard:
            if not self._pending:
                self._thread.end()
                return None
            recording = self._pending.popleft()
            self._pending_bytes -= recording.size
            return recording

    def _write(self, recording: Recording) -> None:
        folder = Path(self._settings.path).expanduser()
        written = self._maker.make(recording, self._settings.content).write()
        try:
            make_folder(folder)
            write_new_file(folder / f"{name_of(recording.call)}{SUFFIXES[0]}", written)
            _make_room(folder, self._settings.bytes)
        except OSError as error:
            if not self._is_failing:
                _log.warning("tapes cannot be written to %s: %s", folder, error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False


def name_of(call: CallFacts) -> str:
    """The name of a call's file, without suffix; it begins with the time."""
    return f"{datetime.fromtimestamp(call.time, UTC):%Y%m%dT%H%M%S}-{call.request_id}"


def _make_room(folder: Path, room: int) -> None:
    """Delete the oldest tapes, so that all that are left have *room*; names begin with the time."""
    tapes = sorted(folder.glob(f"*{SUFFIXES[0]}"))
    sizes = [each.stat().st_size for each in tapes]
    left = sum(sizes)
    for tape, size in zip(tapes[:-1], sizes, strict=False):  # the newest stays, however large it is
        if left <= room:
            return
        tape.unlink(missing_ok=True)
        left -= size
