"""Everything outside of the application in a replay: the tape's inputs, at the times at which they came.

Those are answers, from the network, and other inputs of a request: files at addresses, stored values, and outputs of
tools.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import Any, Final

import anyio
from attrs import define, evolve, field, frozen

from kiro_asgi import errors
from kiro_asgi.asgi.exchange.reading import AnswerReading
from kiro_asgi.errors import (
    KiroAsgiError,
    RequestError,
    StoreUnavailable,
    TooBusy,
    UpstreamDenied,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from kiro_asgi.model.events import UNAVAILABLE, SearchHit, ToolOutput
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.fetching import Fetched
from kiro_asgi.net.transport import OfflineTransport, Reader, StopReading
from kiro_asgi.replay.steps import StepLog
from kiro_asgi.tapes.format import Line, Tape, TapeAnswer, TapeError
from kiro_asgi.upstreams.base import Credential, UpstreamRequest
from kiro_asgi.wire.json import JsonError, loads

_OF_THE_NETWORK: Final[Mapping[str, type[KiroAsgiError]]] = MappingProxyType(
    {each.__name__: each for each in (UpstreamUnreachable, UpstreamTimeout, UpstreamProtocolError, TooBusy)}
)

Rechunk = Callable[[Sequence[tuple[float, bytes]]], Iterator[tuple[float, bytes]]]
"""Cuts reads, each with its time, in another way; a new piece has the time of the read that completed it."""


_SIZE: Final = re.compile("[1-9][0-9]{0,8}")


def read_rechunk(text: str) -> Rechunk:
    """Read ``recorded``, a number of bytes, or ``random:SEED``.

    Raises:
        TapeError: It is none of them.
    """
    word, _, seed = text.partition(":")
    if text == "recorded":
        return iter
    if _SIZE.fullmatch(text):
        size = int(text)
        return lambda reads: _recut(reads, lambda: size)
    if word == "random":
        draw = Random(seed)
        return lambda reads: _recut(reads, lambda: draw.choice((1, 2, 3, 7, 64, 1000)))
    raise TapeError(
        f"--rechunk must be recorded, a number of bytes, or random:SEED, not {text[:60]!r}", code="replay.rechunk"
    )


def _recut(reads: Sequence[tuple[float, bytes]], size: Callable[[], int]) -> Iterator[tuple[float, bytes]]:
    body = b"".join(data for _, data in reads)
    ends = [*accumulate(len(data) for _, data in reads)]
    at = 0
    while at < len(body):
        piece = body[at : at + size()]
        at += len(piece)
        yield reads[bisect_left(ends, at)][0], piece


@define
class Script:
    """The answers of a tape, in the order in which they came."""

    answers: Iterator[tuple[int, TapeAnswer]]
    rechunk: Rechunk
    log: StepLog
    asked: list[UpstreamRequest] = field(init=False, factory=list, repr=False)
    missing: int = field(init=False, default=0)
    """Answers that were asked for, and are not on the tape."""

    _read: int = field(init=False, default=0)
    """Bytes of this attempt."""

    _attempt: int = field(init=False, default=0)

    @classmethod
    def of(cls, tape: Tape, rechunk: Rechunk, log: StepLog) -> Script:
        """The script of *tape*."""
        numbered = enumerate(tape.attempts, 1)
        return cls(iter([(n, answer) for n, attempt in numbered for answer in attempt.answers]), rechunk, log)

    def next(self, request: UpstreamRequest) -> tuple[int, TapeAnswer] | None:
        """The next attempt and answer, whatever *request* holds; ``None`` after the last."""
        self.asked.append(request)
        found = next(self.answers, None)
        if found is None:
            self.missing += 1
        elif found[0] != self._attempt:
            self._attempt, self._read = found[0], 0
        return found

    def take(self, reader: Reader, attempt: int, data: bytes) -> None:
        """Hand *data* to *reader*."""
        self.log.read(data, attempt, self._read)
        self._read += len(data)
        reader.take(data)


class TapeTransport(OfflineTransport):
    """Answers from a script; for all other requests, such as for lists of models, the service is unreachable."""

    def __init__(self, script: Script, clock: Callable[[], float]) -> None:
        self._script = script
        self._clock = clock

    async def fetch(self, request: UpstreamRequest, reader: Reader, *, patience: float | None) -> None:
        """As of `Transport`; *request* gets the answer that has its place in the script."""
        found = self._script.next(request) if isinstance(reader, AnswerReading) else None
        if found is None:
            raise UpstreamUnreachable("the tape has no answer to this request", code="replay")
        attempt, answer = found
        began = self._clock() - answer.request.t
        limit = reader.start()
        head = answer.head
        if head is None:
            await self._until(math.inf if answer.end is None else began + answer.end.t, limit)
            raise _failure(answer.end)
        await self._until(began + head.t, limit)
        reader.begin(int(head.number("status")), head.headers)
        try:
            for t, data in self._script.rechunk([(line.t, line.data) for _, line in answer.reads]):
                await self._until(began + t, await reader.process())
                self._script.take(reader, attempt, data)
            if answer.end is None or answer.end.text("error"):
                await self._until(math.inf if answer.end is None else began + answer.end.t, await reader.process())
                raise _failure(answer.end)
        except StopReading:
            return

    async def _until(self, moment: float, patience: float | None) -> None:
        """Wait for a moment.

        Raises:
            UpstreamTimeout: It comes after *patience* seconds.
        """
        left = max(0.0, moment - self._clock())
        if patience is not None and patience < left:
            await anyio.sleep(max(0.0, patience))
            raise UpstreamTimeout("the upstream did not answer in time", code="timeout")
        await anyio.sleep(left)


def _failure(end: Line | None) -> KiroAsgiError:
    """The error that broke an answer off."""
    name = "" if end is None else end.text("error")
    kind = _OF_THE_NETWORK.get(name, UpstreamProtocolError)
    if end is None:
        return kind("the tape ends within the answer", code="replay")
    return kind(end.text("message"), code=end.text("code"))


Clock = Callable[[], float]


@frozen
class TapeFiles:
    """The files that were fetched, in their order; no others are fetched."""

    _lines: deque[Line]
    _clock: Clock

    @classmethod
    def of(cls, tape: Tape, clock: Clock) -> TapeFiles:
        """The files of *tape*."""
        return cls(deque(tape.of("file")), clock)

    def allows(self, url: str) -> bool:
        """Whether there are any left: only files that were allowed were fetched."""
        return bool(self._lines)

    async def fetch(self, places: Mapping[str, str], hold: Callable[[int], None]) -> Mapping[str, Fetched]:
        """The next files, one for each of *places*.

        Raises:
            RequestError: They were refused then, or are not on the tape.
        """
        found: dict[str, Fetched] = {}
        for url, place in places.items():
            if not self._lines:
                raise RequestError(
                    f"{place}: the tape does not have this file, and a replay fetches none", code="replay", param=place
                )
            line = await _next(self._lines, self._clock)
            if words := line.text("error"):
                raise RequestError(words, code=line.text("code"), param=line.text("param"))
            found[url] = Fetched(line.text("media_type"), line.data)
        return found

    async def aclose(self) -> None:
        """Nothing is open."""


@frozen
class TapeStore:
    """A store that returns the recorded values in their order, whatever the key, and keeps none."""

    _lines: deque[Line]
    _clock: Clock

    @classmethod
    def of(cls, tape: Tape, clock: Clock) -> TapeStore:
        """The values on *tape*, which earlier requests had stored."""
        return cls(deque(tape.of("stored")), clock)

    async def get(self, key: str) -> bytes | None:
        """The next value; ``None`` where there was none, or the tape has no more.

        Raises:
            StoreUnavailable: It was not available then.
        """
        if not self._lines:
            return None
        line = await _next(self._lines, self._clock)
        if words := line.text("error"):
            raise StoreUnavailable(words, code=line.text("code"))
        return line.data if line.members.get("found") else None

    async def take(self, key: str) -> bytes | None:
        """As `get`."""
        return await self.get(key)

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Do nothing: what a later read found is on the tape."""

    async def delete(self, key: str) -> None:
        """Do nothing, likewise."""

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude no one: a replay has one request at a time."""
        yield

    async def aclose(self) -> None:
        """Nothing is open."""


@frozen
class TapeTool:
    """A tool that returns its recorded outputs."""

    kind: str
    names: Collection[str]
    _lines: deque[Line] = field(repr=False)
    _clock: Clock

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        """The next output; an error where the tape has no more."""
        if not self._lines:
            return ToolOutput(text="a replay asks nobody", error_code=UNAVAILABLE)
        return _output(await _next(self._lines, self._clock))


async def _next(lines: deque[Line], clock: Clock) -> Line:
    """The next of *lines*, not before its time."""
    line = lines.popleft()
    await anyio.sleep(max(0.0, line.t - clock()))
    return line


def tools_of(tape: Tape, clock: Clock) -> Iterator[TapeTool]:
    """The tools that were run, each with its outputs; calls over a limit were not run."""
    lines: dict[str, deque[Line]] = defaultdict(deque)
    names: dict[str, set[str]] = defaultdict(set)
    for line in tape.of("tool"):
        names[line.text("tool")].add(line.text("name"))
        if _output(line).error_code != "max_uses_exceeded":
            lines[line.text("tool")].append(line)
    for kind, called in names.items():
        yield TapeTool(kind, frozenset(called), lines[kind], clock)


def _output(line: Line) -> ToolOutput:
    try:
        fields = loads(line.data)
        return ToolOutput(tuple(SearchHit(**hit) for hit in fields.pop("hits")), **fields)
    except (JsonError, TypeError, KeyError, AttributeError):
        raise TapeError("the output in a tool line cannot be read", code="tape.tool") from None


@define
class TapeCredentials(Credentials):
    """The credentials of a replay, each a placeholder, with the choices and renewals of the tape in their order.

    A tape without them has one credential, which is never renewed.
    """

    _lines: deque[Line]
    _clock: Clock

    @classmethod
    def of(cls, credentials: Credentials, upstream: str, tape: Tape, clock: Clock) -> TapeCredentials:
        """Those of *upstream* on *tape*; *credentials* has the placeholder."""
        lines = deque(line for line in tape.of("credential") if line.text("upstream") == upstream)
        return cls(credentials._states, lines, clock)

    async def get(self, model: str = "", *, exclude: Collection[Credential] = ()) -> Credential:
        """The next choice.

        Raises:
            KiroAsgiError: There was none.
        """
        line = await self._next("get")
        if line is None:
            return await super().get(model, exclude=exclude)
        return evolve(await super().get(model), source=line.text("credential"), host=line.text("host"))

    async def renew(self, refused: Credential) -> Credential | None:
        """The next renewal; ``None`` where there was no newer one.

        Raises:
            KiroAsgiError: It could not be refreshed.
        """
        line = await self._next("renew")
        return refused if line is not None and line.members.get("found") else None

    @contextmanager
    def asking(self, credential: Credential, model: str) -> Iterator[Callable[[], None]]:
        """Ask within the block, unless the credential rested then.

        Raises:
            KiroAsgiError: It did.
        """
        if self._lines and self._lines[0].text("asked") == "asking":
            raise _told_again(self._lines.popleft())
        with super().asking(credential, model) as accepted:
            yield accepted

    async def _next(self, asked: str) -> Line | None:
        if not self._lines or self._lines[0].text("asked") != asked:
            return None
        line = await _next(self._lines, self._clock)
        if line.text("error"):
            raise _told_again(line)
        return line


def _told_again(line: Line) -> KiroAsgiError:
    """The error of a *line*."""
    named = getattr(errors, line.text("error"), None)
    kind = named if isinstance(named, type) and issubclass(named, UpstreamError) else UpstreamDenied
    wait = None if line.members.get("retry_after") is None else line.number("retry_after")
    error = kind(line.text("message"), code=line.text("code"), retry_after=wait)
    error.asked = line.members.get("fresh") is not False
    return error


def resets_on(tape: Tape) -> Callable[[Credential], Awaitable[float | None]]:
    """Answers with the times of new quotas that are on *tape*, in their order."""
    lines = tape.of("reset")

    async def asked(credential: Credential) -> float | None:
        line = next(lines, None)
        return None if line is None else line.number("value")

    return asked
