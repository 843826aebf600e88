"""The tables of rules are the code's: nothing is applied that is in no table, and nothing is in a table in vain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kiro_asgi
from kiro_asgi.config import Settings
from kiro_asgi.dialects.unread import RULES as DIALECT_RULES
from kiro_asgi.model.rules import CATALOGUE, Loss, Rule, differs, listed
from kiro_asgi.upstreams.manifest import all_of

ROOT = Path(kiro_asgi.__file__).parent
TABLES = {configured.manifest.name: configured.make().rules for configured in all_of(Settings())}
HOMES = {"bedrock": ("upstreams/bedrock", "upstreams/anthropic")}
"""Folders of an upstream, where it is not its name alone."""

NAME = re.compile(
    rf"(?:{'|'.join(sorted({name.partition('.')[0] for name in CATALOGUE}))}|betas|contract|size)\.[a-z_]+"
)
NOT_RULES = {"thinking.unreadable"}
"""Notices of answers."""


@cache
def words(module: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(module.read_text("utf-8")))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def applied(*folders: str) -> Iterator[tuple[Path, frozenset[str]]]:
    """Modules of *folders* but for the tables, and the texts in each."""
    for folder in folders:
        for module in (ROOT / folder).rglob("*.py"):
            if module.name != "rules.py" and module.parent.name + module.name != "rules__init__.py":
                yield module, words(module)


@pytest.mark.parametrize("name", TABLES)
def test_each_rule_is_applied(name: str) -> None:
    """A row of a table has code behind it: of this upstream, or of what all of them share."""
    folders = (*HOMES.get(name, (f"upstreams/{name}",)), "rendering", "failures")
    code = {word for _, found in applied(*folders) for word in found}

    assert {rule.name for rule in TABLES[name]} - code - counted() == set()


def counted() -> set[str]:
    """Names that code puts together: of how many attachments there may be."""
    return {"images.count", "documents.count"}


@pytest.mark.parametrize("name", TABLES)
def test_each_rule_of_the_code_is_in_the_table(name: str) -> None:
    """A note that a client is shown can be looked up."""
    found = {word for _, texts in applied(f"upstreams/{name}") for word in texts if NAME.fullmatch(word)}

    assert found - {rule.name for rule in TABLES[name]} - NOT_RULES == set()


@pytest.mark.parametrize("rules", [*TABLES.values(), DIALECT_RULES, (*CATALOGUE.values(),)])
def test_rules_are_told_in_one_sentence(rules: tuple[Rule, ...]) -> None:
    """Each says what it does in one sentence."""
    assert all(rule.what.endswith(".") and rule.what.count(". ") == 0 for rule in rules)


def test_a_rule_is_declared_once() -> None:
    """What the catalogue has, no party declares again, except to say that it does another thing there; and what stands
    in the catalogue, more than one party has."""
    tables = {"dialects": DIALECT_RULES, **TABLES}
    had = {
        name: [party for party, rules in tables.items() if name in {rule.name for rule in rules}] for name in CATALOGUE
    }
    others = {
        rule.name: rule
        for rules in tables.values()
        for rule in rules
        if rule.name in CATALOGUE and rule is not CATALOGUE[rule.name]
    }

    assert {name for name, parties in had.items() if len(parties) < 2} == set()
    assert all(rule.what != CATALOGUE[name].what and rule.loss is CATALOGUE[name].loss for name, rule in others.items())
    assert len(others) <= 3


def test_a_table_names_what_there_is() -> None:
    """A mistake in a table is one when it is imported."""
    with pytest.raises(ValueError, match=r"no rule of the catalogue is named 'text\.blank'"):
        listed("text.blank")
    with pytest.raises(ValueError, match="listed twice"):
        listed("turns.empty", Rule("turns.empty", "Another.", Loss.NONE))
    assert differs("turns.empty", "Another.") == Rule("turns.empty", "Another.", CATALOGUE["turns.empty"].loss)
