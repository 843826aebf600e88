"""The grammar of a Responses stream, of whose events each is what the official SDK expects."""

from __future__ import annotations

import json
from typing import Any, get_args

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from kiro_asgi.testing.grammar import responses
from kiro_asgi.testing.grammar.responses import events_of, fold

__all__ = ["MODELS", "RESPONSE", "check", "events_of", "fold"]

RESPONSE = TypeAdapter(Response)

MODELS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(get_args(ResponseStreamEvent)[0])
}
"""Type of an event to what the official SDK expects of it."""


def check(stream: bytes) -> list[dict[str, Any]]:
    """As `kiro_asgi.testing.grammar.responses.check`.

    Raises:
        pydantic.ValidationError: An event is not what the official SDK expects.
    """
    for event in events_of(stream):
        MODELS[event["type"]].model_validate_json(json.dumps(event), strict=True)
    return responses.check(stream)
