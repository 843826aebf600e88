"""From the body of a request, in any spelling of it that JSON for protocol buffers allows, to a prompt.

Sources: https://ai.google.dev/api/generate-content, https://ai.google.dev/api/caching#Tool
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin, get_type_hints

from attrs import define, evolve, field, frozen, has

from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.dialects.errors import invalid, missing, unsupported
from kiro_asgi.dialects.gemini.content import read_contents, system_texts
from kiro_asgi.dialects.gemini.shapes import (
    API,
    BESIDE,
    CountBody,
    FunctionCallingConfig,
    FunctionDeclaration,
    GenerateBody,
    GenerationConfig,
    GoogleSearch,
    ThinkingConfig,
    ToolBody,
    ToolConfig,
    beside,
    camel_case,
)
from kiro_asgi.dialects.references import HELD, referred, refuse_references
from kiro_asgi.dialects.structure import read_json, structure_value
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool
from kiro_asgi.errors import RequestError
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.handling import Handling, Tier
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import (
    Demand,
    Opaque,
    Prompt,
    Sampling,
    Thinking,
    ThinkingMode,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    system_of,
)
from kiro_asgi.stages.limits import check_stop
from kiro_asgi.wire.json import object_of, objects_of, text_of

# Tools, their schemas, and the client's demands about them.


_SPELLED: Final = MappingProxyType(
    {
        "any_of": "anyOf",
        "max_items": "maxItems",
        "min_items": "minItems",
        "max_length": "maxLength",
        "min_length": "minLength",
        "max_properties": "maxProperties",
        "min_properties": "minProperties",
        "prefix_items": "prefixItems",
        "additional_properties": "additionalProperties",
        "defs": "$defs",
        "ref": "$ref",
    }
)
"""Keywords in another spelling."""

_DROPPED: Final = frozenset({"propertyOrdering", "property_ordering", "example", "nullable"})
_LISTS: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_COUNTS: Final = frozenset({"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"})

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def _json_schema(schema: Any) -> Any:
    """A schema of Google's, or JSON Schema as its clients write it, as JSON Schema; any other value stays as it is.

    Names of types may be in capitals in either.

    Source: https://ai.google.dev/api/caching#Schema
    """
    if type(schema) is not dict:
        return schema
    written: dict[str, Any] = {}
    for name, value in schema.items():
        keyword = _SPELLED.get(name, name)
        if keyword not in _DROPPED and value is not None and not (keyword == "format" and value == "enum"):
            written[keyword] = _value(keyword, value)
    return _with_null(written) if schema.get("nullable") is True else written


def _value(keyword: str, value: Any) -> Any:
    if keyword == "type":
        return [*map(_type, value)] if type(value) is list else _type(value)
    if keyword in _LISTS and type(value) is list:
        return [*map(_json_schema, value)]
    if keyword in _MAPS and type(value) is dict:
        return {name: _json_schema(part) for name, part in value.items()}
    if keyword in _COUNTS and type(value) is str and value.isdecimal() and value.isascii():
        return int(value[:15])
    return _json_schema(value) if keyword in _SCHEMAS else value


def _type(word: Any) -> Any:
    return word.lower() if type(word) is str and word in _TYPES else word


def _with_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """*schema*, or ``null``."""
    if type(kind := schema.get("type")) is not str:
        return {"anyOf": [dict(schema), {"type": "null"}]}
    null = {"enum": [*schema["enum"], None]} if type(schema.get("enum")) is list else {}
    return {**schema, "type": [kind, "null"], **null}


MODES: Final[Mapping[str, ToolChoiceMode]] = MappingProxyType(
    {
        "MODE_UNSPECIFIED": ToolChoiceMode.AUTO,
        "AUTO": ToolChoiceMode.AUTO,
        "VALIDATED": ToolChoiceMode.AUTO,
        "ANY": ToolChoiceMode.REQUIRED,
        "NONE": ToolChoiceMode.NONE,
    }
)

_PLAIN_MODES: Final = frozenset({"", "MODE_UNSPECIFIED", "AUTO", "ANY", "NONE"})
"""Those for which there is one of `ToolChoiceMode`."""

SEARCHES: Final = ("google_search", "google_search_retrieval", "enterprise_web_search")

HOSTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "url_context": "web_fetch",
        "code_execution": "code_execution",
        "computer_use": "computer_use",
        "file_search": "file_search",
        "google_maps": "google_maps",
        "retrieval": "retrieval",
        "mcp_servers": "mcp",
    }
)
"""Members of an entry of ``tools`` to the kind of tool that they stand for."""


def _read_tools(
    bodies: tuple[ToolBody, ...], config: ToolConfig | None, notes: Notes
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be.

    Raises:
        RequestError: A function without a name, or a demand that cannot be met.
    """
    tools = tuple(tool for index, body in enumerate(bodies) for tool in _tools(body, f"tools[{index}]"))
    calling = None if config is None else config.function_calling_config
    if calling is None:
        return tools, ToolChoice()
    left, choice = _chosen(tools, calling)
    for tool in tools:
        if tool not in left:
            notes.applies("tools.left_out", tool.place)
    return left, choice


def _tools(body: ToolBody, place: str) -> Iterator[Tool]:
    for index, function in enumerate(body.function_declarations or ()):
        yield _function(function, f"{place}.function_declarations[{index}]")
    for name in SEARCHES:
        if (search := getattr(body, name)) is not None:
            at, value = f"{place}.{name}", _search(search)
            opaque = Opaque(API, {camel_case(name): value}, at)
            yield evolve(SEARCH_TOOL, options=_options(search), place=at, opaque=opaque)
    for name, kind in HOSTED.items():
        if (value := getattr(body, name)) is not None:
            yield _hosted(name, kind, value, f"{place}.{name}")
    for name, value in body.unread.items():
        if name not in SEARCHES:
            yield _hosted(name, name, value, f"{place}.{name}")


def _hosted(name: str, kind: str, value: Any, place: str) -> Tool:
    return evolve(hosted_tool(kind, place, name), opaque=Opaque(API, {camel_case(name): value}, place))


def _function(function: FunctionDeclaration, place: str) -> Tool:
    if not function.name:
        raise missing(f"{place}.name", "a function needs a name")
    given = function.parameters if function.parameters_json_schema is None else function.parameters_json_schema
    if given is not None and not isinstance(given, Mapping):
        raise invalid(f"{place}.parameters_json_schema", "expected an object")
    schema = _json_schema(given) if given else {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", schema, place=place, unread=beside(function))


def _search(search: Any) -> Any:
    """The search as the client has it."""
    if not isinstance(search, GoogleSearch):
        return search
    unread = beside(search, excludeDomains=search.exclude_domains and [*search.exclude_domains])
    return dict(unread.members) if unread is not None else {}


def _options(search: Any) -> dict[str, Any]:
    blocked = search.exclude_domains if isinstance(search, GoogleSearch) else None
    return {"blocked_domains": blocked} if blocked else {}


def _chosen(tools: tuple[Tool, ...], calling: FunctionCallingConfig) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that are left, and the demand on their use."""
    place = "tool_config.function_calling_config"
    mode, word = MODES.get((calling.mode or "AUTO").upper()), calling.mode or ""
    if mode is None:
        raise invalid(f"{place}.mode", f"expected one of {', '.join(MODES)}, got {word[:60]!r}")
    if not calling.allowed_function_names or mode is ToolChoiceMode.NONE:
        if mode is ToolChoiceMode.REQUIRED and not tools:
            raise invalid(f"{place}.mode", "a call is demanded, but there are no tools")
        return tools, ToolChoice(mode, raw=word)
    names = frozenset(calling.allowed_function_names)
    if unknown := names.difference(tool.name for tool in tools):
        raise invalid(f"{place}.allowed_function_names", f"no function is named {min(unknown)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and len(names) == 1:
        return tools, ToolChoice(ToolChoiceMode.NAMED, min(names), raw=word)
    return tuple(tool for tool in tools if tool.name in names), ToolChoice(mode, raw=word, allowed=names)


# One spelling for all.


_HUMP: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}")

Hints = Mapping[str, Any]


def snake_case(name: str) -> str:
    """*name* with underscores for humps; those before it, which mark a field as internal, are left out."""
    return _HUMP.sub(lambda hump: f"_{hump[0]}", name).lower().lstrip("_")


@define
class Spelling:
    """Spells values anew that a class, or another within it, is to be read from.

    Names of fields may be in camelCase or in snake_case, both in one body; integers may be floats or strings; ``null``
    counts as absent, and one object stands for a list of one.  Only what is declared in a class is spelled anew: what
    is the client's own data, such as the arguments of a call, stays as it is.

    Source: https://protobuf.dev/programming-guides/json/
    """

    _cls: type
    _hints: Mapping[type, Hints] = field(init=False)
    """Class to its fields and their types, for every class that is reached."""

    def __attrs_post_init__(self) -> None:
        self._hints = MappingProxyType(dict(_classes(self._cls)))

    def plain(self, value: Any) -> Any:
        """*value* in one spelling; what does not fit the class is left for its reader to refuse."""
        return self._plain(value, self._cls)

    def _plain(self, value: Any, kind: Any) -> Any:
        members = get_args(kind) if get_origin(kind) is not tuple else ()
        for member in members or (kind,):
            if get_origin(member) is tuple:
                item = get_args(member)[0]
                if type(value) is list:
                    return [self._plain(each, item) for each in value]
                if type(value) is dict and item in self._hints:
                    return [self._plain(value, item)]
            elif member in self._hints and type(value) is dict:
                return self._object(value, self._hints[member])
            elif member is int:
                return _integer(value)
        return value

    def _object(self, value: Mapping[str, Any], hints: Hints) -> dict[str, Any]:
        named = ((snake_case(name), part) for name, part in value.items() if part is not None)
        return {name: self._plain(part, hints[name]) if name in hints else part for name, part in named}


def _classes(cls: type) -> Iterator[tuple[type, Hints]]:
    """*cls* and every class that its fields hold."""
    seen: set[type] = set()
    pending = [cls]
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            hints = get_type_hints(each)
            yield each, MappingProxyType(hints)
            pending += (part for kind in hints.values() for part in _parts(kind))


def _parts(kind: Any) -> Iterator[type]:
    """The classes in a type."""
    if has(kind):
        yield kind
    for member in get_args(kind):
        yield from _parts(member)


def _integer(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and _INTEGER.fullmatch(value) else value


# The request.


LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh")

_BODY: Final = Spelling(GenerateBody)
_COUNT: Final = Spelling(CountBody)

_RANGES: Final = (
    ("temperature", 0, 2),
    ("top_p", 0, 1),
    ("top_k", 0, None),
    ("max_output_tokens", 1, None),
)
"""Field, least and greatest value."""

_NOTHING: Final = GenerationConfig()
_JSON: Final = "application/json"

_TEXT: Final = "text/plain"

_NO_LOGPROBS: Final = "log probabilities are not available"
_DEMANDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "response_logprobs": _NO_LOGPROBS,
        "logprobs": _NO_LOGPROBS,
        "speech_config": "no service here answers with speech",
        "image_config": "no service here answers with images",
    }
)
"""Fields that only the service itself can be asked for, each with why others cannot."""

_TRIVIAL: Final = frozenset({"response_logprobs", "logprobs"})
"""Those of them that ask for nothing where they are false, or 0."""


@frozen
class GeminiOptions:
    """The part of a request that only this dialect understands."""

    grounded: bool = False
    """Whether the answer may rest on pages, which it then names."""


def read_body(body: bytes) -> dict[str, Any]:
    """The JSON of a request, in one spelling.

    Raises:
        RequestError: It is no object.
    """
    value = read_json(body)
    if type(value) is not dict:
        raise invalid("", "expected an object")
    spelled: dict[str, Any] = _BODY.plain(value)
    return spelled


def parse_request(body: bytes, model: str, *, stream: bool, notes: Notes = UNHEARD) -> ParsedRequest:
    """Read the body of a request to *model*.

    Raises:
        RequestError: Not a legal request, or one that cannot be honoured; ``param`` names the place.
    """
    value = read_body(body)
    refuse_references(value, HELD)
    request = structure_value(value, GenerateBody)
    BESIDE.note(notes, request, value)
    prompt = _prompt(request, model, notes)
    return ParsedRequest(prompt, stream, GeminiOptions(grounded=any(tool.hosted for tool in prompt.tools)))


def parse_count(body: bytes, model: str) -> Prompt:
    """Read the body of a request to count the tokens of one to *model*.

    Raises:
        RequestError: Not a legal request; ``param`` names the place.
    """
    value = _COUNT.plain(read_json(body))
    for part in (value, object_of(value).get("generate_content_request")):
        refuse_references(part, HELD)
    request = structure_value(value, CountBody)
    if request.generate_content_request is not None:
        return _prompt(request.generate_content_request, model)
    return _prompt(GenerateBody(contents=request.contents, unread=request.unread), model)


def _prompt(request: GenerateBody, model: str, notes: Notes = UNHEARD) -> Prompt:
    turns, spoken = read_contents(request.contents)
    if not turns:
        raise missing("contents", "send at least one content with a part")
    config = request.generation_config or _NOTHING
    tools, choice = _read_tools(request.tools or (), request.tool_config, notes)
    system, unread_system = system_of((*system_texts(request.system_instruction), *spoken))
    prompt = Prompt(
        model,
        turns,
        system=system,
        system_unread=unread_system,
        system_place="system_instruction",
        tools=tools,
        tool_choice=choice,
        thinking=_thinking(config.thinking_config or ThinkingConfig(), notes),
        sampling=_sampling(config),
        schema=_schema(config),
        handling=_handling(request, notes),
        demands=(*_referred(request), *_demands(config)),
        unread=beside(request, **_in_part(request)),
    )
    require_depths(prompt)
    return prompt


TIERS: Final = MappingProxyType(
    {
        "unspecified": Tier.AUTO,
        "standard": Tier.STANDARD,
        "flex": Tier.FLEX,
        "priority": Tier.PRIORITY,
    }
)


def _tier_word(value: Any) -> str:
    """The word for a tier as it is in the table: SDKs write it in either case, some with what it is of before it."""
    return value.lower().removeprefix("service_tier_") if isinstance(value, str) else ""


def _handling(request: GenerateBody, notes: Notes) -> Handling:
    labels, tier = object_of(request.unread.get("labels")), request.unread.get("service_tier")
    word = _tier_word(tier)
    BESIDE.note_word(notes, word if tier else None, TIERS, "service_tier")
    return Handling(
        TIERS.get(word),
        {name: text for name, text in labels.items() if isinstance(text, str)},
        places={"tier": "service_tier", "labels": "labels"},
    )


def _in_part(request: GenerateBody) -> Mapping[str, Any]:
    """Members that mean something else here, as a service of the API needs them."""
    more: dict[str, Any] = {"safetySettings": request.safety_settings}
    if request.generation_config is not None:
        more["generationConfig"] = _with_level(request.generation_config)
    config = request.tool_config
    calling = None if config is None else config.function_calling_config
    if config is not None and calling is not None and (calling.mode or "").upper() not in _PLAIN_MODES:
        names = calling.allowed_function_names
        of_config = beside(config)
        of_calling = beside(calling, mode=calling.mode, allowedFunctionNames=names and [*names])
        more["toolConfig"] = {
            **(of_config.members if of_config is not None else {}),
            "functionCallingConfig": dict(of_calling.members) if of_calling is not None else {},
        }
    return more


_UNSPECIFIED: Final = "thinking_level_unspecified"


def _is_unknown_level(word: Any) -> bool:
    """Whether *word* is a level of thinking of which it is not known how much that is."""
    return isinstance(word, str) and word.lower() not in ("", _UNSPECIFIED, *LEVELS)


def _with_level(config: GenerationConfig) -> dict[str, Any] | None:
    """What is not read of *config* with a level of thinking that is unknown; ``None`` where that is known."""
    thinking = config.thinking_config
    if thinking is None or not _is_unknown_level(thinking.thinking_level):
        return None
    unread = beside(config)
    members = dict(unread.members) if unread is not None else {}
    return {
        **members,
        "thinkingConfig": {**members.get("thinkingConfig", {}), "thinkingLevel": thinking.thinking_level},
    }


def _thinking(config: ThinkingConfig, notes: Notes) -> Thinking:
    """A level counts more than a budget; thoughts are shown only where that is asked for."""
    if _is_unknown_level(config.thinking_level):
        notes.applies("values.unknown", "generation_config.thinking_config.thinking_level", kept_for=API)
    place, omitted = "generation_config.thinking_config", not config.include_thoughts
    level, budget = (config.thinking_level or "").lower(), config.thinking_budget
    if level and level != _UNSPECIFIED:
        return Thinking(ThinkingMode.ADAPTIVE, effort=level if level in LEVELS else "", omitted=omitted)
    if budget is not None and budget < -1:
        raise invalid(f"{place}.thinking_budget", "expected a number of tokens, 0 for none, or -1")
    if budget == 0:
        return Thinking(ThinkingMode.DISABLED, omitted=omitted)
    if budget is not None and budget > 0:
        return Thinking(ThinkingMode.ENABLED, budget, omitted=omitted)
    wanted = budget == -1 or not omitted
    return Thinking(ThinkingMode.ADAPTIVE if wanted else ThinkingMode.DEFAULT, omitted=omitted)


def _sampling(config: GenerationConfig) -> Sampling:
    if config.candidate_count not in (None, 0, 1):
        raise unsupported("generation_config.candidate_count", "only one candidate can be made")
    for name, least, greatest in _RANGES:
        value = getattr(config, name)
        if value is not None and (value < least or (greatest is not None and value > greatest)):
            wanted = f"from {least} to {greatest}" if greatest is not None else f"of at least {least}"
            raise invalid(f"generation_config.{name}", f"expected a number {wanted}, got {value}")
    stop = tuple(filter(None, config.stop_sequences or ()))
    check_stop(stop, "generation_config.stop_sequences")
    return Sampling(
        config.max_output_tokens,
        config.temperature,
        config.top_p,
        config.top_k or None,
        stop,
        config.seed,
        config.presence_penalty or None,
        config.frequency_penalty or None,
    )


def _referred(request: GenerateBody) -> Iterator[Demand]:
    """What references stand for, spelled as the service does."""
    for demand in referred(request.unread, API):
        yield evolve(demand, members={camel_case(name): member for name, member in demand.members.items()})


def _demands(config: GenerationConfig) -> Iterator[Demand]:
    """What only the service itself can answer."""
    for name, why in _DEMANDED.items():
        value = getattr(config, name)
        if value is not None and (name not in _TRIVIAL or value):
            yield _demand({name: value}, unsupported(f"generation_config.{name}", why))
    yield from _demanded_forms(config)
    given = config.response_modalities or ()
    if wanted := {word.upper() for word in given} - {"TEXT", "MODALITY_UNSPECIFIED"}:
        message = f"only TEXT can be answered, not {min(wanted)[:60]}"
        refusal = unsupported("generation_config.response_modalities", message)
        yield _demand({"response_modalities": [*given]}, refusal)
    if (kind := (config.response_mime_type or _TEXT).lower()) not in (_TEXT, _JSON):
        message = f"expected {_TEXT} or {_JSON}, got {kind[:60]!r}"
        names = ("response_mime_type", "response_schema", "response_json_schema")
        members = {name: getattr(config, name) for name in names}
        yield _demand(members, unsupported("generation_config.response_mime_type", message))


def _demanded_forms(config: GenerationConfig) -> Iterator[Demand]:
    """Audio, images and videos, which only the service itself can answer."""
    given = config.response_format
    for each in objects_of(given if isinstance(given, list) else [given]):
        if other := next((name for name in each if name != "text"), ""):
            message = f"only text can be answered, not {other[:60]}"
            yield _demand({"response_format": given}, unsupported("generation_config.response_format", message))
            return


def _demand(members: Mapping[str, Any], refusal: RequestError) -> Demand:
    spelled = {camel_case(name): value for name, value in members.items() if value is not None}
    return Demand(API, {"generationConfig": spelled}, refusal)


def _format_of_text(config: GenerationConfig) -> Mapping[str, Any]:
    """The form of the answer's text in ``responseFormat``, the newer way to say so; empty where there is none."""
    given = config.response_format
    forms = (object_of(each.get("text")) for each in objects_of(given if isinstance(given, list) else [given]))
    return next(filter(None, forms), {})


def _schema(config: GenerationConfig) -> Mapping[str, Any] | None:
    """The schema of the answer; an empty one for any JSON object."""
    text = _format_of_text(config)
    if "JSON" in (text_of(text, "mimeType") or text_of(text, "mime_type")).upper():
        declared: Mapping[str, Any] = _json_schema(object_of(text.get("schema")))
        return declared
    kind = (config.response_mime_type or _TEXT).lower()
    given = config.response_schema if config.response_json_schema is None else config.response_json_schema
    if kind == _JSON or (given is not None and config.response_mime_type is None):
        schema: Mapping[str, Any] = _json_schema(given or {})
        return schema
    return None
