"""Names of tools and ids of calls in the alphabets that the service allows."""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.rendering import WireNames

__all__ = ["CALL_ID", "LONGEST", "tool_names"]

LONGEST: Final = 64
"""Characters of a name or an id."""

CALL_ID: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")

_TOOL_NAME: Final = re.compile(rf"[a-zA-Z][a-zA-Z0-9_-]{{0,{LONGEST - 1}}}")


def tool_names(notes: Notes) -> WireNames:
    """Names of tools, for one request.

    The service takes names for equal that differ in case only, so the second of them is renamed as well.
    """
    return WireNames(_TOOL_NAME, LONGEST, "tools.renamed", notes, str.lower)
