"""What is kept of calls: how far each has come, no more than there is room for, and what has changed since."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.inspector.calls import RecentCalls, Seen, State, Ticks
from kiro_asgi.tapes.recorder import Recorder
from tests.observers.facts import ATTEMPT, CALL, END, PLAN, refused

ROOM = 32 * 1024 * 1024


def call(number):
    return evolve(CALL, request_id=f"req_{number}")


def test_a_call_goes_through_its_states():
    """Each is a change; a stream that merely goes on is one every 100 ms, and its key is not kept."""
    calls = RecentCalls(10, ROOM)
    seen = []

    def changed():
        changes = calls.changes(seen[-1][1] if seen else Seen(), 100)
        seen.append((changes.calls[0].state if changes.calls else None, changes.seen))
        return seen[-1][0]

    calls.began(CALL)
    assert changed() is State.READING
    calls.planned(CALL, PLAN)
    assert changed() is State.WAITING
    for at in (100.6, 100.61, 100.62):
        calls.received(CALL, b"12", at)
    assert changed() is State.STREAMING
    for at in (100.63, 100.64):
        calls.received(CALL, b"12", at)
    assert changed() is None
    calls.attempted(CALL, ATTEMPT)
    calls.ended(CALL, END)
    assert changed() is State.ENDED
    kept = calls.find("req_1")
    assert (kept.received.total, kept.agent, kept.facts.headers) == (10, "test", ())
    assert kept.attempts[0].facts is ATTEMPT


def test_signs_of_life_are_told_from_an_answer():
    """A send half a second after anything else is one; what a read led to is not, nor is the first."""
    calls = RecentCalls(10, ROOM)
    calls.began(CALL)
    for kind, at in (("s", 101.0), ("s", 102.0), ("r", 104.0), ("s", 104.1), ("s", 104.5), ("s", 110.0)):
        if kind == "s":
            calls.sent(CALL, b": ping", at, 0.0)
        else:
            calls.received(CALL, b"12", at)
    assert calls.find("req_1").beats == [102.0 - CALL.started, 110.0 - CALL.started]


STEPS = ["began", "ended", "pin", "unpin", "delete"]


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), max_size=60), st.integers(1, 4), st.integers(1, 3)
)
def test_the_oldest_make_room(steps, most, batch):
    """Those that have ended first; and who was told of every change has them all."""
    calls, viewed, seen, under_way = RecentCalls(most, ROOM), {}, Seen(), set()
    for name, number in steps:
        if name == "began" and number not in under_way and calls.find(f"req_{number}") is None:
            under_way.add(number)
            calls.began(call(number))
        elif name == "ended" and number in under_way:
            under_way.discard(number)
            calls.ended(call(number), refused() if number % 2 else END)
        elif name in ("pin", "unpin"):
            calls.pin(f"req_{number}", name == "pin")
        elif name == "delete":
            calls.delete(f"req_{number}")
        changes = calls.changes(seen, batch)
        while changes.calls or changes.gone or changes.fresh:
            viewed = {} if changes.fresh else {each: it for each, it in viewed.items() if each not in changes.gone}
            viewed |= {each.number: each for each in changes.calls}
            seen = changes.seen
            if not changes.calls and not changes.gone:
                break
            changes = calls.changes(seen, batch)
        kept = calls.changes(Seen(), 100).calls
        assert len(kept) <= most
        assert {each.number for each in kept} <= {*viewed}
        assert {*viewed} <= {each.number for each in kept}
        assert calls.size == sum(each.size for each in kept)


def test_calls_take_no_more_memory_than_they_may():
    calls = RecentCalls(1000, 20_000)
    for number in range(50):
        calls.began(call(number))
        calls.ended(call(number), END)
    assert calls.size <= 20_000
    assert calls.find("req_49") is not None
    assert calls.find("req_0") is None
    calls.received(call(0), b"late", 101.0)
    calls.sent(call(0), b"late", 101.0, 0.0)
    calls.ended(call(0), END)


@given(st.lists(st.integers(0, 100), max_size=30), st.sampled_from([1, 700, 5000]))
def test_moments_keep_their_sum_in_bounded_memory(sizes, times):
    """However many there are; the first of each group that became one is kept, in order."""
    ticks = Ticks()
    for at, size in enumerate(sizes * times if len(sizes) * times < 9000 else sizes * 300):
        ticks.add(float(at), size)
    pairs = ticks.pairs()
    assert sum(size for _, size in pairs) == ticks.total
    assert [at for at, _ in pairs] == sorted({at for at, _ in pairs})
    assert len(pairs) < 2048
    assert ticks.longest == (1.0 if ticks.count > 1 else 0.0)


def test_a_call_under_way_outlives_those_that_have_ended():
    calls = RecentCalls(3, ROOM)
    calls.began(call(0))
    for number in range(1, 10):
        calls.began(call(number))
        calls.ended(call(number), END)
    changes = calls.changes(Seen(), 100)
    assert sorted(each.number for each in changes.calls) == [1, 9, 10]


GOOD = evolve(END, notices={}, plan=evolve(PLAN, number=1, rules=()))
ENDS = {
    "good": GOOD,
    "refused": refused(),
    "limit": refused("LimitReached", 429),
    "cut": evolve(GOOD, notices={"call.cut": 1}),
    "new": evolve(GOOD, notices={"never.heard": 1}),
    "end": evolve(GOOD, finish="never heard"),
}


@pytest.mark.parametrize("room", [(50, ROOM), (100_000, 50 * 8192)], ids=["number", "bytes"])
@pytest.mark.parametrize("flood", ENDS)
def test_no_flood_of_one_sort_takes_the_room_of_another(flood, room):
    """Not two thousand good calls that of one that failed, nor the reverse; and there are never too many."""
    calls = RecentCalls(*room)

    def happens(name, end):
        calls.began(evolve(CALL, request_id=name))
        calls.ended(evolve(CALL, request_id=name), end)

    others = [name for name in ENDS if name != flood]
    for name in others:
        happens(name, ENDS[name])
    for number in range(2000):
        happens(f"req_{number}", ENDS[flood])
    assert [name for name in others if calls.find(name) is None] == []
    assert calls.find("req_0") is None and calls.find("req_1999") is not None
    assert len(calls.all()) <= room[0] and calls.size <= room[1]
    assert not calls._sorts.keys() - {kept.remarks[0].said.short if kept.remarks else "" for kept in calls.all()}


@pytest.mark.parametrize(("flood", "other"), [("good", "refused"), ("refused", "good")])
def test_no_flood_takes_the_recording_of_another_sort(flood, other):
    """What was recorded of the one that mattered stays, while the bytes of the flood make room."""
    recorder = Recorder(lambda: 100.0, ROOM)
    calls = RecentCalls(100_000, 1_000_000, recorder)

    def happens(name, end):
        facts = evolve(CALL, request_id=name)
        recorder.began(facts)
        calls.began(facts)
        recorder.request_received(facts, b"", b"x" * 10_000, 100.0)
        recorder.ended(facts, end)
        calls.ended(facts, end)

    happens("one", ENDS[other])
    happens("first", ENDS[flood])
    for number in range(150):
        happens(f"req_{number}", ENDS[flood])
    assert calls.find("one").recording is not None and calls.find("req_149").recording is not None
    assert calls.find("first").recording is None
    assert calls.size <= 1_000_000


def test_who_was_away_for_long_begins_anew_once():
    """Also where calls are kept that changed long before; batch by batch, all are told."""
    calls = RecentCalls(50, ROOM)
    for number in range(30):
        calls.began(call(number))
        calls.pin(f"req_{number}", True)
    away = calls.changes(Seen(), 100).seen
    for number in range(100, 5000):
        calls.began(call(number))
        calls.ended(call(number), END)
    told, fresh = set(), []
    changes = calls.changes(away, 7)
    while changes.calls:
        told |= {each.number for each in changes.calls}
        fresh.append(changes.fresh)
        changes = calls.changes(changes.seen, 7)
    assert told == {each.number for each in calls.all()}
    assert fresh == [True] + [False] * (len(fresh) - 1)
