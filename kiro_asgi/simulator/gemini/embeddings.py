"""Embeddings of the simulated service in Gemini's format.

Source: https://ai.google.dev/api/embeddings
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.embeddings import vector
from kiro_asgi.simulator.gemini.encoder import REFUSALS, bad_request, refusal
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Script, json_answer

MODEL: Final = "gemini-embedding-001"
LENGTH: Final = 3_072
MOST: Final = 100
PURPOSES: Final = frozenset(
    (
        "RETRIEVAL_QUERY",
        "RETRIEVAL_DOCUMENT",
        "SEMANTIC_SIMILARITY",
        "CLASSIFICATION",
        "CLUSTERING",
        "QUESTION_ANSWERING",
        "FACT_VERIFICATION",
        "CODE_RETRIEVAL_QUERY",
    )
)


def embed(request: RecordedRequest, document: Mapping[str, Any]) -> Script:
    """The answer to ``batchEmbedContents``."""
    model = request.path.rpartition("/")[2].partition(":")[0]
    if model != MODEL:
        status, word, message, _ = REFUSALS["bad-model"]
        return refusal(status, word, message.replace("none", model, 1))
    requests = [as_map(each) for each in as_list(document.get("requests"))]
    broken = _broken(requests)
    if broken:
        return refusal(*bad_request(broken))
    made = [{"values": vector(_text(each), each.get("outputDimensionality", LENGTH))} for each in requests]
    return json_answer(200, {"embeddings": made})


def _text(request: Mapping[str, Any]) -> str:
    return "".join(str(as_map(part).get("text", "")) for part in as_list(as_map(request.get("content")).get("parts")))


def _broken(requests: list[Mapping[str, Any]]) -> str:
    """What is wrong; empty for nothing."""
    if not 1 <= len(requests) <= MOST:
        return f"* BatchEmbedContentsRequest.requests: at most {MOST} requests can be in one batch"
    for index, each in enumerate(requests):
        place = f"* BatchEmbedContentsRequest.requests[{index}]"
        dimensions = each.get("outputDimensionality", LENGTH)
        if each.get("model") != f"models/{MODEL}":
            return f"{place}.model: unexpected model name format"
        if not _text(each):
            return f"{place}.content: content is empty"
        if not isinstance(dimensions, int) or not 1 <= dimensions <= LENGTH:
            return f"{place}.output_dimensionality: must be between 1 and {LENGTH}"
        if each.get("taskType", "CLUSTERING") not in PURPOSES:
            return f"{place}.task_type: invalid value"
    return ""
