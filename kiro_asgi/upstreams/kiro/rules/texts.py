"""Texts, names of tools and ids of calls as they may be sent: encodable, in the alphabets that the service allows, and
without what a setting says is to be taken out.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from kiro_asgi.model.notes import Notes
from kiro_asgi.upstreams.kiro.contract.functions import sanitize_text, strip_reminders
from kiro_asgi.upstreams.rendering import WireNames

REMINDER: Final = "</system-reminder>"

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
        """*text* without what the settings say is to be taken out."""
        if self._sanitize:
            cleaned = sanitize_text(text, reminders=False)
            if cleaned != text and self._notes.applies("text.sanitized", place):
                text = cleaned
        if self._reminders and REMINDER in text:
            cleaned = strip_reminders(text)
            if cleaned != text and self._notes.applies("text.reminders_stripped", place):
                text = cleaned
        return text

    def without_thinking(self, text: str, place: str) -> str:
        """An earlier answer without the thinking that stands in tags before it."""
        thought = THOUGHT.match(text)
        return text[thought.end() :] if thought and self._notes.applies("thinking.tags_dropped", place) else text


def is_blank(text: str) -> bool:
    """Whether *text* says nothing."""
    return not text or text.isspace()


def paragraphs(*texts: str) -> str:
    """Texts that say something, a blank line between them."""
    return "\n\n".join(text for text in texts if not is_blank(text))


LONGEST: Final = 64
"""Characters of a name or an id."""

CALL_ID: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")

_TOOL_NAME: Final = re.compile(rf"[a-zA-Z][a-zA-Z0-9_-]{{0,{LONGEST - 1}}}")


def tool_names(notes: Notes) -> WireNames:
    """Names of tools, for one request.

    The service takes names for equal that differ in case only, so the second of them is renamed as well.
    """
    return WireNames(_TOOL_NAME, LONGEST, "tools.renamed", notes, str.lower)
