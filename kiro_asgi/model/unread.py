"""Parts of a client API that its reader here does not understand, kept for services and clients of the same API.

A node of a prompt, or an event of an answer, is of no API; beside what it means it carries the members that its reader
did not understand, and the name of the API that they are of (`kiro_asgi.dialects.base.Dialect.name`).  Rules that move
or join nodes take them along.  Who writes the node in the same API writes them back; in any other they are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

__all__ = ["Unread", "restore"]


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
