from __future__ import annotations

import pytest
from hypothesis import given

from kiro_asgi.errors import UpstreamError, UpstreamProtocolError
from kiro_asgi.model.events import (
    Appendix,
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    FollowupPrompt,
    Metering,
    ModelName,
    Notice,
    RedactedThinking,
    ServedTier,
    ServerCall,
    SignatureDelta,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallCut,
    ToolCallEnd,
)
from kiro_asgi.model.handling import Tier
from kiro_asgi.stages.ending import MISSING, NO_CALL, NO_TERMINAL_SIGNAL, SILENT, EndOfStream
from kiro_asgi.stages.parts.argument_text import truncation_info
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

TEXT, THOUGHT, CALL = TextDelta("a"), ThinkingDelta("t"), ToolCallEnd("c")
CUT = ToolCallCut(truncation_info("c", "f", "{"))
SERVED = ServerCall("s", "web_search", "web_search")
SHARE, CREDITS, TOKENS = ContextUsage(1.0), Metering(0.1), TokenUsage(1, 2)

END, CALLED = Stop(StopReason.END), Stop(StopReason.TOOL_CALL)
LENGTH, FULL = Stop(StopReason.LENGTH), Stop(StopReason.CONTEXT_FULL)
PAUSED = Stop(StopReason.PAUSED)
FILTERED, WORD = Stop(StopReason.CONTENT_FILTER), Stop(StopReason.STOP_SEQUENCE, "x")


@pytest.mark.parametrize(
    ("deltas", "verdict"),
    [
        *(
            pytest.param([*content, stop], stop, id=f"final-word-{stop.reason.value}-over-{name}")
            for stop in (LENGTH, FULL, FILTERED, WORD)
            for name, content in (
                ("text", [TEXT]),
                ("call", [CALL]),
                ("cut", [CUT]),
                ("nothing", []),
                ("thinking", [THOUGHT]),
            )
        ),
        pytest.param([TEXT, PAUSED], PAUSED, id="paused"),
        pytest.param([CALL, PAUSED], CALLED, id="paused-with-a-call"),
        pytest.param([CUT, PAUSED], LENGTH, id="paused-with-a-cut-call"),
        pytest.param([TEXT, PAUSED, TEXT, END], END, id="paused-and-resumed"),
        pytest.param([CUT, END], LENGTH, id="cut-call"),
        pytest.param([CUT, CALLED], LENGTH, id="cut-call-though-called"),
        pytest.param([CALL, CUT, SHARE], LENGTH, id="one-whole-one-cut"),
        pytest.param([CALL, CALLED], CALLED, id="F211-call"),
        pytest.param([CALL, END], CALLED, id="F211-call-though-end"),
        pytest.param([TEXT, CALL], CALLED, id="F211-call-in-silence"),
        pytest.param([SERVED, CALLED], END, id="F216-server-call"),
        pytest.param([SERVED], END, id="F216-server-call-in-silence"),
        pytest.param([THOUGHT, SERVED], END, id="F216-thinking-and-server-call-in-silence"),
        pytest.param([SERVED, CALL, CALLED], CALLED, id="F216-a-call-beside-it"),
        pytest.param([SERVED, CUT, CALLED], LENGTH, id="server-call-and-a-cut-one"),
        pytest.param([TEXT, END], END, id="text"),
        pytest.param([TEXT, CREDITS], END, id="text-without-a-stop-reason"),
        pytest.param([THOUGHT, TEXT, TOKENS], END, id="text-behind-thinking"),
        pytest.param([THOUGHT, SHARE], LENGTH, id="thinking-only"),
        pytest.param([THOUGHT, TextDelta(""), SHARE], LENGTH, id="empty-text-is-no-text"),
        pytest.param([SignatureDelta("s"), SHARE], LENGTH, id="seal-only"),
        pytest.param([RedactedThinking("A"), SHARE], LENGTH, id="sealed-thinking-only"),
        pytest.param([THOUGHT, END], END, id="thinking-only-as-the-upstream-says"),
        pytest.param([END], END, id="empty-answer"),
        pytest.param([END, TEXT, LENGTH, TEXT], LENGTH, id="last-word-counts"),
    ],
)
def test_verdicts(deltas: list[Delta], verdict: Stop) -> None:
    """One `Stop`, at the very end, by the table; everything else passes."""
    rest = [delta for delta in deltas if not isinstance(delta, Stop)]

    assert run(EndOfStream(), deltas) == [*rest, verdict]
    assert run_apart(EndOfStream(), deltas) == [*rest, verdict]


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([CREDITS], id="nothing-but-reports"),
        pytest.param([TextDelta(""), FollowupPrompt("?")], id="nothing-that-shows"),
        pytest.param([CodeReferences(({},))], id="references-only"),
    ],
)
def test_without_a_word_and_without_a_reason(deltas: list[Delta]) -> None:
    """That there was no answer is noticed, and told in the language that is set."""
    *rest, notice, end = run(EndOfStream(), deltas)
    assert (rest, notice, end) == (deltas, Notice(SILENT), END)
    *_, told, _ = run(EndOfStream("en"), deltas)
    assert isinstance(told, Appendix) and "without a word" in told.text
    assert Notice(SILENT) not in run(EndOfStream("en"), [*deltas, END])


@pytest.mark.parametrize(
    ("deltas", "noticed"),
    [
        pytest.param([TEXT], True, id="text-alone"),
        pytest.param([THOUGHT, TEXT], True, id="thinking-and-text"),
        pytest.param([TEXT, END], False, id="stop-reason"),
        pytest.param([TEXT, SHARE], False, id="context-usage"),
        pytest.param([TEXT, CREDITS], False, id="metering"),
        pytest.param([TEXT, TOKENS], False, id="token-usage"),
        pytest.param([TEXT, CALL], False, id="complete-call"),
        pytest.param([TEXT, SERVED], False, id="server-call"),
    ],
)
def test_an_answer_that_just_stops_is_noticed(deltas: list[Delta], noticed: bool) -> None:
    """Text without any terminal signal may have been cut; that is said, and is no failure."""
    assert (Notice(NO_TERMINAL_SIGNAL) in run(EndOfStream(), deltas)) is noticed


def test_a_call_that_never_came_is_noticed() -> None:
    """The service says that the answer calls a tool, and lost the call: the text is not all of it."""
    assert run(EndOfStream(), [TEXT, CALLED]) == [TEXT, Notice(NO_CALL), END]


@pytest.mark.parametrize("deltas", [[CALLED], [THOUGHT, CALLED], [THOUGHT, TOKENS, CALLED]])
def test_a_call_that_never_came_is_an_error_where_nothing_else_did(deltas: list[Delta]) -> None:
    """An empty answer would be taken for a finished one; it may be tried again."""
    stage = EndOfStream()
    list(stage.feed(deltas))

    with pytest.raises(UpstreamProtocolError) as caught:
        list(stage.flush())
    assert (caught.value.code, caught.value.retry_safe) == (NO_CALL, True)


def test_a_call_that_was_withheld_is_none_that_never_came() -> None:
    withheld = Notice("tool_call.forbidden", "f")
    assert run(EndOfStream(), [withheld, CALLED]) == [withheld, END]


def test_an_end_that_owes_its_reason() -> None:
    """Text is as good as it looks, and said to be unclear once; what has none is an error, whatever it counts."""
    assert run(EndOfStream(), [TEXT, TOKENS, MISSING]) == [TEXT, TOKENS, MISSING, END]
    assert run(EndOfStream(), [TEXT, MISSING]) == [TEXT, MISSING, END]
    assert run(EndOfStream(), [THOUGHT, MISSING]) == [THOUGHT, MISSING, LENGTH]
    stage = EndOfStream()
    list(stage.feed([TOKENS, MISSING]))

    with pytest.raises(UpstreamProtocolError) as caught:
        list(stage.flush())
    assert caught.value.code == "stream.empty"


@pytest.mark.parametrize(
    "deltas",
    [[], [ConversationId("c"), ModelName("m"), ServedTier(Tier.FLEX), Notice("n")]],
    ids=["nothing", "labels-only"],
)
def test_no_answer_at_all_is_an_error(deltas: list[Delta]) -> None:
    """An empty stream is the upstream's fault, and may be tried again."""
    stage = EndOfStream()
    list(stage.feed(deltas))

    with pytest.raises(UpstreamProtocolError) as caught:
        next(stage.flush())
    assert caught.value.code == "stream.empty"
    assert caught.value.retry_safe


@given(answers())
def test_there_is_always_exactly_one_verdict(deltas: list[Delta]) -> None:
    """Whatever came, the last delta is the only `Stop`; unless nothing came but what was passed over."""
    try:
        out = run_apart(EndOfStream(), deltas)
    except UpstreamError as error:
        assert error.code == "answer.unreadable"
        assert Notice in map(type, deltas) and TextDelta("a") not in deltas
        return

    assert [type(delta) is Stop for delta in out] == [False] * (len(out) - 1) + [True]
