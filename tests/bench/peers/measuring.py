"""The arithmetic: figures from answers and counters, and what a client is told of a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from tests.bench.peers.client import Answer, told
from tests.bench.peers.scenarios import LIMIT, SCENARIOS

__all__ = ["MEASURES", "PATIENCE", "Load", "added", "figures", "outcome", "quantile", "right", "torn"]

PATIENCE: Final = LIMIT + 7.0
"""Seconds that a client waits for what becomes of a fault."""

MEASURES: Final[Mapping[str, str]] = {
    "added_p50": "ms added to a short answer, p50",
    "added_p99": "ms added to a short answer, p99",
    "cpu_request": "ms of CPU for a request with five events",
    "cpu_burst": "µs of CPU for each further event, 400 as fast as they come",
    "cpu_paced": "µs of CPU for each further event, 16 streams with one every 20 ms",
    "gap": "ms, the longest between two events that are sent every 20 ms",
    "open": "MiB with all streams open",
}
"""Figures of each API, in words; less is better in all of them."""


@frozen
class Load:
    """What one load took."""

    answers: Sequence[Answer]
    cpu: float
    """Seconds of CPU time of the gateway's processes."""


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def added(through: Sequence[Answer], direct: Sequence[Answer], share: float) -> float:
    """Milliseconds by which the quantile of *through* is above that of *direct*."""
    later, sooner = (quantile([answer.seconds for answer in answers], share) for answers in (through, direct))
    return (later - sooner) * 1_000


def _further(load: Load, scenario: str, each: float) -> float:
    """µs for each event that *scenario* has more than a short answer, of which one costs *each* seconds."""
    more = len(SCENARIOS[scenario].pieces) - len(SCENARIOS["short"].pieces)
    return (load.cpu / len(load.answers) - each) / more * 1e6


def figures(api: str, loads: Mapping[str, Load], direct: Sequence[Answer]) -> dict[str, float]:
    """The figures of one API from its loads by scenario; *direct* are short answers of the service itself."""
    short = loads["short"]
    each = short.cpu / len(short.answers)
    return {
        "added_p50": added(short.answers, direct, 0.5),
        "added_p99": added(short.answers, direct, 0.99),
        "cpu_request": each * 1_000,
        "cpu_burst": _further(loads["burst"], "burst", each),
        "cpu_paced": _further(loads["paced"], "paced", each),
        "gap": max(told(api, answer).gap for answer in loads["paced"].answers) * 1_000,
    }


def right(api: str, scenario: str, answer: Answer) -> bool:
    """Whether *answer* is whole, and what the service said."""
    said = told(api, answer)
    whole = answer.ended == "whole" and said.over and not said.error
    return whole and said.text == SCENARIOS[scenario].text


def torn(api: str, scenario: str, answer: Answer) -> str:
    """What is wrong with a text; empty where nothing is."""
    text, expected = told(api, answer).text, SCENARIOS[scenario].text
    if text == expected:
        return ""
    if lost := text.count("\N{REPLACEMENT CHARACTER}"):
        return f"{lost} characters torn"
    return f"{len(text)} of {len(expected)} characters"


def outcome(api: str, answer: Answer) -> str:
    """What a client is told of a fault: an error, a connection that breaks, or that all is well."""
    said = told(api, answer)
    if answer.status >= 400:
        return f"error, status {answer.status}"
    if said.error:
        return "error event"
    if answer.ended == "waiting":
        return f"nothing for {PATIENCE:.0f} s"
    if answer.ended == "cut":
        return "connection broken off"
    if said.finish:
        return f"a whole answer, ``{said.finish}``"
    return "a whole answer, no reason" if said.over else "an end without an event for it"
