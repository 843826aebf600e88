"""What figures are made of answers and counters, and which words a client's experience gets."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from tests.bench.peers import load
from tests.bench.peers.client import Answer, Asked, told
from tests.bench.peers.measuring import MEASURES, PATIENCE, Load, added, figures, outcome, quantile, right, torn
from tests.bench.peers.processes import cpu, memory, serving, tree
from tests.bench.peers.record import toml
from tests.bench.peers.scenarios import FAULTS, SCENARIOS, TEXTS


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The service itself."""
    with serving(tmp_path_factory.mktemp("service")) as port:
        yield Asked(port, "chat", "m", {})


def said(api: str, *events: dict[str, object], ended: str = "whole") -> Answer:
    """An answer with *events*, one each 10 ms."""
    lines = [(index / 100, b"data: " + json.dumps(event).encode()) for index, event in enumerate(events)]
    return Answer(200, lines, ended=ended)


@pytest.mark.parametrize("share, expected", [(0.0, 1), (0.5, 5), (0.9, 9), (0.91, 10), (0.99, 10), (1.0, 10)])
def test_a_quantile_is_one_of_the_values(share: float, expected: float) -> None:
    """The least that so many do not exceed, whatever their order is."""
    assert quantile([3, 1, 2, 10, 9, 8, 4, 7, 5, 6], share) == expected


def test_what_is_added_is_the_difference_of_quantiles() -> None:
    """In milliseconds; not the quantile of differences, which no two answers have."""
    through = [Answer(seconds=each) for each in (0.010, 0.030, 0.020)]
    direct = [Answer(seconds=each) for each in (0.001, 0.002, 0.009)]

    assert added(through, direct, 0.5) == pytest.approx(18)
    assert added(through, direct, 1.0) == pytest.approx(21)


def test_an_event_costs_what_an_answer_with_more_of_them_costs_more() -> None:
    """A request of its own is in neither figure of events."""
    answers = [Answer(seconds=0.001)] * 2
    loads = {
        "short": Load(answers, 0.002),
        "burst": Load(answers, 0.002 + 2 * 395 * 10e-6),
        "paced": Load(answers, 0.002 + 2 * 95 * 50e-6),
    }

    found = figures("chat", loads, answers)

    assert found == pytest.approx(
        {"added_p50": 0, "added_p99": 0, "cpu_request": 1, "cpu_burst": 10, "cpu_paced": 50, "gap": 0}
    )
    assert {*found, "open"} == {*MEASURES}


def test_the_longest_gap_is_between_two_events_with_text() -> None:
    """An event without text is not what a user waits for."""
    text = {"choices": [{"delta": {"content": "x"}}]}
    answer = said("chat", text, text, {"choices": []}, {}, text)

    assert told("chat", answer).gap == pytest.approx(0.03)


@pytest.mark.parametrize("name", [*TEXTS, "short", "burst"])
def test_what_the_service_says_is_right(asked: Asked, name: str) -> None:
    """However it is cut, the client puts it together; else what is torn would be the client's."""
    answers = asyncio.run(load.in_turn(asked, name, 2))

    assert [torn("chat", name, answer) for answer in answers] == ["", ""]
    assert all(right("chat", name, answer) for answer in answers)


def test_a_torn_character_is_counted() -> None:
    """A gateway that decodes each read for itself leaves marks in the place of characters."""
    text = SCENARIOS["cut-3"].text.replace("日", "\N{REPLACEMENT CHARACTER}" * 3)
    answer = said("messages", {"type": "content_block_delta", "delta": {"text": text}}, {"type": "message_stop"})

    assert torn("messages", "cut-3", answer) == "3 characters torn"
    assert torn("messages", "cut-3", said("messages")) == f"0 of {len(SCENARIOS['cut-3'].text)} characters"
    assert not right("messages", "cut-3", answer)


def test_what_a_client_gets_of_the_services_own_faults(asked: Asked) -> None:
    """The words that a gateway which hides nothing would get."""
    patience = {"silence": 0.2}
    answers = {name: asyncio.run(load.in_turn(asked, name, 1, patience.get(name, 5.0)))[0] for name in FAULTS}

    assert {name: outcome("chat", answer) for name, answer in answers.items()} == {
        "refused": "error, status 500",
        "error": "error event",
        "reset": "connection broken off",
        "cut": "an end without an event for it",
        "silence": f"nothing for {PATIENCE:.0f} s",
        "unknown": "a whole answer, ``melted``",
    }


def test_streams_are_open_at_once_until_the_block_ends(asked: Asked) -> None:
    """All that have begun, and none that is over."""

    async def opened() -> int:
        async with load.held(asked, "open", 5) as begun:
            return begun

    assert asyncio.run(opened()) == 5


def test_time_and_memory_are_those_of_all_processes() -> None:
    """A child that works counts for its parent."""
    work = "import time; b = b'x' * 2**25\nwhile time.process_time() < 30: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent])
    try:
        while cpu(process.pid) < 0.5:
            assert process.poll() is None
        assert len(tree(process.pid)) == 2
        assert memory(process.pid) > 32
    finally:
        for pid in reversed(tree(process.pid)):
            os.kill(pid, 9)
        process.wait()


def test_a_record_is_read_as_it_was_written() -> None:
    """Tables in tables, and words with marks that TOML has, too."""
    found = {"a": 'x\n"y" \\ é', "c": [1.5, 2], "d": True, "b": {"e": {"f": "g"}, "h": ["i", "j"]}}

    assert tomllib.loads(toml(found)) == found
