"""What is said of a call that has ended: nothing of a good one, and something of every other."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi import errors
from kiro_asgi.inspector.remarks import Kind, remarks_on
from kiro_asgi.inspector.sentences import CODES, ERRORS, FINISHES, NOTICES, of_error, of_notice
from kiro_asgi.model.events import StopReason
from kiro_asgi.model.rules import CATALOGUE, Loss
from kiro_asgi.observers.base import Outcome
from tests.observers.facts import ATTEMPT, END, PLAN, refused

GOOD = evolve(END, notices={}, plan=evolve(PLAN, number=1, rules=()))
LOSING = next(name for name, rule in CATALOGUE.items() if rule.loss is Loss.CONTENT)
KEEPING = next(name for name, rule in CATALOGUE.items() if rule.loss is not Loss.CONTENT)
NAMES = st.sampled_from(["", *errors.__all__, "NeverHeard"]) | st.text(max_size=20)


def said(end, *attempts):
    return [(each.kind.value, each.said.short) for each in remarks_on(end, attempts)]


def test_each_error_has_its_own_sentences():
    """Every class; each says what happened and what to do, in sentences, and in a few words for a row."""
    assert {*ERRORS} == {getattr(errors, name) for name in errors.__all__}
    for each in (*ERRORS.values(), *CODES.values(), *NOTICES.values(), *filter(None, FINISHES.values())):
        assert len(each.short) <= 28 and not each.short.endswith(".")
        assert each.cause.endswith(".") and each.advice[-1:] in ("", ".")
    assert [kind for kind, each in ERRORS.items() if not each.advice] == []
    assert {*FINISHES} == {each.value for each in StopReason}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (GOOD, []),
        (evolve(GOOD, finish="tool_call"), []),
        (evolve(GOOD, plan=evolve(PLAN, number=1, rules=(KEEPING,))), []),
        (evolve(GOOD, plan=evolve(PLAN, number=1, rules=(LOSING,))), [("notice", "left out of the request")]),
        (refused(), [("error", "client's key refused")]),
        (evolve(GOOD, outcome=Outcome.CUT, error="Foreign", code="x"), [("error", "failed")]),
        (evolve(GOOD, outcome=Outcome.DISCONNECTED), [("left", "client left")]),
        (evolve(GOOD, outcome=Outcome.STALLED), [("error", "client too slow")]),
        (evolve(GOOD, status=404), [("error", "no good status")]),
        (evolve(GOOD, finish="length"), [("notice", "stopped at the limit")]),
        (evolve(GOOD, finish="tired"), [("notice", "unknown end")]),
        (
            evolve(GOOD, notices={"call.cut": 2, "x.y": 1}),
            [("notice", "tool call cut"), ("notice", "changed on the way")],
        ),
        (evolve(GOOD, notices={"event.unknown:fooEvent": 1}), [("notice", "part left out")]),
        (
            evolve(
                GOOD, notices={"call.cut": 1}, outcome=Outcome.CUT, error="UpstreamProtocolError", code="stream.cut"
            ),
            [("error", "broken stream"), ("notice", "tool call cut")],
        ),
    ],
)
def test_what_is_said(end, expected):
    """Of each way to end, the worst first; an unknown one is never good."""
    assert said(end) == expected


def test_attempts_are_told():
    """That a service was asked again, or another one; with why."""
    failed = evolve(ATTEMPT, outcome=Outcome.REFUSED, error="UpstreamOverloaded", plan=evolve(PLAN, upstream="away"))
    again = evolve(GOOD, plan=evolve(PLAN, number=2, rules=()))
    assert said(again, evolve(failed, plan=PLAN), ATTEMPT) == [("notice", "tried again")]
    assert said(again, failed, ATTEMPT) == [("notice", "another service asked")]
    (remark,) = remarks_on(again, [failed, ATTEMPT])
    assert "At away: service overloaded." in remark.said.cause and remark.times == 1


@given(
    st.sampled_from(Outcome), NAMES, st.text(max_size=9), st.integers(0, 599), st.dictionaries(st.text(), st.just(1))
)
def test_only_a_good_call_is_good(outcome, error, code, status, notices):
    """Whatever an error, a notice or a code is called: something is said, in known words, with the code itself."""
    found = remarks_on(evolve(GOOD, outcome=outcome, error=error, code=code, status=status, notices=notices), ())
    good = outcome is Outcome.COMPLETE and not error and 0 < status < 400 and not notices
    assert bool(found) is not good
    assert [each.kind for each in found] == sorted((each.kind for each in found), key=[*Kind].index)
    assert all(each.said.short and each.said.cause for each in found)
    if error:
        assert f"{error} {code}".strip()[:100] in [each.code for each in found]
        assert of_error(error, code).advice
    for notice in notices:
        assert of_notice(notice).short
