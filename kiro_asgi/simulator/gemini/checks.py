"""The rules of ``generateContent``: names, turns, calls, tools, options, signatures.  Most messages are Google's own.

Source on signatures: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question
from kiro_asgi.simulator.gemini.encoder import SENTINELS, is_signature, signs_call

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
DATA: Final = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
)  # fmt: skip
OWNERS: Final = {"properties": "OBJECT", "required": "OBJECT", "items": "ARRAY", "enum": "STRING"}
"""Keyword to the only type that may have it."""

JSON_SCHEMA: Final = frozenset(
    (
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "minimum", "maximum"),
        *("items", "prefixItems", "minItems", "maxItems", "anyOf", "oneOf", "properties", "additionalProperties"),
        *("required", "propertyOrdering"),
    )
)
"""Keywords of a JSON Schema for the answer."""

TYPES: Final = frozenset(("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"))


def either(value: Mapping[str, Any], name: str) -> Any:
    """The member *name* of *value*, or the one that has the same name in snake_case: the service takes both."""
    if name in value:
        return value[name]
    return value.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


def contents_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The contents."""
    return [as_map(content) for content in as_list(document.get("contents"))]


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content."""
    return [as_map(part) for part in as_list(as_map(content).get("parts"))]


def names_known(document: Json, _: Question) -> str:
    """No message has a name that the service does not know, in camelCase or snake_case."""
    found = next(unknown_names(document), None)
    if found is None:
        return ""
    name, place = found
    where = f" at '{place}'" if place else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'


FREE: Final = ""
"""A member whose value is arbitrary JSON; others name a message, a list of those, or a map to those."""


def _free(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), FREE)


SCHEMA: Final[Mapping[str, str]] = {
    **_free(
        "type format title description nullable enum minItems maxItems required minProperties maxProperties minLength "
        "maxLength pattern minimum maximum propertyOrdering default example"
    ),
    "items": "Schema",
    "anyOf": "Schema",
    "properties": "{Schema}",
}
"""Keywords of a schema: a part of OpenAPI 3.0."""

MESSAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "Request": {
        **_free("model cachedContent serviceTier"),
        "contents": "Content",
        "systemInstruction": "Content",
        "tools": "Tool",
        "toolConfig": "ToolConfig",
        "generationConfig": "GenerationConfig",
        "safetySettings": "SafetySetting",
    },
    "Content": {"role": FREE, "parts": "Part"},
    "Part": {
        **_free("text thought thoughtSignature executableCode codeExecutionResult videoMetadata mediaResolution"),
        "inlineData": "Blob",
        "fileData": "FileData",
        "functionCall": "FunctionCall",
        "functionResponse": "FunctionResponse",
    },
    "Blob": _free("mimeType data"),
    "FileData": _free("mimeType fileUri"),
    "FunctionCall": _free("id name args"),
    "FunctionResponse": _free("id name response parts willContinue scheduling"),
    "Tool": {
        **_free("googleSearch googleSearchRetrieval codeExecution urlContext computerUse googleMaps fileSearch"),
        "functionDeclarations": "FunctionDeclaration",
    },
    "FunctionDeclaration": {
        **_free("name description parametersJsonSchema responseJsonSchema behavior"),
        "parameters": "Schema",
        "response": "Schema",
    },
    "Schema": SCHEMA,
    "ToolConfig": {"functionCallingConfig": "FunctionCallingConfig", "retrievalConfig": FREE},
    "FunctionCallingConfig": _free("mode allowedFunctionNames"),
    "GenerationConfig": {
        **_free(
            "stopSequences responseMimeType responseJsonSchema responseModalities candidateCount maxOutputTokens "
            "temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs speechConfig "
            "imageConfig mediaResolution enableEnhancedCivicAnswers"
        ),
        "responseSchema": "Schema",
        "thinkingConfig": "ThinkingConfig",
    },
    "ThinkingConfig": _free("includeThoughts thinkingBudget thinkingLevel"),
    "SafetySetting": _free("category threshold"),
}
"""Message to its members, and their types."""


def unknown_names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every name that is not known, and where it is."""
    rest: list[tuple[str, str, Any]] = [("Request", "", document)]
    while rest:
        kind, place, value = rest.pop()
        if isinstance(value, list):
            rest += [(kind, f"{place}[{at}]", part) for at, part in enumerate(value)]
        elif isinstance(value, Mapping) and kind.startswith("{"):
            rest += [(kind[1:-1], f"{place}.{name}", part) for name, part in value.items()]
        elif isinstance(value, Mapping):
            for name, part in value.items():
                member = MESSAGES[kind].get(_camel(name))
                if member is None:
                    yield name, place
                elif member != FREE:
                    rest.append((member, f"{place}.{name}".removeprefix("."), part))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def contents_present(document: Json, _: Question) -> str:
    """There are contents."""
    return "" if contents_of(document) else "* GenerateContentRequest.contents: contents is not specified"


def roles_alternate(document: Json, _: Question) -> str:
    """Roles are ``user`` and ``model`` in turns, the user's first and last."""
    roles = [content.get("role", "user") for content in contents_of(document)]
    if any(role not in ("user", "model") for role in roles):
        return "Please use a valid role: user, model."
    if roles != [("user", "model")[at % 2] for at in range(len(roles))] or roles[-1] != "user":
        return "Please ensure that multiturn requests alternate between user and model."
    return ""


def parts_present(document: Json, _: Question) -> str:
    """A content has parts, and every part is one thing; text is empty only where it bears a signature."""
    for at, content in enumerate(contents_of(document)):
        parts = parts_of(content)
        if not parts:
            return f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        for number, part in enumerate(parts):
            given = [name for name in DATA if either(part, name) is not None]
            empty = part.get("text") == "" and not either(part, "thoughtSignature")
            if len(given) != 1 or empty:
                place = f"GenerateContentRequest.contents[{at}].parts[{number}]"
                return f"* {place}.data: required oneof field 'data' must have one initialized field"
    return ""


def blobs_valid(document: Json, _: Question) -> str:
    """Data has a media type, and is base64."""
    blobs = (as_map(either(part, "inlineData")) for _, part in _parts(document) if either(part, "inlineData"))
    for blob in blobs:
        if not either(blob, "mimeType"):
            return "Unable to determine the mime type of inline data."
        try:
            binascii.a2b_base64(str(blob.get("data", "")), strict_mode=True)
        except ValueError:
            return "Invalid value at 'contents.parts.inline_data.data' (TYPE_BYTES), Base64 decoding failed"
    return ""


def structs_valid(document: Json, _: Question) -> str:
    """``args`` of a call and ``response`` of its answer are objects."""
    for name, member in (("functionCall", "args"), ("functionResponse", "response")):
        for place, part in _parts(document):
            value = either(part, name)
            if value is not None and not isinstance(as_map(value).get(member, {}), Mapping):
                where = f"{place}.{name}.{member}"
                return f"Invalid value at '{where}' (type.googleapis.com/google.protobuf.Struct)"
            if value is not None and name == "functionResponse" and member not in as_map(value):
                return f"* {place}.function_response.response: required field is not set"
    return ""


def calls_answered(document: Json, _: Question) -> str:
    """A turn with calls is followed by as many answers, of the same names in the same order, ids included."""
    before: list[tuple[Any, Any]] = []
    for content in contents_of(document):
        answers = _named(content, "functionResponse")
        if answers and not before:
            return "Please ensure that function response turn comes immediately after a function call turn."
        if len(answers) != len(before):
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if answers != before:
            return "Please ensure that function response parts have the names and ids of the function call parts."
        before = _named(content, "functionCall")
    return "Please ensure that a function call turn is followed by a function response turn." if before else ""


def names_valid(document: Json, _: Question) -> str:
    """Names of functions begin with a letter or ``_`` and go on with letters, digits and ``_.:-``, 64 at most; no two
    functions have the same."""
    names = [str(declared.get("name")) for _, declared in _declared(document)]
    called = [str(name) for content in contents_of(document) for name, _ in _named(content, "functionCall")]
    if not all(map(NAME.fullmatch, names + called)):
        return (
            "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), "
            "underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
        )
    twice = next((name for at, name in enumerate(names) if name in names[:at]), "")
    return f"Duplicate function declaration found: {twice}" if twice else ""


def tools_of_one_kind(document: Json, _: Question) -> str:
    """Functions are not offered beside the service's own search, and an entry is of one kind."""
    tools = [as_map(tool) for tool in as_list(document.get("tools"))]
    if any(len(tool) != 1 for tool in tools):
        return "* GenerateContentRequest.tools: required oneof field 'tool_type' must have one initialized field"
    kinds = {name for tool in tools for name in tool}
    functions = kinds & {"functionDeclarations", "function_declarations"}
    return "Tool use with function calling is unsupported" if functions and kinds - functions else ""


def schemas_valid(document: Json, _: Question) -> str:
    """Every schema has a type of the service's, or alternatives, arrays say of what, enumerations are of strings,
    ``required`` lists properties, no keyword is of another type, and ``parametersJsonSchema`` is an alternative."""
    for place, declared in _declared(document):
        if "parameters" in declared and either(declared, "parametersJsonSchema") is not None:
            return f"* {place}.parameters: only one of parameters and parameters_json_schema may be set"
        broken = next(_faults(declared.get("parameters"), f"{place}.parameters"), "")
        if broken:
            return f"* GenerateContentRequest.{broken}"
    wanted = either(as_map(either(document, "generationConfig")), "responseSchema")
    broken = next(_faults(wanted, "generation_config.response_schema"), "")
    return f"* GenerateContentRequest.{broken}" if broken else ""


def json_schema_valid(document: Json, question: Question) -> str:
    """A JSON Schema for the answer is for newer models, is the only one, needs the media type of JSON, and has known
    keywords; beside a reference there is nothing else."""
    options = as_map(either(document, "generationConfig"))
    schema = either(options, "responseJsonSchema")
    if schema is None:
        return ""
    if question.model.startswith(("gemini-1", "gemini-2.0")):
        return 'Invalid JSON payload received. Unknown name "responseJsonSchema": Cannot find field.'
    if either(options, "responseSchema") is not None:
        return "* GenerateContentRequest.generation_config: response_schema and response_json_schema are both set"
    if either(options, "responseMimeType") != "application/json":
        return "* GenerateContentRequest.generation_config.response_mime_type: must be application/json"
    broken = next(_json_faults(schema), "")
    return f"* GenerateContentRequest.generation_config.response_json_schema: {broken}" if broken else ""


def _json_faults(schema: Any) -> Iterator[str]:
    rest = [schema]
    while rest:
        part = rest.pop()
        if not isinstance(part, Mapping):
            yield "a schema must be an object"
            continue
        unknown = next((name for name in part if name not in JSON_SCHEMA), "")
        if unknown:
            yield f"unsupported keyword {unknown}"
        if "$ref" in part and not all(name.startswith("$") for name in part):
            yield "a $ref stands alone"
        if not all(isinstance(value, str | int | float) for value in as_list(part.get("enum"))):
            yield "an enum has strings and numbers"
        rest += [value for name in ("$defs", "properties") for value in as_map(part.get(name)).values()]
        rest += [value for name in ("anyOf", "oneOf", "prefixItems") for value in as_list(part.get(name))]
        rest += [part["items"]] if "items" in part else []
        more = part.get("additionalProperties", True)
        rest += [] if isinstance(more, bool) else [more]


def _faults(schema: Any, place: str) -> Iterator[str]:
    rest = [(schema, place)] if schema is not None else []
    while rest:
        part, where = rest.pop()
        if not isinstance(part, Mapping):
            yield f"{where}: schema must be an object"
            continue
        kind = str(part.get("type", "")).upper()
        if kind not in TYPES and "anyOf" not in part:
            yield f"{where}.type: must be specified when not using one_of, any_of or all_of fields"
        if kind == "ARRAY" and "items" not in part:
            yield f"{where}.items: missing field."
        if not all(isinstance(value, str) for value in as_list(part.get("enum"))):
            yield f"{where}.enum: only strings are allowed"
        for keyword, owner in OWNERS.items():
            if keyword in part and kind != owner:
                yield f"{where}.{keyword}: only allowed for {owner} type"
        properties = as_map(part.get("properties"))
        if any(name not in list(properties) for name in as_list(part.get("required"))):
            yield f"{where}.required: property is not defined"
        rest += [(value, f"{where}.properties[{name}]") for name, value in properties.items()]
        rest += [(value, f"{where}.any_of") for value in as_list(part.get("anyOf"))]
        rest += [(part["items"], f"{where}.items")] if "items" in part else []


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "topP": (0, 1),
    "topK": (1, 1_000_000),
    "candidateCount": (1, 1),
    "maxOutputTokens": (1, 65_536),
    "presencePenalty": (-2, 2),
    "frequencyPenalty": (-2, 2),
}
"""Numbers and their bounds, both included."""

BUDGETS: Final[Mapping[str, tuple[int, int]]] = {
    "gemini-2.5-pro": (128, 32_768),
    "gemini-2.5-flash": (0, 24_576),
    "gemini-2.5-flash-lite": (512, 24_576),
    "gemini-3-pro-preview": (128, 32_768),
}
"""Model to the bounds of its thinking budget; -1 is allowed by all of them, and 0 by Flash and Flash-Lite."""

MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
MAX_STOPS: Final = 5
CATEGORIES: Final = frozenset(
    f"HARM_CATEGORY_{word}"
    for word in ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY")
)
THRESHOLDS: Final = frozenset(("OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"))


def _options(document: Json) -> Mapping[str, Any]:
    return as_map(either(document, "generationConfig"))


def numbers_in_range(document: Json, _: Question) -> str:
    """Temperature, ``topP`` … are numbers within their bounds."""
    for name, (least, most) in RANGES.items():
        value = either(_options(document), name)
        if value is None:
            continue
        if not isinstance(value, int | float) or not least <= value <= most:
            return f"* GenerateContentRequest.generation_config.{name}: {name} must be in the range [{least}, {most}]."
    return ""


def few_stops(document: Json, _: Question) -> str:
    """There are five stop sequences at most, none empty."""
    stops = as_list(either(_options(document), "stopSequences"))
    if len(stops) <= MAX_STOPS and all(stops):
        return ""
    return "* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences, none of them empty."


def thinking_possible(document: Json, question: Question) -> str:
    """A thinking budget is within the model's bounds; a level is for Gemini 3 only, and never beside a budget."""
    thinking = as_map(either(_options(document), "thinkingConfig"))
    budget, level = either(thinking, "thinkingBudget"), either(thinking, "thinkingLevel")
    if budget is not None and level is not None:
        return "You can only set only one of thinking budget and thinking level."
    if level is not None:
        known = question.model.startswith("gemini-3") and str(level).lower() in ("low", "high")
        return "" if known else "Thinking level is not supported for this model."
    if budget is None or question.model not in BUDGETS:
        return ""
    if not isinstance(budget, int):
        return "Invalid value at 'generation_config.thinking_config.thinking_budget' (TYPE_INT32)"
    least, most = BUDGETS[question.model]
    if budget == -1 or (budget == 0 and "flash" in question.model) or least <= budget <= most:
        return ""
    return f"The thinking budget {budget} is invalid. Please choose a value between {least} and {most}."


def thinking_leaves_room(document: Json, _: Question) -> str:
    """The most tokens of the answer are more than the thinking budget, which is a part of them."""
    budget = either(as_map(either(_options(document), "thinkingConfig")), "thinkingBudget")
    most = either(_options(document), "maxOutputTokens")
    if budget is None or most is None or most > budget:
        return ""
    return "The thinking budget must be less than max_output_tokens."


def calling_configured(document: Json, _: Question) -> str:
    """``functionCallingConfig`` has a known mode, comes with functions, and allows only those, with ``ANY``."""
    config = as_map(either(as_map(either(document, "toolConfig")), "functionCallingConfig"))
    mode, allowed = config.get("mode", "AUTO"), as_list(either(config, "allowedFunctionNames"))
    tools = (as_map(tool) for tool in as_list(document.get("tools")))
    names = [as_map(one).get("name") for tool in tools for one in as_list(either(tool, "functionDeclarations"))]
    if mode not in MODES:
        return f"Invalid value at 'tool_config.function_calling_config.mode', \"{mode}\""
    if config and not names:
        return "Function calling config is set without function_declarations."
    if allowed and mode not in ("ANY", "VALIDATED"):
        return "Allowed function names are only supported with the modes ANY and VALIDATED."
    unknown = next((name for name in allowed if name not in names), None)
    return "" if unknown is None else f"allowed_function_names: {unknown} is not a declared function."


def safety_known(document: Json, _: Question) -> str:
    """Safety settings have known categories, each once, and known thresholds."""
    settings = [as_map(one) for one in as_list(either(document, "safetySettings"))]
    categories = [str(one.get("category")) for one in settings]
    if not set(categories) <= CATEGORIES or not {str(one.get("threshold")) for one in settings} <= THRESHOLDS:
        return "Invalid value at 'safety_settings'"
    return "" if len(set(categories)) == len(categories) else "safety_settings: element has duplicate category."


def signatures_unchanged(document: Json, _: Question) -> str:
    """A signature is one that was given, unchanged; that of a call is with that very call, and that of a text is not
    with a call."""
    for part in (part for content in contents_of(document) for part in parts_of(content)):
        signature = either(part, "thoughtSignature")
        if signature is not None and not _fits(signature, as_map(either(part, "functionCall"))):
            return "Corrupted thought signature."
    return ""


def _fits(signature: object, call: Mapping[str, Any]) -> bool:
    if call:
        return signature in SENTINELS or signs_call(signature, call)
    return signature in SENTINELS or is_signature(signature)


def steps_signed(document: Json, question: Question) -> str:
    """With Gemini 3, the first call of every step of the current turn has its signature."""
    if not question.model.startswith("gemini-3"):
        return ""
    contents = contents_of(document)
    began = max((at for at, content in enumerate(contents) if _is_asked(content)), default=-1)
    for at, content in enumerate(contents[began + 1 :], began + 1):
        parts = parts_of(content)
        places = [place for place, part in enumerate(parts) if either(part, "functionCall")]
        if places and not either(parts[places[0]], "thoughtSignature"):
            name = as_map(either(parts[places[0]], "functionCall")).get("name")
            return (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {at + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )
    return ""


def _is_asked(content: Mapping[str, Any]) -> bool:
    """Whether *content* is the user's own, and not only answers to calls."""
    return content.get("role") == "user" and any(not either(part, "functionResponse") for part in parts_of(content))


def _parts(document: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, content in enumerate(contents_of(document)):
        for number, part in enumerate(parts_of(content)):
            yield f"contents[{at}].parts[{number}]", part


def _named(content: Mapping[str, Any], kind: str) -> list[tuple[Any, Any]]:
    """Name and id of every call, or answer, in *content*."""
    found = (as_map(either(part, kind)) for part in parts_of(content))
    return [(one.get("name"), one.get("id")) for one in found if one]


def _declared(document: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, tool in enumerate(map(as_map, as_list(document.get("tools")))):
        for number, declared in enumerate(as_list(either(tool, "functionDeclarations"))):
            yield f"tools[{at}].function_declarations[{number}]", as_map(declared)


RULES: Final[tuple[FormatRule, ...]] = (
    names_known,
    contents_present,
    roles_alternate,
    parts_present,
    blobs_valid,
    structs_valid,
    calls_answered,
    names_valid,
    tools_of_one_kind,
    schemas_valid,
    json_schema_valid,
    numbers_in_range,
    few_stops,
    thinking_possible,
    thinking_leaves_room,
    calling_configured,
    safety_known,
    signatures_unchanged,
    steps_signed,
)
