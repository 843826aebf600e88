"""The observer that records exchanges.

During a call it keeps references to the bytes that were read and sent, and copies nothing.  Secrets and prose are taken
out when a tape is made of it, not before: no client waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeVar

from attrs import asdict, define, field, frozen

from kiro_asgi._version import __version__
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.events import ServerResult
from kiro_asgi.observers.base import AttemptFacts, ByteObserver, CallFacts, EndFacts, PlanFacts
from kiro_asgi.redaction import Redactor
from kiro_asgi.tapes.format import VERSION, Line, Tape
from kiro_asgi.tapes.masking import Protection, mask, shown_headers, shown_url
from kiro_asgi.wire.json import dumps

_WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "up.end": ("message",),
        "file": ("url", "error"),
        "stored": ("error",),
        "credential": ("message",),
    }
)
"""Members that are prose, by kinds of lines."""

T = TypeVar("T")

_LINE_BYTES: Final = 400
"""Bytes of memory that a line takes in addition to its data, about."""


@define(eq=False)
class Recording:
    """One call, as far as it has come."""

    call: CallFacts
    _most: int
    """Bytes of memory that it may take; of a larger exchange the beginning is recorded."""

    size: int = 0
    """Bytes of memory that it takes, about."""

    _lines: list[tuple[str, float, bytes, Mapping[str, Any]]] = field(factory=list)
    """Kind, moment, bytes and members of each line: tuples, as they are made for each read and send."""

    _cut: bool = False

    def add(self, kind: str, at: float, data: bytes = b"", **members: Any) -> None:
        """Record a line."""
        if self._cut:
            return
        self.size += len(data) + _LINE_BYTES
        if self.size <= self._most:
            self._lines.append((kind, at, data, members))
        else:
            self.size -= len(data)
            self._cut = True
            self._lines.append(("cut", at, b"", {"why": f"over {self._most} bytes"}))

    def stop(self, why: str) -> None:
        """Let go of all lines, and record no more."""
        self._cut, self.size = True, 0
        self._lines[:] = [("cut", self.call.started, b"", {"why": why})]

    def end(self, at: float, **members: Any) -> None:
        """Record the last line, which a cut exchange has, too."""
        self._lines.append(("end", at, b"", members))

    @property
    def lines(self) -> list[Line]:
        """The lines."""
        started = self.call.started
        return [Line(kind, max(0.0, at - started), members, data) for kind, at, data, members in self._lines]


@frozen
class TapeMaker:
    """Makes tapes of recordings."""

    _redactor: Callable[[], Redactor]
    """Makes a redactor of the secrets that are known now."""

    _shown: Mapping[str, Any]
    """Settings that differ from their defaults, without secrets."""

    _upstreams: tuple[str, ...]
    """Those that are set up."""

    def make(self, recording: Recording, content: str) -> Tape:
        """The tape of *recording*, as far as it has come, without secrets; *content* as of `TapeSettings.content`."""
        call = recording.call
        members = {
            "v": VERSION,
            "id": call.request_id,
            "at": call.time,
            "by": f"kiro_asgi {__version__}",
            "content": content,
            "settings": self._shown,
            "upstreams": self._upstreams,
        }
        tape = Tape((Line("tape", 0.0, members), *recording.lines))
        return protected(tape, Protection(self._redactor(), is_masking=content == "masked"))

    def cover(self, text: str) -> str:
        """*text* without secrets."""
        data = text.encode("utf-8", "surrogateescape")
        return Protection(self._redactor(), is_masking=False).cover(data).decode("utf-8", "surrogateescape")


@define(eq=False)
class Recorder(ByteObserver):
    """Records calls, and hands over each that has ended."""

    _clock: Callable[[], float]
    _most: int
    """Bytes of memory that one call may take."""

    _ended: Callable[[Recording, EndFacts], None] | None = None
    """Receives each call that has ended; must not block."""

    _calls: dict[CallFacts, Recording] = field(init=False, factory=dict)
    _current: ContextVar[Recording | None] = field(init=False, repr=False)
    """The call that the running task serves."""

    def __attrs_post_init__(self) -> None:
        self._current = ContextVar("kiro_asgi.tapes", default=None)

    def recorded(self, kind: str, source: Callable[[], T]) -> Callable[[], T]:
        """Wrap *source* so that each value that it gives a call is recorded, as a line of that *kind*."""

        def recorded() -> T:
            value = source()
            self.aside(kind, value=value)
            return value

        return recorded

    def aside(self, kind: str, data: bytes = b"", **members: Any) -> None:
        """Record an input, other than its answer, of the call that the running task serves."""
        recording = self._current.get()
        if recording is not None:
            recording.add(kind, self._clock(), data, **members)

    def began(self, call: CallFacts) -> None:
        """Begin to record."""
        recording = Recording(call, self._most)
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
            root=call.root_path,
            query=query.decode("latin-1"),
            headers=[header for header in call.headers if header[0].lower() != b"content-encoding"],  # it is unpacked
        )

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        """Record the plan of an attempt."""
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

    def tool_ran(self, call: CallFacts, result: ServerResult, at: float) -> None:
        """Record a tool's output."""
        output = dumps(asdict(result.output))
        self._calls[call].add("tool", at, output, name=result.call.name, tool=result.call.kind)

    def head_sent(self, call: CallFacts, status: int, headers: Sequence[tuple[bytes, bytes]], at: float) -> None:
        """Record the head of the response."""
        self._calls[call].add("client.head", at, status=status, headers=headers)

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        """Record what one send took."""
        self._calls[call].add("client.bytes", at, bytes(data), blocked=round(blocked, 6))

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        """Record the end."""
        recording = self._calls.pop(call)
        self._current.set(None)
        at = call.started + end.seconds
        recording.end(at, outcome=end.outcome.value, status=end.status, error=end.error, code=end.code)
        if self._ended is not None:
            self._ended(recording, end)

    def recording(self, call: CallFacts) -> Recording | None:
        """The recording of a call under way; ``None`` where there is none."""
        return self._calls.get(call)

    def forget(self, recording: Recording) -> None:
        """Let go of *recording*, unless it is to be handed over."""
        if self._ended is None:
            recording.stop("memory was short")


def protected(tape: Tape, protection: Protection) -> Tape:
    """*tape* without secrets, and without prose where that is to be masked."""
    reads: dict[int, bytes] = {}
    for attempt in tape.attempts:
        for answer in attempt.answers:
            pieces = [line.data for _, line in answer.reads]
            kind = "" if answer.head is None else answer.head.header(b"content-type").decode("latin-1")
            places = (place for place, _ in answer.reads)
            reads.update(zip(places, protection.protect_reads(pieces, kind), strict=True))
    sends = [place for place, line in enumerate(tape.lines) if line.kind == "client.bytes"]
    kind = next((line.header(b"content-type") for line in tape.of("client.head")), b"").decode("latin-1")
    pieces = protection.protect_reads([tape.lines[place].data for place in sends], kind)
    reads.update(zip(sends, pieces, strict=True))
    lines = (_protected(line, reads.get(place), protection) for place, line in enumerate(tape.lines))
    return Tape(tuple(lines))


def _protected(line: Line, data: bytes | None, protection: Protection) -> Line:
    members = dict(line.members)
    if "headers" in members:
        members["headers"] = shown_headers(line.headers, protection.cover)
    for name in ("url", "path", "query", "message", "credential"):
        if isinstance(value := members.get(name), str):
            members[name] = shown_url(value, protection.cover)
    if protection.is_masking and line.kind == "tape":
        members["content"] = "masked"
    for name in _WORDS.get(line.kind, ()):
        if isinstance(value := members.get(name), str) and protection.is_masking:
            members[name] = mask(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
    if data is None:
        protect = protection.protect_file if line.kind == "file" else protection.protect
        data = protect(line.data) if line.data else b""
    return Line(line.kind, line.t, members, data)
