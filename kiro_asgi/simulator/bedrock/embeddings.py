"""Embeddings of the simulated service of Amazon Bedrock: InvokeModel for Titan and for Cohere's models.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from kiro_asgi.simulator.bedrock.encoder import REFUSALS, refusal
from kiro_asgi.simulator.conversation import as_list
from kiro_asgi.simulator.embeddings import tokens_of, vector
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Script, json_answer

TITAN: Final = "amazon.titan-embed-text-v2:0"
COHERE: Final = "cohere.embed-v4:0"
LENGTHS: Final[Mapping[str, tuple[int, ...]]] = {
    TITAN: (256, 512, 1_024),
    "amazon.titan-embed-text-v1": (1_536,),
    "cohere.embed-multilingual-v3": (1_024,),
    COHERE: (256, 512, 1_024, 1_536),
}
"""Embedding model to the lengths of its vectors, the usual one last."""

PURPOSES: Final = ("search_document", "search_query", "classification", "clustering")
MOST: Final = 96


def embed(request: RecordedRequest, document: Mapping[str, Any]) -> Script:
    """The answer to InvokeModel of an embedding model."""
    model = unquote(request.path.split("/")[2])
    if model not in LENGTHS:
        return refusal(*REFUSALS["bad-model"])
    made = _titan(document, LENGTHS[model]) if model.startswith("amazon.") else _cohere(document, LENGTHS[model])
    if isinstance(made, str):
        return refusal(400, "ValidationException", f"Malformed input request: {made}, please reformat your input.")
    return made


def _titan(document: Mapping[str, Any], lengths: tuple[int, ...]) -> Script | str:
    text, length = document.get("inputText"), document.get("dimensions", lengths[-1])
    if unknown := sorted(document.keys() - {"inputText", *(("dimensions", "normalize") if len(lengths) > 1 else ())}):
        return f"extraneous key [{unknown[0]}] is not permitted"
    if not isinstance(text, str) or not text:
        return "required key [inputText] not found"
    if length not in lengths:
        return f"#/dimensions: {length} is not a valid enum value"
    return json_answer(200, {"embedding": vector(text, length), "inputTextTokenCount": tokens_of(text)})


def _cohere(document: Mapping[str, Any], lengths: tuple[int, ...]) -> Script | str:
    texts, length = as_list(document.get("texts")), document.get("output_dimension", lengths[-1])
    if len(lengths) == 1 and "output_dimension" in document:
        return "extraneous key [output_dimension] is not permitted"
    if not 1 <= len(texts) <= MOST:
        return f"#/texts: expected maximum item count: {MOST}, found: {len(texts)}"
    if document.get("input_type") not in PURPOSES:
        return "#/input_type: is not a valid enum value"
    if length not in lengths:
        return f"#/output_dimension: {length} is not a valid enum value"
    vectors = [vector(text, length) for text in texts]
    made = {"float": vectors} if "embedding_types" in document else vectors
    tokens = str(sum(map(tokens_of, texts)))
    answer = {"id": "simulated", "response_type": "embeddings_by_type", "embeddings": made, "texts": texts}
    return json_answer(200, answer, (("x-amzn-bedrock-input-token-count", tokens),))
