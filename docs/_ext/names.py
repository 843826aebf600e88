"""The ``names`` directive, and docstrings of attributes as they are.

autodoc shows no name of a module that is neither class nor function, unless that is the module where it is assigned:
what a package hands on has its docstring elsewhere.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import cleandoc
from itertools import pairwise
from typing import Any, Final

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SHOWN: Final = 100
"""Characters of a value that are shown."""


def values_of(module: str, only: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    """Names of *module* that are neither classes nor functions: each with its value and its docstring."""
    made = import_module(module)
    for name in only or made.__all__:
        if not (inspect.isclass(getattr(made, name)) or inspect.isfunction(getattr(made, name))):
            yield name, *assigned(module, name)


def assigned(module: str, name: str) -> tuple[str, str]:
    """Value and docstring of *name* where it is assigned, as *module* defines it or imports it."""
    body = ast.parse(inspect.getsource(import_module(module))).body
    for node, doc in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [ast.unparse(target) for target in targets] == [name]:
                text = doc.value.value if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) else ""
                return ast.unparse(node.value), cleandoc(str(text))
    imports = (node for node in body if isinstance(node, ast.ImportFrom))
    home = next(str(node.module) for node in imports if any((it.asname or it.name) == name for it in node.names))
    return assigned(home, name)


class Names(SphinxDirective):
    """``.. names:: kiro_asgi.dialects``, or some of them: ``.. names:: kiro_asgi.streaming Call``."""

    required_arguments = 1
    optional_arguments = 9

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        module, *only = self.arguments
        lines = [f".. py:currentmodule:: {module}", ""]
        for name, value, doc in values_of(module, only):
            shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
            lines += [f".. py:data:: {name}", f"   :value: {' '.join(shown.split())}", ""]
            lines += [*(f"   {line}".rstrip() for line in doc.splitlines()), ""]
        self.state.nested_parse(StringList(lines, source=f"<{module}>"), self.content_offset, holder)
        return holder.children


class Kept:
    """Docstrings of attributes, kept from napoleon: it takes what stands before a first colon for a type."""

    def __init__(self) -> None:
        self.lines: list[str] | None = None

    def take(self, app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
        self.lines = [*lines] if what in ("attribute", "data", "property") else None

    def put_back(self, app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
        if self.lines is not None:
            lines[:] = self.lines


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("names", Names)
    kept = Kept()
    app.connect("autodoc-process-docstring", kept.take, priority=400)
    app.connect("autodoc-process-docstring", kept.put_back, priority=600)  # napoleon has 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
