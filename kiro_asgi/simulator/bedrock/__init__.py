"""The simulated service of Amazon Bedrock: Converse, InvokeModel for Claude, and the lists of models and profiles."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from attrs import evolve

from kiro_asgi.simulator.answers import number
from kiro_asgi.simulator.anthropic import read as read_messages
from kiro_asgi.simulator.bedrock.checks import FAMILIES, INVOKE, MODELS, RULES, blocks_of, extras, schema_of
from kiro_asgi.simulator.bedrock.embeddings import LENGTHS, embed
from kiro_asgi.simulator.bedrock.encoder import REFUSALS, ConverseAnswerEncoder, InvokeAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.conversation import ChatTurn, OfferedTool, Result, as_list, as_map, conversation_of
from kiro_asgi.simulator.encoding import AnswerEncoder
from kiro_asgi.simulator.format import FormatEndpoint, Question, SimulatedFormat
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.pieces import TokensUsed
from kiro_asgi.simulator.request import RecordedRequest, access_key_of, bearer, signature_fault
from kiro_asgi.simulator.scripts import Script

REGION: Final = "us-east-1"
ACCOUNT: Final = "123456789012"


PATH: Final = re.compile(r"/model/([^/]+)/([a-z-]+)")
GEOGRAPHIES: Final = ("us.", "eu.", "apac.", "jp.", "au.", "ca.", "us-gov.", "global.")
APPLICATION_PROFILES: Final[Mapping[str, str]] = {
    "simulated001": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "simulated002": "amazon.nova-pro-v1:0",
}
"""Inference profiles that an account has made itself, to the models behind them."""

WORDS: Final = frozenset(("text", "json"))
"""Kinds of parts of a tool's result that are read as text."""


def _key(request: RecordedRequest) -> str:
    return bearer(request) or access_key_of(request)


def _check_signature(request: RecordedRequest) -> Script | None:
    fault = "" if bearer(request) else signature_fault(request, "bedrock")
    return refusal(403, "InvalidSignatureException", fault) if fault else None


def read(request: RecordedRequest, document: Mapping[str, Any]) -> Question:
    """The question in *document*, the body of *request*.

    The path names the model, percent-encoded, and the operation: Converse and ConverseStream have messages of their
    own, InvokeModel and InvokeModelWithResponseStream the model's, which is Anthropic's Messages API for those of
    Anthropic.
    """
    path = PATH.fullmatch(request.path)
    assert path is not None, request.path
    name = unquote(path[1]).rpartition("/")[2]
    model = APPLICATION_PROFILES.get(name, name)
    if path[2] == "count-tokens":
        counted = as_map(document.get("input"))
        if "invokeModel" in counted:
            return _read_invoke(_body(as_map(counted["invokeModel"])), model, stream=False)
        return _read_converse(as_map(counted.get("converse")), model, stream=False)
    reader = _read_invoke if path[2].startswith(INVOKE) else _read_converse
    return reader(document, model, stream=path[2].endswith("-stream"))


def _body(invoked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return as_map(json.loads(b64decode(str(invoked.get("body", "")))))
    except ValueError:
        return {}


def _read_invoke(document: Mapping[str, Any], model: str, *, stream: bool) -> Question:
    return evolve(read_messages({**document, "model": model}), stream=stream, operation=INVOKE)


def _read_converse(document: Mapping[str, Any], model: str, *, stream: bool) -> Question:
    own = extras(document)
    config = as_map(document.get("toolConfig"))
    tools = [as_map(tool) for tool in as_list(config.get("tools"))]
    choice = as_map(config.get("toolChoice")) or _own_choice(own)
    inference = as_map(document.get("inferenceConfig"))
    conversation = conversation_of(
        model,
        [_turn(as_map(message)) for message in as_list(document.get("messages"))],
        system=_text(blocks_of(document.get("system"))),
        tools=() if "none" in choice else _declared(tools),
        thinks=_thinks(own),
        schema=schema_of(document),
    )
    most = inference.get("maxTokens")
    forced = "any" in choice or "tool" in choice
    return Question(
        conversation,
        model,
        stream=stream,
        max_tokens=most if isinstance(most, int) else None,
        stops=tuple(map(str, as_list(inference.get("stopSequences")))),
        must_call=str(as_map(choice.get("tool")).get("name", "")) if forced else None,
        fields_wanted=tuple(map(str, as_list(document.get("additionalModelResponseFieldPaths")))),
        searches=any(as_map(tool.get("systemTool")).get("name") == "nova_grounding" for tool in tools),
    )


def _own_choice(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice in Anthropic's words, in Converse's."""
    choice = as_map(own.get("tool_choice"))
    return {str(choice["type"]): choice} if "type" in choice else {}


def _thinks(own: Mapping[str, Any]) -> bool:
    """Whether the model's own fields ask for thinking, in the words of its family."""
    kind = as_map(own.get("thinking")).get("type") or as_map(own.get("reasoningConfig")).get("type")
    return kind in ("enabled", "adaptive") or "reasoning_effort" in own


def _declared(tools: list[Mapping[str, Any]]) -> Iterator[OfferedTool]:
    for spec in (as_map(tool["toolSpec"]) for tool in tools if "toolSpec" in tool):
        schema = as_map(as_map(spec.get("inputSchema")).get("json"))
        yield OfferedTool(str(spec.get("name")), str(spec.get("description", "")), schema)


def _text(blocks: list[Mapping[str, Any]]) -> str:
    return "\n".join(str(block["text"]) for block in blocks if "text" in block)


def _turn(message: Mapping[str, Any]) -> ChatTurn:
    blocks = blocks_of(message.get("content"))
    results = [as_map(block["toolResult"]) for block in blocks if "toolResult" in block]
    pictured = [*blocks, *(part for result in results for part in blocks_of(result.get("content")))]
    return ChatTurn(
        "assistant" if message.get("role") == "assistant" else "user",
        _text(blocks),
        tuple(_image(as_map(block["image"])) for block in pictured if "image" in block),
        tuple(map(_result, results)),
    )


def _image(image: Mapping[str, Any]) -> tuple[str, str]:
    return f"image/{image.get('format')}", str(as_map(image.get("source")).get("bytes", ""))


def _result(result: Mapping[str, Any]) -> Result:
    parts = blocks_of(result.get("content"))
    texts = [str(part["text"]) if "text" in part else json.dumps(part["json"]) for part in parts if {*part} & WORDS]
    return Result(str(result.get("toolUseId")), "\n".join(texts), result.get("status") == "error")


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
        kinds = ["TEXT", "IMAGE"] if family.images else ["TEXT"]
        entries[base] = _foundation_model(base, kinds, "TEXT", "ON_DEMAND" if base == model.id else "INFERENCE_PROFILE")
    entries |= {name: _foundation_model(name, ["TEXT"], "EMBEDDING", "ON_DEMAND") for name in LENGTHS}
    wanted = parameters.get("byInferenceType")
    return {
        "modelSummaries": [
            entry for entry in entries.values() if wanted is None or wanted in entry["inferenceTypesSupported"]
        ]
    }


def _foundation_model(base: str, inputs: list[str], output: str, inference: str) -> dict[str, Any]:
    return {
        "modelArn": _model_arn(base),
        "modelId": base,
        "modelName": base.partition(".")[2],
        "providerName": base.partition(".")[0].title(),
        "inputModalities": inputs,
        "outputModalities": [output],
        "responseStreamingSupported": output == "TEXT",
        "customizationsSupported": [],
        "inferenceTypesSupported": [inference],
        "modelLifecycle": {"status": "ACTIVE"},
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
        FormatEndpoint.at(r"/model/(?:[a-z]+\.)?(?:amazon|cohere)\.[^/]*embed[^/]*/invoke", "POST", "embed"),
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
    embeddings=embed,
    bad_request=lambda message: refusal(400, "ValidationException", message),
    unknown_model=_unknown_model,
)
