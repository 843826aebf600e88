"""The model is told of an answer that was cut: exactly that one, in the right place, and of no other."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import MalformedCall, StopReason
from kiro_asgi.model.message import Message, TextBlock, ToolCallBlock
from kiro_asgi.model.prompt import Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolResult, Turn
from kiro_asgi.stages.cut_answers import Candidate, CutAnswer, candidates, recover, reminder_text, truncation_records
from kiro_asgi.stages.parts.argument_text import truncation_info

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
