"""What the page on clients tells its readers to do, for the tests to do it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["ADDRESS", "EXAMPLES", "exported"]

DOCS: Final = Path(__file__).parents[2] / "docs"
EXAMPLES: Final = DOCS / "examples" / "clients"
ADDRESS: Final = "http://127.0.0.1:8000"
"""Where the page assumes the gateway."""


def exported(section: str, base: str) -> dict[str, str]:
    """The environment that one section of the page has its readers export, with *base* for the address."""
    page = (DOCS / "how-to" / "clients.rst").read_text("utf-8")
    _, *parts = re.split(r"^(.+)\n-+\n", page, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    lines = re.findall(r"^   \$ export (\w+)=(.*)$", sections[section], re.MULTILINE)
    return {name: value.replace(ADDRESS, base) for name, value in lines}
