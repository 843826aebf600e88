"""What the service insists on, written down a second time: nothing here is shared with what it checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
BODY = {"systemInstruction", "contents", "tools", "toolConfig", "generationConfig", "safetySettings"}
CONFIG = {
    *("temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "presencePenalty"),
    *("frequencyPenalty", "responseMimeType", "responseSchema", "responseJsonSchema", "thinkingConfig"),
}
SCHEMA = {
    *("type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"),
    *("required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum"),
    *("anyOf", "propertyOrdering", "default", "example"),
}
JSON_SCHEMA = {
    *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems"),
    *("minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties"),
    *("required", "propertyOrdering"),
}
SIDES = {"user": {"text", "inlineData", "fileData", "functionResponse"}, "model": {"text", "functionCall"}}
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
BESIDE = {"thought", "thoughtSignature"}


def breaches(body: dict[str, Any]) -> list[str]:
    """Every invariant that *body* breaks, in words."""
    return [*_shape(body), *_turns(body), *_parts(body), *_calls(body), *_tools(body), *_config(body)]


def _shape(body: dict[str, Any]) -> Iterator[str]:
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    if set(body) - BODY:
        yield f"unknown member at the top: {set(body) - BODY}"
    if any(set(part) != {"text"} or not part["text"] for part in body.get("systemInstruction", {}).get("parts", ())):
        yield "a system text that is none"


def _turns(body: dict[str, Any]) -> Iterator[str]:
    roles = [content["role"] for content in body["contents"]]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        yield f"wrong side begins or ends: {roles}"
    if any(before == behind for before, behind in pairwise(roles)):
        yield f"roles do not alternate: {roles}"
    if any(not content["parts"] for content in body["contents"]):
        yield "a content without parts"


def _parts(body: dict[str, Any]) -> Iterator[str]:
    for content in body["contents"]:
        for part in content["parts"]:
            kinds = set(part) - BESIDE
            if len(kinds) != 1 or not kinds <= SIDES[content["role"]]:
                yield f"no part of {content['role']}: {part}"
            if part.get("text") == "" and "thoughtSignature" not in part:
                yield "an empty text"
            if BESIDE & set(part) and content["role"] == "user":
                yield "a user with a signature"
            if part.get("thoughtSignature") == "" or part.get("thought", True) is not True:
                yield "hollow beside a part"


def _calls(body: dict[str, Any]) -> Iterator[str]:
    """Every call is answered at the beginning of the next content, in order, and nothing else is."""
    called: list[Any] = []
    for content in body["contents"]:
        answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if [(it["name"], it.get("id")) for it in answers] != called:
            yield f"{answers} where {called} wait"
        if any("functionResponse" not in part for part in content["parts"][: len(answers)]):
            yield "results behind something else"
        for answer in answers:
            if not isinstance(answer["response"], dict):
                yield "a response that is no object"
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        called = [(it["name"], it.get("id")) for it in calls]
        ids = [it["id"] for it in calls if "id" in it]
        if len(ids) != len(set(ids)):
            yield f"ids that are equal: {ids}"
        for call in calls:
            if not NAME.fullmatch(call["name"]) or not isinstance(call["args"], dict):
                yield f"no call: {call}"
            if set(call) - {"id", "name", "args"}:
                yield f"unknown member of a call: {call}"


def _tools(body: dict[str, Any]) -> Iterator[str]:
    names = []
    for tool in body.get("tools", ()):
        for declared in tool.get("functionDeclarations", ()):
            names.append(declared["name"])
            if set(declared) - {"name", "description", "parameters"}:
                yield f"unknown member of a declaration: {set(declared)}"
            if "parameters" in declared:
                if declared["parameters"].get("type", "").lower() != "object":
                    yield "parameters that are no object"
                if not declared["parameters"].get("properties"):
                    yield "an object without properties"
                yield from schema_breaches(declared["parameters"])
    if len(body.get("tools", ())) > 1 or len(set(names)) < len(names) or not all(map(NAME.fullmatch, names)):
        yield f"tools that are not taken: {names}"
    allowed = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("allowedFunctionNames", ())
    if set(allowed) - set(names):
        yield f"allowed, but not there: {allowed}"
    if "toolConfig" in body and not names:
        yield "a choice without functions"


def _config(body: dict[str, Any]) -> Iterator[str]:
    config = body.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {})
    if set(config) - CONFIG or set(thinking) - {"includeThoughts", "thinkingBudget", "thinkingLevel"}:
        yield f"unknown member of the configuration: {config}"
    if {"thinkingBudget", "thinkingLevel"} <= set(thinking):
        yield "a budget and a level"
    if config.get("maxOutputTokens", 1e9) <= thinking.get("thinkingBudget", 0):
        yield "a budget that leaves nothing to the answer"
    if len(config.get("stopSequences", ())) > 5:
        yield "too many stop sequences"
    if "responseSchema" in config:
        yield from schema_breaches(config["responseSchema"])
    if {"responseSchema", "responseJsonSchema"} <= set(config):
        yield "two schemas"
    yield from json_schema_breaches(config.get("responseJsonSchema", {}))


def json_schema_breaches(schema: Any) -> Iterator[str]:
    """What the service would refuse in a JSON Schema."""
    if not isinstance(schema, dict):
        yield f"no schema: {schema}"
        return
    if set(schema) - JSON_SCHEMA:
        yield f"unknown keyword: {set(schema) - JSON_SCHEMA}"
    if "$ref" in schema and any(not name.startswith("$") for name in schema):
        yield f"not alone: {schema}"
    parts = [part for name in ("$defs", "properties") for part in schema.get(name, {}).values()]
    parts += [part for name in ("anyOf", "oneOf", "prefixItems") for part in schema.get(name, [])]
    parts += [schema["items"]] if "items" in schema else []
    parts += [more] if not isinstance(more := schema.get("additionalProperties", True), bool) else []
    for part in parts:
        yield from json_schema_breaches(part)


def _type_breaches(schema: dict[str, Any]) -> Iterator[str]:
    kind = schema.get("type", "").lower()
    if kind not in TYPES if kind else "anyOf" not in schema:
        yield f"no type: {kind}"
    if (kind == "array") is not ("items" in schema):
        yield "an array of nothing, or items of something else"
    if kind != "object" and "properties" in schema:
        yield f"properties of {kind}"
    if kind != "string" and "enum" in schema:
        yield f"a list of values of {kind}"


def schema_breaches(schema: Any) -> Iterator[str]:
    """What the service would refuse in a schema."""
    if not isinstance(schema, dict):
        yield f"no schema: {schema}"
        return
    if set(schema) - SCHEMA:
        yield f"unknown keywords: {set(schema) - SCHEMA}"
    yield from _type_breaches(schema)
    if "enum" in schema and not all(isinstance(value, str) and value for value in schema["enum"]):
        yield f"no texts: {schema['enum']}"
    for key in ("required", "propertyOrdering"):
        if set(schema.get(key, ())) - set(schema.get("properties", {})) or schema.get(key) == []:
            yield f"{key} of what is not there"
    items = [schema["items"]] if "items" in schema else []
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *items):
        yield from schema_breaches(part)
