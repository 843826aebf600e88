"""Parts of a request that earlier ones had, recognised by their text.

An agent sends its tools and the whole conversation again with each turn.  An element of an array that stands as it
stood in the latest request that began alike, behind elements that all do, needs neither be decoded nor read again:
comparing texts takes a tenth of that.  Elements are objects, which end where their text ends, whatever follows.
Of an array that comes for the first time only the first elements are remembered, and of one that comes again all are.
An array is found by those: the first alone may be the same in all of a client's conversations, such as the system text.

Nothing depends on this but time.  What is out of the ordinary is decoded as ever, with the errors that this brings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from sys import getsizeof
from typing import Any, Final, Protocol, TypeVar

from attrs import define, field, frozen

from kiro_asgi.dialects.named_models import twice
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import KNOWN_BY, KNOWN_ELEMENTS
from kiro_asgi.model.prompt import Document, Opaque, Part, Tool, Turn
from kiro_asgi.wire.json import DECODER

T = TypeVar("T")

_BRACKET: Final = 512
_COMMA: Final = 128
"""Bytes of memory that what a bracket opens, and what stands behind a comma, may take beside its text."""

_WRITTEN: Final = 2048
"""Bytes of memory that what a service is sent for an element may take beside its texts."""

_WIDEST: Final = 4
"""Bytes of memory that a character may take which is escaped."""

_AS_JSON: Final = 2
"""Bytes of UTF-8 to one byte of memory, at most, of a text that is JSON: ``é`` takes two to one."""

_DECODED_AS_JSON: Final = 5
"""The same to a character of base64: three bytes from four such characters may take six each as JSON."""

_ESCAPED: Final = re.compile(r"\\u00(?:[57][bB]|2[cC])")
"""Brackets and commas of JSON within a text, such as that of arguments, where they do not stand for themselves."""


@frozen
class Element:
    """One element of an array."""

    text: str = field(repr=False)
    """As it stood, with what stood between it and the one before it, or the bracket that opened the array."""

    value: Any = field(repr=False)
    """What was read of it, at its place in the array; nothing that a request could change."""

    is_decoded: bool = False
    """Whether texts of *value* stand there in another form than JSON's, such as base64."""

    values: int = 1
    """How often its texts may be in *value*."""

    size: int = field(init=False)
    """Bytes of memory, at most, with what is kept of it as one service is sent it: see `Kept`."""

    @size.default
    def _size(self) -> int:
        text = self.text
        brackets, own = text.count("{") + text.count("["), getsizeof(text)
        is_escaped = "\\u" in text
        if is_escaped:
            brackets += len(_ESCAPED.findall(text))
        value = own + _WIDEST * len(text) if is_escaped or self.is_decoded else own
        sent = value + (_DECODED_AS_JSON * len(text) if self.is_decoded else own if text.isascii() else _AS_JSON * own)
        objects = _BRACKET * (1 + brackets) + _COMMA * text.count(",")
        return own + self.values * value + sent + objects + _WRITTEN


@frozen
class Read:
    """What was read of a new element."""

    value: Any
    is_decoded: bool = False
    """As of `Element`."""


def read_turn(value: Any, turn: Turn | None, *, is_decoded: bool = False) -> Read | None:
    """What was read of an element that became *turn*; ``None`` where that may not be in several prompts: it holds the
    error with which a service's reader refuses it.

    Args:
        value: As of `Element`.
        turn: ``None`` where it became none.
        is_decoded: As of `Element`; texts of the turn may have come as the bytes of a file.
    """
    if turn is None:
        return Read(value, is_decoded)
    parts = [*_all_parts(turn)]
    if any(type(part) is Opaque and part.refusal is not None for part in parts):
        return None
    turn.kept.lasts = True
    return Read(value, is_decoded or any(type(part) is Document and part.text != "" for part in parts))


def _all_parts(turn: Turn) -> Iterator[Part]:
    yield from turn.parts
    yield from turn.content()


def read_tools(value: Any, tools: Iterable[Tool]) -> Read:
    """What was read of an element that became *tools*; *value* is as of `Element`."""
    for tool in tools:
        tool.kept.lasts = True
    return Read(value)


class Recalled(Protocol):
    """What is known of the requests of one client in one API."""

    def find(self, array: str, first: str, /) -> Sequence[Element]:
        """The elements of the latest *array* of that name whose first elements had this text; empty for none."""
        ...

    def keep(self, array: str, first: str, elements: Sequence[Element], /) -> None:
        """Remember one whose first elements have this text."""
        ...


@frozen
class _Array:
    """An array of a request."""

    first: str
    """The text of its first elements, of as many as there are up to `KNOWN_BY`."""

    known: Sequence[Element]
    """The elements at its beginning that are known."""

    texts: Sequence[str]
    """Of the others, as of `Element`; of an array of which none is known, of the first ones alone."""


@define(eq=False)
class ArrayDecoder:
    """Decodes one object.  Of its *arrays* only what is not known is decoded; `parts` says what was."""

    _arrays: Collection[str]
    _recalled: Recalled
    _values: int = 1
    """How many values of an element are kept."""

    parts: dict[str, _Array] = field(init=False, factory=dict)
    """By the names of the arrays; without those that hold anything but objects, or nothing."""

    @property
    def is_recalling(self) -> bool:
        """Whether any element is known."""
        return any(part.known for part in self.parts.values())

    def known(self, array: str) -> list[Any]:
        """The values of those elements of an array that are known."""
        part = self.parts.get(array)
        return [] if part is None else [element.value for element in part.known]

    def forget(self, array: str) -> None:
        """Take all elements of an array for new ones; what has been decoded is still without those that were known."""
        part = self.parts[array]
        self.parts[array] = _Array(part.first, (), [*(element.text for element in part.known), *part.texts])

    def keep(self, read: Mapping[str, Iterable[Read]]) -> None:
        """Remember the arrays, with what was *read* of their new elements, up to the first of which nothing was."""
        for name, part in self.parts.items():
            pairs = zip(part.texts, read[name], strict=False)
            new = (Element(text, it.value, it.is_decoded, self._values) for text, it in pairs)
            if elements := (*part.known, *new):
                self._recalled.keep(name, part.first, elements)

    def raw_decode(self, text: str) -> tuple[Any, int]:
        """As of `json.JSONDecoder.raw_decode`.

        Raises:
            ValueError: It is not JSON.
            RecursionError: It is too deep.
        """
        try:
            return decoded(text, self._value)
        except (IndexError, ValueError, RecursionError):
            self.parts.clear()
            return MEMBERS.raw_decode(text)

    def _value(self, name: str, text: str, at: int) -> tuple[Any, int]:
        return self._array(name, text, at) if name in self._arrays else _decode(text, at)

    def _array(self, name: str, text: str, start: int) -> tuple[Any, int]:
        """The elements of an array that are not known, and where it ends; another value as it is."""
        at = _blank(text, start + 1)
        if text[start] != "[" or text[at] != "{":
            return _decode(text, start)
        ends = [start, *_first_ends(text, at)]
        firsts = [text[start:end] for end in ends[:0:-1]]
        found = next(filter(None, (self._recalled.find(name, first) for first in firsts)), ())
        known, at = _beginning(found, text, start)
        if not known:  # to find the others takes time, and many arrays never come again
            self.parts[name] = _Array(firsts[0], (), [text[begin:end] for begin, end in pairwise(ends)])
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
        self.parts[name] = _Array(firsts[0], known, texts)
        return items, end


def decoded(text: str, value_of: Callable[[str, str, int], tuple[Any, int]]) -> tuple[dict[str, Any], int]:
    """The object with which *text* begins, and where it ends; each member's value is read by *value_of*.

    Raises:
        RequestError: It has a member twice.
        ValueError: It is none; or `IndexError`.
    """
    members: dict[str, Any] = {}
    at = _require(text, 0, "{")
    while True:
        _require(text, at, '"')
        name, at = _decode(text, at)
        at = _require(text, _blank(text, at), ":")
        if name in members:
            raise twice(name)
        members[name], at = value_of(name, text, at)
        at = _blank(text, at)
        if text[at] == "}":
            return members, at + 1
        at = _require(text, at, ",")


class MemberDecoder:
    """Decodes the body of a request, which has no member twice: services differ in which of them counts."""

    def raw_decode(self, text: str, /) -> tuple[Any, int]:
        """As of `json.JSONDecoder.raw_decode`.

        Raises:
            RequestError: It has a member twice.
            ValueError: It is not JSON.
            RecursionError: It is too deep.
        """
        try:
            return decoded(text, _member_value)
        except (IndexError, ValueError):
            return _decode(text, 0)


MEMBERS: Final = MemberDecoder()


def _member_value(_: str, text: str, at: int) -> tuple[Any, int]:
    return _decode(text, at)


def recalling(decoder: ArrayDecoder, read: Callable[[], tuple[T, Mapping[str, Iterable[Read]]]]) -> T | None:
    """What is *read* by means of the *decoder*, which remembers it; ``None`` where the whole has to be read instead, as
    there is something wrong whose place counts.

    Args:
        decoder: One that has not decoded anything.
        read: Reads the request; gives what came of it, and for each of the arrays its new elements.

    Raises:
        RequestError: It is not a legal request, and nothing of it was known.
    """
    try:
        result, new = read()
    except RequestError:
        if not decoder.is_recalling:
            raise
        return None
    decoder.keep(new)
    return result


def _first_ends(text: str, at: int) -> Iterator[int]:
    """Where each of the first elements of an array ends, the first of which begins *at* this place."""
    for _ in range(KNOWN_BY):
        _, end = _decode(text, at)
        yield end
        following = _BEFORE_NEXT.match(text, end)
        if following is None:
            return
        at = following.end()


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
