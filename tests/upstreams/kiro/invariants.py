"""What the service insists on, written down a second time: nothing here is shared with what it checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REFUSED = {"additionalProperties", "pattern", "format", "minLength", "maximum", "$schema", "uniqueItems", "if"}
FORMATS = {
    "images": {"png", "jpeg", "gif", "webp"},
    "documents": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "md", "txt"},
}
MEMBERS = {
    "userInputMessage": {"content", "modelId", "origin", "images", "documents", "userInputMessageContext"},
    "assistantResponseMessage": {"content", "toolUses", "reasoningContent"},
}


def breaches(body: dict[str, Any]) -> list[str]:
    """Every invariant that *body* breaks, in words."""
    return [*_encoding(body), *_shape(body), *_turns(body), *_tools(body), *_calls(body), *_attached(body)]


def items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages, with the member that says whose each is."""
    state = body["conversationState"]
    return [*state.get("history", []), state["currentMessage"]]


def _encoding(body: dict[str, Any]) -> Iterator[str]:
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        yield f"cannot be encoded: {error}"


def _shape(body: dict[str, Any]) -> Iterator[str]:
    if set(body) - {"conversationState", "profileArn", "additionalModelRequestFields"}:
        yield "unknown member at the top"
    if body.get("profileArn", "arn:x")[:4] != "arn:":
        yield "a profile that is none"
    if "cachePoint" in json.dumps(body):
        yield "a cache point"
    yield from (f"hollow member {path}" for path in _hollow(body, ""))


def _hollow(value: Any, path: str) -> Iterator[str]:
    """Nulls and empty containers, but for what is the client's own: arguments, schemas."""
    if value is None or value == [] or value == {}:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if key not in ("input", "inputSchema"):
            yield from _hollow(part, f"{path}.{key}")


def _turns(body: dict[str, Any]) -> Iterator[str]:
    messages = items(body)
    sides = [next(iter(item)) for item in messages]
    if sides != ["userInputMessage", "assistantResponseMessage"] * (len(sides) // 2) + ["userInputMessage"]:
        yield f"turns: {sides}"
    for item in messages:
        ((side, message),) = item.items()
        if set(message) - MEMBERS[side]:
            yield f"unknown member of {side}"
        instead = message.get("toolUses") or message.get("userInputMessageContext", {}).get("toolResults")
        if not isinstance(message["content"], str) or not (message["content"].strip() or instead):
            yield f"empty {side}"
        if len(message["content"]) > 600_000 and side == "userInputMessage":
            yield "too long a message"
        thought = message.get("reasoningContent", {"redactedContent": "x"})
        if not (thought.get("redactedContent") or thought["reasoningText"].get("signature")):
            yield "thinking without a seal"
    yield from ("tools in history" for item in messages[:-1] if "tools" in _context(item))


def _context(item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(item.values())).get("userInputMessageContext", {})
    return found


def _tools(body: dict[str, Any]) -> Iterator[str]:
    specifications = [tool["toolSpecification"] for tool in _context(items(body)[-1]).get("tools", [])]
    names = [one["name"] for one in specifications]
    if len({name.lower() for name in names}) < len(names):
        yield "two tools of one name"
    for one in specifications:
        schema = one["inputSchema"]["json"]
        if not NAME.fullmatch(one["name"]):
            yield f"name {one['name']!r}"
        if not len(one["description"].strip()) > 0 or len(one["description"].encode()) > 10_240:
            yield "description"
        if schema.get("type") != "object" or type(schema.get("properties")) is not dict:
            yield "schema without a root"
        if {"anyOf", "oneOf", "allOf"} & set(schema) or not set(schema.get("required", [])) <= set(
            schema["properties"]
        ):
            yield "schema: root"
        if found := REFUSED & set(_keywords(schema)):
            yield f"schema: {found}"
    used = {use["name"] for item in items(body) for use in next(iter(item.values())).get("toolUses", ())}
    if not used <= set(names):
        yield "a tool that is not defined"


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            if key in ("properties", "$defs", "definitions"):
                for part in value.values():
                    yield from _keywords(part)
            elif key not in ("enum", "const", "default", "example", "examples"):
                yield from _keywords(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _keywords(part)


def _calls(body: dict[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    waiting: list[str] = []
    for item in items(body):
        message = next(iter(item.values()))
        results = _context(item).get("toolResults", [])
        if [result["toolUseId"] for result in results] != waiting and "userInputMessage" in item:
            yield f"results {[result['toolUseId'] for result in results]} for calls {waiting}"
        waiting = [use["toolUseId"] for use in message.get("toolUses", ())]
        if len(set(waiting)) < len(waiting) or seen & set(waiting) or not all(map(ID.fullmatch, waiting)):
            yield f"ids {waiting}"
        seen.update(waiting)
        for use in message.get("toolUses", ()):
            if type(use["input"]) is not dict or "" in use["input"]:
                yield "arguments"
        for result in results:
            texts = [part["text"] for part in result["content"]]
            if not all(texts) or not texts or sum(map(len, texts)) > 800_000:
                yield "a result's text"
            if result["status"] not in ("success", "error"):
                yield "a result's status"


def _attached(body: dict[str, Any]) -> Iterator[str]:
    messages = [item.get("userInputMessage", {}) for item in items(body)]
    for kind, formats in FORMATS.items():
        for one in (one for message in messages for one in message.get(kind, ())):
            if one["format"] not in formats or not one["source"]["bytes"]:
                yield f"{kind}: {one['format']}"
    names = [one["name"] for message in messages for one in message.get("documents", ())]
    if len(set(names)) < len(names) or not all(re.fullmatch(r"[a-zA-Z0-9 ()\[\]-]+", name) for name in names):
        yield f"documents: {names}"
