"""Embeddings of the simulated service in OpenAI's format.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiro_asgi.simulator.embeddings import tokens_of, vector
from kiro_asgi.simulator.openai.encoder import INVALID, REFUSALS, refusal
from kiro_asgi.simulator.request import RecordedRequest
from kiro_asgi.simulator.scripts import Script, json_answer

LENGTHS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1_536,
    "text-embedding-3-large": 3_072,
    "text-embedding-ada-002": 1_536,
}
"""Embedding model to the length of its vectors."""

FIELDS: Final = frozenset(("model", "input", "dimensions", "encoding_format", "user"))
MOST: Final = 2_048


def embed(request: RecordedRequest, document: Mapping[str, Any]) -> Script:
    """The answer to a request for embeddings."""
    model, inputs = str(document.get("model", "")), _inputs(document.get("input"))
    length = LENGTHS.get(model)
    if length is None:
        status, kind, code, message = REFUSALS["bad-model"]
        return refusal(status, kind, code, message.replace("none", model, 1))
    if (broken := _broken(document, model, length, inputs)) or inputs is None:
        return refusal(400, INVALID, None, broken)
    dimensions = document.get("dimensions", length)
    write: Callable[[list[float]], Any] = _in_base64 if document.get("encoding_format") == "base64" else list
    data = [
        {"object": "embedding", "index": index, "embedding": write(vector(given, dimensions))}
        for index, given in enumerate(inputs)
    ]
    tokens = sum(map(tokens_of, inputs))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_answer(200, {"object": "list", "data": data, "model": model, "usage": usage})


def _inputs(given: Any) -> list[Any] | None:
    """Texts, or their tokens; ``None`` for neither."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not given:
        return None
    if isinstance(given[0], int):
        return [given]
    return given if all(each and isinstance(each, str | list) for each in given) else None


def _broken(document: Mapping[str, Any], model: str, length: int, inputs: list[Any] | None) -> str:
    """What is wrong; empty for nothing."""
    if unknown := sorted(document.keys() - FIELDS):
        return f"Unrecognized request argument supplied: {unknown[0]}"
    if inputs is None or "" in inputs:
        return "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."
    if len(inputs) > MOST:
        return f"'$.input' is invalid: the array is too long, the most is {MOST}."
    if document.get("encoding_format", "float") not in ("float", "base64"):
        return "'encoding_format' must be 'float' or 'base64'."
    dimensions = document.get("dimensions", length)
    if model.endswith("002") and "dimensions" in document:
        return "This model does not support specifying dimensions."
    if not isinstance(dimensions, int) or not 1 <= dimensions <= length:
        return f"Invalid value for 'dimensions' = {dimensions}. Must be less than or equal to {length}."
    return ""


def _in_base64(numbers: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
