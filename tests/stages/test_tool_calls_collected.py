from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.model.events import ToolCallFragment as Fragment
from kiro_asgi.stages.parts.argument_text import truncation_info
from kiro_asgi.stages.parts.open_calls import ToolCall, ToolCallAccumulator, deduplicate_tool_calls
from kiro_asgi.wire.json import JsonError, loads


def call(call_id: str, value: Any, name: str = "f") -> ToolCall:
    return ToolCall(call_id, name, value)


def malformed(call_id: str, raw: str) -> ToolCall:
    with pytest.raises(JsonError) as caught:
        loads(raw)
    return ToolCall(call_id, "f", raw, malformed=caught.value.message)


def cut(call_id: str, raw: str) -> ToolCall:
    return ToolCall(call_id, "f", raw, truncation_info(call_id, "f", raw))


@pytest.mark.parametrize(
    ("fragments", "ended", "open_at_the_end"),
    [
        pytest.param(
            [Fragment("c", "f"), Fragment("c", "f", '{"a":1}'), Fragment("c", stop=True)],
            [call("c", {"a": 1})],
            [],
            id="F192",
        ),
        pytest.param([Fragment("c", "f", "{"), Fragment("", "", "}", True)], [call("c", {})], [], id="no-id-continues"),
        pytest.param([Fragment("c", "f", stop=True)], [call("c", {})], [], id="no-arguments"),
        pytest.param([Fragment("c", "f", "[1]", True)], [call("c", [1])], [], id="F144-any-json-value"),
        pytest.param([Fragment("c", "f", '{"a', True)], [cut("c", '{"a')], [], id="F196-F247-raw-text-and-reason"),
        pytest.param(
            [Fragment("c", "f", "{\"a\":'1'}", True)], [malformed("c", "{\"a\":'1'}")], [], id="F196-malformed"
        ),
        pytest.param([Fragment("c", "f", '{"a":1,}', True)], [call("c", {"a": 1})], [], id="mended"),
        pytest.param([Fragment("", "f", "{}", True)], [call("call_1", {})], [], id="no-id"),
        pytest.param([Fragment("c", "f", '{"a":1}')], [], [call("c", {"a": 1})], id="F197-unfinished-but-complete"),
        pytest.param([Fragment("c", "f", '{"a')], [], [cut("c", '{"a')], id="F197-unfinished"),
        pytest.param([Fragment("c", "f")], [], [cut("c", "")], id="F197-nothing-came"),
        pytest.param(
            [Fragment("c", "f", "{"), Fragment("d", "f", "{"), Fragment("c", "f", "}", True)],
            [call("c", {})],
            [cut("d", "{")],
            id="F198",
        ),
    ],
)
def test_gathers_fragments(fragments: list[Fragment], ended: list[ToolCall], open_at_the_end: list[ToolCall]) -> None:
    """Calls come out as they end, the unfinished ones at the end of the answer."""
    accumulator = ToolCallAccumulator()

    assert accumulator.feed(fragments) == ended
    assert accumulator.finalize() == open_at_the_end
    assert accumulator.finalize() == []


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([call("c", {}), call("c", {"a": 1})], [call("c", {"a": 1})], id="F199-later-wins"),
        pytest.param([call("c", {"a": 1}), call("c", {})], [call("c", {"a": 1})], id="F199-earlier-wins"),
        pytest.param([cut("c", '{"a":123'), call("c", {"a": 1})], [call("c", {"a": 1})], id="F199-whole-beats-cut"),
        pytest.param([cut("c", '{"a":1'), call("c", {})], [cut("c", '{"a":1')], id="nothing-for-what-was-there"),
        pytest.param([malformed("c", "{}{}"), call("c", {"a": 1})], [call("c", {"a": 1})], id="whole-beats-malformed"),
        pytest.param(
            [call("c", {"a": 1, "b": 2}), call("d", {"b": 2, "a": 1})], [call("c", {"a": 1, "b": 2})], id="F200"
        ),
        pytest.param([call("c", {}), call("d", {}, "g")], [call("c", {}), call("d", {}, "g")], id="F200-other-name"),
        pytest.param([call("", {"a": 1}), call("", {"a": 2})], [call("", {"a": 1}), call("", {"a": 2})], id="no-ids"),
        pytest.param(
            [call("c", {}), call("d", {"x": 1}), call("c", {"a": 1})],
            [call("c", {"a": 1}), call("d", {"x": 1})],
            id="F201-order",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_deduplicates(calls: list[ToolCall], expected: list[ToolCall]) -> None:
    """F439: one call an id, one call for equal name and arguments, in the order of first appearance."""
    assert deduplicate_tool_calls(calls) == expected
