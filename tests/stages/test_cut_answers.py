"""What is kept of answers that were cut, and what the model is told: of exactly that one, in the right place.

An answer is known again, whatever its client made of it.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    MalformedCall,
    MessageEnd,
    StopReason,
    TextDelta,
    ThinkingDelta,
    TruncationInfo,
)
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.model.prompt import Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.blocks import BlockFramer
from kiro_asgi.stages.cut_answers import (
    Candidate,
    CutAnswer,
    Fingerprint,
    Fingerprinter,
    candidates,
    records_of,
    recover,
    reminder_text,
    truncation_records,
)
from kiro_asgi.stages.ending import EndOfStream
from kiro_asgi.stages.parts.argument_text import TruncationDiagnosis, diagnose_json_truncation, truncation_info
from kiro_asgi.stages.tool_calls import ToolCallAssembler
from tests.helpers import run, run_apart
from tests.stages.deltas import answers
from tests.stages.timing import assert_linear

CUT = truncation_info("c1", "write", '{"path": "a')
KEPT = evolve(CUT, call_id="")
LENGTH, END = StopReason.LENGTH, StopReason.END
ASKED = (Turn(Role.USER, (Text("go"),)),)


def shown(text: str = "", *calls: str) -> Fingerprint:
    made = Fingerprint()
    made.write(text)
    made.calls.extend((call_id, "write") for call_id in calls)
    return made


def kinds(records):
    """Records by the kind of their keys, wherever their answer stands."""
    return {key.partition(":")[0]: evolve(record, behind="") for key, record in records.items()}


@given(
    st.builds(
        CutAnswer,
        st.lists(
            st.builds(TruncationInfo, st.just(""), st.text(), st.text(), st.integers(0), st.text()), max_size=3
        ).map(tuple),
        st.integers(0),
    )
)
def test_a_record_survives_its_store(record):
    """F248: what was kept is what is read."""
    assert CutAnswer.decode(record.encode()) == record


@pytest.mark.parametrize(
    ("seen", "truncations", "expected"),
    [
        pytest.param(shown("I write."), (CUT,), {"answer": CutAnswer((KEPT,), 8)}, id="F248-text-and-a-cut-call"),
        pytest.param(shown("", "c0"), (CUT,), {"answer": CutAnswer((KEPT,))}, id="a-whole-call-and-a-cut-one"),
        pytest.param(shown(), (CUT,), {"after": CutAnswer((KEPT,))}, id="nothing-but-a-cut-call"),
        pytest.param(shown("text"), (), {"answer": CutAnswer((), 4)}, id="text-that-the-service-cut"),
        pytest.param(shown(" \n"), (), {"after": CutAnswer((), 2)}, id="thinking-only"),
        pytest.param(
            shown("I write.", "c1"),
            (CUT,),
            {"answer": CutAnswer((KEPT,), 8), "call": CutAnswer((KEPT,), 8)},
            id="5.8-part-of-the-call-was-shown",
        ),
        pytest.param(
            shown("", "c1"),
            (CUT, evolve(CUT, call_id="c2", name="read")),
            {
                "call": CutAnswer((KEPT, evolve(KEPT, name="read"))),
                "after": CutAnswer((KEPT, evolve(KEPT, name="read"))),
            },
            id="one-shown-in-part-and-one-not",
        ),
    ],
)
def test_what_is_kept_and_under_what(seen, truncations, expected):
    """F248/5.8: a call of which the client was shown a part by its id, else the answer by its fingerprint."""
    assert kinds(records_of(seen, MessageEnd(LENGTH, truncations=truncations), asked=ASKED)) == expected


@pytest.mark.parametrize("reason", sorted(set(StopReason) - {LENGTH}, key=str))
def test_whole_answers_leave_nothing(reason):
    """F253: unless the client was told that an answer was cut, there is nothing to remember."""
    assert records_of(shown("text"), MessageEnd(reason), asked=ASKED) == {}


def test_text_at_the_limit_of_the_client_is_as_long_as_it_should_be():
    """A limit that the client has set is no accident; but a call that it cut is lost all the same."""
    assert records_of(shown("text"), MessageEnd(LENGTH), limited=True) == {}
    assert kinds(records_of(shown("text"), MessageEnd(LENGTH, truncations=(CUT,)), limited=True)) == {
        "answer": CutAnswer((KEPT,), 4)
    }


def test_an_answer_of_nothing_to_nothing_cannot_be_found_again():
    """Without a fingerprint of the answer or of the question there is no key."""
    end = MessageEnd(LENGTH, truncations=(CUT,))

    assert records_of(shown(), end) == {}
    assert records_of(shown(), end, asked=(Turn(Role.USER, (Text(" "),)),)) == {}
    assert records_of(shown(), end, asked=(Turn(Role.ASSISTANT, (Text("I"),)),)) == {}
    assert kinds(records_of(shown(), end, asked=(Turn(Role.USER, (ToolResult("c0"),)),))).keys() == {"after"}


def test_records_are_small():
    """R47: neither names nor ids nor numbers of calls make a record large."""
    calls = tuple(truncation_info(f"{n}" * 10_000, "n" * 10_000, "{" * 100_000) for n in range(1_000))
    records = records_of(shown("x" * 10_000, *(call.call_id for call in calls)), MessageEnd(LENGTH, truncations=calls))

    assert len(records) == 9
    assert max(len(record.encode()) for record in records.values()) < 4_096


def test_a_whole_message_gives_the_records_of_its_events():
    """F455: who collects an answer gets the same keys."""
    blocks = (ThinkingBlock("hm"), TextBlock("I write."), ToolCallBlock("c0", "write", "{}"))

    assert truncation_records(Message(blocks, LENGTH, truncations=(CUT,)), asked=ASKED) == records_of(
        shown("I write.", "c0"), MessageEnd(LENGTH, truncations=(CUT,)), asked=ASKED
    )
    assert truncation_records(Message(blocks, END)) == {}


BLANKS = st.sampled_from(["", " ", "\n\n", "\t "])


def print_of(*texts: str, calls: tuple[tuple[str, str], ...] = ()) -> Fingerprint:
    made = Fingerprint()
    for text in texts:
        made.write(text)
    made.calls.extend(calls)
    return made


@given(st.lists(st.text(), max_size=6), st.lists(BLANKS, min_size=6, max_size=6), st.lists(BLANKS, min_size=6))
def test_neither_cuts_nor_white_space_count(pieces, before, after):
    """F248: text that was joined, cut apart or stripped is the same text."""
    padded = [left + piece + right for left, piece, right in zip(before, pieces, after, strict=False)]

    assert print_of(*padded).digest() == print_of("".join(pieces)).digest()
    assert print_of(*pieces).size_bytes == len("".join(pieces).encode())


@given(st.text("ab "), st.text("ab "), *[st.lists(st.tuples(st.text("ab"), st.text("ab")), max_size=2)] * 2)
def test_other_words_and_other_calls_count(one, other, calls, other_calls):
    """F253: answers that differ in more than white space have different fingerprints; those of nothing have none."""
    same = "".join(one.split()) == "".join(other.split()) and calls == other_calls
    first, second = print_of(one, calls=tuple(calls)).digest(), print_of(other, calls=tuple(other_calls)).digest()

    assert (first == second) is same
    assert (first == "") is (not one.strip() and not calls)


def test_calls_can_be_left_out():
    """A call that was cut may or may not come back, so it does not count."""
    shown = print_of("a", calls=(("1", "f"), ("2", "f")))

    assert shown.digest(without={"2"}) == print_of("a", calls=(("1", "f"),)).digest()
    assert print_of(calls=(("1", "f"),)).digest(without={"1"}) == ""


@given(answers(), st.sampled_from(["complete", "incremental"]))
def test_the_stage_changes_nothing_and_sees_what_is_shown(deltas, emission):
    """F248: events pass as they are; the fingerprint is that of the texts and calls among them, thinking left out."""
    framed = run(ToolCallAssembler(emission=emission), deltas)
    events = run(BlockFramer(), run(EndOfStream(), framed))
    at_once, apart = Fingerprinter(), Fingerprinter()
    shown = print_of(
        *(event.text for event in events if isinstance(event, TextDelta)),
        calls=tuple(
            (event.call_id, event.name)
            for event in events
            if isinstance(event, BlockStart) and event.kind is BlockKind.TOOL_CALL
        ),
    )

    assert run(at_once, events) == run_apart(apart, events) == events
    for stage in (at_once, apart):
        assert stage.fingerprint.digest() == shown.digest()
        assert stage.fingerprint.size_bytes == shown.size_bytes
        assert stage.fingerprint.calls == shown.calls


def test_long_answers_are_not_kept():
    """R18: of a text of any length, a bounded piece waits to be hashed."""
    stage = Fingerprinter()
    run(stage, [BlockStart(0, BlockKind.TEXT), *[TextDelta("x" * 1000)] * 500, BlockEnd(0), MessageEnd(StopReason.END)])

    assert sum(map(len, stage._pieces)) <= 17_000
    assert stage.fingerprint.digest() == print_of("x" * 500_000).digest()


def test_thinking_leaves_no_print():
    """Most clients do not send thinking back."""
    stage = Fingerprinter()
    run(stage, [BlockStart(0, BlockKind.THINKING), ThinkingDelta("hm"), BlockEnd(0)])

    assert stage.fingerprint.digest() == ""


def test_fingerprints_take_linear_time():
    """R24: more text takes proportionally longer."""
    assert_linear(lambda size: partial(run, Fingerprinter(), [TextDelta("ab c")] * size), 20_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param("", "", id="F241-empty"),
        pytest.param(" \n", "", id="F241-blank"),
        pytest.param('{"a":1', "mismatched delimiters", id="F242"),
        pytest.param('{"a":[1]', "mismatched delimiters", id="F242-ends-with-the-other"),
        pytest.param("[1,2", "mismatched brackets", id="F243"),
        pytest.param('{"a":{"b":1}', "unbalanced delimiters", id="F244-braces"),
        pytest.param('{"a":[1}', "unbalanced delimiters", id="F244-brackets"),
        pytest.param('{"a":"}', "unbalanced delimiters", id="F244-inside-a-string-that-never-ends"),
        pytest.param('{"a":1}', "", id="F245-whole"),
        pytest.param('{"a":}', "", id="F245-malformed-but-balanced"),
        pytest.param('{"a":"{"}', "", id="F246-brace-in-a-string"),
        pytest.param('{"a":"\\"]"}', "", id="F246-bracket-behind-an-escaped-quote"),
    ],
)
def test_names_what_gives_a_cut_away(raw: str, reason: str) -> None:
    """Cut text is told by its delimiters, those in strings left aside."""
    assert diagnose_json_truncation(raw) == TruncationDiagnosis(bool(reason), reason, len(raw.encode()))


@given(JSON)
def test_whole_json_is_never_called_cut(value: object) -> None:
    """F245: what parses is not truncated."""
    assert not diagnose_json_truncation(json.dumps(value)).is_truncated


@given(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), st.integers(1, 10_000))
def test_every_cut_through_an_object_is_seen(value: dict[str, object], place: int) -> None:
    """F242, F244: every proper beginning of an object is truncated."""
    raw = json.dumps(value)

    assert diagnose_json_truncation(raw[: 1 + place % (len(raw) - 1)]).is_truncated


@pytest.mark.parametrize(
    ("raw", "reason", "expected"),
    [
        pytest.param('{"a', "", "mismatched delimiters", id="diagnosed"),
        pytest.param('{"a":}', "", "malformed JSON", id="malformed"),
        pytest.param(" ", "", "no arguments arrived", id="nothing"),
        pytest.param('{"a', "too large", "too large", id="told"),
        pytest.param('{"ä\ud800', "", "mismatched delimiters", id="lone-surrogate"),
    ],
)
def test_records_what_is_known_of_a_cut_call(raw: str, reason: str, expected: str) -> None:
    """F247: reason, size in bytes, and a digest by which the same arguments are known again."""
    data = raw.encode("utf-8", "surrogatepass")

    assert truncation_info("c", "f", raw, reason=reason) == TruncationInfo(
        "c", "f", expected, len(data), hashlib.sha256(data).hexdigest()
    )


@pytest.mark.parametrize("unit", ['{"', "\\", '\\"', '"', "{", "a"])
def test_diagnosis_takes_linear_time(unit: str) -> None:
    """R24: more text takes proportionally longer."""
    assert_linear(lambda size: partial(diagnose_json_truncation, '{"' + unit * size), 50_000)


INFO = truncation_info("c1", "write_file", '{"path": "a.py", "content": "' + "x" * 5_000)


NOTICE = "[Notice from the gateway]"


def user(*parts):
    return Turn(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts):
    return Turn(Role.ASSISTANT, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def message(*blocks, truncations=(INFO,)):
    return Message(blocks, StopReason.LENGTH, truncations=truncations)


def told(prompt, records):
    """The turns with the notices taken for what they are: the text of one is ``NOTICE``."""
    recovered, reminders = recover(prompt, records)
    texts = {reminder.text for reminder in reminders}
    return [[_plain(part, texts) for part in turn.parts] for turn in recovered.turns]


def _plain(part, texts):
    if isinstance(part, Text):
        return "NOTICE" if part.text in texts else part.text
    if isinstance(part, ToolResult):
        return part.call_id, [_plain(inner, texts) for inner in part.parts], part.is_error
    return part.name if isinstance(part, ToolCallPart) else "thinking"


ASK = user("write it")
CALL = ToolCallPart("c0", "read_file", {})
RESULT = ToolResult("c0", (Text("r"),))

WRITTEN = message(TextBlock("I write it.\n"))
AFTER_CALL = message(TextBlock("First I read."), ToolCallBlock("c0", "read_file", "{}"))
EMPTY = message(TextBlock(""))


@pytest.mark.parametrize(
    ("answer", "turns", "expected"),
    [
        pytest.param(
            WRITTEN,
            [ASK, assistant("I write it."), user("go on")],
            [["write it"], ["I write it."], ["NOTICE", "go on"]],
            id="F249-stripped",
        ),
        pytest.param(
            WRITTEN,
            [ASK, assistant(ThinkingPart("hm"), "I write", " it."), user("go on")],
            [["write it"], ["thinking", "I write", " it."], ["NOTICE", "go on"]],
            id="cut-apart-and-with-thinking",
        ),
        pytest.param(
            WRITTEN,
            [ASK, assistant("I write it."), user("go on"), assistant("I do."), user("and?")],
            [["write it"], ["I write it."], ["NOTICE", "go on"], ["I do."], ["and?"]],
            id="not-the-newest",
        ),
        pytest.param(
            AFTER_CALL,
            [ASK, assistant("First I read.", CALL), user(RESULT), user("go on")],
            [["write it"], ["First I read.", "read_file"], [("c0", ["r"], False), "NOTICE"], ["go on"]],
            id="behind-the-results",
        ),
        pytest.param(
            AFTER_CALL,
            [ASK, assistant("First I read."), assistant(CALL), user(RESULT, "go on")],
            [["write it"], ["First I read."], ["read_file"], [("c0", ["r"], False), "NOTICE", "go on"]],
            id="an-answer-of-two-turns",
        ),
        pytest.param(
            EMPTY,
            [ASK, assistant(""), user("go on")],
            [["write it"], [""], ["NOTICE", "go on"]],
            id="an-empty-answer",
        ),
        pytest.param(
            EMPTY,
            [ASK, assistant("(no content)"), user("go on")],
            [["write it"], ["(no content)"], ["NOTICE", "go on"]],
            id="a-placeholder",
        ),
        pytest.param(
            EMPTY, [ASK, user("go on")], [["write it"], ["NOTICE", "go on"]], id="an-empty-answer-that-was-dropped"
        ),
        pytest.param(
            message(TextBlock("I write."), ToolCallBlock("c1", "write_file", "{")),
            [ASK, assistant("I write.", ToolCallPart("c1", "write_file", {})), user(ToolResult("c1", (Text("bad"),)))],
            [["write it"], ["I write.", "write_file"], [("c1", ["NOTICE", "bad"], True)]],
            id="5.8-into-the-result",
        ),
        pytest.param(
            message(TextBlock("I write."), ToolCallBlock("c1", "write_file", "{")),
            [ASK, assistant("I write.", ToolCallPart("c1", "write_file", {})), user("go on")],
            [["write it"], ["I write.", "write_file"], [("c1", ["NOTICE"], True), "go on"]],
            id="a-result-for-it",
        ),
        pytest.param(
            message(TextBlock("I write."), ToolCallBlock("c1", "write_file", "{")),
            [ASK, assistant("I write."), user("go on")],
            [["write it"], ["I write."], ["NOTICE", "go on"]],
            id="shown-in-part-and-not-sent-back",
        ),
    ],
)
def test_a_cut_answer_is_known_again_and_told_of(answer, turns, expected):
    """F249/F250/5.8: whatever the client made of what it was shown, the notice stands where the model needs it."""
    prompt = Prompt("m", tuple(turns))

    assert told(prompt, truncation_records(answer, asked=[ASK])) == expected


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([ASK], id="nothing-answered-yet"),
        pytest.param([ASK, assistant("I write it.")], id="no-reply-yet"),
        pytest.param([ASK, assistant("I write that."), user("go on")], id="other-text"),
        pytest.param([ASK, assistant("I write it.", CALL), user(RESULT)], id="another-call"),
        pytest.param([user("I write it."), assistant("so?"), user("go on")], id="said-by-the-user"),
        pytest.param([ASK, assistant("I write it."), *[user("a"), assistant("b")] * 4, user("c")], id="too-long-ago"),
    ],
)
def test_nothing_is_told_without_an_exact_match(turns):
    """F253: any other conversation stays the very same object."""
    prompt = Prompt("m", tuple(turns))

    assert recover(prompt, truncation_records(WRITTEN, asked=[user("x")])) == (prompt, ())
    assert recover(prompt, truncation_records(WRITTEN))[0] is prompt


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([user("write that")], id="another-question"),
        pytest.param([user("so"), assistant("what?"), ASK], id="more-before"),
        pytest.param([], id="nothing-before"),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        message(TextBlock("I write.")),
        message(TextBlock("I write."), ToolCallBlock("c1", "write_file", "{")),
        Message((), LENGTH),
    ],
    ids=["text", "part-of-a-call", "nothing"],
)
def test_nothing_is_told_in_another_conversation(answer, before):
    """Services choose ids, and answers may be equal: only behind the very turns that were answered it is the same."""
    records = truncation_records(answer, asked=[ASK])
    replies = [assistant("I write.", ToolCallPart("c1", "write_file", {})), user(ToolResult("c1", (Text("bad"),)))]
    prompt = Prompt("m", (*before, *replies))

    assert records
    assert recover(prompt, records) == (prompt, ())


PARTS = st.one_of(
    st.sampled_from(["", " ", "a", "b"]).map(Text),
    st.sampled_from(["1", "2"]).map(lambda call_id: ToolCallPart(call_id, "f", {})),
    st.sampled_from(["1", "2"]).map(lambda call_id: ToolResult(call_id, (Text("r"),))),
)
TURNS = st.lists(st.builds(Turn, st.sampled_from(Role), st.lists(PARTS, max_size=3).map(tuple)), max_size=9).map(tuple)


@given(TURNS, st.data())
def test_a_notice_is_all_that_is_added(turns, data):
    """F253: every other part stays, in its order; a key is told of once, in a turn of the user."""
    keys = [each.key for each in candidates(turns)]
    records = {key: CutAnswer((INFO,)) for key in data.draw(st.sets(st.sampled_from(keys)) if keys else st.just(()))}
    recovered, reminders = recover(Prompt("m", turns), records)

    assert len(keys) == len(set(keys))
    assert len(reminders) == len(records)
    assert [turn.role for turn in recovered.turns] == [turn.role for turn in turns]
    assert [_without_notices(turn) for turn in recovered.turns] == list(turns)
    assert all(turns[reminder.reply].role is Role.USER for reminder in reminders)
    assert str(recovered).count(NOTICE) == len(records)


def _without_notices(turn):
    """What was there before: a result that holds a notice and nothing else was not."""
    kept = []
    for part in turn.parts:
        if isinstance(part, ToolResult) and part.is_error:
            kept += [evolve(part, parts=part.parts[1:], is_error=False)] if part.parts[1:] else []
        elif not (isinstance(part, Text) and part.text.startswith(NOTICE)):
            kept.append(part)
    return evolve(turn, parts=tuple(kept))


def test_a_conversation_costs_a_bounded_number_of_lookups():
    """R47: however long a conversation is and however many calls its answers hold."""
    calls = tuple(ToolCallPart(f"c{number}", "f", {}) for number in range(1_000))
    turns = [user("a"), assistant(*calls)] * 100 + [user(f"b{number}") for number in range(100)]

    assert len(candidates(turns)) == 64


def test_of_equal_answers_the_newest_is_meant():
    """One record is about one answer."""
    turns = [ASK, assistant("same"), user("again"), assistant("same"), user("go on")]
    found = [each for each in candidates(turns) if each.key.startswith("answer:")]

    assert [each.reply for each in found] == [4]
    assert isinstance(found[0], Candidate)


@pytest.mark.parametrize(
    ("record", "part_shown", "words"),
    [
        pytest.param(
            CutAnswer((INFO,), 10),
            False,
            ['"write_file"', "5,029 bytes", "mismatched delimiters", "NOT executed", "smaller", "Do not send the same"],
            id="F251-call",
        ),
        pytest.param(CutAnswer((INFO,)), True, ["Only a part", "NOT executed"], id="call-shown-in-part"),
        pytest.param(CutAnswer((evolve(INFO, name=""),)), False, ["did not name"], id="no-name"),
        pytest.param(CutAnswer((), 1_234), False, ["1,234 bytes", "Do not repeat", "smaller"], id="F251-text"),
        pytest.param(CutAnswer(), False, ["before any of it", "Do not give the same", "smaller"], id="nothing"),
    ],
)
def test_the_notice_says_what_was_lost_and_what_to_do(record, part_shown, words):
    """F251/5.8: what was cut, that it was not executed, smaller parts, and never the same again."""
    text = reminder_text(record, part_shown=part_shown)

    assert [word for word in words if word not in text] == []
    assert "{" not in text


BAD = MalformedCall("c1", "write_file", "invalid JSON: Expecting value: line 1 column 6 (char 5)", 7)


@pytest.mark.parametrize("blocks", [(TextBlock("I write it."),), ()], ids=["text", "nothing"])
def test_a_malformed_call_is_told_of_as_malformed(blocks):
    """The model learns that its call could not be read and was not run, and nothing of a cut or a limit; the answer
    need not have ended for its length."""
    records = truncation_records(Message(blocks, StopReason.END, malformed=(BAD,)), asked=(ASK,))
    turns = (ASK, assistant(*(block.text for block in blocks)), user("go on"))
    recovered, (reminder,) = recover(
        Prompt("m", turns), {key: CutAnswer.decode(it.encode()) for key, it in records.items()}
    )

    assert recovered.turns[-1].parts[0].text == reminder.text
    assert all(words in reminder.text for words in ('"write_file"', "NOT executed", "Expecting value", "JSON object"))
    assert not any(words in reminder.text for words in ("cut off", "limit", "incomplete", "smaller"))


def test_a_malformed_call_that_was_shown_is_told_of_in_its_result():
    """As with one that was cut: of a call that was sent piece by piece the client has a part."""
    answer = Message((ToolCallBlock("c1", "write_file", "{}{}"),), StopReason.END, malformed=(BAD,))
    records = truncation_records(answer)
    turns = (ASK, assistant(ToolCallPart("c1", "write_file", {})), user(ToolResult("c1", (Text("r"),))))

    assert told(Prompt("m", turns), records)[-1] == [("c1", ["NOTICE", "r"], True)]


def test_cut_and_malformed_are_told_apart():
    """An answer may hold both; each is called what it is."""
    record = CutAnswer((INFO,), 5, (evolve(BAD, name="other"),))

    cut, malformed = reminder_text(record).split("In the previous answer, ")
    assert "cut off" in cut
    assert "write_file" in cut
    assert "cut off" not in malformed
    assert '"other"' in malformed
