"""A call whose arguments come in pieces: each says where in them it stands.

``functionCall.partialArgs`` is a list of ``{"jsonPath": "$.place.city", "stringValue": "Par", "willContinue": true}``;
the next piece of the same path goes on where this one ends.  The first event of a call has its name, the following have
none, and the last one says no more that the call goes on.

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import JSON_DEPTH
from kiro_asgi.model.budget import ITEM, AnswerBudget, size_of_value
from kiro_asgi.wire.json import dumps, objects_of, text_of

_STEP: Final = re.compile(r"\.([^.\[\]'\"]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue", "structValue", "listValue")

Step = str | int
Path = tuple[Step, ...]


@define
class PartialCall:
    """One call so far.

    Raises:
        AnswerTooLarge: From `take`: there is no room for more.
    """

    call_id: str
    name: str
    _budget: AnswerBudget
    _given: dict[Path, list[Any]] = field(init=False, factory=dict)
    """By the path, the pieces of its value, in the order in which paths came."""

    _is_readable: bool = field(init=False, default=True)

    def take(self, call: Mapping[str, Any]) -> None:
        """Take what one event says of the call."""
        if type(whole := call.get("args")) is dict:
            for name, value in whole.items():
                self._keep((name,), value)
        for piece in objects_of(call.get("partialArgs")):
            path = _path_of(text_of(piece, "jsonPath"))
            kind = next((kind for kind in _VALUES if kind in piece), "")
            if path and kind:
                self._keep(path, None if kind == "nullValue" else piece[kind])
            elif kind:
                self._is_readable = False

    def _keep(self, path: Path, value: Any) -> None:
        self._budget.take(ITEM + size_of_value(value) + size_of_value([*path]))
        self._given.setdefault(path, []).append(value)

    def written(self) -> str:
        """The arguments as JSON; text that is none, where a piece of them has no place."""
        arguments: dict[str, Any] = {}
        placed = all(_place(arguments, path, pieces) for path, pieces in self._given.items())
        return dumps(arguments).decode() if placed and self._is_readable else "{"


def _path_of(text: str) -> Path:
    """The steps of a path of JSON; none of one that is not understood, or deeper than JSON may be."""
    steps: list[Step] = []
    at = 1
    while text[:1] == "$" and at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return ()
        steps.append(int(found[2]) if found[2] else found[1] or found[3] or found[4] or "")
        at = found.end()
    return tuple(steps) if len(steps) < JSON_DEPTH else ()


def _place(arguments: dict[str, Any], path: Path, pieces: list[Any]) -> bool:
    """Put the value that *pieces* make up where *path* leads; whether there is such a place."""
    value = "".join(pieces) if all(type(piece) is str for piece in pieces) else pieces[-1]
    node: Any = arguments
    for step, following in zip(path, (*path[1:], None), strict=True):
        fresh = value if following is None else [] if type(following) is int else {}
        if type(step) is int:
            if type(node) is not list or step > len(node):
                return False
            if step == len(node):
                node.append(fresh)
        elif type(node) is not dict:
            return False
        else:
            node.setdefault(step, fresh)
        node = node[step]
    return True
