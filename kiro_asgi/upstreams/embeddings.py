"""Embeddings: what services that make them have in common."""

from __future__ import annotations

from collections.abc import Mapping

from kiro_asgi.errors import RequestError
from kiro_asgi.model.embeddings import EmbeddingPrompt


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
