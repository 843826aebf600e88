from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.model.events import (
    Delta,
    Event,
    MessageEnd,
    Notice,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
)
from kiro_asgi.model.message import TextBlock, ThinkingBlock, ToolCallBlock, fold
from kiro_asgi.stages.answer import Plan, Repairs, build_pipeline
from kiro_asgi.stages.arguments import RENAMED, USUAL
from kiro_asgi.stages.tool_spelling import CORRECTED
from kiro_asgi.stages.written_calls import WRITTEN

GREP = {"type": "object", "properties": {"pattern": {"type": "string"}}}
SCHEMAS = {"mcp__files__grep": GREP, "grep": GREP}
EVERYTHING: dict[str, Any] = {
    "renames": USUAL,
    "decode": True,
    "drop_unknown": True,
    "mcp_bridge": True,
    "spelling": True,
    "leaked_calls": True,
}


def events(deltas: list[Delta], repairs: Repairs, **plan: Any) -> list[Event]:
    answer = build_pipeline((), Plan(repairs=repairs, **plan))
    return [*answer.feed(deltas), *answer.flush()]  # type: ignore[arg-type]  # there is no decoder before


def notices(found: list[Event]) -> tuple[Notice, ...]:
    end = found[-1]
    assert isinstance(end, MessageEnd)
    return end.notices


def everything(**more: Any) -> Repairs:
    return Repairs(**{"schemas": SCHEMAS, **EVERYTHING, **more})


def test_repairs_build_on_one_another():
    """A call in the text gets its name, then its arguments, then goes out as any call does (F233)."""
    text = '<mcp__grep>{"query": "x"}</mcp__grep>'
    found = events([TextDelta(f"I look.{text}Done.")], everything(schemas={"mcp__files__grep": GREP}))
    message = fold(found)

    assert message.blocks[0] == TextBlock("I look.")
    assert message.blocks[2] == TextBlock("Done.")
    assert isinstance(message.blocks[1], ToolCallBlock)
    assert (message.blocks[1].call_id, message.blocks[1].name) == ("mcp__grep-xml", "mcp__files__grep")
    assert message.stop_reason is StopReason.TOOL_CALL
    assert [it.code for it in notices(found)[:2]] == [WRITTEN, CORRECTED]


def test_names_come_before_arguments():
    """The schema that counts is that of the tool under the client's own name."""
    found = events(
        [ToolCallFragment("c", "short", '{"query": "x"}', stop=True)], everything(), tool_names={"short": "grep"}
    )

    assert fold(found).blocks == (ToolCallBlock("c", "grep", '{"pattern":"x"}'),)
    assert notices(found) == (Notice(RENAMED, "grep"),)


def test_leaked_calls_may_use_the_name_on_the_wire():
    """It is the name that the model knows."""
    repairs = everything(aliases={"short": "grep", "hosted": "elsewhere"})
    found = events(
        [TextDelta("[Called short with args: {}][Called hosted with {}]")], repairs, tool_names=repairs.aliases
    )

    assert fold(found).blocks == (ToolCallBlock("short-text", "grep", "{}"), TextBlock("[Called hosted with {}]"))


def test_thinking_between_tags_is_not_searched():
    """The bridge stands behind what tells thinking from text."""
    call = "<mcp__files__grep>{}</mcp__files__grep>"
    found = events([TextDelta(f"<thinking>{call}</thinking>{call}")], everything(), thinking="as_reasoning_content")

    assert fold(found).blocks == (ThinkingBlock(call), ToolCallBlock("mcp__files__grep-xml", "mcp__files__grep", "{}"))


def test_a_call_piece_by_piece_keeps_its_arguments():
    """What is sent at once cannot be repaired any more; its name still can."""
    fragments = [ToolCallFragment("c", "mcp__grep", '{"query":'), ToolCallFragment("c", input='"x"}', stop=True)]
    found = events(fragments, everything(), tool_emission="incremental")

    assert fold(found).blocks == (ToolCallBlock("c", "mcp__files__grep", '{"query":"x"}'),)


def stages(repairs: Repairs) -> list[str]:
    found = (repairs.written_calls, repairs.tool_spelling, repairs.arguments)
    return [type(stage).__name__ for stage in found if stage is not None]


@pytest.mark.parametrize(
    ("repairs", "expected"),
    [
        pytest.param(Repairs(), [], id="nothing"),
        pytest.param(Repairs(**EVERYTHING), [], id="no-tools"),
        pytest.param(Repairs(schemas=SCHEMAS), [], id="all-switched-off"),
        pytest.param(everything(), ["WrittenCalls", "ToolSpelling", "ArgumentRepairs"], id="everything"),
        pytest.param(everything(schemas={"f": {}}, leaked_calls=False), ["ArgumentRepairs"], id="no-mcp-tool"),
        pytest.param(everything(schemas={"f": {}}), ["WrittenCalls", "ArgumentRepairs"], id="leaked-without-mcp"),
        pytest.param(Repairs(schemas=SCHEMAS, spelling=True), ["ToolSpelling"], id="spelling"),
        pytest.param(Repairs(schemas=SCHEMAS, mcp_bridge=True), ["WrittenCalls"], id="bridge"),
    ],
)
def test_what_has_nothing_to_do_is_not_there(repairs, expected):
    """An answer pays only for repairs that its tools and the switches ask for."""
    assert stages(repairs) == expected


def test_thinking_passes_every_stage():
    """With everything on, what is no call is as it was."""
    deltas = [ThinkingDelta("t"), TextDelta("a < b")]

    assert fold(events(deltas, everything())).blocks == (ThinkingBlock("t"), TextBlock("a < b"))
