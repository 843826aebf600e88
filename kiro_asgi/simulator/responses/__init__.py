"""The simulated service in OpenAI's newer format: the Responses API, at the same addresses as Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import ChatTurn, OfferedTool, Result, as_list, as_map, conversation_of
from kiro_asgi.simulator.format import FormatEndpoint, Question, SimulatedFormat
from kiro_asgi.simulator.markers import habit, repertoire
from kiro_asgi.simulator.openai import MODELS, RESPONSES_MODELS, model_list, unknown_model
from kiro_asgi.simulator.openai.encoder import INVALID, REFUSALS, envelope, refusal
from kiro_asgi.simulator.request import bearer
from kiro_asgi.simulator.responses.checks import CALLED, RULES, items_of, parts_of
from kiro_asgi.simulator.responses.encoder import ResponsesAnswerEncoder

SYSTEM: Final = ("system", "developer")

TEXT: Final = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""Schema of the arguments of a tool that takes a text."""


def read(document: Mapping[str, Any]) -> Question:
    """The question in *document*."""
    items, choice = items_of(document), document.get("tool_choice")
    system = [item for item in items if item.get("role") in SYSTEM]
    offered = map(as_map, as_list(document.get("tools")))
    tools = [tool for tool in offered if tool.get("type") in CALLED]
    model, most = str(document.get("model", "")), document.get("max_output_tokens")
    conversation = conversation_of(
        model,
        [turn for item in items if item not in system for turn in _turns(item)],
        system="\n".join([str(document.get("instructions", "")), *(_text(item.get("content")) for item in system)]),
        tools=() if choice == "none" else map(_tool, tools),
        thinks=as_map(document.get("reasoning")).get("effort") not in (None, "none"),
        schema=_schema(as_map(as_map(document.get("text")).get("format"))),
    )
    return Question(
        conversation,
        model,
        stream=document.get("stream") is True,
        max_tokens=most if isinstance(most, int) else None,
        must_call=_must_call(choice),
        fields_wanted=tuple(map(str, as_list(document.get("include")))),
        texts=frozenset(str(tool.get("name")) for tool in tools if tool.get("type") == "custom"),
    )


def _schema(form: Mapping[str, Any]) -> Any:
    return {} if form.get("type") == "json_object" else form.get("schema")


def _must_call(choice: Any) -> str | None:
    if choice == "required":
        return ""
    return str(choice.get("name", "")) if isinstance(choice, Mapping) else None


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    schema = TEXT if tool.get("type") == "custom" else as_map(tool.get("parameters"))
    return OfferedTool(str(tool.get("name")), str(tool.get("description", "")), schema)


def _turns(item: Mapping[str, Any]) -> Iterator[ChatTurn]:
    match item.get("type"):
        case "message":
            side = "assistant" if item.get("role") == "assistant" else "user"
            parts = parts_of(item.get("content"))
            yield ChatTurn(side, _text(item.get("content")), tuple(_images(parts)))
        case "function_call" | "custom_tool_call":
            yield ChatTurn("assistant")
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            result = Result(str(item.get("call_id")), _text(output))
            yield ChatTurn("user", "", tuple(_images(parts_of(output))), (result,))


def _text(content: Any) -> str:
    return "\n".join(str(part.get("text")) for part in parts_of(content) if "text" in part)


def _images(parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.get("type") == "input_image":
            head, _, data = str(part.get("image_url", "")).partition(",")
            yield head.removeprefix("data:").partition(";")[0], data


RESPONSES: Final = SimulatedFormat(
    name="responses",
    endpoints=(FormatEndpoint.at(r"(?:/v1)?/responses", "POST", "chat"),),
    models=(*MODELS, *RESPONSES_MODELS),
    repertoire=repertoire(
        {},
        {"unrecognized": habit("status 400 as long as the request has this field", "name")},
        REFUSALS,
        refusal,
        lambda fields: envelope(*fields[1:]),
    ),
    refusals=REFUSALS,
    rules=RULES,
    read_key=bearer,
    read=lambda request, document: read(document),
    encoder=lambda request, question, used: ResponsesAnswerEncoder(question, used),
    model_list=model_list,
    token_count=lambda size: {"input_tokens": size},
    bad_request=lambda message: refusal(400, INVALID, None, message),
    unknown_model=unknown_model,
)
