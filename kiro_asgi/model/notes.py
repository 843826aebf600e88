"""Changes of a request on its way to a service: rules, as tables list them, and notes of those that applied."""

from __future__ import annotations

from enum import Enum

from attrs import define, field, frozen


class Loss(Enum):
    """The part of the client's request that is lost by a rule."""

    NONE = "none"
    """Nothing is lost, or the request is refused with a message."""

    FORM = "form"
    """All content is sent, in another form or at another place."""

    CONTENT = "content"
    """Some content is not sent."""


@frozen
class Rule:
    """One constraint, or one quirk, of a service or of an API, and how a request is adapted to it."""

    name: str
    what: str
    """One sentence."""

    loss: Loss
    module: str
    """The module that applies it, of the table's own package unless it has a dot."""


@frozen
class Note:
    """One rule that had something to adapt."""

    rule: str
    """Its name, e.g. ``calls.unanswered``."""

    times: int = 1
    place: str = ""
    """Where in the client's request it first applied, e.g. ``messages[3].content[0]``; empty for no place."""


@define
class Notes:
    """Collects notes of the rules that apply; code that applies a rule asks `applies` before it changes anything."""

    off: frozenset[str] = frozenset()
    """The rules that are switched off."""

    _times: dict[str, int] = field(init=False, factory=dict)
    _places: dict[str, str] = field(init=False, factory=dict)

    def applies(self, rule: str, place: str = "", times: int = 1) -> bool:
        """Whether *rule*, which has something to do at *place*, may do it; if so, that is noted."""
        if rule in self.off:
            return False
        self._times[rule] = self._times.get(rule, 0) + times
        if place and not self._places.get(rule):
            self._places[rule] = place
        return True

    def found(self) -> tuple[Note, ...]:
        """A note for every rule, in the order in which they were met."""
        return tuple(Note(rule, times, self._places.get(rule, "")) for rule, times in self._times.items())
