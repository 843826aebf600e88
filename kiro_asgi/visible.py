"""Text of others for a terminal or a log: what cannot be seen, or moves the cursor, becomes an escape.

Names of models, ids on tapes, and errors of services are whatever somebody has written.  ESC and C1 are commands for a
terminal, bidi controls turn a line around, and a line break makes one line look like two.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

_SPACES: Final = "\u00a0\u3000"
"""Spaces of French and of Chinese texts, which Python does not count as printable."""


def visible(text: str) -> str:
    r"""*text* with escapes such as ``\x1b`` and ``\u202e`` for all that is not printable.

    Line breaks and half surrogates are among it, so the result is one line that can be encoded.
    """
    return text if text.isprintable() else _escaped(text, _as_python)


def visible_lines(text: str) -> str:
    """The same for each line of *text*."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    r"""*text*, which is JSON, with escapes of JSON in place of the same characters: its value stays what it was.

    Line breaks and spaces between values stay as well; in a string there are none.
    """
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line, _as_json) for line in lines)


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    return "".join(it if it.isprintable() or it in _SPACES else escape(it) for it in text)


def _as_python(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _as_json(character: str) -> str:
    return json.dumps(character)[1:-1]
