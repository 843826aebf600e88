"""Embeddings of Gemini's models, as many as fit one request.

The vectors are the service's own.  Only those of full length have the length 1; whoever asks for fewer ``dimensions``,
and compares them by another measure than the cosine, has to norm them.

Source: https://ai.google.dev/api/embeddings
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.upstreams.base import Credential, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.embeddings import purpose_of, require_texts
from kiro_asgi.upstreams.vectors import VectorReader, vectors_of
from kiro_asgi.wire.json import count_of, dumps, object_of

SIZE: Final = 100
"""Most inputs of one request."""

PURPOSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "query": "RETRIEVAL_QUERY",
        "search_query": "RETRIEVAL_QUERY",
        "document": "RETRIEVAL_DOCUMENT",
        "passage": "RETRIEVAL_DOCUMENT",
        "search_document": "RETRIEVAL_DOCUMENT",
        "classification": "CLASSIFICATION",
        "clustering": "CLUSTERING",
        **{
            word.lower(): word
            for word in (
                "RETRIEVAL_QUERY",
                "RETRIEVAL_DOCUMENT",
                "SEMANTIC_SIMILARITY",
                "QUESTION_ANSWERING",
                "FACT_VERIFICATION",
                "CODE_RETRIEVAL_QUERY",
            )
        },
    }
)
"""``input_type``, in the words of several services, to ``taskType``."""

_NAME: Final = "Gemini"


@frozen
class GeminiEmbedder:
    """Asks for embeddings by ``batchEmbedContents``."""

    ask: Callable[[bytes, Credential, ModelCard], UpstreamRequest]
    """Makes a request of a body."""

    def size(self, model: ModelCard) -> int:
        """Most inputs of one request."""
        return SIZE

    def check(self, prompt: EmbeddingPrompt, model: ModelCard) -> None:
        """Refuse tokens, and a purpose that the service does not know.

        Raises:
            RequestError: There are some.
        """
        require_texts(prompt, _NAME)
        purpose_of(prompt, PURPOSES, "", _NAME)

    def request(self, prompt: EmbeddingPrompt, model: ModelCard, credential: Credential) -> UpstreamRequest:
        """Render *prompt*."""
        common: dict[str, Any] = {"model": f"models/{model.id}"}
        if prompt.dimensions is not None:
            common["outputDimensionality"] = prompt.dimensions
        if purpose := purpose_of(prompt, PURPOSES, "", _NAME):
            common["taskType"] = purpose
        requests = [{**common, "content": {"parts": [{"text": text}]}} for text in prompt.inputs]
        return self.ask(dumps({"requests": requests}), credential, model)

    def reader(self, headers: Iterable[tuple[bytes, bytes]]) -> VectorReader:
        """Reads the answer; newer models count the tokens of the inputs."""
        return VectorReader(_read)


def _read(answer: Mapping[str, Any]) -> Embeddings:
    vectors = vectors_of(entry["values"] for entry in answer["embeddings"])
    return Embeddings(vectors, count_of(object_of(answer.get("usageMetadata")), "promptTokenCount"))
