"""Names on the wire: a service's alphabet and length for the names of tools and the ids of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from hashlib import sha256
from re import Pattern
from typing import Final

from attrs import define, field

from kiro_asgi.model.notes import Notes

_DIGEST: Final = 8
"""Characters of the digest at the end of a substitute."""

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")
"""Characters that some service refuses in names."""


@define
class WireNames:
    """Map the client's names to those on the wire, for one request."""

    _legal: Pattern[str]
    """A whole name; the first character of one is one, too."""

    length: int
    """Characters of the longest name."""

    _rule: str
    """The rule by which names are replaced."""

    _notes: Notes
    _fold: Callable[[str], str] = str
    """Normalise a name as the service does to compare two, e.g. `str.lower`."""

    joint: str = "_"
    """Stands before the digest at the end of a substitute."""

    arguments: Mapping[str, str] = field(init=False, factory=dict)
    """Names of arguments on the wire to the client's, where they are not the same."""

    _wire: dict[str, str] = field(init=False, factory=dict)
    _taken: set[str] = field(init=False, factory=set)
    """Names on the wire, folded."""

    def wire(self, name: str, place: str = "") -> str:
        """The name on the wire for *name*, which stands at *place*."""
        known = self._wire.get(name)
        if known is None:
            known = self._wire[name] = self._new(name, place)
            self._taken.add(self._fold(known))
        return known

    def changed(self) -> Mapping[str, str]:
        """Wire name to the client's, for every name that is not the same."""
        return {wire: name for name, wire in self._wire.items() if wire != name}

    def _new(self, name: str, place: str) -> str:
        fits = self._legal.fullmatch(name) and self._fold(name) not in self._taken
        if fits or not self._notes.applies(self._rule, place):
            return name
        stem = plain(name)
        begins = self._legal.fullmatch(stem[:1])
        return substitute(name, stem if begins else f"t{stem}", self.length, self._taken, self._fold, self.joint)


def substitute(
    name: str, stem: str, length: int, taken: Container[str], fold: Callable[[str], str] = str, joint: str = "_"
) -> str:
    """*stem*, cut to fit, with a digest of *name* behind it; none whose folded form is *taken*."""
    salt = name
    while fold(candidate := f"{stem[: length - _DIGEST - 1]}{joint}{_digest(salt)}") in taken:
        salt += "'"
    return candidate


def plain(name: str) -> str:
    """*name* without the characters that some service refuses."""
    return _FOREIGN.sub("_", name)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
