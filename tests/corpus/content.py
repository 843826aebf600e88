"""What a client's request tells the model, string by string, found without any of the gateway's code."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from kiro_asgi.rendering import argument_names

TAGGED = re.compile(r"\s*<thinking>(.*?)</thinking>", re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")


@frozen
class Piece:
    """One string that the model is told."""

    kind: str
    """``text``, ``input``, ``tool``, ``schema``, ``form``, ``image``, ``document`` or ``thinking``."""

    path: str
    text: str


KINDS = {
    "text": "text",
    "content": "text",
    "refusal": "text",
    "context": "text",
    "title": "text",
    "source": "text",
    "url": "text",
    "thinking": "thinking",
    "reasoning_content": "thinking",
    "data": "document",
    "file_data": "document",
    "filename": "text",
}
"""Member of a message or of a block, to the kind of its text."""

STRUCTURE = {"type", "role", "id", "tool_use_id", "tool_call_id", "signature", "cache_control", "citations", "detail"}
"""Members that are not told."""

SCHEMA_MAPS = {"properties", "$defs", "definitions"}


def pieces(body: Mapping[str, Any]) -> Iterator[Piece]:
    """Everything that the model is told by the body of a request, in any API."""
    for member in ("system", "instructions"):
        yield from _content(body.get(member), member)
    for index, message in enumerate(body.get("messages", ())):
        yield from _message(message, f"messages[{index}]")
    for index, item in enumerate(body.get("input", ())):
        yield from _item(item, f"input[{index}]")
    for member in ("tools", "functions"):
        for index, tool in enumerate(body.get(member) or ()):
            yield from _tool(tool, f"{member}[{index}]")
    for place, schema in _answer_schemas(body):
        yield from _leaves(schema, place, "form")


def forms(body: Mapping[str, Any]) -> Iterator[Piece]:
    """What the schema of the answer says to a reader, for services that take one in their own words."""
    for place, schema in _answer_schemas(body):
        yield from _schema(schema, place)


OPTIONS = (
    *("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "stop_sequences"),
)
"""Members of a body about the drawing of tokens, and the length and end of an answer."""


def options(body: Mapping[str, Any]) -> Iterator[Piece]:
    """What the client says about the drawing of tokens, as far as it demands anything."""
    for name in OPTIONS:
        if body.get(name) or (body.get(name) == 0 and "penalty" not in name):
            yield from _leaves(body[name], name, "option")


def names(body: Mapping[str, Any]) -> Iterator[Piece]:
    """The names of the client's own tools."""
    for member in ("tools", "functions"):
        for index, tool in enumerate(body.get(member) or ()):
            spec = tool.get("function", tool)
            if "input_schema" in spec or "parameters" in spec:
                yield Piece("name", f"{member}[{index}].name", spec["name"])


def _answer_schemas(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schema of the answer, which is told as it is."""
    output = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    chat = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    responses = ((body.get("text") or {}).get("format") or {}).get("schema")
    yield from (("output_config.format.schema", output), ("response_format.json_schema.schema", chat))
    yield "text.format.schema", responses


def _item(item: Mapping[str, Any], place: str) -> Iterator[Piece]:
    """One item of the Responses API; what another server has sealed tells nothing."""
    kind = item.get("type", "message")
    if kind == "message":
        yield from _content(item["content"], f"{place}.content")
    elif kind == "function_call":
        yield from _arguments(item["arguments"], f"{place}.arguments")
    elif kind == "function_call_output":
        yield from _content(item["output"], f"{place}.output")
    elif kind == "reasoning":
        yield from (evolve(piece, kind="thinking") for piece in _content(item["summary"], f"{place}.summary"))


def _message(message: Mapping[str, Any], place: str) -> Iterator[Piece]:
    said = _content(message.get("content"), f"{place}.content")
    yield from (part for piece in said for part in _apart(piece)) if message["role"] == "assistant" else said
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield from _arguments(call["function"]["arguments"], f"{place}.tool_calls[{index}].function.arguments")
    if message.get("function_call"):
        yield from _arguments(message["function_call"]["arguments"], f"{place}.function_call.arguments")
    for member in ("refusal", "reasoning_content"):
        if message.get(member):
            yield Piece(KINDS[member], f"{place}.{member}", message[member])


def _apart(piece: Piece) -> Iterator[Piece]:
    """An answer's text as it is, or the thinking in front of it and the rest."""
    thought = TAGGED.match(piece.text)
    if thought is None:
        yield piece
    else:
        yield Piece("thinking", piece.path, thought[1])
        yield Piece(piece.kind, piece.path, piece.text[thought.end() :])


def _arguments(value: Any, place: str) -> Iterator[Piece]:
    """Arguments: JSON in a string, or whatever is in the string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            yield Piece("input", place, value)
            return
    yield from _leaves(value, place, "input")


def _content(content: Any, place: str) -> Iterator[Piece]:
    if isinstance(content, str):
        yield Piece("text", place, content)
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(block, f"{place}[{index}]")


def _block(block: Any, place: str) -> Iterator[Piece]:
    kind = block.get("type")
    if kind == "image":
        yield from _leaves(block["source"].get("data"), f"{place}.source.data", "image")
    elif kind in ("image_url", "input_image"):
        url = block["image_url"]
        yield Piece("image", f"{place}.image_url", (url if isinstance(url, str) else url["url"]).partition(",")[2])
    elif kind in ("file", "input_file"):
        file = block.get("file", block)
        yield Piece("text", f"{place}.filename", file["filename"].rpartition(".")[0])
        head, _, data = file["file_data"].partition(",")
        told = b64decode(data).decode() if head.startswith("data:text/") else data
        yield Piece("document", f"{place}.file_data", told)
    elif kind in ("tool_use", "server_tool_use"):
        yield from _leaves(block["input"], f"{place}.input", "input")
    elif kind == "tool_result" and not _are_blocks(block.get("content")):
        yield from _leaves(block.get("content"), f"{place}.content", "text")
    elif kind == "redacted_thinking":
        yield Piece("thinking", f"{place}.data", block["data"])
    else:
        yield from _parts(block, place)


def _are_blocks(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content)


def _parts(block: Mapping[str, Any], place: str) -> Iterator[Piece]:
    """Members of a block that are told, and the blocks within it."""
    for name, value in block.items():
        if name == "source" and isinstance(value, dict):
            yield from _parts(value, f"{place}.source")
        elif name == "content" and not isinstance(value, str):
            yield from _content(value if isinstance(value, list) else [value], f"{place}.content")
        elif isinstance(value, str) and name in KINDS:
            yield Piece(KINDS[name], f"{place}.{name}", value)


def _tool(tool: Mapping[str, Any], place: str) -> Iterator[Piece]:
    spec = tool.get("function", tool)
    if spec.get("description"):
        yield Piece("tool", f"{place}.description", spec["description"])
    schema = spec.get("input_schema", spec.get("parameters"))
    yield from _schema(schema, f"{place}.schema")


def _schema(schema: Any, place: str) -> Iterator[Piece]:
    """Names, descriptions, titles and listed values: what a schema says to a reader."""
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        where = f"{place}.{keyword}"
        if keyword in ("description", "title") and isinstance(value, str):
            yield Piece("schema", where, value)
        elif keyword in ("enum", "const", "default"):
            yield from _leaves(value, where, "schema")
        elif keyword in SCHEMA_MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield Piece("schema", f"{where}.{name}", name)
                yield from _schema(part, f"{where}.{name}")
        else:
            for index, part in enumerate(value if isinstance(value, list) else [value]):
                yield from _schema(part, f"{where}[{index}]")


def _leaves(value: Any, place: str, kind: str) -> Iterator[Piece]:
    """Keys, strings and numbers of any JSON value."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield Piece(kind, f"{place}.{name}", name)
            yield from _leaves(part, f"{place}.{name}", kind)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{place}[{index}]", kind)
    elif isinstance(value, str):
        yield Piece(kind, place, value)
    elif type(value) in (int, float):
        yield Piece(kind, place, json.dumps(value))


class Told:
    """Everything that a payload tells, searchable for pieces."""

    def __init__(self, payload: Any) -> None:
        leaves = [piece.text for piece in _leaves(payload, "", "")]
        self._text = "\0\n".join(leaves)
        self._values = {*leaves, *(leaf.removesuffix(".0") for leaf in leaves)}

    def holds(self, text: str, times: int = 1) -> bool:
        """Whether *text* is told: as it is, or as JSON writes it; blank text and halves of pairs need not be."""
        wanted = SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).strip()
        written = json.dumps(wanted, ensure_ascii=False)[1:-1]
        if times == 1:
            return wanted in self._text or written in self._text
        return max(map(self._text.count, (wanted, written))) >= times

    def holds_value(self, text: str) -> bool:
        """Whether there is a value that is *text*, and nothing besides."""
        return text in self._values


def is_renamed(piece: Piece, notes: Iterable[str]) -> bool:
    """Whether *piece* is the name of an argument, which is another one on the wire."""
    is_name = piece.kind in ("input", "schema") and piece.path.endswith(f".{piece.text}")
    return is_name and argument_names.RULE in notes and argument_names.CLAUDE.fullmatch(piece.text) is None
