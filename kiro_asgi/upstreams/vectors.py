"""The vectors of an answer in JSON, taken out of it while it comes.

An answer with many vectors has tens of megabytes.  To decode it at its end would need several times its size, and
hold up all other work meanwhile.  So what is long becomes a vector as soon as it is whole: the numbers at the beginning
of an array, and a text in base64.  What is left is a small document, in which ``NaN``, which JSON has not, stands for
each vector.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import define, field

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.failures.meanings import error_of
from kiro_asgi.failures.report import failure, report_in
from kiro_asgi.limits import EMBEDDING_DIMENSIONS, EMBEDDING_REST_BYTES, EMBEDDING_TEXT_BYTES
from kiro_asgi.model.embeddings import WIDTH, Embeddings, checked, packed
from kiro_asgi.wire.json import DECODER, JsonError, loads

_SHORT: Final = 512
"""Characters of a text up to which it stays in the document: most have a few."""

_PLAIN: Final = re.compile(rb'(?:[^"\[]++|"(?:[^"\\]|\\.){0,%d}+"|\[(?=[^-0-9 \t\r\n]))*+' % _SHORT, re.DOTALL)
"""All up to a long text, or to an array that may begin with a number."""

_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_NUMBERS: Final = re.compile(rb"[-+.0-9eE, \t\r\n]*+")
_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)

_QUOTE, _OPEN, _CLOSE = b'"[]'

_NUMBER_CHARACTERS: Final = 128
"""One number, with blanks around it."""

_STAND_IN: Final = b"NaN"


@define
class VectorReader:
    """Reads one answer.

    Raises:
        UpstreamProtocolError: Code ``upstream.embeddings``: it is no answer with embeddings.
    """

    _read: Callable[[Mapping[str, Any]], Embeddings]
    """The vectors of the decoded answer, in which each is `bytes`; it may raise what looking for a member of another
    JSON raises."""

    _vectors: list[bytes] = field(init=False, factory=list)
    _rest: bytearray = field(init=False, factory=bytearray)
    """The document without the vectors."""

    _long: bytearray = field(init=False, factory=bytearray)
    """The numbers, or the text, that have begun."""

    _come: bytes = field(init=False, default=b"")
    """What has come and was not looked at."""

    _step: Callable[[VectorReader, int], int | None] = field(init=False)
    """Looks at what has come from some place on, and says how far; ``None`` where more must come first.  No bound
    method: that would be a circle, and the vectors would stay until the garbage collector comes by."""

    size: int = field(init=False, default=0)
    """Bytes of all vectors so far."""

    def __attrs_post_init__(self) -> None:
        self._step = VectorReader._skip

    def feed(self, data: bytes) -> None:
        """Take *data*, which comes next."""
        self._come += data
        at = 0
        try:
            while (end := self._step(self, at)) is not None:
                at = end
        except ValueError as error:
            raise _no_answer(error) from None
        self._come = self._come[at:]

    @property
    def length(self) -> int:
        """Bytes of the first vector; 0 before it has come."""
        return len(self._vectors[0]) if self._vectors else 0

    @property
    def rest_size(self) -> int:
        """Bytes of the document without the vectors."""
        return len(self._rest)

    def finish(self) -> Embeddings:
        """The vectors of the answer, which is whole."""
        vectors = deque(self._vectors)
        decoder = json.JSONDecoder(parse_float=DECODER.parse_float, parse_constant=lambda _: vectors.popleft())
        try:
            answer = loads(bytes(self._rest + self._long + self._come), decoder=decoder)
            if not self._vectors and type(answer) is dict and report_in(answer, content=_CONTENT):
                raise error_of(failure(answer))
            return self._read(answer)
        except (JsonError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise _no_answer(error) from None

    def _skip(self, at: int) -> int | None:
        """Go on to what may be a vector."""
        match = _PLAIN.match(self._come, at)
        assert match is not None, "the pattern takes nothing as well"
        end = self._keep(match.end(), at)
        if end == len(self._come):
            return None if end == at else end
        if self._come[end] == _OPEN:
            self._step = VectorReader._open
            return self._keep(end + 1, end)
        if len(self._come) - end < 2 * _SHORT + 2:
            return None if end == at else end
        self._step = VectorReader._text
        return end + 1

    def _open(self, at: int) -> int | None:
        """Look for the first value of an array."""
        end = self._keep(_match(_BLANK, self._come, at), at)
        if end == len(self._come):
            return None if end == at else end
        self._step = VectorReader._numbers if self._come[end] in b"-0123456789" else VectorReader._skip
        return end

    def _numbers(self, at: int) -> int | None:
        """Take numbers out of an array, unless other values follow them."""
        end = self._gather(_NUMBERS, at)
        if end == len(self._come):
            return None if end == at else end
        numbers, self._step = self._take(), VectorReader._skip
        if self._come[end] == _CLOSE:
            self._put_vector(_vector_of(numbers))
        else:
            self._add(numbers)
        return end

    def _text(self, at: int) -> int | None:
        """Take a long text out, if it is a vector."""
        end = self._gather(_TEXT, at)
        if end == len(self._come) or self._come[end] != _QUOTE:
            return None if end == at else end
        text, self._step = self._take(), VectorReader._skip
        try:
            vector = vector_in(text.replace(b"\\/", b"/"))
        except ValueError:
            self._add(b'"%b"' % text)
        else:
            self._put_vector(vector)
        return end + 1

    def _gather(self, pattern: re.Pattern[bytes], at: int) -> int:
        end = _match(pattern, self._come, at)
        if len(self._long) + end - at > EMBEDDING_TEXT_BYTES:
            raise ValueError(f"a text of more than {EMBEDDING_TEXT_BYTES} bytes")
        self._long += self._come[at:end]
        return end

    def _take(self) -> bytes:
        taken, self._long = bytes(self._long), bytearray()
        return taken

    def _put_vector(self, vector: bytes) -> None:
        self._vectors.append(vector)
        self.size += len(vector)
        self._add(_STAND_IN)

    def _keep(self, end: int, at: int) -> int:
        """Leave what has come from *at* to *end* in the document; the latter."""
        self._add(self._come[at:end])
        return end

    def _add(self, data: bytes) -> None:
        if len(self._rest) + len(data) > EMBEDDING_REST_BYTES:
            raise ValueError(f"more than {EMBEDDING_REST_BYTES} bytes beside the vectors")
        self._rest += data


_CONTENT: Final = frozenset({"data", "embeddings", "embedding", "embeddingsByType"})
"""Members of which an answer with embeddings has one."""


def _match(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where *pattern*, which takes nothing as well, ends."""
    match = pattern.match(data, at)
    assert match is not None, "the pattern takes nothing as well"
    return match.end()


def _no_answer(error: Exception) -> UpstreamProtocolError:
    why = error.message if isinstance(error, JsonError) else f"{type(error).__name__}: {error}"[:100]
    return UpstreamProtocolError(f"no answer with embeddings: {why}", code="upstream.embeddings")


def _vector_of(numbers: bytes) -> bytes:
    """The vector that is written as *numbers* with commas between."""
    if numbers.count(b",") >= EMBEDDING_DIMENSIONS:
        raise ValueError(f"a vector of more than {EMBEDDING_DIMENSIONS} numbers")
    written = numbers.split(b",")
    if max(map(len, written)) > _NUMBER_CHARACTERS:
        raise ValueError("a number without end")
    return packed([*map(float, written)])


def vector_in(text: str | bytes) -> bytes:
    """The vector that *text* has in base64.

    Raises:
        ValueError: It has none, or one of too many numbers.
    """
    vector = checked(b64decode(text, validate=True))
    if len(vector) > WIDTH * EMBEDDING_DIMENSIONS:
        raise ValueError(f"a vector of more than {EMBEDDING_DIMENSIONS} numbers")
    return vector


def vector_of(value: Any) -> bytes:
    """The vector that was an array of numbers, or a text in base64, in an answer that was read.

    Raises:
        ValueError: It was neither.
    """
    if type(value) is str:
        return vector_in(value)
    if type(value) is list and len(value) == 1:
        (value,) = value
    if type(value) is not bytes:
        raise ValueError("a vector is no array of numbers")
    return value


def vectors_of(values: Iterable[Any]) -> tuple[bytes, ...]:
    """The vector of each of *values*; errors as of `vector_of`, or a `TypeError`."""
    return tuple(map(vector_of, values))
