"""Embeddings of OpenAI, and of the servers that speak its API.

They are asked for in base64, which is a third as long as numbers, and which no reading of decimals can change; a server
that does not know that sends numbers, and these are read as well.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.upstreams.base import Credential, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.embeddings import lacks
from kiro_asgi.upstreams.vectors import VectorReader, vector_of
from kiro_asgi.wire.json import count_of, dumps, object_of

OPENAI_SIZE: Final = 2_048
"""Most inputs of one request to OpenAI."""

USUAL_SIZE: Final = 256
"""The same for another server, unless the operator knows better: vectors that come as numbers need much room."""


@frozen
class OpenAIEmbedder:
    """Asks for embeddings."""

    ask: Callable[[bytes, Credential], UpstreamRequest]
    """Makes a request of a body."""

    inputs: int = OPENAI_SIZE
    is_custom: bool = False
    """Whether another server than OpenAI's is asked, which may know fields that OpenAI does not."""

    def size(self, model: ModelCard) -> int:
        """Most inputs of one request."""
        return self.inputs

    def check(self, prompt: EmbeddingPrompt, model: ModelCard) -> None:
        """Refuse a purpose, where the server is OpenAI's.

        Raises:
            RequestError: There is one.
        """
        if prompt.purpose and not self.is_custom:
            raise lacks("input_type", "OpenAI makes the same embeddings for every purpose; leave this out")

    def request(self, prompt: EmbeddingPrompt, model: ModelCard, credential: Credential) -> UpstreamRequest:
        """Render *prompt*."""
        return self.ask(dumps(dict(_fields(prompt, model))), credential)

    def reader(self, headers: Iterable[tuple[bytes, bytes]]) -> VectorReader:
        """Reads the answer; vectors are put in the order of their ``index``."""
        return VectorReader(_read)


def _fields(prompt: EmbeddingPrompt, model: ModelCard) -> Iterator[tuple[str, Any]]:
    yield "model", model.id
    yield "input", prompt.inputs
    yield "encoding_format", "base64"
    if prompt.dimensions is not None:
        yield "dimensions", prompt.dimensions
    if prompt.purpose:
        yield "input_type", prompt.purpose
    if prompt.user:
        yield "user", prompt.user


def _read(answer: Mapping[str, Any]) -> Embeddings:
    data = answer["data"]
    indexed = {entry.get("index", place): entry["embedding"] for place, entry in enumerate(data)}
    if [*range(len(data))] != sorted(indexed):
        raise ValueError("the indexes of the embeddings are not those of the inputs")
    vectors = tuple(vector_of(indexed[place]) for place in range(len(data)))
    return Embeddings(vectors, count_of(object_of(answer.get("usage")), "prompt_tokens"))
