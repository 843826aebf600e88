"""The ``names`` directive, and docstrings of attributes as they are.

autodoc shows no name of a module that is neither class nor function, unless that is the module where it is assigned:
what a package hands on has its docstring elsewhere.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
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


def values_of(module: str) -> Iterator[tuple[str, str, str]]:
    """Names of *module* that are neither classes nor functions: each with its value and its docstring."""
    made = import_module(module)
    for name in made.__all__:
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
    """``.. names:: kiro_asgi.dialects``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        lines: list[str] = []
        for name, value, doc in values_of(self.arguments[0]):
            shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
            lines += [f".. py:data:: {self.arguments[0]}.{name}", f"   :value: {' '.join(shown.split())}", ""]
            lines += [*(f"   {line}".rstrip() for line in doc.splitlines()), ""]
        self.state.nested_parse(StringList(lines, source=f"<{self.arguments[0]}>"), self.content_offset, holder)
        return holder.children


def keep_first_line(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Have napoleon leave the first line of an attribute alone: it takes what stands before a colon for a type."""
    if what in ("attribute", "data", "property") and lines and ":" in lines[0]:
        lines.insert(0, "")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)  # napoleon has 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
