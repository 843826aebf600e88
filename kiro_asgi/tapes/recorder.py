"""The observer that records tapes.

While a call goes on, it keeps references to the bytes that were read and sent, and nothing is copied.  When the call
has ended, a thread takes secrets and prose out of it and writes the file, so neither the client nor anybody else waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from logging import getLogger
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field

from kiro_asgi._version import __version__
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import TAPE_EXCHANGE_BYTES, TAPES_PENDING_BYTES
from kiro_asgi.observers.base import AttemptFacts, ByteObserver, CallFacts, EndFacts, Outcome, PlanFacts
from kiro_asgi.private import make_folder, write_new_file
from kiro_asgi.redaction import Redactor
from kiro_asgi.state.pending import WriterThread
from kiro_asgi.tapes.format import VERSION, Line, Tape
from kiro_asgi.tapes.masking import Protection, shown_headers, shown_url
from kiro_asgi.tapes.settings import TapeSettings

__all__ = ["TapeRecorder", "protected"]

_log = getLogger("kiro_asgi")

_ASKED_BY: Final = b"x-kiro-asgi-tape"

_FAILED: Final = frozenset({Outcome.REFUSED, Outcome.CUT, Outcome.STALLED})
_BROKEN_OFF: Final = frozenset({Outcome.CUT, Outcome.STALLED})

_STRANGERS: Final = frozenset({401, 403, 404, 405})
"""Statuses of requests that nobody need have a key for: they must not push the tapes of others out of the folder."""

_WANTED: Final[Mapping[str, Callable[[CallFacts, EndFacts], bool]]] = MappingProxyType(
    {
        "error": lambda call, end: end.outcome in _FAILED,
        "cut": lambda call, end: end.outcome in _BROKEN_OFF,
        "retried": lambda call, end: end.outcome in _FAILED or end.attempts > 1,
        "header": lambda call, end: any(name == _ASKED_BY for name, _ in call.headers),
        "all": lambda call, end: True,
    }
)


@define(eq=False)
class _Recording:
    """One call, as far as it has come."""

    call: CallFacts
    size: int = 0
    _told: list[tuple[str, float, bytes, Mapping[str, Any]]] = field(factory=list)
    """Kind, moment, bytes and members of each line: tuples, as they are made for each read and send."""

    _cut: bool = False

    def add(self, kind: str, at: float, data: bytes = b"", **members: Any) -> None:
        """Take down a line."""
        self.size += len(data)
        if self.size <= TAPE_EXCHANGE_BYTES:
            self._told.append((kind, at, data, members))
        elif not self._cut:
            self._cut = True
            self._told.append(("cut", at, b"", {"why": f"over {TAPE_EXCHANGE_BYTES} bytes"}))

    def end(self, at: float, **members: Any) -> None:
        """Take down the last line, which also an exchange has that is cut."""
        self._told.append(("end", at, b"", members))

    @property
    def lines(self) -> list[Line]:
        """The lines."""
        started = self.call.started
        return [Line(kind, max(0.0, at - started), members, data) for kind, at, data, members in self._told]


@define(eq=False)
class TapeRecorder(ByteObserver):
    """Records the calls that are wanted."""

    _settings: TapeSettings
    _redactor: Callable[[], Redactor]
    """Of the secrets that there are now."""

    _shown: Mapping[str, Any]
    """Settings that differ from their defaults, without secrets."""

    _clock: Callable[[], float]
    _calls: dict[CallFacts, _Recording] = field(init=False, factory=dict)
    _current: ContextVar[_Recording | None] = field(init=False, repr=False)
    """The call that the running task serves."""

    _pending: deque[_Recording] = field(init=False, factory=deque, repr=False)
    _pending_bytes: int = field(init=False, default=0)
    _guard: threading.Lock = field(init=False, factory=threading.Lock, repr=False)
    _thread: WriterThread = field(init=False)
    _is_failing: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._current = ContextVar("kiro_asgi.tapes", default=None)
        self._thread = WriterThread(self._run, "tapes")

    def tokens(self, token: Callable[[], str]) -> Callable[[], str]:
        """*token*, of which is recorded what it makes for a call."""

        def recorded() -> str:
            made = token()
            recording = self._current.get()
            if recording is not None:
                recording.add("token", self._clock(), value=made)
            return made

        return recorded

    def began(self, call: CallFacts) -> None:
        """Begin to record."""
        recording = _Recording(call)
        self._calls[call] = recording
        self._current.set(recording)

    def request_received(self, call: CallFacts, query: bytes, body: bytes, at: float) -> None:
        """Record the client's request."""
        self._calls[call].add(
            "client.request",
            at,
            body,
            api=call.api,
            method=call.method,
            path=call.path,
            query=query.decode("latin-1"),
            headers=call.headers,
        )

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        """Record what was decided."""
        self._calls[call].add(
            "plan",
            plan.started,
            n=plan.number,
            upstream=plan.upstream,
            model=plan.model,
            credential=plan.credential,
            streamed=plan.streamed,
            rules=plan.rules,
            context_window=plan.context_window,
            input_estimate=plan.input_estimate,
            output_factor=plan.output_factor,
        )

    def request_sent(
        self, call: CallFacts, method: str, url: str, headers: tuple[tuple[bytes, bytes], ...], body: bytes, at: float
    ) -> None:
        """Record the request to the upstream."""
        self._calls[call].add("up.request", at, body, method=method, url=url, headers=headers)

    def head_received(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """Record the head of the upstream's answer."""
        self._calls[call].add("up.head", at, status=status, headers=headers)

    def received(self, call: CallFacts, data: bytes, at: float) -> None:
        """Record what one read has brought."""
        self._calls[call].add("up.bytes", at, bytes(data))

    def body_ended(self, call: CallFacts, error: KiroAsgiError | None, at: float) -> None:
        """Record how the upstream's answer ended."""
        if error is None:
            self._calls[call].add("up.end", at)
        else:
            self._calls[call].add("up.end", at, error=type(error).__name__, code=error.code, message=error.message)

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        """Record how an attempt ended."""
        at = attempt.plan.started + attempt.seconds
        number, outcome = attempt.plan.number, attempt.outcome.value
        self._calls[call].add("attempt.end", at, n=number, outcome=outcome, error=attempt.error, code=attempt.code)

    def head_sent(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """Record the head of the response."""
        self._calls[call].add("client.head", at, status=status, headers=headers)

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        """Record what one send took."""
        self._calls[call].add("client.bytes", at, bytes(data), blocked=round(blocked, 6))

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Have the tape written, if it is wanted."""
        recording = self._calls.pop(call)
        self._current.set(None)
        is_wanted = end.status not in _STRANGERS or self._settings.when == "all"
        if not is_wanted or not _WANTED[self._settings.when](call, end):
            return
        outcome, at = end.outcome.value, call.started + end.seconds
        recording.end(at, outcome=outcome, status=end.status, error=end.error, code=end.code)
        with self._guard:
            is_full = self._pending_bytes + recording.size > TAPES_PENDING_BYTES
            if not is_full:
                self._pending.append(recording)
                self._pending_bytes += recording.size
                self._thread.start()
        if is_full:
            _log.warning("the tape of %s is not kept: too much waits to be written", call.request_id)

    def close(self) -> None:
        """Wait until the tapes of calls that have ended are written; blocks."""
        self._thread.wait()

    def _run(self) -> None:
        try:
            while (recording := self._next()) is not None:
                self._write(recording)
        except BaseException:  # a bug of ours must not keep who closes, for ever
            with self._guard:
                self._pending.clear()
                self._pending_bytes = 0
                self._thread.end()
            raise

    def _next(self) -> _Recording | None:
        with self._guard:
            if not self._pending:
                self._thread.end()
                return None
            recording = self._pending.popleft()
            self._pending_bytes -= recording.size
            return recording

    def _write(self, recording: _Recording) -> None:
        call, folder = recording.call, Path(self._settings.path).expanduser()
        moment = datetime.fromtimestamp(call.time, UTC)
        head = Line(
            "tape",
            0.0,
            {
                "v": VERSION,
                "id": call.request_id,
                "at": call.time,
                "by": f"kiro_asgi {__version__}",
                "content": self._settings.content,
                "settings": self._shown,
            },
        )
        protection = Protection(self._redactor(), is_masking=self._settings.content == "masked")
        written = protected(Tape((head, *recording.lines)), protection).write()
        name = f"{moment:%Y%m%dT%H%M%S}-{call.request_id}.tape.jsonl"
        try:
            make_folder(folder)
            write_new_file(folder / name, written)
            _make_room(folder, self._settings.bytes)
        except OSError as error:
            if not self._is_failing:
                _log.warning("tapes cannot be written to %s: %s", folder, error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False


def _make_room(folder: Path, room: int) -> None:
    """Delete the oldest tapes, so that all that are left have *room*; names begin with the time."""
    tapes = sorted(folder.glob("*.tape.jsonl"))
    sizes = [each.stat().st_size for each in tapes]
    left = sum(sizes)
    for tape, size in zip(tapes[:-1], sizes, strict=False):
        if left <= room:
            return
        tape.unlink(missing_ok=True)
        left -= size


def protected(tape: Tape, protection: Protection) -> Tape:
    """*tape* without secrets, and without prose where that is to be masked."""
    reads: dict[int, bytes] = {}
    for attempt in tape.attempts:
        for answer in attempt.answers:
            pieces = [line.data for _, line in answer.reads]
            kind = "" if answer.head is None else _value(answer.head, b"content-type")
            places = (place for place, _ in answer.reads)
            reads.update(zip(places, protection.protect_reads(pieces, kind), strict=True))
    sends = [place for place, line in enumerate(tape.lines) if line.kind == "client.bytes"]
    kind = next((_value(line, b"content-type") for line in tape.of("client.head")), "")
    pieces = protection.protect_reads([tape.lines[place].data for place in sends], kind)
    reads.update(zip(sends, pieces, strict=True))
    lines = (_protected(line, reads.get(place), protection) for place, line in enumerate(tape.lines))
    return Tape(tuple(lines))


def _value(line: Line, wanted: bytes) -> str:
    pairs = line.members.get("headers") or ()
    return next((_text(value) for name, value in pairs if _text(name).lower().encode("latin-1") == wanted), "")


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _protected(line: Line, data: bytes | None, protection: Protection) -> Line:
    members = dict(line.members)
    if "headers" in members:
        pairs = ((_text(name).encode("latin-1"), _text(value).encode("latin-1")) for name, value in members["headers"])
        members["headers"] = shown_headers(pairs, protection.cover)
    for name in ("url", "path", "query", "message", "credential"):
        if isinstance(value := members.get(name), str):
            members[name] = shown_url(value, protection.cover)
    if protection.is_masking and line.kind == "tape":
        members["content"] = "masked"
    if data is None:
        data = protection.protect(line.data) if line.data else b""
    return Line(line.kind, line.t, members, data)
