"""Pictures of the command for the pages: ``python -m tests.pictures demo FILE`` writes an SVG of a real run."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rich.console import Console

from kiro_asgi.cli.demo import demonstrate
from kiro_asgi.cli.terminal import Printer, RichPrinter

COLUMNS: Final = 100

SHOTS: Final[Mapping[str, tuple[str, Callable[[Printer], object]]]] = MappingProxyType(
    {"demo": ("kiro-asgi demo", demonstrate)}
)
"""Name of a picture to the command line that is its title, and what draws it."""


def picture(name: str) -> str:
    """An SVG document: self-contained, in the reader's own monospaced font."""
    title, draw = SHOTS[name]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    draw(RichPrinter(console.file, console))
    drawn = console.export_svg(title=title, unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # these would be fetched from elsewhere


def main(name: str, file: Path) -> None:
    """Write the picture *name* to *file*."""
    file.write_text(picture(name), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
