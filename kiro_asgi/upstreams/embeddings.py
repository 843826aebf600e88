"""Embeddings: what services that make them have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from kiro_asgi.errors import RequestError, UpstreamProtocolError
from kiro_asgi.limits import EMBEDDING_NUMBERS
from kiro_asgi.model.embeddings import EmbeddingPrompt, packed
from kiro_asgi.wire.json import JsonError, loads

T = TypeVar("T")


def lacks(param: str, why: str) -> RequestError:
    """The refusal of what a service lacks, at the place *param* of the request."""
    return RequestError(f"{param}: {why}", code="unsupported_value", param=param)


def require_texts(prompt: EmbeddingPrompt, service: str) -> None:
    """Refuse tokens, which *service* does not read.

    Raises:
        RequestError: There are some.
    """
    for index, given in enumerate(prompt.inputs):
        if not isinstance(given, str):
            raise lacks(f"input[{index}]", f"tokens mean nothing to {service}; send a text")


def purpose_of(prompt: EmbeddingPrompt, words: Mapping[str, str], usual: str, service: str) -> str:
    """What the vectors are for, in the words of *service*.

    Args:
        prompt: What is asked.
        words: Each word of a client to the service's.
        usual: The service's word where the client has none.
        service: Its name, for the message.

    Raises:
        RequestError: The service knows no such purpose.
    """
    if not prompt.purpose:
        return usual
    found = words.get(prompt.purpose.lower())
    if found is None:
        known = ", ".join(words) or "none; leave it out"
        raise lacks("input_type", f"{prompt.purpose[:60]!r} is no purpose that {service} knows: {known}")
    return found


def read_answer(body: bytes, read: Callable[[Mapping[str, Any]], T]) -> T:
    """What *read* makes of the object in *body*; it may raise what looking for a member of another JSON raises.

    Raises:
        UpstreamProtocolError: Code ``upstream.embeddings``: it is no answer with embeddings, or has too many numbers.
    """
    try:
        return read(loads(body, max_values=EMBEDDING_NUMBERS))
    except (JsonError, LookupError, TypeError, ValueError, AttributeError) as error:
        why = error.message if isinstance(error, JsonError) else f"{type(error).__name__}: {error}"[:100]
        raise UpstreamProtocolError(f"no answer with embeddings: {why}", code="upstream.embeddings") from None


def vectors_of(lists: Iterable[Any]) -> tuple[bytes, ...]:
    """The vectors that are written as lists of numbers.

    Raises:
        ValueError: One of them is no list of numbers; so does a `TypeError`.
    """
    return tuple(map(vector_of, islice(lists, EMBEDDING_NUMBERS)))


def vector_of(numbers: Any) -> bytes:
    """The vector that is written as a list of numbers; errors as of `vectors_of`."""
    if type(numbers) is not list:
        raise ValueError("a vector is no list")
    return packed(numbers)
