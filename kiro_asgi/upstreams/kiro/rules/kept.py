"""Parts of a request's body that are kept for the next request of a conversation, with their bytes and their weight.

An agent sends its tools and its history again with each turn.  What was written of them is found again by the turns and
tools themselves, see `kiro_asgi.model.prompt.Kept`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, TypeVar

from kiro_asgi.wire.json import dumps

T = TypeVar("T")
S = TypeVar("S", bound="_Fragment")


def are_same(these: Sequence[object], those: Sequence[object]) -> bool:
    """Whether the very same objects are in both, in one order."""
    return len(these) == len(those) and all(map(is_, these, those))


class _Fragment:
    """Read-only."""

    _data = b""
    _weight: tuple[object, Any] = (None, None)

    @property
    def data(self) -> bytes:
        """It as JSON."""
        if not self._data:
            self._data = dumps(self)
        return self._data

    def weight(self: S, weigh: Callable[[S], T], by: object) -> T:
        """What it is found to *weigh*, once for all that is weighed *by* the same."""
        if self._weight[0] is not by:
            self._weight = by, weigh(self)
        weight: T = self._weight[1]
        return weight


class Message(dict[str, Any], _Fragment):
    """One item of the history."""


class Tools(list[dict[str, Any]], _Fragment):
    """The ``tools`` of the current message."""
