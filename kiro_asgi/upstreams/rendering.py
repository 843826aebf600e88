"""Parts of requests that several services want in the same form: attachments, schemas, names in an allowed alphabet."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Container, Iterator, Mapping
from hashlib import sha256
from re import Pattern
from string import ascii_letters, digits
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define, field

from kiro_asgi.limits import SCHEMA_DEPTH
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import BEGINNING, Document, media_type_of
from kiro_asgi.wire.json import dumps

_SHOWN: Final = 100
"""Characters of a host's name that an error repeats."""

_DIGITS: Final = (ascii_letters + digits + "+/").encode()
_URL_SAFE: Final = str.maketrans("-_", "+/")


def is_base64(data: str) -> bool:
    """Whether *data* is base64 of something: the standard alphabet, padded, and nothing between."""
    padding = data.encode("ascii", "replace").translate(None, _DIGITS)
    return bool(data) and not len(data) % 4 and padding in (b"", b"=", b"==") and data.endswith(padding.decode())


def plain_base64(data: str) -> str:
    """*data* in the one form that every decoder reads; empty where it is not base64."""
    standard = "".join(data.split()).translate(_URL_SAFE).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    return standard if is_base64(standard) else ""


def image_type(data: str) -> str:
    """The media type of an image that the beginning of its base64 proves; empty where it proves none."""
    head = plain_base64(data[: BEGINNING * 4 // 3])
    found = media_type_of(a2b_base64(head)) if head else ""
    return found if found.startswith("image/") else ""


def instead_of_address(url: str) -> str:
    """Advice for the client, where the service does not fetch *url* itself."""
    try:
        host = (urlsplit(url).hostname or "")[:_SHOWN]
    except ValueError:
        host = ""
    return f"send the bytes as base64, or let fetch.allow name {host or 'its host'}"


def document_text(part: Document) -> str:
    """A plain-text document as part of a message's text."""
    return f"{part.title}\n\n{part.text}" if part.title else part.text


def schema_instructions(schema: Mapping[str, Any]) -> Iterator[str]:
    """Instruct the model to give an answer that obeys *schema*, a JSON Schema; an empty one stands for any object."""
    kind = "object" if schema.get("type", "object") == "object" else "value"
    yield f"Answer with one JSON {kind} and nothing else: no explanation around it, no code fence."
    if schema:
        yield f"The {kind} must be valid against this JSON Schema: {dumps(dict(schema)).decode()}"


COMBINATORS: Final = ("allOf", "anyOf", "oneOf")

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords with schemas to refer to, by name."""


def flat(root: Mapping[str, Any]) -> dict[str, Any]:
    """*root* with the properties of its alternatives, where the service has no room for alternatives.

    Its own come first, and of several of one name the first counts.  Required is what the root and its ``allOf``
    require.  Every schema is visited once, so recursive ones end.
    """
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    visited: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, True)]
    while waiting:
        schema, is_needed = waiting.pop()
        schema = target(schema, root) or schema
        if not isinstance(schema, Mapping) or id(schema) in visited:
            continue
        visited.add(id(schema))
        for name, part in _map(schema.get("properties")).items():
            properties.setdefault(name, part)
        if is_needed:
            required |= dict.fromkeys(_names(schema.get("required")))
        branches = [(each, is_needed and word == "allOf") for word in COMBINATORS for each in _list(schema.get(word))]
        waiting += reversed(branches)
    members = {key: value for key, value in root.items() if key not in COMBINATORS}
    found = {"properties": properties, "required": [*required]}
    return {**members, **{key: value for key, value in found.items() if value}}


def target(schema: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Resolve a reference among the root's definitions; ``None`` where it leads nowhere, or there is none."""
    found = None
    for _ in range(SCHEMA_DEPTH):
        reference = _map(schema).get("$ref")
        if not isinstance(reference, str):
            return found
        keyword, _, name = reference.removeprefix("#/").partition("/")
        schema = found = _map(_map(root.get(keyword)).get(name)) if keyword in DEFINITIONS else None
    return None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]


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
