"""The simulated service in Anthropic's format: the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.answers import number
from kiro_asgi.simulator.anthropic.checks import RULES, blocks_of
from kiro_asgi.simulator.anthropic.encoder import REFUSALS, AnthropicAnswerEncoder, envelope, refusal
from kiro_asgi.simulator.anthropic.threads import Threads
from kiro_asgi.simulator.conversation import ChatTurn, OfferedTool, Result, as_list, as_map, conversation_of
from kiro_asgi.simulator.format import FormatEndpoint, Question, SimulatedFormat
from kiro_asgi.simulator.markers import repertoire
from kiro_asgi.simulator.models import Model
from kiro_asgi.simulator.request import RecordedRequest, access_key_of, bearer, signature_fault
from kiro_asgi.simulator.scripts import Script

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


def _text_of(content: Any) -> str:
    """The text in *content*, a block a line."""
    return "\n".join(str(block.get("text")) for block in blocks_of(content) if block.get("type") == "text")


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    tools = [as_map(tool) for tool in as_list(document.get("tools"))]
    choice = as_map(document.get("tool_choice"))
    model = str(document.get("model", ""))
    conversation = conversation_of(
        model,
        [_turn(as_map(message)) for message in as_list(document.get("messages"))],
        system=_text_of(document.get("system")),
        tools=() if choice.get("type") == "none" else map(_tool, filter(_is_client_tool, tools)),
        thinks=as_map(document.get("thinking")).get("type") in ("enabled", "adaptive"),
        schema=as_map(as_map(document.get("output_config")).get("format")).get("schema"),
    )
    most = document.get("max_tokens")
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        stops=tuple(map(str, as_list(document.get("stop_sequences")))),
        must_call=str(choice.get("name", "")) if choice.get("type") in ("any", "tool") else None,
        searches=any(str(tool.get("type")).startswith("web_search_") for tool in tools),
    )


def _is_client_tool(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in (None, "custom")


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    return OfferedTool(str(tool.get("name")), str(tool.get("description", "")), as_map(tool.get("input_schema")))


def _turn(message: Mapping[str, Any]) -> ChatTurn:
    blocks = blocks_of(message.get("content"))
    return ChatTurn(
        "assistant" if message.get("role") == "assistant" else "user",
        _text_of(message.get("content")),
        tuple(_images(blocks)),
        tuple(_result(block) for block in blocks if block.get("type") == "tool_result"),
    )


def _images(blocks: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        if block.get("type") == "image":
            source = as_map(block.get("source"))
            yield str(source.get("media_type", "")), str(source.get("data", ""))
        elif block.get("type") == "tool_result":
            yield from _images(blocks_of(block.get("content")))


def _result(block: Mapping[str, Any]) -> Result:
    return Result(str(block.get("tool_use_id")), _text_of(block.get("content")), block.get("is_error") is True)


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
    holder=Threads,
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
