"""What answers of simulated services are made of, whichever service it is: each encoder makes bytes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

CONTEXT_FULL: Final = "CONTEXT_FULL"
"""Stop reason of an answer after which the context window has no room left."""


@frozen
class Words:
    """Answer text."""

    text: str
    model: str = ""
    """The model that writes it, where the service names one."""


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
    """A search by the service itself, which the text after it rests on."""

    query: str
    hits: tuple[Hit, ...]


@frozen
class AnswerEnd:
    """Why the answer ends."""

    reason: str
    """``END_TURN``, ``TOOL_USE``, ``MAX_TOKENS``, ``STOP_SEQUENCE``, ``CONTENT_FILTERED``, ``GUARDRAIL_INTERVENED``,
    ``REFUSED``, or `CONTEXT_FULL`; others go out unchanged."""

    sequence: str = ""
    """The stop sequence that was met."""


@frozen
class TokensUsed:
    """Tokens of prompt and answer."""

    input: int
    """Without cached ones."""

    output: int
    cached: int = 0


@frozen
class Ending:
    """What an answer says of itself when it has ended; ``None`` leaves a part out."""

    reason: str | None = None
    """As of `AnswerEnd`."""

    sequence: str = ""
    used: TokensUsed | None = None


@frozen
class ContextUsed:
    """The share of the context window that prompt and answer take."""

    percentage: float


@frozen
class Charged:
    """What the answer costs, in credits."""

    credits: float


@frozen
class Opened:
    """The answer to a conversation begins."""

    conversation: str
    """Its id."""


@frozen
class Event:
    """One event by a service's own name for it, which nothing else stands for."""

    type: str
    payload: Mapping[str, Any]


@frozen
class ExceptionFrame:
    """An error after the answer began; the service ends the stream after it."""

    name: str
    """E.g. ``ThrottlingException``."""

    message: str
    reason: str | None = None


Piece = (
    Words | Thought | Seal | Sealed | CallPart | Picture | Searched | Ending | ContextUsed | Charged | Opened | Event
)
"""What an answer is made of."""

COUNTED: Final = (Words, Thought, Seal, Sealed, CallPart)
"""Each counts as one token."""

TRAILERS: Final = (Ending, ContextUsed, Charged)
"""Those that follow the content."""


def search(query: str, *hits: Hit) -> Searched:
    """A search by the service itself."""
    return Searched(query, hits)


def picture(media_type: str, data: str) -> Picture:
    """An image, *data* in base64."""
    return Picture(media_type, data)
