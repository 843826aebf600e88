"""What a request is given besides answers, as it was then: files at addresses, what was stored, and what tools gave."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import field, frozen

from kiro_asgi.errors import RequestError, StoreUnavailable
from kiro_asgi.model.events import UNAVAILABLE, SearchHit, ToolOutput
from kiro_asgi.net.fetching import Fetched
from kiro_asgi.tapes.format import Line, Tape, TapeError
from kiro_asgi.wire.json import JsonError, loads

Clock = Callable[[], float]


@frozen
class TapeFiles:
    """The files that were fetched, in their order; nobody is asked for others."""

    _lines: deque[Line]
    _clock: Clock

    @classmethod
    def of(cls, tape: Tape, clock: Clock) -> TapeFiles:
        """The files of *tape*."""
        return cls(deque(tape.of("file")), clock)

    def allows(self, url: str) -> bool:
        """Whether there are any left: which were allowed is on the tape as what was fetched."""
        return bool(self._lines)

    async def fetch(self, places: Mapping[str, str], hold: Callable[[int], None]) -> Mapping[str, Fetched]:
        """The next files, one for each of *places*.

        Raises:
            RequestError: They were refused then, or are not on the tape.
        """
        found: dict[str, Fetched] = {}
        for url, place in places.items():
            if not self._lines:
                raise RequestError(f"{place}: a replay asks nobody", code="replay", param=place)
            line = await _next(self._lines, self._clock)
            if words := line.text("error"):
                raise RequestError(words, code=line.text("code"), param=line.text("param"))
            found[url] = Fetched(line.text("media_type"), line.data)
        return found

    async def aclose(self) -> None:
        """Nothing is open."""


@frozen
class TapeStore:
    """A store that gives what was read then, in that order, whatever the key; what is kept is forgotten."""

    _lines: deque[Line]
    _clock: Clock

    @classmethod
    def of(cls, tape: Tape, clock: Clock) -> TapeStore:
        """What requests before that of *tape* had left."""
        return cls(deque(tape.of("stored")), clock)

    async def get(self, key: str) -> bytes | None:
        """The next value; ``None`` where there was none, or the tape has no more.

        Raises:
            StoreUnavailable: It was not to be had then.
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
        """Nothing: what a later read found is on the tape."""

    async def delete(self, key: str) -> None:
        """Nothing, likewise."""

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Exclude nobody: there is nobody else."""
        yield

    async def aclose(self) -> None:
        """Nothing is open."""


@frozen
class TapeTool:
    """A tool that gives what it gave then."""

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
    """The tools that were run, each with what it gave; calls over a limit were not."""
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
        told = loads(line.data)
        return ToolOutput(tuple(SearchHit(**hit) for hit in told.pop("hits")), **told)
    except (JsonError, TypeError, KeyError, AttributeError):
        raise TapeError("what a tool gave cannot be read", code="tape.tool") from None
