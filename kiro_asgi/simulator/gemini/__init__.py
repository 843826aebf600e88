"""The simulated service in Gemini's format: the Generative Language API with an API key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.answers import SENTENCE, Marker, number
from kiro_asgi.simulator.conversation import (
    ChatTurn,
    Conversation,
    OfferedTool,
    Result,
    as_list,
    as_map,
    conversation_of,
)
from kiro_asgi.simulator.default_answer import compose
from kiro_asgi.simulator.format import FormatEndpoint, Question, SimulatedFormat
from kiro_asgi.simulator.gemini.checks import RULES, contents_of, either, parts_of
from kiro_asgi.simulator.gemini.embeddings import MODEL as EMBEDDING_MODEL
from kiro_asgi.simulator.gemini.embeddings import embed
from kiro_asgi.simulator.gemini.encoder import REFUSALS, GeminiAnswerEncoder, bad_request, envelope, refusal
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.pieces import TokensUsed, picture
from kiro_asgi.simulator.request import RecordedRequest, bearer
from kiro_asgi.simulator.scripts import Script, text, words

PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one pixel: PNG in base64."""

MODELS: Final = tuple(
    Model(name, 1_048_576, 65_536, family="gemini")
    for name in ("gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.5-pro", "gemini-3-pro-preview")
)
UNREGISTERED: Final = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other "
    "form of API consumer identity to call this API."
)
STREAM: Final = "streamGenerateContent"


def _image(conversation: Conversation, _: str) -> Script:
    return compose(conversation, picture("image/png", PIXEL), *text(*words(SENTENCE)))


def read(request: RecordedRequest, document: Mapping[str, Any]) -> Question:
    """The question in *document*, which the path asks of a model."""
    model, _, method = request.path.rpartition("/")[2].partition(":")
    tools = [as_map(tool) for tool in as_list(document.get("tools"))]
    calling = as_map(either(as_map(either(document, "toolConfig")), "functionCallingConfig"))
    options = as_map(either(document, "generationConfig"))
    conversation = conversation_of(
        model,
        map(_turn, contents_of(document)),
        system=_text(parts_of(either(document, "systemInstruction"))),
        tools=() if calling.get("mode") == "NONE" else _declared(tools),
        thinks=either(as_map(either(options, "thinkingConfig")), "includeThoughts") is True,
        schema=_schema(options),
    )
    allowed = as_list(either(calling, "allowedFunctionNames"))
    most = either(options, "maxOutputTokens")
    return Question(
        conversation,
        model,
        stream=method == STREAM,
        max_tokens=most if isinstance(most, int) else None,
        stops=tuple(map(str, as_list(either(options, "stopSequences")))),
        must_call=str(next(iter(allowed), "")) if calling.get("mode") == "ANY" else None,
        searches=any(either(tool, "googleSearch") is not None for tool in tools),
    )


def _schema(options: Mapping[str, Any]) -> Any:
    if either(options, "responseMimeType") != "application/json":
        return None
    return either(options, "responseJsonSchema") or _lower(either(options, "responseSchema")) or {}


def _text(parts: list[Mapping[str, Any]]) -> str:
    return "\n".join(str(part["text"]) for part in parts if part.get("text") and not part.get("thought"))


def _declared(tools: list[Mapping[str, Any]]) -> Iterator[OfferedTool]:
    for tool in tools:
        for declared in map(as_map, as_list(either(tool, "functionDeclarations"))):
            schema = either(declared, "parametersJsonSchema") or declared.get("parameters")
            yield OfferedTool(str(declared.get("name")), str(declared.get("description", "")), as_map(_lower(schema)))


def _lower(schema: Any) -> Any:
    """*schema* with types as JSON Schema spells them."""
    if isinstance(schema, Mapping):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lower(value)
            for key, value in schema.items()
        }
    return [_lower(value) for value in schema] if isinstance(schema, list) else schema


def _turn(content: Mapping[str, Any]) -> ChatTurn:
    parts = parts_of(content)
    pictures = (as_map(either(part, "inlineData")) for part in parts)
    results = (as_map(either(part, "functionResponse")) for part in parts)
    return ChatTurn(
        "assistant" if content.get("role") == "model" else "user",
        _text(parts),
        tuple((str(either(one, "mimeType")), str(one.get("data", ""))) for one in pictures if one),
        tuple(_result(one) for one in results if one),
    )


def _result(result: Mapping[str, Any]) -> Result:
    response = as_map(result.get("response"))
    value = next((response[key] for key in ("result", "output", "error") if key in response), response)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Result(str(result.get("id", result.get("name"))), text, "error" in response)


def _encoder(request: RecordedRequest, question: Question, used: TokensUsed) -> GeminiAnswerEncoder:
    events = "alt=sse" in request.query.split("&")
    return GeminiAnswerEncoder(question, used, array="array" in question.habits or not events)


def _key(request: RecordedRequest) -> str:
    query = dict(part.split("=", 1) for part in request.query.split("&") if "=" in part)
    return request.headers.get("x-goog-api-key") or query.get("key") or bearer(request)


def _model_list(models: tuple[Model, ...], parameters: Mapping[str, str]) -> Mapping[str, Any]:
    methods = ["generateContent", "countTokens"]
    entries = [
        {
            "name": f"models/{model.id}",
            "version": "001",
            "displayName": model.id.replace("-", " ").title(),
            "description": f"Simulated {model.id}",
            "inputTokenLimit": model.window,
            "outputTokenLimit": model.output,
            "supportedGenerationMethods": methods,
            "thinking": True,
        }
        for model in models
    ]
    embedding = {
        "name": f"models/{EMBEDDING_MODEL}",
        "displayName": "Gemini Embedding 001",
        "inputTokenLimit": 2048,
        "outputTokenLimit": 1,
        "supportedGenerationMethods": ["embedContent", "countTextTokens", "countTokens"],
    }
    entries.append(embedding)
    first = int(number(parameters.get("pageToken", ""), 0, 1000))
    last = first + int(number(parameters.get("pageSize", ""), 50, 1000))
    return {"models": entries[first:last], **({"nextPageToken": str(last)} if last < len(entries) else {})}


def _unknown_model(model: str) -> Script:
    status, word, message, _ = REFUSALS["bad-model"]
    return refusal(status, word, message.replace("none", model, 1))


GEMINI: Final = SimulatedFormat(
    name="gemini",
    endpoints=(
        FormatEndpoint.at(r"/v1(?:beta|alpha)?/models/[^/:]+:(?:streamG|g)enerateContent", "POST", "chat"),
        FormatEndpoint.at(r"/v1(?:beta|alpha)?/models/[^/:]+:batchEmbedContents", "POST", "embed"),
        FormatEndpoint.at(r"/v1(?:beta|alpha)?/models/[^/:]+:countTokens", "POST", "count"),
        FormatEndpoint.at(r"/v1(?:beta|alpha)/models", "GET", "models"),
    ),
    models=MODELS,
    repertoire=repertoire(
        {"image": Marker("an image of one pixel, then text", _image)},
        {
            "array": habit("one JSON array, delivered in pieces, instead of events"),
            "envelope": habit("every document within a response object, as the private API has it"),
            "with-ids": habit("calls with an id, also by older models"),
            "no-ids": habit("calls without an id, also by Gemini 3"),
            "signed-at": habit(
                "where the signature of an answer without a call is", "thought, text or end, an empty part (end)"
            ),
        },
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields),
    ),
    refusals=REFUSALS,
    rules=RULES,
    read_key=_key,
    no_key=refusal(403, "PERMISSION_DENIED", UNREGISTERED),
    read=read,
    encoder=_encoder,
    model_list=_model_list,
    token_count=lambda size: {"totalTokens": size},
    embeddings=embed,
    bad_request=lambda message: refusal(*bad_request(message)),
    unknown_model=_unknown_model,
)
