"""The simulated service in OpenAI's format: Chat Completions, and deviations of compatible servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import ChatTurn, OfferedTool, Result, as_list, as_map, conversation_of
from kiro_asgi.simulator.format import FormatEndpoint, Question, SimulatedFormat
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.openai.checks import OUTPUT, RULES, messages_of, parts_of
from kiro_asgi.simulator.openai.embeddings import LENGTHS, embed
from kiro_asgi.simulator.openai.encoder import CREATED, INVALID, REFUSALS, OpenAIAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.request import RecordedRequest, access_key_of, bearer, signature_fault
from kiro_asgi.simulator.scripts import Script

SYSTEM: Final = ("system", "developer")


MODELS: Final = tuple(
    Model(name, 400_000 if "5" in name else 128_000, OUTPUT.get(name, 128_000), family="gpt")
    for name in ("gpt-5", "gpt-5-mini", "gpt-5.2", "gpt-4o", "gpt-4o-mini", "o3", "o4-mini")
)


RESPONSES_MODELS: Final = tuple(
    Model(name, 400_000, 128_000, family="gpt") for name in ("gpt-5.1-codex-max", "gpt-5-pro")
)
"""Models that only the Responses API serves."""


def _text_of(content: Any) -> str:
    """The text in *content*, a part a line."""
    return "\n".join(str(part.get("text")) for part in parts_of(content) if part.get("type") == "text")


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    messages = messages_of(document)
    choice = document.get("tool_choice")
    model = str(document.get("model", ""))
    conversation = conversation_of(
        model,
        [_turn(message) for message in messages if message.get("role") not in SYSTEM],
        system="\n".join(_text_of(message.get("content")) for message in messages if message.get("role") in SYSTEM),
        tools=() if choice == "none" else map(_tool, as_list(document.get("tools"))),
        thinks=document.get("reasoning_effort") not in (None, "none"),
        schema=_schema(as_map(document.get("response_format"))),
    )
    most = document.get("max_completion_tokens", document.get("max_tokens"))
    stops = document.get("stop")
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        stops=(stops,) if isinstance(stops, str) else tuple(map(str, as_list(stops))),
        must_call=_must_call(choice),
        searches="web_search_options" in document,
        with_usage=as_map(document.get("stream_options")).get("include_usage") is True,
    )


def _schema(wanted: Mapping[str, Any]) -> Any:
    if wanted.get("type") == "json_object":
        return {}
    return as_map(wanted.get("json_schema")).get("schema")


def _must_call(choice: Any) -> str | None:
    if choice == "required":
        return ""
    return str(as_map(as_map(choice).get("function")).get("name", "")) if isinstance(choice, Mapping) else None


def _tool(tool: Any) -> OfferedTool:
    function = as_map(as_map(tool).get("function"))
    return OfferedTool(
        str(function.get("name")), str(function.get("description", "")), as_map(function.get("parameters"))
    )


def _turn(message: Mapping[str, Any]) -> ChatTurn:
    text = _text_of(message.get("content"))
    if message.get("role") == "tool":
        return ChatTurn("user", results=(Result(str(message.get("tool_call_id")), text),))
    side = "assistant" if message.get("role") == "assistant" else "user"
    return ChatTurn(side, text, tuple(_images(parts_of(message.get("content")))))


def _images(parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.get("type") == "image_url":
            head, _, data = str(as_map(part.get("image_url")).get("url", "")).partition(",")
            yield head.removeprefix("data:").partition(";")[0], data


def model_list(models: tuple[Model, ...], _: Mapping[str, str]) -> Mapping[str, Any]:
    """The list, of the models of all APIs."""
    names = dict.fromkeys((*(model.id for model in (*models, *RESPONSES_MODELS)), *LENGTHS))
    entries = [{"id": name, "object": "model", "created": CREATED, "owned_by": "simulated"} for name in names]
    return {"object": "list", "data": entries}


def unknown_model(model: str) -> Script:
    """The refusal of a model that is unknown, or not of this API."""
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
        FormatEndpoint.at(r"(?:/v1)?/embeddings", "POST", "embed"),
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
    embeddings=embed,
    bad_request=lambda message: refusal(400, INVALID, None, message),
    unknown_model=unknown_model,
)
