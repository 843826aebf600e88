"""Links of a text in Markdown that lead into the repository."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["relative_links"]

TARGET: Final = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


def relative_links(text: str) -> list[str]:
    """The targets of links and pictures that are neither addresses nor anchors of the page."""
    targets = ["".join(found) for found in TARGET.findall(text)]
    return [target for target in targets if not re.match(r"https?://|#", target)]
