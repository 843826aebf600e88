"""What a request is given besides answers, as it was then: files at addresses, and what tools gave."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import anyio
from attrs import field, frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.model.server_tools import UNAVAILABLE, SearchHit, ToolOutput
from kiro_asgi.net.fetching import Fetched
from kiro_asgi.tapes.format import Line, Tape, TapeError
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["TapeFiles", "TapeTool", "tools_of"]

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
            line = self._lines.popleft()
            await anyio.sleep(max(0.0, line.t - self._clock()))
            if words := line.text("error"):
                raise RequestError(words, code=line.text("code"), param=line.text("param"))
            found[url] = Fetched(line.text("media_type"), line.data)
        return found

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
        line = self._lines.popleft()
        await anyio.sleep(max(0.0, line.t - self._clock()))
        return _output(line)


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
