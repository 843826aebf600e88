"""A first look at a request that may go on as it is: whose model, how it is answered, and who runs the tools.

Where the service calls the model otherwise than the client does, its name is the one thing that changes in the bytes:
of the request here, of the answer in `kiro_asgi.dialects.passthrough`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from attrs import field, frozen

from kiro_asgi.dialects.errors import NO_MODEL
from kiro_asgi.dialects.errors import missing as no_value
from kiro_asgi.dialects.structure import read_json, structure_value
from kiro_asgi.limits import REQUEST_DEPTH
from kiro_asgi.model.features import Ask
from kiro_asgi.model.prompt import Tool
from kiro_asgi.wire.json import JsonError, dumps, loads, quote_bytes


@frozen
class RequestPeek:
    """The facts of a request that decide where it goes; everything else is in its bytes."""

    body: bytes = field(repr=False)
    model: str
    """As the client wrote it."""

    stream: bool
    tools: tuple[Tool, ...] = field(default=(), repr=False)
    """Of each only the name, and the kind of one that the client does not run."""

    asks: frozenset[Ask] = frozenset()
    """Features that it asks for; they decide whether it may go on as it is."""

    @property
    def thinking(self) -> bool:
        """Whether thinking was asked for in so many words."""
        return not self.asks.isdisjoint((Ask.THINKING, Ask.EFFORT))

    def renamed(self, model: str) -> bytes:
        """The client's very bytes, but for the model's name where *model* is another.

        A body that spells the member's own name with escapes is written anew.
        """
        if model == self.model:
            return self.body
        body = renamed(self.body, quote_bytes(model), ("model",), self.model)
        return dumps({**loads(body, max_depth=REQUEST_DEPTH), "model": model}) if body == self.body else body


@frozen
class _Asked:
    model: str
    stream: bool | None = None


def peek_at(
    body: bytes,
    missing: str,
    *,
    tools: Callable[[Mapping[str, Any]], tuple[Tool, ...]],
    asks: Callable[[Mapping[str, Any]], Iterable[Ask]],
) -> RequestPeek:
    """Look at *body*.  Only what decides where it goes is checked; the rest is for the service to judge.

    Raises:
        RequestError: No JSON object, or one without a model; ``param`` names the place.
    """
    return peek_in(read_json(body), body, missing, tools=tools, asks=asks)


def peek_in(
    document: Any,
    body: bytes,
    missing: str,
    *,
    tools: Callable[[Mapping[str, Any]], tuple[Tool, ...]],
    asks: Callable[[Mapping[str, Any]], Iterable[Ask]],
) -> RequestPeek:
    """Look at a request that was read, which goes on as *body*.

    Raises:
        RequestError: As from `peek_at`.
    """
    asked = structure_value(document, _Asked, missing=missing)
    if not asked.model:
        raise no_value("model", NO_MODEL)
    return RequestPeek(body, asked.model, bool(asked.stream), tools(document), frozenset(asks(document)))


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
