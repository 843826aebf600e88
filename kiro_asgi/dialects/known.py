"""Parts of a request that earlier ones had, recognised by their text.

An agent sends its tools and the whole conversation again with each turn.  An element of an array that stands as it
stood in the latest request that began alike, behind elements that all do, needs neither be decoded nor read again:
comparing texts takes a tenth of that.  Elements are objects, which end where their text ends, whatever follows.
Of an array that comes for the first time only the first element is remembered, and of one that comes again all are.

Nothing depends on this but time.  What is out of the ordinary is decoded as ever, with the errors that this brings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from sys import getsizeof
from typing import Any, Final, Protocol

from attrs import define, field, frozen

from kiro_asgi.limits import KNOWN_ELEMENTS
from kiro_asgi.wire.json import DECODER

_BRACKET: Final = 512
_COMMA: Final = 128
"""Bytes of memory that what a bracket opens, and what stands behind a comma, may take beside its text."""


@frozen
class Element:
    """One element of an array."""

    text: str = field(repr=False)
    """As it stood, with what stood between it and the one before it, or the bracket that opened the array."""

    value: Any = field(repr=False)
    """What was read of it, at its place in the array; nothing that a request could change."""

    size: int = field(init=False)
    """Bytes of memory, at most."""

    @size.default
    def _size(self) -> int:
        text = self.text
        brackets = text.count("{") + text.count("[")
        return 2 * getsizeof(text) + _BRACKET * (1 + brackets) + _COMMA * text.count(",")


class Recalled(Protocol):
    """What is known of the requests of one client."""

    def find(self, array: str, first: str, /) -> Sequence[Element]:
        """The elements of the latest *array* of that name whose first element had this text; empty for none."""
        ...

    def keep(self, array: str, elements: Sequence[Element], /) -> None:
        """Remember them."""
        ...


@frozen
class Part:
    """An array of a request."""

    known: Sequence[Element]
    """The elements at its beginning that are known."""

    texts: Sequence[str]
    """Of the others, as of `Element`; of an array of which none is known, of the first alone."""


@define(eq=False)
class ArrayDecoder:
    """Decodes one object.  Of its *arrays* only what is not known is decoded; `parts` says what was."""

    _arrays: Collection[str]
    _recalled: Recalled
    parts: dict[str, Part] = field(init=False, factory=dict)
    """By the names of the arrays; without those that hold anything but objects, or nothing."""

    def raw_decode(self, text: str) -> tuple[Any, int]:
        """As of `json.JSONDecoder.raw_decode`.

        Raises:
            ValueError: It is not JSON.
            RecursionError: It is too deep.
        """
        try:
            return self._object(text)
        except (IndexError, ValueError, RecursionError):
            self.parts.clear()
            return _decode(text, 0)

    def _object(self, text: str) -> tuple[dict[str, Any], int]:
        value: dict[str, Any] = {}
        at = _require(text, 0, "{")
        while True:
            _require(text, at, '"')
            name, at = _decode(text, at)
            at = _require(text, _blank(text, at), ":")
            if name in value:  # the last one counts
                raise ValueError(name)
            value[name], at = self._array(name, text, at) if name in self._arrays else _decode(text, at)
            at = _blank(text, at)
            if text[at] == "}":
                return value, at + 1
            at = _require(text, at, ",")

    def _array(self, name: str, text: str, start: int) -> tuple[Any, int]:
        """The elements of an array that are not known, and where it ends; another value as it is."""
        at = _blank(text, start + 1)
        if text[start] != "[" or text[at] != "{":
            return _decode(text, start)
        first = text[start : _decode(text, at)[1]]
        known, at = _beginning(self._recalled.find(name, first), text, start)
        if not known:  # to find the others takes time, and many arrays never come again
            self.parts[name] = Part((), [first])
            return _decode(text, start)
        items: list[Any] = []
        texts: list[str] = []
        while (before := _BEFORE_NEXT.match(text, at)) is not None:
            item, end = _decode(text, before.end())
            items.append(item)
            texts.append(text[at:end])
            at = end
            if len(items) > KNOWN_ELEMENTS:
                raise ValueError(name)
        end = _require(text, _blank(text, at), "]")
        self.parts[name] = Part(known, texts)
        return items, end


def _beginning(elements: Sequence[Element], text: str, at: int) -> tuple[Sequence[Element], int]:
    """Those of the *elements* that stand in *text* from *at* on, and where they end."""
    for count, element in enumerate(elements):
        if not text.startswith(element.text, at):
            return elements[:count], at
        at += len(element.text)
    return elements, at


def _require(text: str, at: int, mark: str) -> int:
    """The place behind a *mark* that has to stand *at* this one, and behind white space."""
    if text[at] != mark:
        raise ValueError(mark)
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    """The place behind white space."""
    return at if text[at] not in " \t\n\r" else _BLANK.match(text, at).end()  # type: ignore[union-attr]  # matches ""


_BLANK: Final = re.compile(r"[ \t\n\r]*+")

_BEFORE_NEXT: Final = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+(?=\{)")
"""What stands between an element and the next, which is an object."""


_decode: Final[Callable[[str, int], tuple[Any, int]]] = DECODER.raw_decode
"""The value at a place of a text, and the place behind it; raises ValueError where there is none."""
