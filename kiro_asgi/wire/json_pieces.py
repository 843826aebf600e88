"""The JSON of an answer that comes in pieces, where a character may have been cut in two.

JSON writes a character outside of the basic plane as two escapes.  A service that cuts its text by code units of UTF-16
ends one string with the first and begins the next with the second.  Neither is a character by itself.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

from attrs import define, field

from kiro_asgi.wire.json import LENIENT, loads

_HALVES: Final = 64
"""First halves that wait for their second: as many strings as take turns."""


_NAME: Final = re.compile(r'"(?:name|\w{0,12}[iI]d)" ?: ?"$')
"""What stands before a string that does not come in pieces."""

_LOOK_BACK: Final = 24
"""Characters."""


@define
class JsonPieces:
    """Reads one document of an answer after the other."""

    _waiting: deque[str] = field(init=False, factory=deque)
    """Escapes of first halves, oldest first."""

    @property
    def is_whole(self) -> bool:
        """Whether no half of a character is left."""
        return not self._waiting

    def loads(self, data: bytes | str) -> Any:
        """As `kiro_asgi.wire.json.loads_answer`; but the first half of a character at the end of a string stands before
        the second half at the beginning of a later one.

        Raises:
            JsonError: As there.
        """
        return loads(data, decoder=LENIENT, halves=self._half)

    def _half(self, match: re.Match[str]) -> str:
        """An escape, or for half of a character: nothing while it waits, or both halves."""
        text, begin, end = match.string, match.start(), match.end()
        if not match[1]:
            return match[0]
        if match[1][2] in "89abAB":
            goes_on = text[end : end + 1] == '"' and not _NAME.search(text, max(0, begin - _LOOK_BACK), begin)
            if goes_on and len(self._waiting) < _HALVES:
                self._waiting.append(match[0])
                return ""
        elif self._waiting and text[begin - 1 : begin] == '"':
            return self._waiting.popleft() + match[0]
        return match[0]
