"""Code that the service ran, and what that wrote, as text: no client API has a part for it that Converse shares.

Source: https://docs.aws.amazon.com/nova/latest/userguide/tool-built-in.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.upstreams.media import fenced, printed
from kiro_asgi.wire.json import JsonError, count_of, loads, object_of, objects_of, text_of

CODE: Final = "nova_code_interpreter"
"""Name of the tool."""

RESULT: Final = "nova_code_interpreter_result"
"""Type of its results."""


@define
class Ran:
    """A call of the tool, or its result, while it comes."""

    _pieces: list[str] = field(init=False, factory=list)
    """JSON text."""

    _results: list[Mapping[str, Any]] = field(init=False, factory=list)

    def take(self, delta: Mapping[str, Any]) -> None:
        """Take a piece."""
        self._pieces.append(text_of(object_of(delta.get("toolUse")), "input"))
        result = delta.get("toolResult")
        self._results += objects_of(object_of(result).get("content") if type(result) is dict else result)

    def shown(self) -> str:
        """All of it; empty for nothing that can be read."""
        code = text_of(_read("".join(self._pieces)), "code")
        written = "".join(_written(text_of(each, "text")) for each in self._results)
        objects = (object_of(each.get("json")) for each in self._results)
        return "".join((fenced(code, "python") if code else "", written, *map(_told, filter(None, objects))))


def _read(text: str) -> Mapping[str, Any]:
    try:
        return object_of(loads(text)) if text else {}
    except JsonError:
        return {}


def _written(text: str) -> str:
    """A result that is a text, as a rule the JSON of one."""
    report = _read(text)
    return _told(report) if "stdOut" in report else printed(text)


def _told(report: Mapping[str, Any]) -> str:
    code = count_of(report, "exitCode")
    return printed(text_of(report, "stdOut"), text_of(report, "stdErr"), f"exit code {code}" if code else "")
