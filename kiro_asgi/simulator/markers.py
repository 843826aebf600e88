"""Marker words, by which the text of a prompt chooses what happens.

A marker is ``sim:NAME`` or ``sim:NAME=PARAMETER`` (``sim:NAME:PARAMETER`` is the same) anywhere in the user's text.
The first marker that is an answer or a fault decides what is answered; markers that are changes apply to that, in
their order, and to the default answer where there is no other.  ``sim:tool sim:bytes`` is a tool call, one byte a
write.

`MARKERS` is the one table of them; `markers_as_markdown` prints it for the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.simulator.answers import ANSWERS, CHANGES, SENTENCE, Marker, number
from kiro_asgi.simulator.conversation import Conversation
from kiro_asgi.simulator.default_answer import compose, default_answer, thought_about
from kiro_asgi.simulator.kiro.faults import FAULTS
from kiro_asgi.simulator.pieces import CallPart, Ending, Hit, Piece, Seal, Sealed, Thought, Words, search
from kiro_asgi.simulator.scripts import Script, Trailers, json_answer, text, thinking, words

Change = tuple[str, Callable[[Script, str], Script], str]
"""Its effect in words, the change itself, the meaning of its parameter."""

ONCE: Final = "once-"
SYNTAX: Final = re.compile(r"(?<![\w:-])sim:([a-z0-9][a-z0-9-]*)(?:[=:]([\w.-]*\w))?")
MAX_MARKERS: Final = 16
"""Markers of one prompt; further ones are not read."""


@frozen
class MarkerEntry:
    """One row of the table of markers."""

    kind: str
    """``answer``, ``fault``, ``once`` (a fault the first time, then the default answer) or ``change``."""

    shows: str
    parameter: str = ""


@frozen
class Repertoire:
    """Everything that markers can ask of one service."""

    answers: Mapping[str, Marker]
    changes: Mapping[str, Change]
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
        """The rows for markers that *other* does not have."""
        return {name: entry for name, entry in self.entries().items() if name not in other.names}


REPERTOIRE: Final = Repertoire(ANSWERS, CHANGES, FAULTS)
"""The repertoire of the Kiro service."""


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
    """The script that the markers of *conversation* choose.

    Args:
        conversation: The request.
        first_time: Whether a once-only marker strikes for this conversation; called at most once, and for such only.
        repertoire: The markers that are known.
    """
    markers = find_markers(conversation.question)
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
            return default_answer(conversation)
        if plain not in repertoire.changes:
            marker = repertoire.answers.get(plain) or repertoire.faults[plain]
            return marker.script(conversation, parameter)
    return default_answer(conversation)


def markers_as_markdown() -> str:
    """`MARKERS` as a table for the documentation; the once-only faults, which repeat the others, as one row."""
    rows = [
        f"| `sim:{name}{'=…' * bool(entry.parameter)}` | {entry.kind} | {entry.shows} | {entry.parameter} |"
        for name, entry in MARKERS.items()
        if entry.kind != "once"
    ]
    once = f"| `sim:{ONCE}FAULT` | once | any fault the first time, an answer the second | as the fault |"
    return "\n".join(["| marker | kind | what happens | parameter |", "|---|---|---|---|", *rows, once]) + "\n"


HITS: Final = (
    Hit("https://example.org/weather", "Weather of the day"),
    Hit("https://example.com/news", "News of the day"),
)


def searched(conversation: Conversation, script: Script) -> Script:
    """*script* with a search before its first text; without any text, *script*."""
    at = next((at for at, step in enumerate(script) if isinstance(step, Words)), None)
    done = search(conversation.user_text[:80] or "simulated", *HITS)
    return script if at is None else (*script[:at], done, *script[at:])


def with_thought(conversation: Conversation, script: Script) -> Script:
    """*script* with a thought before everything else, if it has a call and no thought."""
    spots = [at for at, step in enumerate(script) if isinstance(step, Piece)]
    kinds = {type(script[at]) for at in spots}
    if CallPart not in kinds or kinds & {Thought, Seal, Sealed}:
        return script
    at = spots[0]
    return (*script[:at], *thinking(*words(thought_about(conversation))), *script[at:])


def _search(conversation: Conversation, _: str) -> Script:
    return searched(conversation, compose(conversation, *text(*words(SENTENCE))))


def _refused(conversation: Conversation, _: str) -> Script:
    return compose(conversation, trailers=Trailers("REFUSED"))


def _finished(conversation: Conversation, parameter: str) -> Script:
    return compose(conversation, *text(*words(SENTENCE)), trailers=Trailers(parameter or "OTHER"))


def habit(shows: str, parameter: str = "") -> Change:
    """A change that the format's encoder makes, because it sees the marker itself."""
    return shows, lambda script, _: script, parameter


def _cached(script: Script, parameter: str) -> Script:
    cached = int(number(parameter, 16, 1e6))
    return tuple(_with_cached(step, cached) if isinstance(step, Ending) else step for step in script)


def _with_cached(step: Ending, cached: int) -> Ending:
    return step if step.used is None else evolve(step, used=evolve(step.used, cached=cached))


EXTRA_ANSWERS: Final[Mapping[str, Marker]] = {
    "refused": Marker("no answer: the model, or the service, refuses in the format's own words", _refused),
    "search": Marker("text that rests on a web search of the service's own", _search),
    "finish": Marker("a text with this very word as its reason to end", _finished, "word (OTHER)"),
}

EXTRA_CHANGES: Final[Mapping[str, Change]] = {
    "cached": ("usage with input tokens from a cache", _cached, "tokens (16)"),
    "unstreamed": habit("one document, although a stream was asked for"),
}


def repertoire(
    answers: Mapping[str, Marker],
    changes: Mapping[str, Change],
    refusals: Mapping[str, tuple[Any, ...]],
    refusal: Callable[..., Script],
    envelope: Callable[..., Any],
) -> Repertoire:
    """Make the repertoire of a format: all that Kiro has, with refusals in the format's words, and more.

    Args:
        answers: Answers that only this format has.
        changes: Changes that only this format knows.
        refusals: Name of a fault to the arguments of *refusal*.
        refusal: Makes a script of one of them, and of ``retry_after``.
        envelope: Makes a body of one of them.
    """
    faults = {name: Marker(f"status {fields[0]}", _refusing(refusal, fields)) for name, fields in refusals.items()}
    delayed = Marker(FAULTS["429-retry-after"].shows, _throttled(refusal, refusals["429"]), "seconds (2)")
    friendly = Marker(FAULTS["json-200-error"].shows, lambda *_: json_answer(200, envelope(refusals["500"])))
    own = {**faults, "429-retry-after": delayed, "json-200-error": friendly}
    return Repertoire(
        {**ANSWERS, **EXTRA_ANSWERS, **answers}, {**CHANGES, **EXTRA_CHANGES, **changes}, {**FAULTS, **own}
    )


def _refusing(refusal: Callable[..., Script], refused: tuple[Any, ...]) -> Callable[[Conversation, str], Script]:
    return lambda conversation, parameter: refusal(*refused)


def _throttled(refusal: Callable[..., Script], refused: tuple[Any, ...]) -> Callable[[Conversation, str], Script]:
    return lambda conversation, parameter: refusal(*refused, retry_after=parameter or "2")
