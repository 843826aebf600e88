"""Members of an answer that its reader does not know by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any, Final

from attrs import define, field

from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value

_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def others(value: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
    """Members of *value* but those that are *known*."""
    if value.keys() <= known:  # as nearly always
        return {}
    return {name: member for name, member in value.items() if name not in known}


def within(**members: Mapping[str, Any]) -> dict[str, Any]:
    """An object of those *members* that are not empty."""
    return {name: member for name, member in members.items() if member}


def is_word(kind: str) -> bool:
    """Whether a stream may name an event like this: in a line of its own, where there is no quoting."""
    return _WORD.fullmatch(kind) is not None


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
