"""Streams of the client APIs, each with its checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.testing.grammar import chat, gemini, messages, responses


def _chat(stream: bytes) -> Any:
    chunks = chat.check(stream)
    assert "error" not in chunks[-1], f"the stream ends with an error: {chunks[-1]}"
    return chat.fold(chunks)


def _broken_chat(stream: bytes) -> Any:
    chunks = chat.check(stream)
    assert "error" in chunks[-1], f"the stream ends without an error: {chunks[-1]}"
    return chunks[-1]["error"]


def _responses(stream: bytes) -> Any:
    end = responses.check(stream)[-1]
    assert end["type"] != "response.failed", f"the stream ends with an error: {end}"
    return end["response"]


def _broken_responses(stream: bytes) -> Any:
    end = responses.check(stream)[-1]
    assert end["type"] == "response.failed", f"the stream ends with {end['type']}"
    return end["response"]["error"]


def _gemini(stream: bytes) -> Any:
    return gemini.check(gemini.events(stream))


_WHOLE: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(
    {"openai_chat": _chat, "openai_responses": _responses, "anthropic": messages.check, "gemini": _gemini}
)
"""Name of a client API, as `DialectManifest.name` has it, to the checker of a whole answer."""

_BROKEN: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(
    {
        "openai_chat": _broken_chat,
        "openai_responses": _broken_responses,
        "anthropic": messages.check_cut,
        "gemini": gemini.check_cut,
    }
)
"""The same for one that an error has ended."""


def check_stream(api: str, stream: bytes) -> Any:
    """Fail unless *stream* is one whole, legal answer of a client API, and return what it adds up to.

    Args:
        api: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.
        stream: The body of the answer.

    Raises:
        AssertionError: It is not legal, or ends with an error; the message says where.
    """
    return _checked(_WHOLE, api, stream)


def check_broken_stream(api: str, stream: bytes) -> Any:
    """Fail unless *stream* ends with an error as the API has it, and is legal until then; return the error.

    Raises:
        AssertionError: It is not legal, or ends as if it were whole.
    """
    return _checked(_BROKEN, api, stream)


def _checked(table: Mapping[str, Callable[[bytes], Any]], api: str, stream: bytes) -> Any:
    if api not in table:
        raise ValueError(f"there is no grammar for {api!r:.60}; there is one for {', '.join(table)}")
    try:
        return table[api](stream)
    except (LookupError, TypeError, ValueError) as error:  # where the stream has not even the shape
        raise AssertionError(f"the stream cannot be read: {error!r}") from error
