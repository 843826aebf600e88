"""Every API in front of every service, mostly by the official clients: what is carried, and what is lost and why.

``tox -e matrix`` tries every combination and writes ``docs/reference/matrix.toml``, which the documentation shows.
Otherwise some are tried, and have to be as they are there.
"""

from __future__ import annotations

import importlib
from itertools import permutations

import pytest

from tests.e2e.matrix.apis import Answer
from tests.e2e.matrix.features import END, FEATURES, LOSSES, found
from tests.e2e.matrix.pairing import APIS, LOSING, SERVICES
from tests.e2e.matrix.record import FOUND
from tests.e2e.matrix.table import CELLS, PAGE, RECORDED, YES, Cell

ON_TRIO = [Cell(feature, "messages", service) for feature in ("signed-call", "error-within") for service in SERVICES]
"""What is looked at on the other event loop: two requests that belong together, and an end that is none."""


def test_a_combination(cell, on_asyncio, record_property, pytestconfig):
    """It carries the feature, value by value, or loses what has a reason and no more (F421, F422, F423, F425, F426,
    F432)."""
    marks = [
        found(cell.feature, lambda stream=stream: on_asyncio.pairing(cell.api, cell.service, stream=stream))
        for stream in (True, False)
    ]
    record_property(FOUND, [cell.feature, cell.api, cell.service, *marks])

    assert {*marks} <= {YES, *LOSSES}
    if not pytestconfig.getoption("--record", None):
        assert marks == cell.recorded


@pytest.mark.parametrize(("on_this", "stream"), [pytest.param(cell, True, id=str(cell)) for cell in ON_TRIO])
def test_a_combination_on_trio(on_this, stream, on_trio):
    """The same on the other event loop."""
    mark = found(on_this.feature, lambda: on_trio.pairing(on_this.api, on_this.service, stream=stream))

    assert mark == on_this.recorded[0]


@pytest.mark.parametrize(("first", "second"), [*permutations(SERVICES, 2)])
@pytest.mark.parametrize("api", APIS)
def test_a_turn_that_another_upstream_ends(api, first, second, on_asyncio):
    """One upstream thinks and calls, the other one is given the result: it is asked once, and sees no mark of ours."""
    pairing = on_asyncio.pairing(api, first, stream=True)
    called = pairing.ask("sim:thinking-tool", thinking=True, tools=True)
    pairing.to = second
    told = pairing.try_to_return_results(called.calls, "21 degrees")

    assert not any(mark in pairing.request.body for mark in (b"gemini.call:", b"nobody.thought:"))
    assert isinstance(told, Answer)
    assert (told.text, told.stop) == ("The tool says: 21 degrees", END[api])


def test_the_table_is_whole():
    """It has every combination, what each loses is known there, and says so in the words of the tests."""
    assert {name: service.title for name, service in SERVICES.items()} == RECORDED["services"]
    assert {name: api.title for name, api in APIS.items()} == RECORDED["apis"]
    assert {name: feature.what for name, feature in FEATURES.items()} == RECORDED["features"]
    assert RECORDED["losses"] == {name: {"why": loss.why, "rules": sorted(loss.rules)} for name, loss in LOSSES.items()}
    for cell in CELLS:
        for mark in cell.recorded:
            loss = LOSSES.get(mark)
            assert mark == YES or (loss is not None and loss.feature == cell.feature and cell.service in loss.services)


def test_losses_are_real():
    """Each of them is somewhere in the table, and its rules lose something."""
    marks = {mark for cell in CELLS for mark in cell.recorded}

    assert {*LOSSES} <= marks
    for loss in LOSSES.values():
        assert all(loss.rules <= LOSING[SERVICES[service].upstream] for service in loss.services)


def test_the_page_shows_the_table(monkeypatch):
    """Cell for cell, with the numbers of what is lost."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(PAGE.parents[1] / "_ext"))
    tables = importlib.import_module("generated").TABLES
    numbers = {name: str(number) for number, name in enumerate(LOSSES, 1)} | {YES: YES}

    for api in APIS:
        shown = [entry for row in [*tables[f"matrix-{api}"][0]()][1:] for entry in row[1:]]
        cells = [cell for cell in CELLS if cell.api == api]
        assert shown == [" / ".join(dict.fromkeys(numbers[mark] for mark in cell.recorded)) for cell in cells]
    assert [row[0] for row in tables["matrix-losses"][0]()][1:] == [*numbers.values()][:-1]
