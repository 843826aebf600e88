"""Calls of MCP tools under a name that is nearly, but not quite, that of a tool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from kiro_asgi.model.events import Delta, Notice, ToolCallStart
from kiro_asgi.stages.base import Filter

CORRECTED: Final = "tool_call.name_corrected"
"""A call goes out under the name of a registered tool; the detail is both names."""

MCP: Final = "mcp__"
"""The prefix of MCP tools' names; ``mcp__server__tool`` is usual."""

_NAME: Final = re.compile(r"mcp__[A-Za-z0-9_.-]{1,200}")
"""Names that are looked at, and may be logged."""

_LEAST_PART: Final = 3
"""Fewest letters of a name that is looked for within other names."""

_LEAST_LIKENESS: Final = 0.6


@frozen
class _Name:
    """An MCP tool's name, taken apart, in lower case."""

    server: str
    """Empty where the name has no server part."""

    tool: str

    def comparable(self, given: _Name) -> str:
        """The part to compare with the name *given*: where that has a server, the servers are equal."""
        return self.tool if given.server else f"{self.server}__{self.tool}"


Candidates = Sequence[tuple[str, _Name]]
"""Registered names, as they are and taken apart."""


def respelled(name: str, registered: Collection[str]) -> str:
    """The registered name that *name* must have meant; *name* itself where none is certain.

    Only MCP names are looked at, and a server in *name* has to be the candidate's.  The first rule with a match
    decides, and several matches decide against any:

    1. the same but for upper and lower case;
    2. the tool's own name, without its server;
    3. a part of the name, of three characters or more;
    4. most words in common: at least 0.6 of the longer name's, and more than any other candidate.
    """
    if name in registered or not _NAME.fullmatch(name):
        return name
    given = _taken_apart(name)
    known = ((it, _taken_apart(it)) for it in registered if it.startswith(MCP))
    candidates = [(it, apart) for it, apart in known if not given.server or apart.server == given.server]
    for rule in _RULES:
        if matches := rule(given, candidates):
            return matches[0] if len(matches) == 1 else name
    return name


@frozen
class ToolSpelling(Filter[Delta]):
    """Gives calls the names that `respelled` finds, and notes each."""

    registered: Collection[str]
    """Names of the client's tools."""

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """The same deltas, MCP tools under registered names."""
        for item in items:
            if type(item) is ToolCallStart:
                name = respelled(item.name, self.registered)
                if name != item.name:
                    yield Notice(CORRECTED, f"{item.name} -> {name}")
                    item = evolve(item, name=name)
            yield item


def _taken_apart(name: str) -> _Name:
    server, _, tool = name.removeprefix(MCP).lower().rpartition("__")
    return _Name(server, tool)


def _same(given: _Name, candidates: Candidates) -> list[str]:
    return [it for it, name in candidates if name == given]


def _same_tool(given: _Name, candidates: Candidates) -> list[str]:
    return [it for it, name in candidates if name.tool == given.tool]


def _containing(given: _Name, candidates: Candidates) -> list[str]:
    if len(given.tool) < _LEAST_PART:
        return []
    return [it for it, name in candidates if given.tool in name.comparable(given)]


def _most_alike(given: _Name, candidates: Candidates) -> list[str]:
    ours = _words(given.tool)
    scores = {it: _likeness(ours, _words(name.comparable(given))) for it, name in candidates}
    best = max(scores.values(), default=0.0)
    return [it for it, score in scores.items() if score == best >= _LEAST_LIKENESS]


def _words(name: str) -> Counter[str]:
    return Counter(re.split(r"[_.-]+", name))


def _likeness(ours: Counter[str], theirs: Counter[str]) -> float:
    """Words in common, by the number of words in the longer name."""
    return (ours & theirs).total() / max(ours.total(), theirs.total())


_RULES: Final[tuple[Callable[[_Name, Candidates], list[str]], ...]] = (_same, _same_tool, _containing, _most_alike)
