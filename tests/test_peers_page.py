"""The tables that show this gateway beside others are those of one run, of all that there is."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.bench.peers.gateways import GATEWAYS
from tests.bench.peers.measuring import MEASURES
from tests.bench.peers.scenarios import FAULTS, TEXTS

RUN = tomllib.loads((Path(__file__).parent.parent / "docs" / "reference" / "peers.toml").read_text("utf-8"))


def test_every_gateway_was_measured_in_each_of_its_apis() -> None:
    """A gateway that did not run, or an API that was left out, is not silently absent; ours is the first."""
    measured = {name: {api for api in ("chat", "messages") if api in found} for name, found in RUN["gateways"].items()}

    assert measured == {each.name: {*each.apis} for each in GATEWAYS}
    assert next(iter(RUN["gateways"])) == GATEWAYS[0].name == "kiro_asgi"


def test_every_figure_was_taken_in_every_repetition() -> None:
    """Memory with all streams open is taken once, at the end."""
    cells = [RUN["gateways"][each.name][api] for each in GATEWAYS for api in each.apis]

    assert RUN["measures"] == MEASURES
    counts = {measure: 1 if measure == "open" else RUN["repetitions"] for measure in MEASURES}
    assert [{measure: len(cell[measure]) for measure in MEASURES} for cell in cells] == [counts] * len(cells)
    assert {cell["opened"] for cell in cells} == {RUN["streams"]}


def test_every_text_and_every_fault_was_tried() -> None:
    """What they are is said in the words of this day."""
    assert RUN["texts"] == {name: words for name, (words, _) in TEXTS.items()}
    assert RUN["faults"] == {name: words for name, (words, _) in FAULTS.items()}
    for each in GATEWAYS:
        for api in each.apis:
            cell = RUN["gateways"][each.name][api]
            assert ({*cell["texts"]}, {*cell["faults"]}) == ({*TEXTS}, {*FAULTS})


def test_ours_tears_no_text_and_hides_no_fault() -> None:
    """What this gateway promises elsewhere held in the run."""
    for api in GATEWAYS[0].apis:
        cell = RUN["gateways"]["kiro_asgi"][api]
        assert {*cell["texts"].values()} == {"right"}
        assert [name for name, told in cell["faults"].items() if "whole answer" in told] == ["unknown"]
