"""What was adapted in one request, and which rules are in force."""

from __future__ import annotations

from attrs import define, field

from kiro_asgi.errors import ContextTooLong, RequestError
from kiro_asgi.upstreams.base import Note

__all__ = ["Notes", "refusal", "too_long"]


@define
class Notes:
    """Rules ask here before they do something."""

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


def refusal(rule: str, what: str, place: str) -> RequestError:
    """What to raise where *rule* finds something that the service cannot be asked."""
    place = place or "messages"
    return RequestError(f"{place}: not supported: {what} (rule {rule})", code="unsupported_value", param=place)


def too_long(rule: str, what: str, place: str) -> ContextTooLong:
    """What to raise where *rule* finds more than the service reads; clients know the first four words."""
    place = place or "messages"
    return ContextTooLong(f"prompt is too long: {what} (rule {rule})", code="context_too_long", param=place)
