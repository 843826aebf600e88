"""Requests for embeddings, and their answers.

Fields that would make other vectors are refused where they cannot be honoured.  ``input_type`` is no field of OpenAI's:
services that make different vectors of documents and of questions take it, and so their clients send it.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from attrs import frozen

from kiro_asgi.dialects.base import ParsedEmbeddings
from kiro_asgi.dialects.errors import NO_MODEL, invalid, missing
from kiro_asgi.dialects.structure import read_json, structure_value
from kiro_asgi.limits import EMBEDDING_INPUTS, EMBEDDING_TOKENS
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings, Input, numbers_of
from kiro_asgi.wire.json import dumps, quote_bytes


@frozen
class EmbeddingsBody:
    """The whole request."""

    model: str
    input: str | tuple[Any, ...] | None = None
    dimensions: int | None = None
    encoding_format: str | None = None
    input_type: str | None = None
    user: Any = None


def parse(body: bytes) -> ParsedEmbeddings:
    """Read a request body.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    request = structure_value(read_json(body, max_values=EMBEDDING_TOKENS), EmbeddingsBody)
    if not request.model:
        raise missing("model", NO_MODEL)
    form = request.encoding_format or "float"
    if form not in _FORMS:
        raise invalid("encoding_format", f"expected float or base64, got {form[:60]!r}")
    if request.dimensions is not None and request.dimensions < 1:
        raise invalid("dimensions", f"expected a number of at least 1, got {request.dimensions}")
    prompt = EmbeddingPrompt(
        request.model,
        tuple(_inputs(request.input)),
        request.dimensions,
        request.input_type or "",
        request.user if isinstance(request.user, str) else "",
    )
    return ParsedEmbeddings(prompt, form)


def _inputs(given: Any) -> Iterator[Input]:
    """A text, a list of texts, the tokens of a text, or a list of these."""
    if given is None or given == ():
        raise missing("input", "send a text, or a list of texts")
    if isinstance(given, str):
        yield _text(given, "input")
    elif type(given[0]) is int:
        yield _tokens(given, "input")
    else:
        if len(given) > EMBEDDING_INPUTS:
            raise invalid("input", f"at most {EMBEDDING_INPUTS} in one request, got {len(given)}; send several")
        for index, item in enumerate(given):
            place = f"input[{index}]"
            yield _text(item, place) if isinstance(item, str) else _tokens(item, place)


def _text(text: str, place: str) -> str:
    if not text:
        raise invalid(place, "is empty; leave out what has no text")
    return text


def _tokens(given: Any, place: str) -> tuple[int, ...]:
    if not isinstance(given, list | tuple):
        raise invalid(place, "expected a text, or a list of tokens")
    if not given:
        raise invalid(place, "is empty; leave out what has no text")
    if any(type(token) is not int or token < 0 for token in given):
        raise invalid(place, "expected tokens alone, each a whole number from 0; or send a text")
    return tuple(given)


_NUMBER: Final = "%.9g"
"""Nine digits tell every 32-bit float from its neighbours."""


def _as_numbers(vector: bytes) -> bytes:
    return b"[%b]" % ",".join([_NUMBER % number for number in numbers_of(vector)]).encode()


def _as_base64(vector: bytes) -> bytes:
    return b'"%b"' % b64encode(vector)


_FORMS: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType({"float": _as_numbers, "base64": _as_base64})
"""``encoding_format`` to the JSON of a vector."""


def render(embeddings: Embeddings, asked: ParsedEmbeddings) -> Iterator[bytes]:
    """The JSON body, in pieces: one for each vector."""
    encoded, before = _FORMS[cast(str, asked.options)], b'{"object":"list","data":['
    for index, vector in enumerate(embeddings.vectors):
        yield b'%b{"object":"embedding","index":%d,"embedding":%b}' % (before, index, encoded(vector))
        before = b","
    usage = {"prompt_tokens": embeddings.tokens or 0, "total_tokens": embeddings.tokens or 0}
    yield b'],"model":%b,"usage":%b}' % (quote_bytes(asked.prompt.model), dumps(usage))
