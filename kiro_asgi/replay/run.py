"""Replay of one exchange: the application itself, between a client and services that are a tape."""

from __future__ import annotations

import asyncio
import math
import re
import selectors
import tomllib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, takewhile
from logging import LogRecord, getLogger
from operator import eq
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.door.parts import Additions, Internals
from kiro_asgi.asgi.kept.secrets import LOGGERS
from kiro_asgi.asgi.kept.taping import ReplayedSettings
from kiro_asgi.asgi.protocol import Message, Scope
from kiro_asgi.asgi.scheduling import Offload, T
from kiro_asgi.compose import compose
from kiro_asgi.config import Settings
from kiro_asgi.limits import TAPE_SETTINGS, TAPE_WAITS
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.replay.script import (
    Script,
    TapeCredentials,
    TapeFiles,
    TapeStore,
    TapeTransport,
    read_rechunk,
    resets_on,
    tools_of,
)
from kiro_asgi.replay.steps import Step, StepLog
from kiro_asgi.stages.estimate import Calibration
from kiro_asgi.tapes.format import Line, Tape, TapeError
from kiro_asgi.tapes.masking import shape
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.upstreams.manifest import manifests_in

_LONGEST: Final = 30.0
"""Seconds of real time without an event or a timer after which a replay fails: a bug must not make it hang."""

_LOOK: Final = 0.05

_TOO_OFTEN: Final = (
    f"the replay waits more than {TAPE_WAITS} times, e.g. to send a sign of life in a long silence; "
    "a longer stream.heartbeat is a remedy"
)


class _Selector(selectors.DefaultSelector):
    """Waits for no file, but for threads, which wake the loop; time jumps to the next timer."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self.now = 0.0
        self._speed = speed
        self._waits = 0
        self._idle_since: float | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if events or timeout == 0:
            self._idle_since = None
            return list(events)
        if timeout is None:
            self._idle_since = monotonic() if self._idle_since is None else self._idle_since
            if monotonic() - self._idle_since > _LONGEST:
                raise RuntimeError("a replay waits for what never comes; report this bug with the tape")
            return list(super().select(_LOOK))
        if self._speed:
            events = super().select(timeout / self._speed)
        self.now += timeout
        self._idle_since = None
        self._waits += 1
        if self._waits == TAPE_WAITS:  # once: those that are cancelled then may still wait
            raise TapeError(_TOO_OFTEN, code="replay.waits")
        return list(events)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer.

    Args:
        speed: Factor by which its time passes faster than real time; 0 for as fast as possible.
    """

    def __init__(self, speed: float = 0.0) -> None:
        self._time = _Selector(speed)
        super().__init__(self._time)

    def time(self) -> float:
        """Seconds since the loop was made, in its own time."""
        return float(self._time.now)


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], speed: float = 0.0) -> T:
    """Run *main* in a loop of its own, from whichever thread; blocks."""
    loop = VirtualLoop(speed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


_REPLAYING: Final = ContextVar("kiro_asgi.replaying", default=False)


@frozen
class _OnlyRealCalls:
    """Keeps out of the log what is done in a replay: it would tell of calls that nobody has made."""

    def filter(self, record: LogRecord) -> bool:
        """Whether to write *record*."""
        return not _REPLAYING.get()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Write nothing to the log within the block, and in the tasks and threads that it starts."""
    for name in LOGGERS:
        getLogger(name).addFilter(_OnlyRealCalls())  # once: they are equal
    token = _REPLAYING.set(True)
    try:
        yield
    finally:
        _REPLAYING.reset(token)


_KEY: Final = "replay-key-of-nobody"

_SHOWN: Final = 60
"""Bytes that are shown on each side of a difference."""

_PROOF: Final = re.compile(rb"\b(k[a-z]{2}\d\.)[A-Za-z0-9_-]{43}")
"""32 bytes in base64 at the beginning of what the gateway has sealed for a client, after the seal's version."""

_FIXED: Final[Mapping[str, Any]] = MappingProxyType(
    {"client.api_keys": [_KEY], "raise_unexpected": True, "state.seal_key": _KEY}
)
"""Settings that every replay has.  With a seal's key it gives the same each time: without, each app draws its own."""


@frozen
class Difference:
    """Where two texts differ first."""

    offset: int
    """In bytes."""

    event: int
    """Server-sent events before it."""

    before: bytes
    """Some bytes up to there, which are the same."""

    expected: bytes
    actual: bytes
    """Some bytes from there on."""

    @classmethod
    def between(cls, expected: bytes, actual: bytes) -> Difference | None:
        """The difference, ``None`` where there is none."""
        if expected == actual:
            return None
        offset = same_start(expected, actual)
        events = expected.count(b"\n\n", 0, offset)
        before, after = slice(max(0, offset - _SHOWN), offset), slice(offset, offset + _SHOWN)
        return cls(offset, events, expected[before], expected[after], actual[after])

    def explain(self) -> Iterator[str]:
        """Lines for a terminal."""
        yield f"differs at byte {self.offset}, after {self.event} events:"
        yield f"  same   {self.before!r}"
        yield f"  tape   {self.expected!r}"
        yield f"  replay {self.actual!r}"


@frozen(kw_only=True)
class Replay:
    """The result of a replay."""

    tape: Tape
    status: int
    """Of the response; 0 where there was none."""

    sent: bytes
    """All that the client would have been sent."""

    steps: tuple[Step, ...]
    dropped: int
    """Steps beyond `kiro_asgi.limits.TAPE_STEPS`."""

    events: tuple[int, ...]
    """Indices of the steps whose items left the last stage: what the client's stream is made of."""

    kept: Mapping[int, str]
    """Index of each step that led to nothing at once, and the stage that kept it, until more came or for good."""

    asked: tuple[UpstreamRequest, ...] = field(repr=False)
    """Requests for answers, with placeholders for credentials."""

    missing: int
    """Answers that were asked for, and are not on the tape."""

    @property
    def is_same(self) -> bool:
        """Whether the client would get what it got: the status, and every byte."""
        return self.difference is None and self.tape.status in (0, self.status)

    @property
    def difference(self) -> Difference | None:
        """The first difference from what the client was sent on the tape; ``None`` where it is the same, byte for byte.

        Proofs that the gateway made with its secret, which is on no tape, are not compared: the beginning of each seal.
        Of a tape that was masked when it was recorded the shapes are compared: what was sent was masked, too.
        """
        return self.difference_from(self.tape)

    def difference_from(self, tape: Tape) -> Difference | None:
        """As `difference`, from what a client was sent on another *tape*."""
        if tape.is_masked and tape.sent != self.sent:
            return Difference.between(shape(tape.sent), shape(self.sent))
        return Difference.between(*(_PROOF.sub(rb"\1" + b"*" * 43, sent) for sent in (tape.sent, self.sent)))


def derive(
    tape: Tape, *, rechunk: str = "recorded", speed: float = 0.0, changed: Mapping[str, Any] | None = None
) -> Replay:
    """Run the exchange of *tape* again, and record its steps.

    No request is sent, nothing is logged, and nothing waits: time is the tape's.  The work is that of the exchange
    itself.  It blocks: call it in a thread of its own where an event loop must go on.

    Args:
        tape: The inputs.
        rechunk: How the services' bytes are cut: ``recorded``, a number of bytes, or ``random:SEED``.
        speed: Factor by which it runs faster than then; 0 for as fast as possible.
        changed: Settings by path, e.g. ``{"stream.heartbeat": 5}``, instead of the tape's.

    Raises:
        TapeError: The tape is cut, or has no request, or waits more often than `kiro_asgi.limits.TAPE_WAITS`.
        ConfigError: The settings cannot work.
    """
    if tape.cut:
        raise TapeError(f"the tape is cut ({tape.cut}), so it cannot be replayed", code="tape.cut")
    _ = tape.request
    settings = settings_of(tape, changed or {})
    cut = read_rechunk(rechunk)

    async def main(loop: VirtualLoop) -> Replay:
        log = StepLog(loop.time)
        script = Script.of(tape, cut, log)
        client = _Client(tape, log)
        source, resets = _Ids(tape, loop.time), resets_on(tape)
        app = compose(
            settings,
            Additions(store=TapeStore.of(tape, loop.time), server_tools=tuple(tools_of(tape, loop.time))),
            Internals(
                clocks=Clocks(loop.time, source.wall, source.draw),
                token=source.token,
                transports=lambda settings, proxy: TapeTransport(script, loop.time),
                provider=lambda each: evolve(
                    each,
                    credentials=TapeCredentials.of(each.credentials, each.name, tape, loop.time),
                    ask_reset=resets,
                ),
                fetcher=lambda settings: TapeFiles.of(tape, loop.time),
                calibration=_RecordedEstimates(tape),
                pipeline=log.pipeline,
                offload=_InLoop(),
                dates=source.date,
                context_windows=dict(_windows(tape)),
            ),
        )
        await app(client.scope, client.receive, client.send)
        await app.aclose()
        return Replay(
            tape=tape,
            status=client.status,
            sent=b"".join(client.sent),
            steps=tuple(log.steps),
            dropped=log.dropped,
            events=tuple(log.events),
            kept=log.kept,
            asked=tuple(script.asked),
            missing=script.missing,
        )

    with _unlogged():
        return run_virtual(main, speed)


def read_setting(text: str) -> Any:
    """The value that *text* is in TOML, or itself: a text needs no quotes here."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # of a number with thousands of digits, and of brackets without end
        return text


def same_start(one: Iterable[object], other: Iterable[object]) -> int:
    """Number of items that are the same from the beginning on."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def settings_of(tape: Tape, changed: Mapping[str, Any]) -> Settings:
    """The settings that the tape names, with *changed*, and with placeholders for every secret.

    Raises:
        ConfigError: They cannot work.
    """
    wanted = ReplayedSettings.of(changed)
    for path, value in changed.items():
        if path in wanted.left_out or wanted.taken[path] != value:
            raise TapeError(f"{path}: a replay does not take this setting", code="replay.setting")
    settings = Settings.from_mapping(_nested({**settings_on(tape).taken, **wanted.taken, **_FIXED}))
    known = tape.head.members.get("upstreams")
    listed = filter(lambda name: isinstance(name, str), known if isinstance(known, list | tuple) else ())
    used = {*listed, *(line.text("upstream") for line in tape.of("plan"))}
    return evolve(settings, **dict(_with_placeholder_keys(settings, used)))


def settings_on(tape: Tape) -> ReplayedSettings:
    """The settings that the tape names: data from whoever has made it.

    Raises:
        TapeError: There are too many, or their names are too long.
    """
    recorded = tape.head.members.get("settings")
    named = recorded if isinstance(recorded, Mapping) else {}
    if len(named) > TAPE_SETTINGS or any(len(path) > _PATH for path in named):
        raise TapeError(
            f"the tape names more than {TAPE_SETTINGS} settings, or one with more than {_PATH} characters",
            code="tape.settings",
        )
    return ReplayedSettings.of(named)


_PATH: Final = 200
"""Characters of the path of a setting on a tape."""


def _nested(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """*values* by path as tables."""
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *tables, name = path.split(".")
        table = nested
        for each in tables:
            table = table.setdefault(each, {})
            if not isinstance(table, dict):
                raise TapeError(f"{path}: {each} is no table", code="tape.settings")
        table[name] = value
    return nested


def _with_placeholder_keys(settings: Settings, asked: set[str]) -> Iterator[tuple[str, Any]]:
    """The upstreams that are configured, or were used, each with a placeholder for its key.

    With a key, none looks for credentials in files, variables or the network.
    """
    for name, _ in manifests_in(type(settings)):
        value = getattr(settings, name)
        if isinstance(value, Mapping):
            yield name, {each: one.keyed(_KEY) for each, one in value.items()}
        elif name in asked or value.configured:
            yield name, value.keyed(_KEY)


def _windows(tape: Tape) -> Iterator[tuple[tuple[str, str], int]]:
    for line in tape.of("plan"):
        if window := int(line.number("context_window")):
            yield (line.text("upstream"), line.text("model")), window


class _InLoop(Offload):
    """Works in the event loop: a thread would take real time, in which none of the tape's passes."""

    async def run(self, size: int, work: Callable[[], T]) -> T:
        return work()


class _RecordedEstimates(Calibration):
    """The estimates that were recorded, since the answers from which they were learnt are not on the tape."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._recorded = {line.text("model"): line for line in tape.of("plan")}
        self._factors = {line.text("model"): line.number("value") for line in tape.of("factor")}

    def input_factor(self, model: str) -> float:
        return self._factors.get(model) or super().input_factor(model)

    def tokens(self, model: str, estimated: float) -> int:
        line = self._recorded.get(model)
        recorded = 0 if line is None else int(line.number("input_estimate"))
        return recorded or super().tokens(model, estimated)

    def output_factor(self, model: str) -> float:
        line = self._recorded.get(model)
        return (0.0 if line is None else line.number("output_factor")) or super().output_factor(model)


@define
class _Ids:
    """The ids, dates and random numbers of the tape, in their order."""

    _tape: Tape
    _clock: Callable[[], float]
    _tokens: list[Line] = field(init=False)
    _dates: Iterator[Line] = field(init=False)
    _draws: Iterator[Line] = field(init=False)
    _made: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        first = Line("token", 0.0, {"value": self._tape.head.text("id").removeprefix("req_")})
        self._tokens = [first, *self._tape.of("token")]
        self._dates = self._tape.of("clock")
        # The first is drawn before recording begins: it sets how soon the client counts as stalled under load.
        self._draws = chain((Line("draw", 0.0, {"value": 0.5}),), self._tape.of("draw"))

    def token(self) -> str:
        self._made += 1
        if self._made > len(self._tokens):
            return f"{self._made:024x}"
        return self._tokens[self._made - 1].text("value")

    def date(self) -> float:
        """The moment for the next date."""
        line = next(self._dates, None)
        return self.wall() if line is None else line.number("value")

    def draw(self) -> float:
        """The next number that was drawn."""
        line = next(self._draws, None)
        return 0.5 if line is None else line.number("value")

    def wall(self) -> float:
        """The time: not before that of the next id, since computing takes no time here."""
        due = self._tokens[self._made].t if self._made < len(self._tokens) else 0.0
        return self._tape.head.number("at") + max(self._clock(), due)


@define
class _Client:
    """The client of the tape."""

    _tape: Tape
    _log: StepLog
    _body: list[bytes] = field(init=False)
    sent: list[bytes] = field(init=False, factory=list)
    status: int = field(init=False, default=0)
    _size: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._body = [self._tape.request.data]

    @property
    def scope(self) -> Scope:
        request = self._tape.request
        shown = [(name.lower(), value) for name, value in request.headers if not value.startswith(b"(hidden, ")]
        path = request.text("path")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.text("method") or "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "surrogatepass"),
            "query_string": request.text("query").encode("latin-1", "replace"),
            "root_path": request.text("root"),
            "headers": [*shown, (b"authorization", b"Bearer " + _KEY.encode())],
            "client": None,
            "server": None,
        }

    async def receive(self) -> Message:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        end = self._tape.end
        if end is not None and end.text("outcome") == "disconnected":
            await anyio.sleep(max(0.0, end.t - self._log.now()))
            return {"type": "http.disconnect"}
        await anyio.sleep(math.inf)
        raise AssertionError("endless")

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif data := bytes(message.get("body", b"")):
            self._log.send(data, self._size)
            self.sent.append(data)
            self._size += len(data)
