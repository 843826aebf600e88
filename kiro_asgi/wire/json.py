"""JSON that is strict about what it takes and gives: UTF-8, finite numbers, bounded depth, no lone surrogates.

The standard decoder does the work.  What is added around it is chosen so that an ordinary small document pays almost
nothing: every expensive check hides behind a search that runs at C speed and rarely hits.

Source: https://www.rfc-editor.org/rfc/rfc8259
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import accumulate, islice
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, Final, Protocol

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import JSON_DEPTH, JSON_VALUES, LARGEST_COUNT

_AROUND: Final = "\ufeff \t\n\r"
"""Characters around a value: white space (RFC 8259 section 2) and the byte order mark (ignored, section 8.1)."""


class JsonError(KiroAsgiError):
    """A text is not JSON, or exceeds a limit.

    ``code`` is ``json.invalid``, ``json.not_utf8``, ``json.too_deep``, ``json.too_large`` or ``json.too_many_values``.
    """

    status = 400


class Decoder(Protocol):
    """Decodes values; as `json.JSONDecoder`."""

    def raw_decode(self, text: str, /) -> tuple[Any, int]:
        """The value with which *text* begins, and where it ends.

        Raises:
            ValueError: It is not JSON.
            RecursionError: It is too deep.
        """
        ...


def loads(
    data: bytes | str,
    *,
    max_depth: int = JSON_DEPTH,
    max_bytes: int | None = None,
    max_values: int = JSON_VALUES,
    decoder: Decoder | None = None,
    halves: Callable[[re.Match[str]], str] | None = None,
) -> Any:
    """The value of one JSON document.

    A byte order mark is ignored, of equal keys the last one wins, and an escaped half of a surrogate pair becomes
    U+FFFD, so whatever is returned can be encoded again.

    Args:
        data: UTF-8, or text.
        max_depth: Most arrays and objects open at once.
        max_bytes: Largest size of the document as UTF-8; ``None`` is no limit.
        max_values: Most elements of arrays and members of objects, all together.
        decoder: Another decoder of values than the strict one.
        halves: What stands for a match of `ESCAPE`, before those that are half a pair then become U+FFFD.

    Raises:
        JsonError: Invalid, not UTF-8, too deep, too large, or of too many values; also ``NaN``, infinities, and numbers
            that overflow.
    """
    if max_bytes is not None:
        _check_size(data, max_bytes)
    try:
        text = _well_formed(data) if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as exc:
        raise JsonError(f"not UTF-8 at byte {exc.start}", code="json.not_utf8") from None
    text = text.strip(_AROUND)
    if (
        len(text) > _LONG
        or len(text) > max_depth < text.count("{") + text.count("[")
        or len(text) > max_values < text.count(",") + text.count("{") + text.count("[")
    ):
        _check_marks(_marks_outside(_utf8(data), max_values), max_depth, max_values)
    # As `_may_have_surrogates`: a call for each event of an answer would be dear.
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        text = ESCAPE.sub(_replace_lone, text if halves is None else ESCAPE.sub(halves, text))
    try:
        value, end = (decoder or DECODER).raw_decode(text)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as exc:
        raise JsonError(f"invalid JSON: {exc}", code="json.invalid") from None
    if end != len(text):
        raise JsonError(f"invalid JSON: extra data at character {end}", code="json.invalid")
    return value


def loads_answer(data: bytes | str) -> Any:
    """As `loads`; but what is no number is ``None``: many servers write ``NaN`` and ``Infinity`` beside the content.

    Raises:
        JsonError: As of `loads`, for anything else.
    """
    return loads(data, decoder=LENIENT)


def deep_place(data: bytes, max_depth: int) -> str:
    """The first steps to where *data* is nested deeper than that; empty where that is not found soon, or is nowhere."""
    steps: list[str | int] = []
    name = ""
    for match in islice(_TOKEN.finditer(data[:_LOOKED_AT].decode(errors="replace")), _TOKENS):
        token = match[0]
        if token in ("[", "{"):
            if len(steps) == max_depth:
                return "".join(f"[{it}]" if type(it) is int else f".{it}" for it in steps[:_STEPS]).removeprefix(".")
            steps.append(0 if token == "[" else "")
        elif token in ("]", "}"):
            del steps[-1:]
        elif token == "," and steps and type(steps[-1]) is int:
            steps[-1] += 1
        elif token == ":" and steps:
            steps[-1] = name
        else:
            name = token[1 : _ECHO + 1].removesuffix('"')
    return ""


def dumps(value: Any) -> bytes:
    """Compact UTF-8 that any strict parser takes; characters beyond ASCII stand for themselves.

    Raises:
        ValueError: A number that is not finite, or a structure that contains itself or is as deep as if it did: a bug
            of the caller.
    """
    try:
        text = _ENCODER.encode(value)
    except RecursionError:
        raise ValueError("a structure that contains itself has no end as JSON") from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _well_formed(text).encode()


def has_lone_surrogates(text: str) -> bool:
    """Whether *text*, which is JSON, has half a pair among its escapes; `loads` takes it, many parsers do not."""
    return _may_have_surrogates(text) and any(match[1] for match in ESCAPE.finditer(text))


def _may_have_surrogates(text: str) -> bool:
    return "\\" in text and ("\\ud" in text or "\\uD" in text)


class Extent(Enum):
    """How far a text is JSON."""

    WHOLE = "whole"
    """It begins with a value, whatever follows."""

    BEGUN = "begun"
    """It is the beginning of a value, which more text could complete."""

    BROKEN = "broken"
    """No text after it can make it a value; or it ends within a word, a number or an escape."""


def extent(text: str) -> Extent:
    """How far *text* is JSON, without white space or a byte order mark before it."""
    try:
        DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        begun = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        return Extent.BEGUN if begun else Extent.BROKEN
    except (ValueError, RecursionError):
        return Extent.BROKEN
    return Extent.WHOLE


def quote(text: str) -> str:
    """The JSON string literal of *text*, quotes included, for templates."""
    return encode_basestring(_well_formed(text))


def quote_bytes(text: str) -> bytes:
    """The JSON string literal of *text* as UTF-8, quotes included, for templates."""
    try:
        return encode_basestring(text).encode()
    except UnicodeEncodeError:
        return _well_formed(encode_basestring(text)).encode()


def _well_formed(text: str) -> str:
    """*text* with pairs of surrogates joined and single ones replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _check_size(data: bytes | str, max_bytes: int) -> None:
    size = len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise JsonError(f"JSON of {size} bytes, of which at most {max_bytes} are taken", code="json.too_large")


def count_values(data: bytes) -> int:
    """Elements and members of a JSON document, as `loads` counts them, without decoding it.

    A comma stands between two of them, a bracket before the first.  Beyond `JSON_VALUES` the count may be too low, but
    is never that low.
    """
    commas = data.count(b",") + data.count(b"{") + data.count(b"[")
    if commas <= _FEW:  # those in texts count as well: exactness is worth its time only where it may matter
        return commas
    try:
        return _values_in(data, JSON_VALUES)
    except JsonError:
        return JSON_VALUES + 1


def _utf8(data: bytes | str) -> bytes:
    return _well_formed(data).encode() if isinstance(data, str) else data


def _values_in(data: bytes, most: int) -> int:
    return _values(_marks_outside(data, most))


def _values(marks: bytes) -> int:
    return marks.count(b",") + marks.count(b"[")


def _marks_outside(data: bytes, most: int) -> bytes:
    """The commas and brackets of *data* that stand outside of strings, those of objects as if they were of arrays.

    All but them and quotes is taken away first: what is left is a tenth of it, and quickly cut at the quotes.

    Without escapes every second part between quotes is; that is wrong after a backslash outside of strings, but the
    decoder does not get past one.
    """
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(_SQUARE, _NOT_MARKS)
    if marks.count(b'"') > 4 * most:  # two for each name and each text; each becomes a part
        raise _too_many(most)
    return b"".join(marks.split(b'"')[::2])


def _too_many(most: int) -> JsonError:
    return JsonError(f"JSON of more than {most} values", code="json.too_many_values")


def _check_marks(marks: bytes, max_depth: int, max_values: int) -> None:
    """Count the values, and measure the depth, of the document that has these *marks*.

    Taking away every innermost pair takes away one level, and of an ordinary document nearly everything within a few
    rounds; what is left then is counted.
    """
    if _values(marks) > max_values:
        raise _too_many(max_values)
    brackets, left = marks.translate(None, b","), max_depth
    for _ in range(min(_ROUNDS, max_depth)):
        if brackets.count(b"[") <= left:
            return
        shallower = brackets.replace(b"[]", b"")
        if len(shallower) == len(brackets):
            break
        brackets = shallower
        left -= 1
    if any(map(left.__lt__, accumulate(map(_STEP, brackets)))):
        raise _too_deep(max_depth)


def _too_deep(max_depth: int) -> JsonError:
    return JsonError(f"JSON nested deeper than {max_depth} levels", code="json.too_deep")


def _replace_lone(match: re.Match[str]) -> str:
    return "\\ufffd" if match[1] else match[0]


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"number out of range: {digits[:20]}")
    return number


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite_or_none(digits: str) -> float | None:
    number = float(digits)
    return number if isfinite(number) else None


LENIENT: Final = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite_or_none)
DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)  # fmt: skip
"""Circles are not looked for, which would cost a fifth of the time; Python's recursion limit ends them."""

_LONG: Final = 16 * 1024
"""Characters from which on brackets in texts are taken away sooner than counted."""

_FEW: Final = 32
"""Values from which on `count_values` does not count marks in texts."""

_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_MARKS: Final = bytes(set(range(256)) - set(b'[]{},"'))
_STEP: Final = (ord("[") + 1).__sub__
"""Bracket to the step it takes: 1 down, 1 up."""

_ROUNDS: Final = 12
"""Levels taken away before counting: each round costs as much as the whole text where that is nested without end."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}:,]', re.DOTALL)
"""A string to its end, whether there is one or not, or a mark between values."""

_LOOKED_AT: Final = 1024 * 1024
_TOKENS: Final = 20_000
"""How much of a text is gone through to name a place in it: bytes and tokens."""

_STEPS: Final = 8
"""Steps of a place that a message shows."""

_ECHO: Final = 60
"""Characters of a name in it."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""One escape sequence; group 1 is set when it names a surrogate without its partner."""


def object_of(value: Any) -> Mapping[str, Any]:
    """*value* where it is an object, else an empty one."""
    return value if type(value) is dict else {}


def as_object(value: Any) -> Mapping[str, Any]:
    """*value* as the arguments of a call: an empty object where it is ``null``, an empty list or a blank text; anything
    else that is no object becomes the member ``input`` of one."""
    if isinstance(value, Mapping):
        return value
    return {} if value is None or value == [] or (isinstance(value, str) and not value.strip()) else {"input": value}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; nothing of anything else."""
    return [item for item in value if type(item) is dict] if type(value) is list else []


def text_of(report: Mapping[str, Any], key: str) -> str:
    """The text of a member; empty where it is none."""
    value = report.get(key)
    return value if type(value) is str else ""


def count(value: Any) -> int | None:
    """*value* where it is a plausible number of tokens, from 0 to `LARGEST_COUNT`; else ``None``.

    In JSON ``12`` and ``12.0`` are one number, and some services write the latter.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else None


def count_of(report: Mapping[str, Any], key: str) -> int | None:
    """The number of tokens in a member; ``None`` where it is none."""
    return count(report.get(key))
