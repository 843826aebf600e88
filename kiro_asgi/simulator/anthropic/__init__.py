"""The simulated service in Anthropic's format: the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.answers import number
from kiro_asgi.simulator.anthropic.encoder import REFUSALS, AnthropicAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.anthropic.reader import read
from kiro_asgi.simulator.anthropic.rules import RULES
from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat, bearer
from kiro_asgi.simulator.markers import repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.sigv4 import access_key_of, signature_fault

MODELS: Final = (
    Model("claude-sonnet-4-5", 200_000, 64_000),
    Model("claude-haiku-4-5", 200_000, 64_000),
    Model("claude-opus-4-1", 200_000, 32_000),
    Model("claude-opus-4-6", 200_000, 128_000),
)
"""With hyphens, where Kiro has a dot."""


def _key(request: RecordedRequest) -> str:
    return request.headers.get("x-api-key") or bearer(request) or access_key_of(request)


def _check_signature(request: RecordedRequest) -> Script | None:
    """AWS's entrance to the API takes signed requests."""
    fault = signature_fault(request, "bedrock-mantle") if access_key_of(request) else ""
    return refusal(403, "permission_error", fault) if fault else None


def _model_list(models: tuple[Model, ...], parameters: Mapping[str, str]) -> Mapping[str, Any]:
    entries = [
        {
            "type": "model",
            "id": model.id,
            "display_name": model.id.replace("-", " ").title(),
            "created_at": "2026-01-01T00:00:00Z",
            "max_input_tokens": model.window,
            "max_tokens": model.output,
        }
        for model in models
    ]
    ids = [model.id for model in models]
    first = ids.index(parameters["after_id"]) + 1 if parameters.get("after_id") in ids else 0
    page = entries[first : first + int(number(parameters.get("limit", ""), 20, 1000))]
    more = bool(page) and page[-1] is not entries[-1]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"data": page, "has_more": more, **ends}


ANTHROPIC: Final = SimulatedFormat(
    name="anthropic",
    endpoints=(
        FormatEndpoint.at(r"/v1/messages", "POST", "chat"),
        FormatEndpoint.at(r"/v1/messages/count_tokens", "POST", "count"),
        FormatEndpoint.at(r"/v1/models", "GET", "models", "anthropic-version"),
    ),
    models=MODELS,
    repertoire=repertoire({}, {}, REFUSALS, refusal, lambda fields: envelope(*fields[1:])),
    refusals=REFUSALS,
    rules=RULES,
    read_key=_key,
    no_key=refusal(401, "authentication_error", "x-api-key header is required"),
    check_signature=_check_signature,
    required_header="anthropic-version",
    read=lambda request, document: read(document),
    encoder=lambda request, question, used: AnthropicAnswerEncoder(question, used),
    model_list=_model_list,
    token_count=lambda size: {"input_tokens": size},
    bad_request=lambda message: refusal(400, "invalid_request_error", message),
    unknown_model=lambda model: refusal(404, "not_found_error", f"model: {model}"),
)
