"""Texts, names of tools and ids of calls as they may be sent: encodable, in the alphabets that the service allows, and
without parts that settings take out.

Source: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.rendering.names import WireNames

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
    return _strip_reminders(text) if reminders and CLOSE in text and OPEN in text else text


def _strip_reminders(text: str) -> str:
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


THOUGHT: Final = re.compile(r"\s*<thinking>.*?</thinking>\s*", re.DOTALL)
"""Thinking in tags, as the gateway itself asks for it."""


@define
class Texts:
    """Cleans the texts of one request."""

    _notes: Notes
    _sanitize: bool = False
    _reminders: bool = False
    _careful: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._careful = self._sanitize or self._reminders

    def clean(self, text: str, place: str) -> str:
        """*text*, which stands at *place*, as it may be sent."""
        if not text.isascii():
            text = self._encodable(text, place)
        return self.stripped(text, place) if self._careful else text

    def _encodable(self, text: str, place: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            if self._notes.applies("text.unencodable", place):
                return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def stripped(self, text: str, place: str) -> str:
        """*text* without the parts that settings take out."""
        if self._sanitize:
            cleaned = sanitize_text(text, reminders=False)
            if cleaned != text and self._notes.applies("text.sanitized", place):
                text = cleaned
        if self._reminders and CLOSE in text:
            cleaned = _strip_reminders(text)
            if cleaned != text and self._notes.applies("text.reminders_stripped", place):
                text = cleaned
        return text

    def without_thinking(self, text: str, place: str) -> str:
        """An earlier answer without the thinking that stands in tags before it."""
        thought = THOUGHT.match(text)
        return text[thought.end() :] if thought and self._notes.applies("thinking.tags_dropped", place) else text


def is_blank(text: str) -> bool:
    """Whether *text* is empty, or white space."""
    return not text or text.isspace()


def paragraphs(*texts: str) -> str:
    """Join the texts that are not blank, with a blank line between them."""
    return "\n\n".join(text for text in texts if not is_blank(text))


LONGEST: Final = 64
"""Characters of a name or an id."""

CALL_ID: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")

_TOOL_NAME: Final = re.compile(rf"[a-zA-Z][a-zA-Z0-9_-]{{0,{LONGEST - 1}}}")


def call_ids(notes: Notes) -> WireNames:
    """Ids of calls, for one request."""
    return WireNames(CALL_ID, LONGEST, "calls.id_changed", notes)


def tool_names(notes: Notes) -> WireNames:
    """Names of tools, for one request.

    The service takes names for equal that differ in case only, so the second of them is renamed as well.
    """
    return WireNames(_TOOL_NAME, LONGEST, "tools.renamed", notes, str.lower)
