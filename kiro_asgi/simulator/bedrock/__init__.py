"""The simulated service of Amazon Bedrock: Converse, InvokeModel for Claude, and the lists of models and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.answers import number
from kiro_asgi.simulator.bedrock.encoder import REFUSALS, ConverseAnswerEncoder, InvokeAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.bedrock.reader import GEOGRAPHIES, INVOKE, read
from kiro_asgi.simulator.bedrock.rules import FAMILIES, MODELS, RULES
from kiro_asgi.simulator.encoding import AnswerEncoder, TokensUsed
from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat, bearer
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.question import Question
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scripts import Script
from kiro_asgi.simulator.sigv4 import access_key_of, signature_fault

REGION: Final = "us-east-1"
ACCOUNT: Final = "123456789012"


def _key(request: RecordedRequest) -> str:
    return bearer(request) or access_key_of(request)


def _check_signature(request: RecordedRequest) -> Script | None:
    fault = "" if bearer(request) else signature_fault(request, "bedrock")
    return refusal(403, "InvalidSignatureException", fault) if fault else None


def _encoder(request: RecordedRequest, question: Question, used: TokensUsed) -> AnswerEncoder:
    return (InvokeAnswerEncoder if question.operation == INVOKE else ConverseAnswerEncoder)(question, used)


def _unknown_model(model: str) -> Script:
    if any(known.id.partition(".")[2] == model for known in MODELS if known.id.startswith(GEOGRAPHIES)):
        message = (
            f"Invocation of model ID {model} with on-demand throughput isn’t supported. Retry your request with the ID "
            "or ARN of an inference profile that contains this model."
        )
        return refusal(400, "ValidationException", message)
    return refusal(*REFUSALS["bad-model"])


def _base(model: Model) -> str:
    """The id of *model* without a geography."""
    return model.id.partition(".")[2] if model.id.startswith(GEOGRAPHIES) else model.id


def _model_arn(base: str) -> str:
    return f"arn:aws:bedrock:{REGION}::foundation-model/{base}"


def _foundation_models(models: tuple[Model, ...], parameters: Mapping[str, str]) -> Mapping[str, Any]:
    entries: dict[str, dict[str, Any]] = {}
    for model in models:
        base, family = _base(model), FAMILIES[model.family]
        entries[base] = {
            "modelArn": _model_arn(base),
            "modelId": base,
            "modelName": base.partition(".")[2],
            "providerName": base.partition(".")[0].title(),
            "inputModalities": ["TEXT", "IMAGE"] if family.images else ["TEXT"],
            "outputModalities": ["TEXT"],
            "responseStreamingSupported": True,
            "customizationsSupported": [],
            "inferenceTypesSupported": ["ON_DEMAND" if base == model.id else "INFERENCE_PROFILE"],
            "modelLifecycle": {"status": "ACTIVE"},
        }
    wanted = parameters.get("byInferenceType")
    return {
        "modelSummaries": [
            entry for entry in entries.values() if wanted is None or wanted in entry["inferenceTypesSupported"]
        ]
    }


def _inference_profiles(models: tuple[Model, ...], parameters: Mapping[str, str]) -> Mapping[str, Any]:
    entries = [
        {
            "inferenceProfileId": model.id,
            "inferenceProfileArn": f"arn:aws:bedrock:{REGION}:{ACCOUNT}:inference-profile/{model.id}",
            "inferenceProfileName": model.id,
            "models": [{"modelArn": _model_arn(_base(model))}],
            "status": "ACTIVE",
            "type": "SYSTEM_DEFINED",
        }
        for model in models
        if model.id != _base(model) and parameters.get("type", "SYSTEM_DEFINED") == "SYSTEM_DEFINED"
    ]
    first = int(number(parameters.get("nextToken", ""), 0, 1000))
    last = first + int(number(parameters.get("maxResults", ""), 100, 1000))
    more = {"nextToken": str(last)} if last < len(entries) else {}
    return {"inferenceProfileSummaries": entries[first:last], **more}


BEDROCK: Final = SimulatedFormat(
    name="bedrock",
    endpoints=(
        FormatEndpoint.at(r"/model/[^/]+/(?:converse(?:-stream)?|invoke(?:-with-response-stream)?)", "POST", "chat"),
        FormatEndpoint.at(r"/model/[^/]+/count-tokens", "POST", "count"),
        FormatEndpoint.at(r"/foundation-models|/inference-profiles", "GET", "models"),
    ),
    models=MODELS,
    repertoire=repertoire(
        {},
        {
            "gaps": habit("every second index of a block is left out"),
            "no-metadata": habit("no metadata after the end, as if the stream were cut there"),
        },
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields[1:]),
    ),
    refusals=REFUSALS,
    rules=RULES,
    read_key=_key,
    no_key=refusal(403, "MissingAuthenticationTokenException", "Missing Authentication Token"),
    check_signature=_check_signature,
    read=read,
    encoder=_encoder,
    model_list=_foundation_models,
    other_lists={"/inference-profiles": _inference_profiles},
    token_count=lambda size: {"inputTokens": size},
    bad_request=lambda message: refusal(400, "ValidationException", message),
    unknown_model=_unknown_model,
)
