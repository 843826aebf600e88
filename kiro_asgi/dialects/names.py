"""Another name for the model in the bytes of a document, of which nothing else is touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Final

from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.wire.json import JsonError, loads

_MEMBER: Final = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
"""Inside a string the quotes have backslashes before them, so what is found is a member; group 1 is its value."""


def renamed(text: bytes, name: bytes, place: Sequence[str], old: str = "") -> bytes:
    """*text* with *name* instead of the model's name at *place*; unchanged where no name stands there.

    Args:
        text: One JSON document, or a line that holds one behind a field name.
        name: A JSON string literal.
        place: The keys that lead to the member, the last being ``model``.  They are looked at only where a text has
            several members of that name, or one with another value than *old*, which costs one more reading of it.
        old: The model's name, where it is known.
    """
    spots = [match.span(1) for match in _MEMBER.finditer(text)]
    if not spots:
        return text
    alone = len(spots) == 1 and (not old or loads(text[slice(*spots[0])]) == old)
    spot = 0 if alone else _spot_at(text, place)
    if spot is None:
        return text
    start, end = spots[spot]
    return text[:start] + name + text[end:]


def _spot_at(text: bytes, place: Sequence[str]) -> int | None:
    """Which of the members of *text* stands at *place*: every one gets its number as its value, then one is read."""
    numbers = count()
    numbered = _MEMBER.sub(lambda _: b'"model":%d' % next(numbers), text)
    try:
        value = loads(numbered[numbered.find(b"{") :], max_depth=REQUEST_DEPTH)
    except JsonError:
        return None
    for key in place:
        value = value.get(key) if type(value) is dict else None
    return value if type(value) is int else None
