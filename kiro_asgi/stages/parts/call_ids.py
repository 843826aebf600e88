"""Ids of calls that are unique over a conversation: clients pair calls with results by them.

Some services count the calls of each answer anew, so the ids of one answer are those of an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kiro_asgi.model.prompt import ToolCallPart, ToolResult, Turn

_COUNTED: Final = re.compile(r"(?<![0-9])[0-9]{1,6}\Z")
"""A number at the end of an id."""


@define
class CallIds:
    """The ids of one answer's calls, as its client is shown them."""

    _conversation: Iterable[Turn] = ()
    """The turns that the client will send back before the answer."""

    _taken: set[str] | None = field(init=False, default=None)
    """Ids that the client has been shown; ``None`` until the first call."""

    _shown: dict[str, str] = field(init=False, factory=dict)
    """The service's id to the one that is shown."""

    _numbers: dict[str, int] = field(init=False, factory=dict)
    """The number that was given last behind each stem."""

    def shown(self, call_id: str) -> str:
        """The id of the call that the service names *call_id*: the same, or one that goes on counting from it."""
        known = self._shown.get(call_id)
        if known is not None:
            return known
        if self._taken is None:
            self._taken = set(_ids(self._conversation))
        shown = self._shown[call_id] = call_id if call_id not in self._taken else self._free(call_id, self._taken)
        self._taken.add(shown)
        return shown

    def _free(self, call_id: str, taken: set[str]) -> str:
        counted = _COUNTED.search(call_id)
        stem, number = (call_id[: counted.start()], int(counted[0])) if counted else (f"{call_id}_", 1)
        number = max(number, self._numbers.get(stem, 0))
        while (candidate := f"{stem}{number}") in taken:
            number += 1
        self._numbers[stem] = number
        return candidate


def _ids(turns: Iterable[Turn]) -> Iterator[str]:
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, ToolCallPart | ToolResult):
                yield part.call_id
