"""Embeddings by InvokeModel: each family of models has a body of its own.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html and model-parameters-embed-v4.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.failures.waits import fields_of
from kiro_asgi.model.embeddings import EmbeddingPrompt, Embeddings
from kiro_asgi.upstreams.base import Credential, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.bedrock.models import behind
from kiro_asgi.upstreams.embeddings import lacks, purpose_of, require_texts
from kiro_asgi.upstreams.vectors import VectorReader, vector_of, vectors_of
from kiro_asgi.wire.json import count, count_of

_COUNTED: Final = "x-amzn-bedrock-input-token-count"
"""Header with the number of tokens of the inputs."""

_COHERE_PURPOSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "query": "search_query",
        "search_query": "search_query",
        "document": "search_document",
        "passage": "search_document",
        "search_document": "search_document",
        "classification": "classification",
        "clustering": "clustering",
    }
)
"""``input_type``, in the words of several services, to that of these models, which demand one."""

_USUAL_PURPOSE: Final = "search_document"


@frozen(kw_only=True)
class EmbeddingFamily:
    """Embedding models with one form of bodies."""

    inputs: int
    """Most inputs of one request."""

    dimensions: tuple[int, ...]
    """Lengths of vectors that can be asked for; empty where the model has one length."""

    purposes: Mapping[str, str] = MappingProxyType({})
    """Purposes that can be asked for, by the words of clients."""

    body: Callable[[EmbeddingPrompt], dict[str, Any]]


def _titan(prompt: EmbeddingPrompt) -> dict[str, Any]:
    (text,) = prompt.inputs
    return {"inputText": text, **({} if prompt.dimensions is None else {"dimensions": prompt.dimensions})}


def _cohere(prompt: EmbeddingPrompt) -> dict[str, Any]:
    purpose = purpose_of(prompt, _COHERE_PURPOSES, _USUAL_PURPOSE, "Cohere")
    body = {"texts": prompt.inputs, "input_type": purpose, "embedding_types": ["float"]}
    return body if prompt.dimensions is None else {**body, "output_dimension": prompt.dimensions}


FAMILIES: Final[tuple[tuple[str, EmbeddingFamily], ...]] = (
    ("amazon.titan-embed-text-v2", EmbeddingFamily(inputs=1, dimensions=(256, 512, 1024), body=_titan)),
    ("amazon.titan-embed-text", EmbeddingFamily(inputs=1, dimensions=(), body=_titan)),
    ("amazon.titan-embed-g1-text", EmbeddingFamily(inputs=1, dimensions=(), body=_titan)),
    (
        "cohere.embed-v4",
        EmbeddingFamily(inputs=96, dimensions=(256, 512, 1024, 1536), purposes=_COHERE_PURPOSES, body=_cohere),
    ),
    ("cohere.embed", EmbeddingFamily(inputs=96, dimensions=(), purposes=_COHERE_PURPOSES, body=_cohere)),
)
"""Beginning of a model's id, without its geography, to its family; the first that fits counts."""


@frozen
class BedrockEmbedder:
    """Asks for embeddings by InvokeModel."""

    ask: Callable[[Mapping[str, Any], Credential, ModelCard], UpstreamRequest]
    """Makes a request of a body."""

    def size(self, model: ModelCard) -> int:
        """Most inputs of one request."""
        return _family_of(model).inputs

    def check(self, prompt: EmbeddingPrompt, model: ModelCard) -> None:
        """Refuse tokens, and a length or a purpose that the model does not know.

        Raises:
            RequestError: There are some, or it is no embedding model that is known here.
        """
        family = _family_of(model)
        require_texts(prompt, "Bedrock")
        purpose_of(prompt, family.purposes, "", model.id)
        if prompt.dimensions is not None and prompt.dimensions not in family.dimensions:
            lengths = ", ".join(map(str, family.dimensions))
            hint = f"it has {lengths}" if lengths else "it has one length; leave this out"
            raise lacks("dimensions", f"{model.id} makes no vectors of {prompt.dimensions} numbers: {hint}")

    def request(self, prompt: EmbeddingPrompt, model: ModelCard, credential: Credential) -> UpstreamRequest:
        """Render *prompt*."""
        return self.ask(_family_of(model).body(prompt), credential, model)

    def reader(self, headers: Iterable[tuple[bytes, bytes]]) -> VectorReader:
        """Reads the answer of either family; where it does not count the tokens, a header does."""
        counted = fields_of(headers).get(_COUNTED, "")
        tokens = int(counted[:18]) if counted.isascii() and counted.isdecimal() else None
        return VectorReader(partial(_read, count(tokens)))


def _family_of(model: ModelCard) -> EmbeddingFamily:
    base = behind(model)
    found = next((family for begins, family in FAMILIES if base.startswith(begins)), None)
    if found is None:
        raise RequestError(
            f"model: {model.id[:100]} is no embedding model that can be asked at Bedrock; name one of Titan "
            "(amazon.titan-embed-text-v2:0) or Cohere (cohere.embed-v4:0)",
            code="unsupported_value",
            param="model",
        )
    return found


def _read(tokens: int | None, answer: Mapping[str, Any]) -> Embeddings:
    if "embedding" in answer:
        own = count_of(answer, "inputTextTokenCount")
        return Embeddings((vector_of(answer["embedding"]),), tokens if own is None else own)
    made = answer["embeddings"]
    return Embeddings(vectors_of(made["float"] if type(made) is dict else made), tokens)
