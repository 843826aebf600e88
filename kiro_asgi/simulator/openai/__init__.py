"""The simulated service in OpenAI's format: Chat Completions, and what servers like it make of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat, bearer
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.openai.encoder import CREATED, INVALID, REFUSALS, OpenAIAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.openai.reader import read
from kiro_asgi.simulator.openai.rules import OUTPUT, RULES
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.sigv4 import access_key_of, signature_fault

MODELS: Final = tuple(
    Model(name, 400_000 if "5" in name else 128_000, OUTPUT.get(name, 128_000), family="gpt")
    for name in ("gpt-5", "gpt-5-mini", "gpt-5.2", "gpt-4o", "gpt-4o-mini", "o3", "o4-mini")
)


RESPONSES_MODELS: Final = tuple(
    Model(name, 400_000, 128_000, family="gpt") for name in ("gpt-5.1-codex-max", "gpt-5-pro")
)
"""Models that only the Responses API serves."""


def model_list(models: tuple[Model, ...], _: Mapping[str, str]) -> Mapping[str, Any]:
    """The list, of the models of both APIs."""
    models = tuple(dict.fromkeys((*models, *RESPONSES_MODELS)))
    entries = [{"id": model.id, "object": "model", "created": CREATED, "owned_by": "simulated"} for model in models]
    return {"object": "list", "data": entries}


def unknown_model(model: str) -> Script:
    """The refusal of a model that is none, or none of this API."""
    if any(model == known.id for known in RESPONSES_MODELS):
        message = "This model is only supported in v1/responses and not in v1/chat/completions."
        return refusal(404, INVALID, None, message)
    status, kind, code, message = REFUSALS["bad-model"]
    return refusal(status, kind, code, message.replace("none", model, 1))


def _check_signature(request: RecordedRequest) -> Script | None:
    """AWS's entrance to the API takes signed requests."""
    fault = signature_fault(request, "bedrock") if access_key_of(request) else ""
    return refusal(403, INVALID, None, fault) if fault else None


OPENAI: Final = SimulatedFormat(
    name="openai",
    endpoints=(
        FormatEndpoint.at(r"(?:/v1)?/chat/completions", "POST", "chat"),
        FormatEndpoint.at(r"(?:/v1)?/models", "GET", "models"),
        FormatEndpoint.at(r"/copilot_internal/v2/token", "GET", "token"),
    ),
    models=MODELS,
    repertoire=repertoire(
        {},
        {
            "no-done": habit("no [DONE] at the end"),
            "no-index": habit("tool calls without an index"),
            "no-ids": habit("tool calls without an id"),
            "reasoning-field": habit("thinking in another field", "name (reasoning_content)"),
            "unrecognized": habit("status 400 as long as the request has this field", "name"),
        },
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields[1:]),
    ),
    refusals=REFUSALS,
    rules=RULES,
    read_key=lambda request: bearer(request, "bearer", "token") or access_key_of(request),
    check_signature=_check_signature,
    read=lambda request, document: read(document),
    encoder=lambda request, question, used: OpenAIAnswerEncoder(question, used),
    model_list=model_list,
    token_count=lambda size: {"input_tokens": size},
    bad_request=lambda message: refusal(400, INVALID, None, message),
    unknown_model=unknown_model,
)
