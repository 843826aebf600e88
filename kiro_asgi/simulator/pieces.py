"""What an answer is made of, in no service's format: every event of a script is read into these.

Beside Kiro's own events there are two that only other formats have words for, `search` and `picture`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.simulator.conversation import as_map
from kiro_asgi.simulator.scripts import Event, ExceptionFrame, Step

__all__ = [
    "CONTEXT_FULL",
    "AnswerEnd",
    "CallPart",
    "Failure",
    "Hit",
    "Picture",
    "Piece",
    "Seal",
    "Sealed",
    "Searched",
    "Thought",
    "TokensUsed",
    "Unknown",
    "Words",
    "picture",
    "pieces_of",
    "search",
]

CONTEXT_FULL: Final = "CONTEXT_FULL"
"""Stop reason of an answer after which the context window has no room left."""


@frozen
class Words:
    """Answer text."""

    text: str


@frozen
class Thought:
    """Readable thinking."""

    text: str


@frozen
class Seal:
    """The signature of the thought before it."""

    signature: str


@frozen
class Sealed:
    """Thinking that is not readable."""

    data: str


@frozen
class CallPart:
    """A part of a tool call: its beginning, some of its arguments, or its end."""

    call_id: str
    name: str
    input: str = ""
    stop: bool = False


@frozen
class Picture:
    """An image, whole."""

    media_type: str
    data: str
    """Base64."""


@frozen
class Hit:
    """One result of a search."""

    url: str
    title: str


@frozen
class Searched:
    """What the service itself has looked up, and what the words after it rest on."""

    query: str
    hits: tuple[Hit, ...]


@frozen
class AnswerEnd:
    """Why the answer ends."""

    reason: str
    """In Kiro's words, e.g. ``END_TURN``; words that nobody knows go out as they are."""

    sequence: str = ""
    """The stop sequence that was met."""


@frozen
class TokensUsed:
    """What the answer took, in tokens."""

    input: int
    """Cached ones not counted."""

    output: int
    cached: int = 0


@frozen
class Unknown:
    """An event that no client knows."""

    name: str
    payload: Mapping[str, Any]


@frozen
class Failure:
    """An error after the answer began."""

    name: str
    """In Kiro's words, e.g. ``ThrottlingException``."""

    message: str


Piece = Words | Thought | Seal | Sealed | CallPart | Picture | Searched | AnswerEnd | TokensUsed | Unknown | Failure


def search(query: str, *hits: Hit) -> Event:
    """The event of a search by the service itself."""
    return Event("searchEvent", {"query": query, "hits": [[hit.url, hit.title] for hit in hits]})


def picture(media_type: str, data: str) -> Event:
    """The event of an image, *data* in base64."""
    return Event("imageEvent", {"mediaType": media_type, "data": data})


def _reasoning(payload: Mapping[str, Any]) -> Iterator[Piece]:
    if "text" in payload:
        yield Thought(payload["text"])
    if "signature" in payload:
        yield Seal(payload["signature"])
    if "redactedContent" in payload:
        yield Sealed(payload["redactedContent"])


def _call(payload: Mapping[str, Any]) -> Iterator[Piece]:
    yield CallPart(payload["toolUseId"], payload["name"], payload.get("input", ""), payload.get("stop", False))


def _metadata(payload: Mapping[str, Any]) -> Iterator[Piece]:
    used = as_map(payload.get("tokenUsage"))
    if used:
        yield TokensUsed(used["uncachedInputTokens"], used["outputTokens"], used["cacheReadInputTokens"])
    if "stopReason" in payload:
        yield AnswerEnd(payload["stopReason"], payload.get("stopSequence", ""))


def _context(payload: Mapping[str, Any]) -> Iterator[Piece]:
    if payload["contextUsagePercentage"] >= 100:
        yield AnswerEnd(CONTEXT_FULL)


def _search(payload: Mapping[str, Any]) -> Iterator[Piece]:
    yield Searched(payload["query"], tuple(Hit(url, title) for url, title in payload["hits"]))


EVENTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Piece]]]] = {
    "assistantResponseEvent": lambda payload: iter((Words(payload["content"]),)),
    "reasoningContentEvent": _reasoning,
    "toolUseEvent": _call,
    "metadataEvent": _metadata,
    "contextUsageEvent": _context,
    "searchEvent": _search,
    "imageEvent": lambda payload: iter((Picture(payload["mediaType"], payload["data"]),)),
    "meteringEvent": lambda payload: iter(()),
    "initial-response": lambda payload: iter(()),
}
"""Event type to what it says."""


def pieces_of(step: Step) -> tuple[Piece, ...] | None:
    """What *step* says; ``None`` if it is no `Event` and no `ExceptionFrame`."""
    match step:
        case Event(name, payload):
            return tuple(EVENTS[name](payload)) if name in EVENTS else (Unknown(name, payload),)
        case ExceptionFrame(name, message):
            return (Failure(name, message),)
        case _:
            return None
