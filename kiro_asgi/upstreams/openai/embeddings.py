"""Embeddings of OpenAI, and of the servers that speak its API.

They are asked for in base64, which is a third as long as numbers, and which no reading of decimals can change; a server
that does not know that sends numbers, and these are read as well.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.failures.remedies import Lesson, Remedy, mended, remedy_for
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

    remedies: tuple[Remedy, ...] = ()
    """Changes that answer what the service has refused."""

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
        fields = dict(_fields(prompt, model))
        if any(each.feature == NUMBERS for each in self.remedies):
            fields[ENCODING] = "float"
        body, _ = mended(fields, self.remedies)
        return self.ask(dumps(body), credential)

    def adapt_after_error(self, error: KiroAsgiError, document: Mapping[str, Any]) -> OpenAIEmbedder | None:
        """This embedder with the change that answers *error*, the answer to *document*; ``None`` where none does."""
        found = remedy_for(error, document, self.remedies, LESSONS)
        return None if found is None else self.with_remedies((*self.remedies, found))

    def with_remedies(self, remedies: tuple[Remedy, ...]) -> OpenAIEmbedder:
        """This embedder with these *remedies*."""
        return evolve(self, remedies=remedies)

    def reader(self, headers: Iterable[tuple[bytes, bytes]]) -> VectorReader:
        """Reads the answer; vectors are put in the order of their ``index``."""
        return VectorReader(_read)


ENCODING: Final = "encoding_format"
NUMBERS: Final = "encoding_format: float"
"""Feature of a remedy: vectors are asked for as numbers."""


def _refuses_base64(error: KiroAsgiError, document: Mapping[str, Any]) -> bool:
    return document.get(ENCODING) == "base64" and ("base64" in error.message or ENCODING in error.message)


LESSONS: Final = (Lesson(NUMBERS, "adapted.field", hears=_refuses_base64),)


def _fields(prompt: EmbeddingPrompt, model: ModelCard) -> Iterator[tuple[str, Any]]:
    yield "model", model.id
    yield "input", prompt.inputs
    yield ENCODING, "base64"
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
