"""Marker words: how the text of a prompt chooses what happens.

A marker is ``sim:NAME`` or ``sim:NAME=PARAMETER`` (``sim:NAME:PARAMETER`` is the same) anywhere in the user's text.
The first marker that is an answer or a fault decides what is answered; markers that are changes apply to that, in
their order, and to small talk where there is no other.  ``sim:tool sim:bytes`` is a tool call, one byte a write.

`MARKERS` is the one table of them; `markers_as_markdown` prints it for the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kiro_asgi.simulator.answers import ANSWERS, CHANGES, Marker
from kiro_asgi.simulator.builders import text, words
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.faults import FAULTS
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.smalltalk import compose, converse

__all__ = ["MARKERS", "REPERTOIRE", "MarkerEntry", "Repertoire", "find_markers", "markers_as_markdown", "play"]

ONCE: Final = "once-"
SYNTAX: Final = re.compile(r"(?<![\w:-])sim:([a-z0-9][a-z0-9-]*)(?:[=:]([\w.-]*\w))?")
MAX_MARKERS: Final = 16
"""Markers of one prompt; further ones are not read."""


@frozen
class MarkerEntry:
    """One row of the table of markers."""

    kind: str
    """``answer``, ``fault``, ``once`` (a fault the first time, then small talk) or ``change``."""

    shows: str
    parameter: str = ""


@frozen
class Repertoire:
    """What one service can be asked for."""

    answers: Mapping[str, Marker]
    changes: Mapping[str, tuple[str, Callable[[Script, str], Script], str]]
    faults: Mapping[str, Marker]

    @property
    def names(self) -> dict[str, None]:
        """The names of all, in order."""
        return dict.fromkeys((*self.answers, *self.changes, *self.faults))

    def entries(self) -> dict[str, MarkerEntry]:
        """A row of the table of markers for each, without the once-only faults."""
        return {
            **{name: MarkerEntry("answer", one.shows, one.parameter) for name, one in self.answers.items()},
            **{name: MarkerEntry("change", shows, parameter) for name, (shows, _, parameter) in self.changes.items()},
            **{name: MarkerEntry("fault", one.shows, one.parameter) for name, one in self.faults.items()},
        }

    def entries_beside(self, other: Repertoire) -> dict[str, MarkerEntry]:
        """The rows for what *other* does not know."""
        return {name: entry for name, entry in self.entries().items() if name not in other.names}


REPERTOIRE: Final = Repertoire(ANSWERS, CHANGES, FAULTS)
"""What the Kiro service can be asked for."""


def _table() -> dict[str, MarkerEntry]:
    faults = FAULTS.items()
    return {
        **REPERTOIRE.entries(),
        **{ONCE + name: MarkerEntry("once", f"{one.shows}; the second time an answer") for name, one in faults},
    }


MARKERS: Final[Mapping[str, MarkerEntry]] = MappingProxyType(_table())
"""Every marker: name (without ``sim:``) to what it does."""


def find_markers(prompt: str) -> list[tuple[str, str]]:
    """Names and parameters of the markers in *prompt*, known or not."""
    found = (next(matches, None) for matches in [SYNTAX.finditer(prompt)] for _ in range(MAX_MARKERS))
    return [(match[1], match[2] or "") for match in found if match]


def play(conversation: Conversation, first_time: Callable[[str], bool], repertoire: Repertoire = REPERTOIRE) -> Script:
    """The script that *conversation* asks for.

    Args:
        conversation: The request.
        first_time: Whether a once-only marker strikes for this conversation; called at most once, and for such only.
        repertoire: What can be asked for.
    """
    markers = find_markers(conversation.content)
    script = _answer(conversation, markers, first_time, repertoire)
    for name, parameter in markers:
        if name in repertoire.changes:
            script = repertoire.changes[name][1](script, parameter)
    return script


def _answer(
    conversation: Conversation,
    markers: list[tuple[str, str]],
    first_time: Callable[[str], bool],
    repertoire: Repertoire,
) -> Script:
    for name, parameter in markers:
        plain = name.removeprefix(ONCE)
        if plain not in repertoire.names or (plain != name and plain not in repertoire.faults):
            known = ", ".join(repertoire.names)
            return compose(conversation, *text(*words(f"There is no marker sim:{name}. There are: {known}.")))
        if plain != name and not first_time(name):
            return converse(conversation)
        if plain not in repertoire.changes:
            marker = repertoire.answers.get(plain) or repertoire.faults[plain]
            return marker.script(conversation, parameter)
    return converse(conversation)


def markers_as_markdown() -> str:
    """`MARKERS` as a table for the documentation; the once-only faults, which repeat the others, as one row."""
    rows = [
        f"| `sim:{name}{'=…' * bool(entry.parameter)}` | {entry.kind} | {entry.shows} | {entry.parameter} |"
        for name, entry in MARKERS.items()
        if entry.kind != "once"
    ]
    once = f"| `sim:{ONCE}FAULT` | once | any fault the first time, an answer the second | as the fault |"
    return "\n".join(["| marker | kind | what happens | parameter |", "|---|---|---|---|", *rows, once]) + "\n"
