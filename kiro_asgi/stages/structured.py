"""Whether an answer that was to be a JSON object is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any, Final

from attrs import define, field

from kiro_asgi.limits import STRUCTURED_CHARACTERS, VALIDATION_STEPS
from kiro_asgi.model.events import Delta, Notice, Stop, StopReason, TextDelta
from kiro_asgi.stages.json_schema import Mismatch, Open, Undecided, check
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["NOT_JSON", "SCHEMA_MISMATCH", "UNCHECKED", "StructuredCheck"]

NOT_JSON: Final = "output.not_json"
"""The answer's text is not one JSON object."""

SCHEMA_MISMATCH: Final = "output.schema_mismatch"
"""It is one, but not as the schema says; the detail is the place."""

UNCHECKED: Final = "output.unchecked"
"""Whether it is one was not found out; the detail is ``length``, or ``budget`` where that takes too many steps."""


@define
class StructuredCheck:
    """Pass everything on, and add a `Notice` before a `Stop` if the answer's text is not what was asked for.

    Only an answer that came to its own end is checked.
    """

    _schema: Mapping[str, Any]
    """JSON Schema of the answer."""

    _text: StringIO = field(init=False, factory=StringIO)
    _size: int = field(init=False, default=0)

    def feed(self, items: Iterable[Delta], /) -> Iterator[Delta]:
        """Pass *items* on."""
        for item in items:
            if type(item) is TextDelta:
                self._keep(item.text)
            elif type(item) is Stop and item.reason is StopReason.END:
                yield from self._check()
            yield item

    def flush(self) -> Iterator[Delta]:
        """Nothing: the check was made at the `Stop`."""
        return iter(())

    def _keep(self, text: str) -> None:
        self._size += len(text)
        if self._size <= STRUCTURED_CHARACTERS:
            self._text.write(text)
        else:
            self._text = StringIO()

    def _check(self) -> Iterator[Notice]:
        text = self._text.getvalue()
        # Arrays and objects are counted before there are any: the garbage collector makes very many of them dear.
        if self._size > STRUCTURED_CHARACTERS or text.count("{") + text.count("[") > VALIDATION_STEPS:
            yield Notice(UNCHECKED, "length")
            return
        try:
            value = loads(text)
        except JsonError:
            value = None
        if not isinstance(value, dict):
            yield Notice(NOT_JSON)
            return
        verdict = check(self._schema, value)
        if isinstance(verdict, Mismatch):
            yield Notice(SCHEMA_MISMATCH, verdict.place)
        elif isinstance(verdict, Undecided) and verdict.why is Open.BUDGET:
            yield Notice(UNCHECKED, verdict.why.value)
