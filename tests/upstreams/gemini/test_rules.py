"""The table of rules is the code's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import kiro_asgi.upstreams
from kiro_asgi.upstreams.gemini.rules import RULES

ROOM = Path(kiro_asgi.upstreams.__file__).parent
NAME = re.compile(
    r"(?:adapted|tools|schema|images|documents|attachments|turns|calls|results|thinking|output|sampling)\.[a-z_]+"
)


def words(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_each_rule_is_applied_by_its_module() -> None:
    """A row of the table has code behind it."""
    for rule in RULES:
        module = ROOM / f"{rule.module}.py" if rule.module == "strict_turns" else ROOM / "gemini" / f"{rule.module}.py"
        assert rule.name in {*words(module)}, rule.name


def test_each_rule_of_the_code_is_in_the_table() -> None:
    """A note that a client is shown can be looked up."""
    modules = [module for module in (ROOM / "gemini").glob("*.py") if module.name != "rules.py"]
    found = {word for module in modules for word in words(module) if NAME.fullmatch(word)}

    assert found - {rule.name for rule in RULES} == set()


def test_rules_are_told_in_one_sentence() -> None:
    """Names differ, and each says what it does in one sentence."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.what.endswith(".") and rule.what.count(". ") == 0 for rule in RULES)
