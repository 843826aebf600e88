"""No rule of the ledger is without its test."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.regressions.ledger import LEDGER

ROOT = Path(__file__).parents[2]
SECTIONS = {"1.2", "1.4", "1.5", "1.6", "1.7", "1.8", *(f"2.{n}" for n in range(1, 9)), "3.8", "3.9", "3.10"}


@cache
def _names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_rule_has_its_test() -> None:
    """Whoever renames or drops a test that holds a rule of the ledger is told so."""
    assert [(rule, test) for _, rule, path, test in LEDGER if test not in _names_in(path)] == []


def test_each_section_has_rules() -> None:
    """None of them is forgotten, and no rule stands there twice."""
    assert {section for section, *_ in LEDGER} == SECTIONS
    assert len({rule for _, rule, *_ in LEDGER}) == len(LEDGER)
