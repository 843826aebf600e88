"""What a page or a table shows of usage is what is in the ledger, however it is grouped."""

from __future__ import annotations

import csv
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.quota.base import UsageKey, UsageRow
from kiro_asgi.quota.ledger import AMOUNTS, PARTS, as_csv, totals
from kiro_asgi.quota.memory import MemoryLedger

DAYS = ("2026-11-22", "2026-11-23", "2026-11-24")
NAMES = st.text(max_size=8) | st.sampled_from(["kiro", "\t=1+1", '"', "a,b", "a\nb", "a\rb"])
AMOUNT = st.integers(0, 10**12) | st.integers(0, 10**9).map(lambda number: number / 1000)
ROWS = st.lists(
    st.builds(
        UsageRow,
        st.builds(UsageKey, st.sampled_from(DAYS), NAMES, st.sampled_from(["kiro", "openai"]), NAMES),
        st.dictionaries(st.sampled_from(AMOUNTS), AMOUNT, max_size=6),
    ),
    max_size=20,
)


@given(ROWS, st.permutations([*PARTS]), st.integers(0, len(PARTS)))
def test_sums_are_those_of_the_ledger(rows, parts, many):
    """Of each amount, so that counts that were told and counts that were estimated stay apart; also as a table."""
    ledger, parts = MemoryLedger(), parts[:many]
    for row in rows:
        ledger.add([row])
    found = totals(ledger.rows(DAYS[0], DAYS[-1]), parts)

    groups = {tuple(getattr(row.key, PARTS[part]) for part in parts) for row in rows}
    assert [total.group for total in found] == sorted(groups)
    for name in AMOUNTS:
        for total in found:
            mine = [row for row in rows if tuple(getattr(row.key, PARTS[part]) for part in parts) == total.group]
            told = total.named(parts)[name]
            assert told == pytest.approx(sum(row.amounts.get(name, 0) for row in mine), rel=1e-12, abs=1e-5)

    head, *lines = csv.reader(StringIO(as_csv(found, parts)))
    assert head == [*parts, *AMOUNTS]
    assert [[float(each) for each in line[many:]] for line in lines] == [total.values(AMOUNTS) for total in found]
    assert not any(cell.lstrip()[:1] in {*"=+-@"} for line in lines for cell in line if cell.lstrip())
