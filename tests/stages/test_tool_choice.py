"""An answer is held to the client's choice of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given

from kiro_asgi.errors import AnswerTooLarge, UnmetPromise
from kiro_asgi.model.budget import AnswerBudget
from kiro_asgi.model.events import (
    Appendix,
    BlockKind,
    BlockStart,
    Citation,
    Delta,
    MalformedCall,
    MessageEnd,
    Notice,
    ServerCall,
    SignatureDelta,
    Stop,
    StopReason,
    TextBreak,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallMalformed,
    ToolCallStart,
    ToolInputDelta,
)
from kiro_asgi.model.message import fold
from kiro_asgi.model.prompt import ToolChoice, ToolChoiceMode
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.promises import FORBIDDEN, TEXT_WITHHELD, DemandedCall, ForbiddenCalls
from kiro_asgi.stages.tool_calls import EMISSIONS
from tests.grammar import check_events
from tests.growth import assert_linear
from tests.helpers import run, run_apart
from tests.stages.deltas import answers

END, TOOL_CALL, LENGTH = Stop(StopReason.END), Stop(StopReason.TOOL_CALL), Stop(StopReason.LENGTH)
NAMED = ToolChoice(ToolChoiceMode.NAMED, "f")
REQUIRED = ToolChoice(ToolChoiceMode.REQUIRED)
ONLY_F = frozenset({"f"})


def call(name: str, call_id: str = "c") -> list[Delta]:
    return [ToolCallStart(call_id, name), ToolInputDelta("{}"), ToolCallEnd(call_id)]


def demanded(permitted: frozenset[str] | None = None) -> DemandedCall:
    return DemandedCall(permitted, AnswerBudget())


@pytest.mark.parametrize(
    ("choice", "permitted", "demands"),
    [
        (ToolChoice(), None, False),
        (ToolChoice(ToolChoiceMode.NONE), frozenset(), False),
        (NAMED, ONLY_F, True),
        (REQUIRED, None, True),
        (ToolChoice(allowed=ONLY_F), ONLY_F, False),
        (ToolChoice(ToolChoiceMode.REQUIRED, allowed=ONLY_F), ONLY_F, True),
        (ToolChoice(ToolChoiceMode.NONE, allowed=ONLY_F), frozenset(), False),
    ],
)
def test_what_a_choice_means(choice: ToolChoice, permitted: frozenset[str] | None, demands: bool) -> None:
    """Which tools an answer may call, and whether it has to."""
    assert (choice.permitted, choice.demanded) == (permitted, demands)


def test_forbidden_calls_are_withheld() -> None:
    """The whole call goes, and nothing around it."""
    items = [TextDelta("a"), *call("g", "c1"), TextDelta("b"), *call("f", "c2"), *call("h", "c3"), TextDelta("c")]

    assert run(ForbiddenCalls(ONLY_F), items) == [
        TextDelta("a"),
        Notice(FORBIDDEN, "g"),
        TextDelta("b"),
        *call("f", "c2"),
        Notice(FORBIDDEN, "h"),
        TextDelta("c"),
    ]


def test_the_first_permitted_call_is_the_one_where_there_may_be_one() -> None:
    """A forbidden call takes no other one's place."""
    choice = ToolChoice(ToolChoiceMode.NAMED, "f", parallel=False)
    fragments = [ToolCallFragment(f"c{at}", name, "{}", stop=True) for at, name in enumerate("gff")]
    message = fold(run_apart(_answer(choice), fragments))

    assert [(block.call_id, block.name) for block in message.blocks if hasattr(block, "call_id")] == [("c1", "f")]


def test_nothing_is_shown_before_the_call_and_no_text_at_all() -> None:
    """Thinking waits and stays; text goes, which a notice tells."""
    items: list[Delta] = [ThinkingDelta("t"), SignatureDelta("s"), TextDelta("I call."), Appendix("x")]
    stage = demanded()

    assert list(stage.feed(items)) == []
    assert list(stage.feed([*call("f"), TextDelta("done"), TOOL_CALL])) == [
        ThinkingDelta("t"),
        SignatureDelta("s"),
        Notice(TEXT_WITHHELD),
        *call("f"),
        TextDelta("done"),
        TOOL_CALL,
    ]


def test_white_space_is_no_text() -> None:
    """It goes without a word."""
    assert run(demanded(), [TextDelta("\n\n"), *call("f"), TOOL_CALL]) == [*call("f"), TOOL_CALL]


@pytest.mark.parametrize("reason", [StopReason.END, StopReason.STOP_SEQUENCE])
@pytest.mark.parametrize("said", [[], [TextDelta("No.")], [ThinkingDelta("Hm.")], [TokenUsage(1, 1)]])
def test_an_answer_without_a_call_is_an_error(reason: StopReason, said: list[Delta]) -> None:
    """It says so to the client by a code, and to the model in words."""
    stage = demanded()
    with pytest.raises(UnmetPromise) as raised:
        list(stage.feed([*said, Stop(reason)]))

    assert (raised.value.status, raised.value.code, raised.value.retry_safe) == (502, "tool_choice_failed", False)
    assert raised.value.complaint.startswith("[Notice from the gateway] ")


MALFORMED = ToolCallMalformed(MalformedCall("c", "f", "odd", 3))


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([TextDelta("So"), LENGTH], id="length"),
        pytest.param([TextDelta("So"), Stop(StopReason.CONTENT_FILTER)], id="filter"),
        pytest.param([TextDelta("So"), Stop(StopReason.CONTEXT_FULL)], id="window"),
        pytest.param([MALFORMED, TextDelta("So"), Appendix("Malformed."), END], id="malformed"),
    ],
)
def test_an_answer_that_was_broken_off_is_shown_as_it_is(items: list[Delta]) -> None:
    """The client learns from its end why there is no call."""
    assert run(demanded(ONLY_F), items) == items


def test_a_tool_that_runs_on_the_way_is_a_call() -> None:
    """So is one that the service has run; but not where another one is demanded."""
    search = ServerCall("s", "web_search", "web_search", {})

    assert run(demanded(), [TextDelta("Well."), search, END]) == [Notice(TEXT_WITHHELD), search, END]
    with pytest.raises(UnmetPromise):
        run(demanded(ONLY_F), [search, END])


@pytest.mark.parametrize(
    ("begins", "ends", "has"),
    [(4, 0, (4, 0)), (9, 2, (5, 2)), (9, 5, None), (9, 6, None)],
    ids=["behind", "across", "before", "long-before"],
)
def test_a_source_has_a_place_only_in_text_that_is_shown(begins: int, ends: int, has: tuple[int, int] | None) -> None:
    """Of what it is for, the part behind the call is left."""
    kept = [Citation(*has)] if has is not None else []
    said = [TextDelta("Deep."), TextBreak(), Citation(5), *call("f"), TextDelta("Cold."), Citation(begins, ends), END]

    shown = run(demanded(), said)

    assert shown == [Notice(TEXT_WITHHELD), *call("f"), TextDelta("Cold."), *kept, END]


def test_what_waits_is_bounded_and_given_back() -> None:
    """It counts against the answer's budget until it is shown or gone."""
    budget = AnswerBudget(5000)
    stage = DemandedCall(None, budget)
    assert list(stage.feed([TextDelta("x" * 1000), ThinkingDelta("y" * 1000)])) == []
    assert budget.size > 2000
    assert len(list(stage.feed(call("f")))) == 5
    assert budget.size == 0
    with pytest.raises(AnswerTooLarge):
        list(DemandedCall(None, budget).feed([TextDelta("x" * 6000)]))


def _answer(choice: ToolChoice, emission: str = "complete") -> _Deltas:
    return _Deltas(build_pipeline((), Plan(tool_choice=choice, tool_emission=emission, lead_in="So:")))


class _Deltas:
    """An answer whose upstream speaks in deltas."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def feed(self, items: Any) -> Iterator[Any]:
        return self._answer.feed(items)

    def flush(self) -> Iterator[Any]:
        return self._answer.flush()


CHOICES = [REQUIRED, NAMED, ToolChoice(ToolChoiceMode.NONE), ToolChoice(allowed=frozenset({"g"}))]


@given(answers())
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: str(choice.permitted))
def test_every_answer_keeps_the_promise(choice: ToolChoice, emission: str, deltas: list[Delta]) -> None:
    """Whatever comes, cut however: no call of another tool, no text before a demanded call, or an error that comes
    before anything was shown."""
    try:
        events = run_apart(_answer(choice, emission), deltas)
    except UnmetPromise:
        with pytest.raises(UnmetPromise):
            run(_answer(choice, emission), deltas)
        assert choice.demanded
        shown = _answer(choice, emission)
        assert list(shown.feed(deltas)) == []
        return
    assert run(_answer(choice, emission), deltas) == events
    check_events(events)
    starts = [event for event in events if isinstance(event, BlockStart)]
    called = {start.name for start in starts if start.kind is BlockKind.TOOL_CALL}
    assert choice.permitted is None or called <= choice.permitted
    if choice.demanded and called:
        before = events[: next(at for at, event in enumerate(events) if getattr(event, "name", "") in called)]
        assert [event.text for event in before if isinstance(event, TextDelta)] in ([], ["So:"])
    elif choice.demanded:
        end = events[-1]
        assert isinstance(end, MessageEnd)
        assert end.malformed or end.truncations or end.stop_reason not in (StopReason.END, StopReason.STOP_SEQUENCE)


def test_holding_back_takes_time_that_grows_with_the_answer() -> None:
    """Counted, at one, two and four times the size."""

    def holding(size: int) -> Callable[[], object]:
        items = [*[TextDelta("x")] * size, *call("f")]
        return lambda: list(demanded().feed(items))

    assert_linear(holding, 500)
