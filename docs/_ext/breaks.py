"""Let long names in tables go on in a second line, behind a sign such as ``_`` or ``.`` and nowhere else.

A browser does not break ``KIRO_ASGI__LIMITS__BODY_BYTES``, so a column of such names pushes the others out of sight.
"""

from __future__ import annotations

import re
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx

BREAK: Final = re.compile(r"(?<=[_./=,:*])(?=[A-Za-z0-9])")


def let_names_break(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Put ``<wbr>`` between the parts of names in cells; unlike a space of no width, it is not copied with the name."""
    if app.builder.format != "html":
        return
    for cell in tree.findall(nodes.entry):
        for literal in cell.findall(nodes.literal):
            first, *others = BREAK.split(literal.astext())
            if others and [*map(type, literal.children)] == [nodes.Text]:
                literal.children = [nodes.Text(first)]
                for part in others:
                    literal += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", let_names_break)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
