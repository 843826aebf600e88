"""Digests of conversations: what is kept of an answer belongs behind the same turns, and comes back nowhere else.

Clients re-encode what they were sent: texts are joined, blocks cut apart, white space at the edges is dropped, thinking
is left out, arguments are written anew.  What survives is the text without its white space, what is attached, and the
calls and results in their order; these make the digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from kiro_asgi.model.prompt import Document, Image, Opaque, Part, Role, Text, ToolCallPart, ToolResult, Turn

PLACEHOLDERS: Final = frozenset({"(no content)"})
"""Texts that clients put in the place of an empty answer; Claude Code does."""

_WHITE_SPACE: Final = b" \t\n\v\f\r"

_WHOLE: Final = re.compile(r"\.0+(?=[,}\]])")
"""The fraction of a whole number: JavaScript writes none."""


def visible(text: str) -> bytes:
    """*text* without its white space."""
    return text.encode("utf-8", "surrogatepass").translate(None, _WHITE_SPACE)


def canonical(value: Any) -> str:
    """Equal for equal JSON values, whoever wrote them."""
    return _WHOLE.sub("", json.dumps(value, sort_keys=True, separators=(",", ":")))


def digest_of(*parts: str) -> str:
    """A digest of several texts, of fixed size."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def before_answers(turns: Sequence[Turn], system: Iterable[str] = ()) -> Mapping[int, str]:
    """Digests of all that stands before an answer, by the index of its first turn.

    Neighbouring turns of the assistant are one answer that a client has cut apart.  Behind the user's last turn stands
    the next answer, whose index is the number of turns; where the last turn is the assistant's, that answer goes on.
    """
    running = digest_of(*(visible(text).decode("utf-8", "surrogatepass") for text in system))
    found: dict[int, str] = {}
    for role, places in groupby(range(len(turns)), key=lambda place: turns[place].role):
        group = [*places]
        if role is Role.ASSISTANT:
            found[group[0]] = running
        running = digest_of(running, role.value, *_group([turns[place] for place in group]))
    if not turns or turns[-1].role is Role.USER:
        found[len(turns)] = running
    return found


def before_next_answer(turns: Sequence[Turn], system: Iterable[str] = ()) -> str:
    """The digest of all that stands before the answer to *turns*."""
    found = before_answers(turns, system)
    return found[max(found)]


def _group(turns: Iterable[Turn]) -> Iterator[str]:
    """What digests of neighbouring turns of one role are made of."""
    text, others = sha256(), []
    for part in (part for turn in turns for part in turn.parts):
        if type(part) is Text:
            text.update(b"" if part.text.strip() in PLACEHOLDERS else visible(part.text))
        elif (other := _other(part)) is not None:
            others.append(other)
    yield text.hexdigest()
    yield from others


def _other(part: Part) -> str | None:
    """What a digest takes of a part that is no text; ``None`` for nothing."""
    match part:
        case ToolCallPart(call_id, name, arguments):
            return digest_of("call", call_id, name, canonical(arguments))
        case ToolResult(call_id, parts):
            return digest_of("result", call_id, *_group([Turn(Role.USER, parts)]))
        case Image(_, data, url):
            return digest_of("image", data, url)
        case Document(_, data, text, url, title):
            return digest_of("document", data, text, url, title)
        case Opaque(api, value):
            return digest_of("other", api, canonical(value))
    return None
