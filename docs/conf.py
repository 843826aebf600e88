"""How the documentation is built: `tox -e docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from kiro_asgi import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "kiro_asgi"
copyright = "the kiro_asgi authors"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "names", "generated", "breaks"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"kiro_asgi {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
templates_path: list[str] = []

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": True}
napoleon_numpy_docstring = False
nitpicky = False
smartquotes = False
