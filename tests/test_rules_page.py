"""The page of rules has every name that the header ``x-kiro-asgi-rules`` may tell."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kiro_asgi.upstreams
from kiro_asgi.config import Settings
from kiro_asgi.model.rules import Rule
from kiro_asgi.upstreams.manifest import all_of

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "reference" / "rules.rst"

SHOWN = [configured.make().rules for configured in all_of(Settings())]
"""As ``explain`` has them."""


def tables() -> Iterator[tuple[str, tuple[Rule, ...]]]:
    """The name of every module of an upstream that has a table of rules, and the table."""
    for found in pkgutil.walk_packages(kiro_asgi.upstreams.__path__, "kiro_asgi.upstreams."):
        rules = getattr(importlib.import_module(found.name), "RULES", ())
        if found.name.partition(".rules")[1] and rules and all(isinstance(rule, Rule) for rule in rules):
            yield found.name, rules


@pytest.mark.parametrize(("module", "rules"), [pytest.param(*table, id=table[0]) for table in tables()])
def test_every_rule_is_on_the_page(module: str, rules: tuple[Rule, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the page's tables is this upstream's, rule for rule, and ``explain`` knows it."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    known = importlib.import_module("generated").TABLES
    names = re.findall(r"^\.\. generated:: (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    pages = [[row[0] for row in known[name][0]()][1:] for name in names]

    assert [f"``{rule.name}``" for rule in rules] in pages
    assert rules in SHOWN


def test_all_upstreams_have_rules() -> None:
    """The search above finds them."""
    assert len([*tables()]) == len(SHOWN) == 5
