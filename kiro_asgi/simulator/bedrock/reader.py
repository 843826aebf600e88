"""Reads a request to Amazon Bedrock's runtime; forgiving, because the rules judge it.

The path names the model, percent-encoded, and the operation: Converse and ConverseStream have messages of their own,
InvokeModel and InvokeModelWithResponseStream the model's, which is Anthropic's Messages API for those of Anthropic.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from attrs import evolve

from kiro_asgi.simulator.anthropic.reader import read as read_messages
from kiro_asgi.simulator.conversation import OfferedTool, as_list, as_map
from kiro_asgi.simulator.question import ChatTurn, Question, Result, conversation_of
from kiro_asgi.simulator.record import RecordedRequest

INVOKE: Final = "invoke"
"""`Question.operation` of InvokeModel and InvokeModelWithResponseStream."""

PATH: Final = re.compile(r"/model/([^/]+)/([a-z-]+)")
GEOGRAPHIES: Final = ("us.", "eu.", "apac.", "jp.", "au.", "ca.", "us-gov.", "global.")
CLAUDE: Final = re.compile(r"(?:[a-z-]+\.)?anthropic\.(.+?)(?:-v\d+(?::\d+)?)?")
APPLICATION_PROFILES: Final[Mapping[str, str]] = {
    "simulated001": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "simulated002": "amazon.nova-pro-v1:0",
}
"""Inference profiles that an account has made itself, to the models behind them."""

WORDS: Final = frozenset(("text", "json"))
"""Kinds of parts of a tool's result that are words."""


def claude_name(model: str) -> str:
    """*model*, an id on Bedrock, as Anthropic's own API calls it."""
    found = CLAUDE.fullmatch(model)
    return found[1] if found else model


def kind_of(block: Mapping[str, Any]) -> str:
    """The name of the only member of *block*; empty for what is no such union."""
    return next(iter(block)) if len(block) == 1 else ""


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of a message's content, or of a tool's result."""
    return [as_map(block) for block in as_list(content)]


def extras(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that are the model's own."""
    return as_map(document.get("additionalModelRequestFields"))


def schema_of(document: Mapping[str, Any]) -> Any:
    """The schema that the answer must fit: a string on the wire; ``None`` without one, or where it is no JSON."""
    form = as_map(as_map(document.get("outputConfig")).get("textFormat"))
    try:
        return json.loads(str(as_map(as_map(form.get("structure")).get("jsonSchema")).get("schema", "null")))
    except ValueError:
        return None


def read(request: RecordedRequest, document: Mapping[str, Any]) -> Question:
    """The question in *document*, the body of *request*."""
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
    said = [str(part["text"]) if "text" in part else json.dumps(part["json"]) for part in parts if {*part} & WORDS]
    return Result(str(result.get("toolUseId")), "\n".join(said), result.get("status") == "error")
