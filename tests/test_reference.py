"""The built reference shows every public name whole: what is read here is HTML, as a reader gets it."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import EnumType
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.public import PUBLIC

pytest.importorskip("sphinx", reason="the pages are built where Sphinx is")

DOCS: Final = Path(__file__).parent.parent / "docs"
PAGES: Final = ("extending", "python", "errors")
_LISTED: Final = [f"   {page}" for page in PAGES]


class Entries(HTMLParser):
    """The entries of a page: the id of each, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.open: list[list[str]] = []
        """Ids of the entries that are open, the inner ones last."""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "dl":
            self.open.append([])
        elif tag == "dt" and self.open and (name := dict(attributes).get("id")):
            self.open[-1] = [name]
            self.texts.setdefault(name, [])

    def handle_endtag(self, tag: str) -> None:
        if tag == "dl":
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for names in self.open:
            for name in names:
                self.texts[name].append(data)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Id of each entry to its text, with one blank between words."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for page in PAGES:
        shutil.copy(DOCS / "reference" / f"{page}.rst", source)
    (source / "index.rst").write_text("\n".join(["Reference", "=========", "", ".. toctree::", "", *_LISTED]))
    command = [sys.executable, "-m", "sphinx", "-q", "-c", DOCS, "-D", "html_theme=basic", source, built]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str] = {}
    for page in PAGES:
        parser = Entries()
        parser.feed((built / f"{page}.html").read_text("utf-8"))
        found |= {name: " ".join("".join(parts).split()) for name, parts in parser.texts.items()}
    return found


def words(docstring: str) -> str:
    """A docstring as a page has it: without marks, with one blank between words."""
    text = re.sub(r":\w+:`~?([\w.]+)`", lambda match: match[1], docstring)
    return " ".join(re.sub(r"\*\*?([^*]+)\*\*?", r"\1", text.replace("`", "")).split())


@cache
def attribute_docs(cls: type) -> Mapping[str, str]:
    """Name of each field or member of *cls* itself to the docstring under it; empty where there is none."""
    (node,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for at, statement in enumerate(node.body):
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        if targets and isinstance(targets[0], ast.Name) and not targets[0].id.startswith("_"):
            after = node.body[at + 1] if at + 1 < len(node.body) else None
            has = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found[targets[0].id] = str(after.value.value) if has else ""  # type: ignore[union-attr]
    return found


def public() -> Iterator[tuple[str, str, Any]]:
    for module in PUBLIC:
        made = import_module(module)
        for name in made.__all__:
            if name != "__version__":
                yield module, name, getattr(made, name)


def entry_of(entries: Mapping[str, str], module: str, name: str, value: Any, attribute: str = "") -> str:
    """The id under which the pages have it: a public name, or that of the module where it stands."""
    home = f"{getattr(value, '__module__', module)}.{getattr(value, '__qualname__', name)}"
    known = (f"{module}.{name}", home, *(f"{other}.{name}" for other in PUBLIC))
    return next((each for each in known if each + attribute in entries), "")


def is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def test_every_public_name_has_an_entry(entries: Mapping[str, str]) -> None:
    """Classes, functions, names of operations, aliases of types; errors are rows of a table of their own."""
    shown = ((f"{it[0]}.{it[1]}", entry_of(entries, *it)) for it in public() if not is_error(it[2]))
    lost = [name for name, entry in shown if not entry]

    assert lost == []


def test_every_attribute_is_shown_whole(entries: Mapping[str, str]) -> None:
    """Fields, members of enumerations, with all of their docstrings: what stands before a colon is no type."""
    wrong: list[str] = []
    for module, name, value in public():
        if (
            not inspect.isclass(value)
            or is_error(value)
            or name.endswith("Settings")
            or not (attrs.has(value) or isinstance(value, EnumType))
        ):
            continue
        for attribute, docstring in attribute_docs(value).items():
            entry = entry_of(entries, module, name, value, f".{attribute}")
            text = entries.get(f"{entry}.{attribute}")
            if text is None:
                wrong.append(f"{module}.{name}.{attribute} is missing")
            elif words(docstring) not in text:
                wrong.append(f"{entry}.{attribute} is {text!r}, and not {words(docstring)!r}")

    assert wrong == []


def test_statuses_of_services_are_a_table(entries: Mapping[str, str]) -> None:
    """The page on errors has it, made of the code."""
    page = (DOCS / "reference" / "errors.rst").read_text("utf-8")

    assert ".. generated:: service-statuses" in page
