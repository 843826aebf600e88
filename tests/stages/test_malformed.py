from __future__ import annotations

import pytest

from kiro_asgi.model.events import (
    Appendix,
    MalformedCall,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFragment,
    ToolCallMalformed,
)
from kiro_asgi.stages.answer import Plan, build_pipeline
from kiro_asgi.stages.ending import EndOfStream
from tests.helpers import run, run_apart

BAD = ToolCallMalformed(MalformedCall("c", "write_file", "invalid JSON: Expecting value", 7))


@pytest.mark.parametrize(("language", "words"), [("en", "nothing was executed"), ("zh", "未执行")])
def test_the_client_is_told_behind_the_answer(language, words):
    """Everything passes; at the end there are words with the tool and the reason."""
    items = [TextDelta("a"), BAD, TextDelta("b")]
    *passed, told, _ = run_apart(EndOfStream(language), [*items, Stop(StopReason.END)])

    assert passed == items
    assert isinstance(told, Appendix)
    assert all(each in told.text for each in (words, "write_file", "Expecting value"))
    assert "cut off" not in told.text


def test_not_of_any_number():
    """Of very many calls the first are told of, and of a long name the beginning."""
    many = [ToolCallMalformed(MalformedCall(str(n), "n" * 1_000, "r", 1)) for n in range(100)]
    told = [it for it in run(EndOfStream("en"), many) if isinstance(it, Appendix)]

    assert len(told) == 8
    assert all(len(it.text) < 300 for it in told)


WHOLE = ToolCallFragment("d", "f", '{"a":1}', True)


@pytest.mark.parametrize(
    ("said", "others", "expected"),
    [
        (StopReason.TOOL_CALL, (), StopReason.END),
        (StopReason.END, (), StopReason.END),
        (None, (), StopReason.END),
        (None, (ThinkingDelta("t"),), StopReason.END),
        (StopReason.LENGTH, (), StopReason.LENGTH),
        (StopReason.TOOL_CALL, (WHOLE,), StopReason.TOOL_CALL),
    ],
)
def test_why_the_answer_ended(said, others, expected):
    """A malformed call is no call, and no cut: the answer ends as if it were not there."""
    stops = () if said is None else (Stop(said),)
    *_, end = run(build_pipeline((), Plan()), [*others, ToolCallFragment("c", "f", "{'a':1}", True), *stops])

    assert (end.stop_reason, end.truncations) == (expected, ())
    assert [(info.call_id, info.name) for info in end.malformed] == [("c", "f")]
