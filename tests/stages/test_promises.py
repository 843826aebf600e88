"""An answer is held to the client's choice of tools, and to the schema that its JSON was promised to have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.errors import AnswerTooLarge, UnmetPromise
from kiro_asgi.limits import VALIDATION_STEPS
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
from kiro_asgi.stages import promises
from kiro_asgi.stages.answer import Answer, Plan, build_pipeline
from kiro_asgi.stages.promises import (
    FORBIDDEN,
    NOT_JSON,
    SCHEMA_MISMATCH,
    TEXT_WITHHELD,
    UNCHECKED,
    UNWRAPPED,
    DemandedCall,
    ForbiddenCalls,
    StructuredAnswer,
    StructuredCheck,
    unwrapped,
)
from kiro_asgi.stages.tool_calls import EMISSIONS
from kiro_asgi.testing.grammar.events import check_events
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


END = Stop(StopReason.END)


SCHEMA = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}


def notices(texts, stop=END, schema=SCHEMA):
    stage = StructuredCheck(schema)
    given = [*map(TextDelta, texts), stop]
    out = [*stage.feed(given), *stage.flush()]
    assert [item for item in out if not isinstance(item, Notice)] == given
    assert out[-1] == stop
    return [item for item in out if isinstance(item, Notice)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (' {"a": 1}\n', []),
        ('{"b": 1}', [Notice(SCHEMA_MISMATCH, "$")]),
        ('{"a": ""}', [Notice(SCHEMA_MISMATCH, "$.a")]),
        ("[1]", [Notice(NOT_JSON)]),
        ('Here: {"a": 1}', [Notice(NOT_JSON)]),
        ("", [Notice(NOT_JSON)]),
    ],
)
@given(st.data())
def test_the_whole_text_is_checked_however_it_was_cut(text, found, data):
    """One JSON object that the schema takes, and nothing around it."""
    at = data.draw(st.integers(0, len(text)))

    assert notices([text[:at], text[at:]]) == found


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.END])
def test_what_did_not_end_by_itself_is_not_checked(reason):
    """Half an answer, a refusal and a call need not match."""
    assert notices(["no"], Stop(reason)) == []


def test_what_is_too_long_is_not_kept(monkeypatch):
    """Memory is bounded; what was not kept is not judged, and that is told."""
    monkeypatch.setattr(promises, "STRUCTURED_CHARACTERS", 4)

    assert notices(["abcd"]) == [Notice(NOT_JSON)]
    assert notices(["abc", "de"]) == [Notice(UNCHECKED, "length")]


def test_what_has_too_many_parts_is_not_read():
    """Arrays and objects are counted before they are made."""
    assert notices(['{"a":[', "[]," * VALIDATION_STEPS, "0]}"]) == [Notice(UNCHECKED, "length")]


def test_what_takes_too_many_steps_is_passed():
    """An answer whose check is not worth its price goes out as it is, and that is told."""
    schema = {"additionalProperties": {"enum": [*range(VALIDATION_STEPS)]}}

    assert notices(['{"a": 0}'], schema=schema) == [Notice(UNCHECKED, "budget")]


@pytest.mark.parametrize("schema", [{}, {"pattern": "a", "type": 7}, {"properties": {"a": {"pattern": "b"}}}])
def test_what_cannot_be_decided_passes(schema):
    """No schema, one that is none, and one that only a regular expression could decide: nothing is told."""
    assert notices(['{"a": "a"}'], schema=schema) == []


def held(texts, stop=END, schema=SCHEMA):
    stage = StructuredAnswer(schema, AnswerBudget())
    assert list(stage.feed(map(TextDelta, texts))) == []
    return [*stage.feed([stop]), *stage.flush()]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' {"a": 1}\n', '{"a": 1}'),
        ('\ufeff{"a": 1}', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('Of {this}:\n~~~\n```\n{"a": 1, "b": "```"}\n```', '{"a": 1, "b": "```"}'),
        ('{"a": 1, "b": "```\\n{```"}', '{"a": 1, "b": "```\\n{```"}'),
        ('So: {"a": 1}. Done.', '{"a": 1}'),
    ],
)
@given(st.data())
def test_only_what_is_around_the_object_is_left_out(text, left, data):
    """Nothing within it changes, however the text was cut; that something was left out is noted."""
    at = data.draw(st.integers(0, len(text)))
    *notes, said, end = held([text[:at], text[at:]])

    assert (said, end) == (TextDelta(left), END)
    assert notes == [] if left == text.strip() else [Notice(UNWRAPPED)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("No.", "not one JSON document"),
        ("", "not one JSON document"),
        ('[{"a": 1}]', "not one JSON document"),
        ('See: [{"a": 1}]', "not one JSON document"),
        ('"{}"', "not one JSON document"),
        ('{"a": 1} {"a": 2}', "not one JSON document"),
        ('{"a": 1', "not one JSON document"),
        ('{"a": "x"}', "at $.a"),
    ],
)
def test_anything_else_breaks_the_promise(text, told):
    """The model is told what is wrong, and where."""
    with pytest.raises(UnmetPromise) as raised:
        held([text])
    assert raised.value.code == "structured_output_failed"
    assert told in raised.value.complaint


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "[1]", True),
        ({"type": "array", "items": {"type": "integer"}}, "```\n[1]\n```", True),
        ({"type": "array", "items": {"type": "integer"}}, '["a"]', False),
        ({"type": "array"}, "{}", False),
        ({"type": ["string", "null"]}, "null", True),
        ({"type": ["object", "null"]}, "null", False),
        ({"enum": [1]}, "1", False),
        ({}, '"a"', False),
        ({}, '{"a": "\\ud83d\\ude42"}', True),
        ({}, '{"a": "\\ud83d"}', False),
        ({}, '{"a": "\\\\ud83d"}', True),
    ],
)
def test_what_a_document_may_be(schema, text, fits):
    """An object, unless the schema names other types only; and nothing that strict parsers refuse."""
    if fits:
        assert TextDelta(text.strip("`\n")) in held([text], schema=schema)
    else:
        with pytest.raises(UnmetPromise):
            held([text], schema=schema)


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.END])
def test_an_answer_that_was_broken_off_goes_on_as_it_is(reason):
    """Its end says why it is no JSON."""
    assert held(["n", "o"], Stop(reason)) == [TextDelta("n"), TextDelta("o"), Stop(reason)]


def test_a_call_lets_everything_go():
    """From there on it streams."""
    stage = StructuredAnswer(SCHEMA, AnswerBudget())
    start, more = [ThinkingDelta("t"), TextDelta("I look.")], [ToolInputDelta("{}"), ToolCallEnd("c"), TextDelta("x")]
    assert list(stage.feed(start)) == []
    assert list(stage.feed([ToolCallStart("c", "f")])) == [*start, ToolCallStart("c", "f")]
    assert list(stage.feed([*more, END])) == [*more, END]


def test_what_is_not_text_keeps_its_place():
    """Thinking before the object, a signature behind it."""
    items = [ThinkingDelta("t"), TextDelta('{"a"'), TextDelta(": 1}"), SignatureDelta("s"), END]
    stage = StructuredAnswer(SCHEMA, AnswerBudget())

    assert list(stage.feed(items)) == [ThinkingDelta("t"), TextDelta('{"a": 1}'), SignatureDelta("s"), END]


def test_what_is_held_has_a_limit():
    """The answer's own."""
    with pytest.raises(AnswerTooLarge):
        list(StructuredAnswer(SCHEMA, AnswerBudget(500)).feed([TextDelta("x" * 1000)]))


@pytest.mark.parametrize("piece", ["{", "}", "```", "```\n", '"', "[", "{}", " "])
def test_readings_are_few_and_cost_steps_that_grow_with_the_text(piece):
    """However many fences and braces there are."""
    assert len([*unwrapped(piece * 1000)]) <= 3
    assert_linear(lambda size: lambda: [*unwrapped(piece * size)], 1000)
