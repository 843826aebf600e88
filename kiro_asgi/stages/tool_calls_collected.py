"""Tool calls as records, for those who collect an answer themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import ToolCallFragment, TruncationInfo
from kiro_asgi.stages.mending import MENDINGS, parse_arguments
from kiro_asgi.stages.tool_buffer import OpenCall, OpenCalls, fingerprint
from kiro_asgi.stages.truncation import is_cut, truncation_info
from kiro_asgi.wire.json import JsonError

__all__ = ["ToolCall", "ToolCallAccumulator", "deduplicate_tool_calls"]


@frozen
class ToolCall:
    """One tool call as the upstream made it, whole or not."""

    id: str
    name: str
    input: Any
    """The parsed arguments; the raw text where they do not parse."""

    truncation_info: TruncationInfo | None = None
    """Why *input* is raw text, where it was cut short."""

    malformed: str = ""
    """Why it is, where it is complete; empty where it is not raw text, or was cut."""


@define
class ToolCallAccumulator:
    """Gather fragments into calls.

    Nothing is dropped: a call that the upstream repeats comes out twice, see `deduplicate_tool_calls`.

    Raises:
        AnswerTooLarge: From `feed`: the open calls, or the number of all calls, take more than the budget.
    """

    budget: AnswerBudget = field(factory=AnswerBudget)
    """Of the answer."""

    _calls: OpenCalls[OpenCall] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = OpenCalls(OpenCall, self.budget)

    def feed(self, fragments: Iterable[ToolCallFragment]) -> list[ToolCall]:
        """The calls that end with *fragments*.

        One without an id belongs to the call opened last, or opens one, which gets an id.
        """
        done = []
        for fragment in fragments:
            call = self._calls.find(fragment.call_id, fragment.name)
            if call is None:
                call = self._calls.open(fragment.call_id or self._calls.new_id())
            call.take_name(fragment.name)
            call.write(fragment.input)
            if fragment.stop:
                self._calls.take(call)
                call.release()
                done.append(_record(call, stopped=True))
        return done

    def finalize(self) -> list[ToolCall]:
        """The calls that never ended."""
        return [_record(call, stopped=False) for call in self._calls.take_all()]


def deduplicate_tool_calls(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """One call an id, that with the most complete arguments, and of calls with equal name and arguments the first.

    The order is that of first appearance.  Calls without an id are only compared by name and arguments.
    """
    best: dict[object, ToolCall] = {}
    for number, call in enumerate(calls):
        key = call.id or number
        if key not in best or _merit(call) > _merit(best[key]):
            best[key] = call
    unique: dict[bytes, ToolCall] = {}
    for call in best.values():
        unique.setdefault(fingerprint(call.name, call.input), call)
    return list(unique.values())


def _record(call: OpenCall, *, stopped: bool) -> ToolCall:
    text = call.text
    if stopped and not text.strip():
        return ToolCall(call.call_id, call.name, {})
    try:
        return ToolCall(call.call_id, call.name, parse_arguments(text, MENDINGS).value)
    except JsonError as error:
        if not is_cut(text, stopped=stopped):
            return ToolCall(call.call_id, call.name, text, malformed=error.message)
        return ToolCall(call.call_id, call.name, text, truncation_info(call.call_id, call.name, text))


def _merit(call: ToolCall) -> tuple[bool, int]:
    """What could be read before what could not, then by the length of the arguments; no arguments are the least."""
    return bool(call.input) and call.truncation_info is None and not call.malformed, len(json.dumps(call.input))
