"""Notes of the rules that were applied to a request on its way to a service, see `kiro_asgi.model.rules`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define, field, frozen


@frozen
class Note:
    """One rule that had something to adapt."""

    rule: str
    """Its name, e.g. ``calls.unanswered``."""

    times: int = 1
    place: str = ""
    """Where in the client's request it first applied, e.g. ``messages[3].content[0]``; empty for no place."""

    kept_for: str = ""
    """The client API whose services are sent all the same what the rule says is left out; empty for none."""


def holding(notes: Iterable[Note], api: str) -> tuple[Note, ...]:
    """Those of the *notes* that hold for a service of this client *api*; empty for one of none."""
    return tuple(note for note in notes if not (note.kept_for and note.kept_for == api))


@define
class Notes:
    """Collects notes of the rules that apply; code that applies a rule asks `applies` before it changes anything."""

    off: frozenset[str] = frozenset()
    """The rules that are switched off."""

    _times: dict[tuple[str, str], int] = field(init=False, factory=dict)
    """By the rule, and by whom what it leaves out is kept for."""

    _places: dict[tuple[str, str], str] = field(init=False, factory=dict)
    _log: list[Note] | None = field(init=False, default=None)

    def applies(self, rule: str, place: str = "", times: int = 1, kept_for: str = "") -> bool:
        """Whether *rule*, which has something to do at *place*, may do it; if so, that is noted."""
        if rule in self.off:
            return False
        if self._log is not None:
            self._log.append(Note(rule, times, place, kept_for))
        key = rule, kept_for
        self._times[key] = self._times.get(key, 0) + times
        if place and not self._places.get(key):
            self._places[key] = place
        return True

    @contextmanager
    def logged(self) -> Iterator[list[Note]]:
        """Gives the notes that are made meanwhile, one for each time, so that `again` can make them."""
        self._log = []
        try:
            yield self._log
        finally:
            self._log = None

    def again(self, logged: Iterable[Note]) -> None:
        """Make notes that were `logged`."""
        for note in logged:
            self.applies(note.rule, note.place, note.times, note.kept_for)

    def found(self) -> tuple[Note, ...]:
        """A note for every rule, in the order in which they were met; two where some of what it leaves out is kept."""
        return tuple(
            Note(rule, times, self._places.get((rule, api), ""), api) for (rule, api), times in self._times.items()
        )


@define
class Unheard(Notes):
    """Notes that nobody wants: nothing is looked at for their sake alone."""

    def applies(self, rule: str, place: str = "", times: int = 1, kept_for: str = "") -> bool:
        """That *rule* may do it."""
        return True


UNHEARD: Final[Notes] = Unheard()
