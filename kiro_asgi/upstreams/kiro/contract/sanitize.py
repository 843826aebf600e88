"""Texts without what is not meant for a reader: terminal escape sequences, control characters, reminder blocks.

Source: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["sanitize_text", "strip_reminders"]

OPEN: Final = "<system-reminder>"
CLOSE: Final = "</system-reminder>"

_NOISE: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    r"(?:(?<=\x1b)\[[0-?]*+[ -/]*+[@-~]?"  # a control sequence, complete or not
    r"|(?<=\x9b)[0-?]*+[ -/]*+[@-~]?"  # the same with its one-character introducer
    r"|(?<=\x1b)[]PX^_][^\x00-\x1f\x9c]*+(?:\x07|\x1b\\|\x9c)"  # a string for the terminal: its title, a link's address
    r"|(?<=\x1b)[ -/]?[0-~])?"  # any other escape sequence
)
"""A control character, and the escape sequence that it begins.  One class at the front keeps the search fast."""

_PIECE: Final = re.compile(r"[^>]*+>|[^>]+")


def sanitize_text(text: str, *, reminders: bool = True) -> str:
    """*text* without escape sequences and control characters; line feeds, carriage returns and tabs stay.

    Args:
        text: Any text; everything beyond the control characters stays as it is.
        reminders: Whether complete ``<system-reminder>`` blocks go, too: each from an opening tag to the first closing
            one behind it.  A tag that is never closed stays.
    """
    text = _NOISE.sub("", text)
    return strip_reminders(text) if reminders and CLOSE in text and OPEN in text else text


def strip_reminders(text: str) -> str:
    """*text* without complete ``<system-reminder>`` blocks.

    Removing a block may join a tag that stood around it, so tags are looked for in what is kept.
    """
    kept: list[str] = []
    opened = -1
    for piece in _PIECE.findall(text):
        kept.append(piece)
        if opened < 0:
            opened = _open(kept) if _ends_with(kept, OPEN) else -1
        elif _ends_with(kept, CLOSE):
            del kept[opened:]
            opened = -1
    return "".join(kept)


def _ends_with(kept: list[str], tag: str) -> bool:
    """Whether *tag* ends what is kept; no piece of it is empty."""
    return "".join(piece[-len(tag) :] for piece in kept[-len(tag) :]).endswith(tag)


def _open(kept: list[str]) -> int:
    """Where in *kept* the opening tag that ends it begins, from now on."""
    tail = ""
    while len(tail) < len(OPEN):
        tail = kept.pop() + tail
    if before := tail[: -len(OPEN)]:
        kept.append(before)
    kept.append(OPEN)
    return len(kept) - 1
