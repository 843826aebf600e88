"""The small stages that only some answers need."""

from __future__ import annotations

import pytest

from kiro_asgi.model.events import Notice, TextDelta, ToolCallEnd, ToolCallStart, ToolInputDelta
from kiro_asgi.stages.filters import EventCounter, SingleCall, ToolNames
from tests.helpers import run, run_apart


def call(call_id: str, name: str = "f"):
    return [ToolCallStart(call_id, name), ToolInputDelta("{}"), ToolCallEnd(call_id)]


@pytest.mark.parametrize("feed", [run, run_apart], ids=["at-once", "one-by-one"])
def test_only_the_first_call_passes(feed):
    """Without parallel calls the first one is delivered, the others are noted, text is untouched."""
    items = [TextDelta("a"), *call("1"), TextDelta("b"), *call("2", "g"), TextDelta("c")]

    assert feed(SingleCall(), items) == [
        TextDelta("a"),
        *call("1"),
        TextDelta("b"),
        Notice("tool_call.not_parallel", "g"),
        TextDelta("c"),
    ]


def test_a_tool_gets_its_own_name_back():
    """A name that was changed on the way up is changed back on the way down; any other stays."""
    items = [*call("1", "short"), *call("2", "other")]

    assert run(ToolNames({"short": "a name with blanks"}), items) == [
        *call("1", "a name with blanks"),
        *call("2", "other"),
    ]


def test_a_pulse_counts_when_something_passes():
    """One count for all that is fed at once, and nothing is changed."""
    counter = EventCounter()

    assert list(counter.feed([])) == []
    assert counter.count == 0
    assert run(counter, [TextDelta("a"), TextDelta("")]) == [TextDelta("a"), TextDelta("")]
    assert counter.count == 1
