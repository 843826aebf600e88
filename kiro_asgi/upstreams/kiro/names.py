"""Names and ids in the alphabets that the service allows; a substitute is the same in every request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from attrs import define, field

__all__ = ["ToolNames", "call_id"]

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

    _wire: dict[str, str] = field(init=False, factory=dict)
    _taken: set[str] = field(init=False, factory=set)

    def wire(self, name: str) -> str:
        """What the service calls *name*."""
        known = self._wire.get(name)
        if known is None:
            known = name if TOOL_NAME.fullmatch(name) and name.lower() not in self._taken else self._shorten(name)
            self._wire[name] = known
            self._taken.add(known.lower())
        return known

    def changed(self) -> Mapping[str, str]:
        """Wire name to the client's, for every name that is not the same."""
        return {wire: name for name, wire in self._wire.items() if wire != name}

    def _shorten(self, name: str) -> str:
        stem = _FOREIGN.sub("_", name)[:STEM]
        stem = stem if stem[:1].isalpha() else f"t{stem}"[:STEM]
        candidate, salt = f"{stem}_{_digest(name)}", name
        while candidate.lower() in self._taken:
            salt += "'"
            candidate = f"{stem}_{_digest(salt)}"
        return candidate


def call_id(value: str) -> str:
    """A tool-call id that the service takes; calls and their results are renamed alike."""
    return value if CALL_ID.fullmatch(value) else f"{_FOREIGN.sub('_', value)[:STEM]}_{_digest(value)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
