"""Redaction of secrets in texts that others have written, in the forms in which programs quote them.

A secret is found as it is, backwards, percent-encoded, escaped for JSON or HTML, in hexadecimal, and in Base64, be it
alone or with something around it, as a user's name is in Basic authentication; letters may be large or small.  A part
of one counts from `PARTIAL` characters on: services cut what they quote.  A secret of less than `TELLTALE` characters
is not looked for: it cannot be distinguished from a word.

These are forms that programs make of what they quote.  Who means to pass a secret on finds another: with a space after
each letter, encoded twice, or as an answer of a model.

Source of Base64: https://www.rfc-editor.org/rfc/rfc4648
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, quote_plus

from attrs import field, frozen

TELLTALE: Final = 8
"""Fewest characters of a secret that is looked for: a shorter one may be an ordinary word."""

PARTIAL: Final = 16
"""Characters of a longer secret, in any of its forms, that are taken out where they stand alone."""

REDACTED: Final = "[redacted]"

_GRAM: Final = 8
"""Characters by which a form is looked up.  It is known by every eighth place of it: one of them is within each part
of `PARTIAL` characters, wherever that begins."""

_PLACES: Final = 16
"""Places of one form with the same characters that are looked at; a secret with more of them is no secret."""

_FEW: Final = 400
"""Pieces of secrets that are searched for one by one."""

_SMALL: Final[Mapping[int, int]] = MappingProxyType({letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)})


@frozen
class Redactor:
    """Takes some secrets out of texts, in steps that grow with the text and not with the secrets."""

    _forms: tuple[str, ...] = field(repr=False)
    _places: Mapping[str, list[tuple[int, int]]] = field(repr=False)
    """Eight characters to the forms, and the places in them, where they stand."""

    @classmethod
    def of(cls, secrets: Iterable[str]) -> Redactor:
        """A redactor of *secrets*; those that are too short are left out."""
        long = (secret for secret in secrets if len(secret) >= TELLTALE)
        forms = tuple(dict.fromkeys(form.translate(_SMALL) for secret in long for form in _forms(secret)))
        places: dict[str, list[tuple[int, int]]] = {}
        for number, form in enumerate(forms):
            for place in range(0, len(form) - _GRAM + 1, _GRAM):
                found = places.setdefault(form[place : place + _GRAM], [])
                if len(found) < _PLACES:
                    found.append((number, place))
        return cls(forms, places)

    def hide(self, text: str) -> str:
        """*text* with `REDACTED` in the place of secrets."""
        if not self._forms:
            return text
        pieces: list[str] = []
        small, end = text.translate(_SMALL), 0
        for start, stop in self._found(small):
            if start > end or not pieces:
                pieces += [text[end:start], REDACTED]
            end = max(end, stop)
        return "".join([*pieces, text[end:]]) if pieces else text

    def hide_in(self, data: bytes) -> bytes:
        """The same for bytes, whatever they are."""
        text = data.decode("utf-8", "surrogateescape")
        hidden = self.hide(text)
        return data if hidden == text else hidden.encode("utf-8", "surrogateescape")

    def cover_in(self, data: bytes) -> bytes:
        """*data* with as many asterisks in the place of secrets, so that no length and no offset changes."""
        # Most texts hold no secret: a few searches in C show that sooner than a look at each place.
        if len(self._places) <= _FEW:
            lower = data.lower()
            if not any(gram.encode("utf-8", "surrogatepass") in lower for gram in self._places):
                return data
        text = data.decode("utf-8", "surrogateescape")
        small = text.translate(_SMALL)
        pieces: list[str] = []
        end = 0
        for start, stop in self._found(small):
            if stop > end:
                start = max(start, end)
                covered = "*" * len(text[start:stop].encode("utf-8", "surrogateescape"))
                pieces += [text[end:start], covered]
                end = stop
        return "".join([*pieces, text[end:]]).encode("utf-8", "surrogateescape") if pieces else data

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end, in order; they may touch."""
        at, last = 0, len(text) - _GRAM
        while at <= last:
            places = self._places.get(text[at : at + _GRAM])
            if places is None:
                at += 1
                continue
            start, stop = max((self._extent(text, at, *place) for place in places), key=lambda it: it[1] - it[0])
            if stop > start:
                yield start, stop
            at = max(at + 1, stop - _GRAM + 1)

    def _extent(self, text: str, at: int, number: int, place: int) -> tuple[int, int]:
        """Begin and end of the part of a form around *at* in *text*; empty where it is too short."""
        form, start, stop = self._forms[number], at, at + _GRAM
        while start > 0 and (before := place - (at - start)) > 0 and text[start - 1] == form[before - 1]:
            start -= 1
        while stop < len(text) and (after := place + stop - at) < len(form) and text[stop] == form[after]:
            stop += 1
        return (start, stop) if stop - start >= min(PARTIAL, len(form)) else (at, at)


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield secret[::-1]
    yield secret.strip()
    yield quote(secret, safe="")
    yield quote_plus(secret)
    quoted = json.dumps(secret)[1:-1]
    yield quoted
    yield quoted.replace("/", "\\/")
    yield html.escape(secret)
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for encoded in _encoded(data):
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")
        yield quote(encoded, safe="")


def _encoded(data: bytes) -> Iterator[str]:
    """Base64 of *data* at each of its three possible offsets, without the characters that its surroundings change."""
    for before in range(3):
        text = b64encode(bytes(before) + data).decode("ascii")
        end = (before + len(data)) * 8 // 6  # characters that hold nothing but bytes known
        form = text[-(-before * 8 // 6) : end]
        if len(form) >= TELLTALE:
            yield form
