"""The simulated service in Gemini's format: the Generative Language API with an API key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.answers import SENTENCE, Marker, number
from kiro_asgi.simulator.builders import text, words
from kiro_asgi.simulator.conversation import KiroConversation
from kiro_asgi.simulator.default_answer import compose
from kiro_asgi.simulator.encoding import TokensUsed, picture
from kiro_asgi.simulator.format import FormatEndpoint, SimulatedFormat, bearer
from kiro_asgi.simulator.gemini.encoder import REFUSALS, GeminiAnswerEncoder, bad_request, envelope, refusal
from kiro_asgi.simulator.gemini.reader import read
from kiro_asgi.simulator.gemini.rules import RULES
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.question import Question
from kiro_asgi.simulator.record import RecordedRequest
from kiro_asgi.simulator.scripts import Script

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


def _image(conversation: KiroConversation, _: str) -> Script:
    return compose(conversation, picture("image/png", PIXEL), *text(*words(SENTENCE)))


def _read(request: RecordedRequest, document: Mapping[str, Any]) -> Question:
    model, _, method = request.path.rpartition("/")[2].partition(":")
    return read(document, model, stream=method == STREAM)


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
        "name": "models/gemini-embedding-001",
        "displayName": "Gemini Embedding 001",
        "inputTokenLimit": 2048,
        "outputTokenLimit": 1,
        "supportedGenerationMethods": ["embedContent"],
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
    read=_read,
    encoder=_encoder,
    model_list=_model_list,
    token_count=lambda size: {"totalTokens": size},
    bad_request=lambda message: refusal(*bad_request(message)),
    unknown_model=_unknown_model,
)
