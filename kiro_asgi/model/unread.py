"""Parts of a client API that its reader here does not understand, kept for services and clients of the same API.

A node of a prompt, or an event of an answer, is of no API; beside what it means it carries the members that its reader
did not understand, and the name of the API that they are of (`kiro_asgi.dialects.base.Dialect.name`).  Rules that move
or join nodes take them along.  Whoever writes the node in the same API writes them back; in others they are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, cast

from attrs import frozen

__all__ = ["Unread", "accumulated", "restore"]


@frozen
class Unread:
    """Members of one object."""

    api: str
    """The API that they are of, e.g. ``anthropic``."""

    members: Mapping[str, Any]
    """As they came.  Of a member that was read in part, an object of those within it that were not:
    ``{"thinking": {"block_binding": …}}``."""


def restore(own: dict[str, Any], members: Mapping[str, Any]) -> None:
    """Write *members* back into *own*, the object as it is written now, which wins; objects are merged.

    No deeper than what is written there: values of other members are handed on as they are.
    """
    pending = [(own, members)]
    while pending:
        into, given = pending.pop()
        for name, value in given.items():
            if name not in into:
                into[name] = value
            elif isinstance(value, Mapping) and isinstance(into[name], Mapping):
                into[name] = {**into[name]}
                pending.append((cast("dict[str, Any]", into[name]), value))


def accumulated(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One object of *pieces* of a stream: texts joined, lists put together, objects merged; of all else the last one.

    Source: https://github.com/openai/openai-python, ``accumulate_delta``
    """
    found: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            found.setdefault(name, []).append(value)
    return {name: values[-1] if name in _WHOLE else _put_together(values) for name, values in found.items()}


_WHOLE = frozenset({"id", "index", "name", "type"})
"""Names of members that no piece adds to."""


def _put_together(values: list[Any]) -> Any:
    """One value of several.  The depth is bounded by that of JSON."""
    given = [value for value in values if value is not None] or values[-1:]
    if len(given) > 1 and all(isinstance(value, str) for value in given):
        return "".join(given)
    if len(given) > 1 and all(isinstance(value, list) for value in given):
        return [*chain.from_iterable(given)]
    if len(given) > 1 and all(isinstance(value, Mapping) for value in given):
        return accumulated(given)
    return given[-1]
