from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi.errors import AnswerTooLarge
from kiro_asgi.limits import EARLY_MEMBERS
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    Appendix,
    BlockEnd,
    BlockKind,
    BlockStart,
    CodeReferences,
    ContextUsage,
    ConversationId,
    Delta,
    Event,
    FollowupPrompt,
    MessageEnd,
    MessageMembers,
    MessageStart,
    ModelName,
    Notice,
    OpaqueEvent,
    RedactedThinking,
    ServerCall,
    ServerResult,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    ToolCallCut,
    ToolCallEnd,
    ToolCallStart,
    ToolInputDelta,
    ToolOutput,
    Usage,
)
from kiro_asgi.model.unread import Unread
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.parts.argument_text import truncation_info
from kiro_asgi.testing.grammar.events import check_events
from tests.helpers import run, run_apart

OF_TEXT, OF_CALL = SignatureDelta("g.text:s"), SignatureDelta("g.call:s")
A, T, SEAL, SEALED = TextDelta("a"), ThinkingDelta("t"), SignatureDelta("s"), RedactedThinking("AAAA")
CALL: list[Delta] = [ToolCallStart("c", "f"), ToolInputDelta("{}"), ToolCallEnd("c")]
CUT = ToolCallCut(truncation_info("d", "f", "{"))
SEARCH = ServerCall("s", "web_search", "web_search", {"query": "q"})
FOUND = ServerResult(SEARCH, ToolOutput(text="found"))


def text(index: int, *pieces: str) -> list[Event]:
    return [BlockStart(index, BlockKind.TEXT), *map(TextDelta, pieces), BlockEnd(index)]


def thinking(index: int, *pieces: str, seal: str = "") -> list[Event]:
    seals = [SignatureDelta(seal)] if seal else []
    return [BlockStart(index, BlockKind.THINKING), *map(ThinkingDelta, pieces), *seals, BlockEnd(index)]


def sealed(index: int) -> list[Event]:
    return [BlockStart(index, BlockKind.REDACTED_THINKING, data="AAAA"), BlockEnd(index)]


def server_block(index: int, kind: BlockKind, value: ServerCall | ServerResult) -> list[Event]:
    return [BlockStart(index, kind, value=value), BlockEnd(index)]


def call(index: int, json: str = "{}") -> list[Event]:
    return [BlockStart(index, BlockKind.TOOL_CALL, "c", "f"), ToolInputDelta(json), BlockEnd(index)]


@pytest.mark.parametrize(
    ("deltas", "blocks"),
    [
        pytest.param([A, A], text(0, "a", "a"), id="text"),
        pytest.param([T, T, A], [*thinking(0, "t", "t"), *text(1, "a")], id="F175-F177-F179-thinking-then-text"),
        pytest.param([A, T, A], [*text(0, "a"), *thinking(1, "t"), *text(2, "a")], id="F173-text-first"),
        pytest.param(
            [A, TextBreak("commentary"), A, TextBreak("final_answer")],
            [*text(0, "a")[:-1], BlockEnd(0, "commentary"), *text(1, "a")[:-1], BlockEnd(1, "final_answer")],
            id="phases",
        ),
        pytest.param([T, SEAL, A], [*thinking(0, "t", seal="s"), *text(1, "a")], id="F182-seal-at-the-end-of-thinking"),
        pytest.param([T, SEAL], thinking(0, "t", seal="s"), id="F182-seal-at-the-end-of-all"),
        pytest.param(
            [T, SignatureDelta("r"), SEAL, A], [*thinking(0, "t", seal="s"), *text(1, "a")], id="F184-F185-sealed-once"
        ),
        pytest.param(
            [T, SEAL, SignatureDelta("")], thinking(0, "t", seal="s"), id="F183-storing-none-keeps-the-earlier"
        ),
        pytest.param(
            [T, SEAL, T, A], [*thinking(0, "t", seal="s"), *thinking(1, "t"), *text(2, "a")], id="thinking-goes-on"
        ),
        pytest.param([A, SEAL], [*text(0, "a"), *thinking(1, seal="s")], id="F186-late-seal"),
        pytest.param(
            [A, OF_TEXT, T, OF_CALL, *CALL],
            [*text(0, "a"), *thinking(1, seal="g.text:s"), *thinking(2, "t", seal="g.call:s"), *call(3)],
            id="F186-never-merged-into-later-thinking",
        ),
        pytest.param(
            [T, OF_TEXT, OF_CALL, OF_CALL, *CALL],
            [*thinking(0, "t", seal="g.text:s"), *thinking(1, seal="g.call:s"), *call(2)],
            id="marked-seals-replace-none",
        ),
        pytest.param(
            [A, Appendix("b"), Appendix(""), A],
            [*text(0, "a"), *text(1, "b"), *text(2, "a")],
            id="F318-appendix",
        ),
        pytest.param([SEAL, A], [*thinking(0, seal="s"), *text(1, "a")], id="F186-seal-alone"),
        pytest.param([SEALED, A], [*sealed(0), *text(1, "a")], id="sealed-thinking"),
        pytest.param([T, SEALED, T], [*thinking(0, "t"), *sealed(1), *thinking(2, "t")], id="sealed-between"),
        pytest.param([A, *CALL, A], [*text(0, "a"), *call(1), *text(2, "a")], id="R31-text-call-text"),
        pytest.param([*CALL, *CALL], [*call(0), *call(1)], id="R31-calls-only"),
        pytest.param([T, *CALL], [*thinking(0, "t"), *call(1)], id="R31-thinking-and-call"),
        pytest.param([TextDelta(""), ThinkingDelta(""), T], thinking(0, "t"), id="F273-empty-opens-nothing"),
        pytest.param([A, TextDelta(""), A], text(0, "a", "", "a"), id="empty-inside-changes-nothing"),
        pytest.param(
            [A, ContextUsage(1.0), FollowupPrompt("?"), Notice("n"), A],
            text(0, "a", "a"),
            id="F131-others-do-not-interrupt",
        ),
        pytest.param(
            [A, SEARCH, A, FOUND, A],
            [
                *text(0, "a"),
                *server_block(1, BlockKind.SERVER_CALL, SEARCH),
                *text(2, "a"),
                *server_block(3, BlockKind.SERVER_RESULT, FOUND),
                *text(4, "found"),
                *text(5, "a"),
            ],
            id="F215-server-tool",
        ),
        pytest.param([], text(0, ""), id="R31-empty-answer"),
        pytest.param([CUT], text(0, ""), id="cut-call-only"),
        pytest.param(
            [ToolCallStart("c", "f"), ToolInputDelta('{"'), CUT, A],
            [*call(0, '{"'), *text(1, "a")],
            id="cut-while-streaming",
        ),
    ],
)
def test_blocks(deltas: list[Delta], blocks: list[Event]) -> None:
    """Blocks never overlap, are numbered without gaps, and close before the next one opens."""
    for stage_run in (run, run_apart):
        start, *framed, end = stage_run(BlockFramer(), deltas)

        assert type(start) is MessageStart
        assert framed == blocks
        assert type(end) is MessageEnd


@pytest.mark.parametrize(
    ("deltas", "blocks"),
    [
        pytest.param(CALL, [*text(0, "I call."), *call(1)], id="F217-leading-call"),
        pytest.param([*CALL, *CALL], [*text(0, "I call."), *call(1), *call(2)], id="F217-once"),
        pytest.param([TextDelta(""), *CALL], [*text(0, "I call."), *call(1)], id="F217-empty-text-is-nothing"),
        pytest.param([A, *CALL], [*text(0, "a"), *call(1)], id="F218-text-first"),
        pytest.param([T, *CALL], [*thinking(0, "t"), *call(1)], id="F218-thinking-first"),
        pytest.param([], text(0, ""), id="F218-empty"),
    ],
)
def test_lead_in(deltas: list[Delta], blocks: list[Event]) -> None:
    """A call that nothing precedes gets some text before it, if wanted."""
    assert run(BlockFramer(lead_in="I call."), deltas)[1:-1] == blocks


@pytest.mark.parametrize("first", [A, T, SEAL, SEALED, *CALL[:1]], ids=lambda delta: type(delta).__name__)
def test_starts_with_the_first_thing_that_shows(first: Delta) -> None:
    """Not with reports or empty text, so that a failure before content keeps its status."""
    framer = BlockFramer(input_tokens=5)

    assert list(framer.feed([TextDelta(""), ContextUsage(1.0), ModelName("m"), Notice("n"), CUT])) == []
    assert not framer.started
    assert next(framer.feed([first])) == MessageStart(Usage(input_tokens=5))
    assert framer.started


def test_can_be_begun_early() -> None:
    """The start goes out once, whoever asks for it."""
    framer = BlockFramer(input_tokens=5)

    assert list(framer.begin()) == [MessageStart(Usage(input_tokens=5))]
    assert list(framer.begin()) == []
    assert list(framer.feed([A])) == text(0, "a")[:-1]


def test_the_end_tells_what_was_remembered() -> None:
    """Stop, usage, cut calls, references and notices; the last stop and usage count."""
    framer = BlockFramer()
    usage = Usage(1, 2)
    deltas = [
        ConversationId("conv"),
        ModelName("m"),
        Notice("n1"),
        Stop(StopReason.END),
        CUT,
        CodeReferences(({"licenseName": "MIT"},)),
        Notice("n2"),
        CodeReferences(({"licenseName": "BSD"},)),
        Stop(StopReason.STOP_SEQUENCE, "x"),
        Usage(9, 9),
        usage,
    ]

    events = run(framer, deltas)

    assert events[-1] == MessageEnd(
        StopReason.STOP_SEQUENCE,
        "x",
        usage,
        (CUT.info,),
        ({"licenseName": "MIT"}, {"licenseName": "BSD"}),
        (Notice("n1"), Notice("n2")),
    )
    assert framer.end is events[-1]
    assert (framer.model_name, framer.conversation_id) == ("m", "conv")


def test_without_stop_and_usage_the_end_says_the_least() -> None:
    """A framer alone still ends its message."""
    assert run(BlockFramer(input_tokens=5), [A])[-1] == MessageEnd(StopReason.END, usage=Usage(input_tokens=5))


def test_what_is_remembered_is_bounded() -> None:
    """R18: a flood of notices does not pile up."""
    end = check_events(run(BlockFramer(), [Notice("n")] * 5000 + [CodeReferences(({},) * 5000)]))

    assert (len(end.notices), len(end.references)) == (1000, 1000)


@pytest.mark.parametrize("delta", [ToolInputDelta("{}"), ToolCallEnd("c")], ids=["input", "end"])
def test_a_torn_call_is_a_bug(delta: Delta) -> None:
    """Not the client's fault nor the upstream's: the stage before is wrong."""
    with pytest.raises(AssertionError):
        list(BlockFramer().feed([A, delta]))


@pytest.mark.parametrize("kind", [MessageMembers, OpaqueEvent])
def test_members_do_not_wait_in_any_number(kind: Any) -> None:
    """All at once they would hold up others; and what writers keep for want of a block has the room of the answer."""
    items = [kind(Unread("a", {f"x_{number}": 1})) for number in range(EARLY_MEMBERS + 3)]
    framer = BlockFramer(budget=AnswerBudget(10_000_000))
    found = [*framer.feed(items[: EARLY_MEMBERS - 1])]
    assert found == []
    begun, *events = [*framer.feed(items[EARLY_MEMBERS - 1 :])]

    assert isinstance(begun, MessageStart)
    told = [*begun.unread, *(event.unread for event in events if isinstance(event, MessageMembers | OpaqueEvent))]
    assert told == [item.unread for item in items]
    with pytest.raises(AnswerTooLarge):
        [*BlockFramer(budget=AnswerBudget(300_000)).feed(items * 10)]
