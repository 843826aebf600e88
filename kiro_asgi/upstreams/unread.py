"""Members of an answer that its reader does not know by name, and what has another shape than it should."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from attrs import define, field

from kiro_asgi.failures.texts import clean
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.model.events import Notice
from kiro_asgi.wire.json import dumps

_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def parts_of(content: Any, **of_text: str) -> Iterator[Mapping[str, Any]]:
    """The parts of *content*; some servers give one without a list around it, or its text alone.

    Args:
        content: A list of parts, or what stands in its place.
        of_text: Members of a part that is text, beside ``text``.
    """
    for part in content if type(content) is list else (content,):
        if type(part) is dict:
            yield part
        elif type(part) is str:
            yield {**of_text, "text": part}


def arguments_text(arguments: Any) -> str:
    """Arguments of a call as JSON text: some servers give an object where others give its text; empty for none."""
    if type(arguments) is str:
        return arguments
    return "" if arguments is None else dumps(arguments).decode()


def others(value: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
    """Members of *value* but those that are *known*."""
    if value.keys() <= known:  # as nearly always
        return {}
    return {name: member for name, member in value.items() if name not in known}


def unplaced(members: Iterable[str]) -> tuple[Notice, ...]:
    """A notice of *members* that are handed on to nobody; none of no members."""
    names = ", ".join(members)
    return (Notice("members.unknown", clean(names)),) if names else ()


def within(**members: Mapping[str, Any]) -> dict[str, Any]:
    """An object of those *members* that are not empty."""
    return {name: member for name, member in members.items() if member}


def is_word(kind: str) -> bool:
    """Whether a stream may name an event like this: in a line of its own, where there is no quoting."""
    return _WORD.fullmatch(kind) is not None


def arguments_in(call: Mapping[str, Any]) -> str:
    """The arguments of *call* as JSON text, under whatever name, or a tool would be called with none; empty where there
    are none."""
    found = (call[name] for name in ARGUMENTS if call.get(name) is not None)
    return arguments_text(next(found, None))


ARGUMENTS: Final = ("arguments", "args", "input", "parameters")
"""What APIs call the arguments of a call."""


@define
class Repeated:
    """Members that the events of an answer repeat.

    Raises:
        AnswerTooLarge: There is no room for them.
    """

    _budget: AnswerBudget
    _latest: dict[str, tuple[Any, int]] = field(init=False, factory=dict)
    """Each with the room that it takes."""

    def new(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Those that have a value, and did not have it before."""
        found = {name: value for name, value in members.items() if value is not None and not self.knows(name, value)}
        for name, value in found.items():
            _, room = self._latest.get(name, (None, 0))
            size = ITEM + size_of_value(value)
            self._budget.take(size - room)
            self._latest[name] = value, size
        return found

    def knows(self, name: str, value: Any) -> bool:
        """Whether the latest value of this member was the same."""
        return name in self._latest and self._latest[name][0] == value


@define
class Told:
    """Names of members that an answer has and nobody here understands, less those that are handed on.

    An API whose last event repeats the others says most things twice: whoever reads it hands on one of them.

    Raises:
        AnswerTooLarge: There is no room for them.
    """

    _known: Set[str]
    """Names that are understood, wherever they stand."""

    _own: Set[str]
    """Members whose values may have any members, and are not looked into."""

    _budget: AnswerBudget
    _seen: dict[str, bool] = field(init=False, factory=dict)
    """Each with whether it is handed on."""

    def see(self, value: Mapping[str, Any]) -> None:
        """Take the names in *value*."""
        for name in self._names(value):
            self._take(name)

    def hand_on(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """*members*, which somebody gets."""
        for name in self._names(members):
            self._take(name)
            self._seen[name] = True
        return members

    def rest(self) -> tuple[Notice, ...]:
        """A notice of the names that nobody gets."""
        return unplaced(name for name, handed in self._seen.items() if not handed)

    def _take(self, name: str) -> None:
        if name not in self._seen:
            self._budget.take(ITEM + size_of_value(name))
            self._seen[name] = False

    def _names(self, value: Any) -> Iterator[str]:
        """Names in *value* that are not known; those without a value say nothing.  No recursion, whatever its depth."""
        rest = [value]
        while rest:
            item = rest.pop()
            if isinstance(item, Mapping):
                for name, each in item.items():
                    if name not in self._known and each is not None:
                        yield name
                    if type(each) in _NESTING and name not in self._own:
                        rest.append(each)
            else:
                rest += (each for each in item if type(each) in _NESTING)


_NESTING: Final = (dict, list)
