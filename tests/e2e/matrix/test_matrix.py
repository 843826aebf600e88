"""Every API in front of every upstream, by the official clients: what is carried, and what is lost and said to be.

The table is ``docs/explanation/matrix.toml``; ``python -m tests.e2e.matrix`` prints what is found.
"""

from __future__ import annotations

import importlib
from itertools import permutations

import pytest

from tests.e2e.matrix.apis import Answer
from tests.e2e.matrix.features import END, FEATURES, INSTEAD, check
from tests.e2e.matrix.pairing import LOSING
from tests.e2e.matrix.table import APIS, CELLS, LOSSES, PAGE, UPSTREAMS, mark, printed

EACH_MODE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "collected"])

ON_TRIO = ("signed-call", "error")
"""What is looked at on the other event loop: two requests that belong together, and an end that is none."""


@EACH_MODE
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_combination(cell, stream, on_asyncio):
    """It carries the feature, value by value, or loses what the table says and no more (F421, F422, F423, F425, F426,
    F432)."""
    check(cell, on_asyncio.pairing(cell.api, cell.upstream, stream=stream))


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.feature in ON_TRIO], ids=str)
def test_a_combination_on_trio(cell, on_trio):
    """The same on the other event loop."""
    check(cell, on_trio.pairing(cell.api, cell.upstream, stream=True))


@pytest.mark.parametrize(("first", "second"), [*permutations(UPSTREAMS, 2)])
@pytest.mark.parametrize("api", APIS)
def test_a_turn_that_another_upstream_ends(api, first, second, on_asyncio):
    """One upstream thinks and calls, the other one is given the result: it is asked once, and sees no mark of ours."""
    pairing = on_asyncio.pairing(api, first, stream=True)
    called = pairing.ask("sim:thinking-tool", thinks=True, tools=True)
    pairing.upstream = second
    told = pairing.try_to_return_results(called.calls, "21 degrees")

    assert not any(mark in pairing.request.body for mark in (b"gemini.call:", b"nobody.thought:"))
    assert isinstance(told, Answer)
    assert (told.text, told.stop) == ("The tool says: 21 degrees", END[api])


def test_the_table_is_whole():
    """Every feature and every loss in it is tested, every rule is one that loses something, and no cell is named
    twice."""
    named = [(loss.feature, api, upstream) for loss in LOSSES for api in loss.apis for upstream in loss.upstreams]

    assert [*dict.fromkeys(cell.feature for cell in CELLS)] == [*FEATURES]
    assert [loss.name for loss in LOSSES] == [*INSTEAD]
    assert all(loss.rules <= LOSING[upstream] for loss in LOSSES for upstream in loss.upstreams)
    assert len({*named}) == len(named)
    assert {*named} <= {(feature, api, upstream) for feature in FEATURES for api in APIS for upstream in UPSTREAMS}


def test_the_page_shows_the_table(monkeypatch):
    """Cell for cell, with the numbers of what is lost; so does what is printed."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(PAGE.parents[1] / "_ext"))
    tables = importlib.import_module("generated").TABLES
    shown = {api: [row[1:] for row in [*tables[f"matrix-{api}"][0]()][1:]] for api in APIS}
    lines = [*printed(mark)]

    for api in APIS:
        marks = [mark(cell) for cell in CELLS if cell.api == api]
        assert [entry for row in shown[api] for entry in row] == marks
        assert [entry for line in lines if line[13:].startswith(api) for entry in line.split()[2:]] == marks
    assert [number for number, *_ in tables["matrix-losses"][0]()][1:] == [line.split()[0] for line in lines[31:]]
