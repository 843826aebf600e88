"""What is kept of answers that were cut."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import MessageEnd, StopReason, TruncationInfo
from kiro_asgi.model.message import Message, TextBlock, ThinkingBlock, ToolCallBlock
from kiro_asgi.model.prompt import Role, Text, ToolResult, Turn
from kiro_asgi.stages.cut_answers import CutAnswer, Fingerprint, records_of, truncation_records
from kiro_asgi.stages.parts.argument_text import truncation_info

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
    return {key.partition(":")[0]: record for key, record in records.items()}


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
