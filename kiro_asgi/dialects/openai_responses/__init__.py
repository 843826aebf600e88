"""The Responses API of OpenAI.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from typing import Final

from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import COUNT, WEBSOCKET, DialectManifest, DialectOptions, Endpoint


def _make(options: DialectOptions) -> Dialect:
    from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses

    return OpenAIResponses()


OPENAI_RESPONSES: Final = DialectManifest(
    name="openai_responses",
    title="OpenAI Responses",
    base="/v1",
    endpoints=(
        Endpoint("POST", "/v1/responses"),
        Endpoint(WEBSOCKET, "/v1/responses", "converse"),
        Endpoint("POST", "/v1/responses/input_tokens", COUNT),
        Endpoint("POST", "/v1/responses/compact", "compact"),
        Endpoint("GET", "/v1/responses/resp_{id}", "retrieve"),
        Endpoint("DELETE", "/v1/responses/resp_{id}", "delete"),
        Endpoint("POST", "/v1/responses/resp_{id}/cancel", "cancel"),
        Endpoint("GET", "/v1/responses/resp_{id}/input_items", "list_input"),
        Endpoint("POST", "/v1/conversations", "make_conversation"),
        Endpoint("GET", "/v1/conversations/conv_{id}", "show_conversation"),
        Endpoint("POST", "/v1/conversations/conv_{id}", "change_conversation"),
        Endpoint("DELETE", "/v1/conversations/conv_{id}", "delete_conversation"),
        Endpoint("GET", "/v1/conversations/conv_{id}/items", "list_items"),
        Endpoint("POST", "/v1/conversations/conv_{id}/items", "add_items"),
        Endpoint("GET", "/v1/conversations/conv_{id}/items/{item}", "show_item"),
        Endpoint("DELETE", "/v1/conversations/conv_{id}/items/{item}", "delete_item"),
    ),
    make=_make,
    retry_count_headers=(b"x-stainless-retry-count",),
    likeness=lambda request: 2 if "input" in request and "messages" not in request else -1,
    operations="kiro_asgi.apis.responses.operations:ResponsesOperations",
)
