"""Names and ids in the alphabets that the service allows; a substitute is the same in every request."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from hashlib import sha256
from typing import Final

from attrs import define, field

from kiro_asgi.upstreams.notes import Notes

__all__ = ["CALL_ID", "TOOL_NAME", "ToolNames", "plain", "substitute"]

TOOL_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

STEM: Final = 55
"""Characters of a name that survive in front of the digest: 55 + ``_`` + 8 = 64."""

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")


@define
class ToolNames:
    """The client's tool names and what the service calls them, for one request.

    The service takes names for equal that differ in case only, so the second of them is renamed as well.
    """

    _notes: Notes = field(factory=Notes)
    _wire: dict[str, str] = field(init=False, factory=dict)
    _taken: set[str] = field(init=False, factory=set)

    def wire(self, name: str, place: str = "") -> str:
        """What the service calls *name*, which stands at *place*."""
        known = self._wire.get(name)
        if known is None:
            known = self._wire[name] = self._new(name, place)
            self._taken.add(known.lower())
        return known

    def changed(self) -> Mapping[str, str]:
        """Wire name to the client's, for every name that is not the same."""
        return {wire: name for name, wire in self._wire.items() if wire != name}

    def _new(self, name: str, place: str) -> str:
        fits = TOOL_NAME.fullmatch(name) and name.lower() not in self._taken
        if fits or not self._notes.applies("tools.renamed", place):
            return name
        stem = plain(name)
        return substitute(name, stem if stem[:1].isalpha() else f"t{stem}", self._taken)


def substitute(name: str, stem: str, taken: Container[str]) -> str:
    """*stem* with a digest of *name* behind it, which is none of those *taken*, in lower case or not."""
    salt = name
    while (candidate := f"{stem[:STEM]}_{_digest(salt)}") in taken or candidate.lower() in taken:
        salt += "'"
    return candidate


def plain(name: str) -> str:
    """*name* without the characters that an id cannot have."""
    return _FOREIGN.sub("_", name)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
