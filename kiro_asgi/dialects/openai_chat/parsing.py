"""From the body of a Chat Completions request to a `ParsedRequest`.

A field is honoured, mapped, ignored, demanded or refused.  Where ignoring it would give an answer other than the one
asked for, it is demanded of services of the API and refused for others (log probabilities); several choices and audio,
which no answer of the gateway has room for, are always refused.

One official field and the extensions in use ask for thinking.  Tools, and demands about them, have a present and a
deprecated form.

Sources: https://platform.openai.com/docs/api-reference/chat/create (also ``reasoning_effort``),
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking (``thinking``),
https://openrouter.ai/docs/use-cases/reasoning-tokens (``reasoning``),
https://qwen.readthedocs.io/ (``enable_thinking``, also inside ``chat_template_kwargs``).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.dialects.base import ParsedRequest, ResponseMeta
from kiro_asgi.dialects.errors import NO_MODEL, invalid, missing, unsupported
from kiro_asgi.dialects.known import ArrayDecoder, Read, Recalled, read_tools, read_turn, recalling
from kiro_asgi.dialects.openai_chat.blocks import SHAPES, stops_beside, texts_beside
from kiro_asgi.dialects.openai_chat.content import MessageReader, Taken
from kiro_asgi.dialects.openai_chat.items import as_messages, is_of_responses
from kiro_asgi.dialects.openai_chat.shapes import (
    API,
    BESIDE,
    CHOICES,
    CONVERTER,
    ChatCustomTool,
    ChatFunction,
    ChatFunctionTool,
    ChatJsonObjectFormat,
    ChatJsonSchemaFormat,
    ChatRequestBody,
    ChatSearchTool,
    CustomTool,
    ToolBody,
)
from kiro_asgi.dialects.openai_common import LONGEST, UNKNOWN_EFFORT, handling_of, read_sampling, read_verbosity
from kiro_asgi.dialects.references import refuse_references
from kiro_asgi.dialects.structure import Raw, read_json, structure_value
from kiro_asgi.dialects.tools import SEARCH_TOOL, hosted_tool, name_of_kind, text_tool
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import (
    Demand,
    Opaque,
    Prompt,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    system_of,
)
from kiro_asgi.wire.json import count, object_of, objects_of, text_of

# Tools.


_MODES: Final = MappingProxyType(
    {"none": ToolChoiceMode.NONE, "auto": ToolChoiceMode.AUTO, "required": ToolChoiceMode.REQUIRED}
)


def _choose(body: ChatRequestBody, listed: Sequence[Tool], notes: Notes) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, of those *listed* as ``tools``, and whether one must be.

    Raises:
        RequestError: A function that we cannot offer, or a choice that names none of the tools.
    """
    if body.functions and not listed:
        return _functions(body, body.functions)
    tools = (*listed, *_search(body))
    parallel = body.parallel_tool_calls is not False
    match body.tool_choice:
        case None:
            return tools, ToolChoice(parallel=parallel)
        case str(word):
            return tools, ToolChoice(_mode(word, tools, "tool_choice"), parallel=parallel, raw=word)
        case choice:
            return _object_choice(choice, tools, parallel, notes)


_TYPES_OF_CHOICE: Final = MappingProxyType(
    {"none": ToolChoiceMode.NONE, "auto": ToolChoiceMode.AUTO, "any": ToolChoiceMode.REQUIRED}
)
"""Types of a choice in the Messages API that names no tool."""


def _object_choice(
    choice: Mapping[str, Any], tools: tuple[Tool, ...], parallel: bool, notes: Notes
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """One tool by name, or some of the tools."""
    kind = choice.get("type")
    parallel = parallel and choice.get("disable_parallel_tool_use") is not True
    if isinstance(kind, str) and kind in _TYPES_OF_CHOICE:
        if kind == "any" and not tools:
            raise invalid("tool_choice", _NO_TOOLS)
        return tools, ToolChoice(_TYPES_OF_CHOICE[kind], parallel=parallel, raw=choice)
    if kind == "allowed_tools":
        mode, allowed = _allowed(choice, tools)
        names = frozenset(tool.name for tool in allowed)
        for tool in tools:
            if tool.name not in names:
                notes.applies("tools.left_out", tool.place.removesuffix(".function"))
        return allowed, ToolChoice(mode, parallel=parallel, raw=choice, allowed=names)
    name = _known(_named(choice, tools), tools, "tool_choice")
    return tools, ToolChoice(ToolChoiceMode.NAMED, name, parallel, choice)


def _tool(tool: ToolBody, place: str) -> Tool:
    match tool:
        case ChatFunctionTool(function=ChatFunction() as function):
            return evolve(_function(function, f"{place}.function"), unread=BESIDE(tool))
        case ChatFunctionTool(name=str(name)):
            own = ChatFunction(
                name, tool.description, tool.parameters, tool.input_schema, tool.strict, unread=tool.unread
            )
            return _function(own, place)
        case ChatCustomTool(name=str(name), input_schema=dict(schema)):
            return _function(ChatFunction(name, tool.description, schema, strict=tool.strict), place)
        case ChatFunctionTool():
            raise missing(f"{place}.function", "required field missing")
        case ChatSearchTool():
            return _hosted_search(tool, place)
        case ChatCustomTool(custom=CustomTool() as custom):
            form = object_of(custom.format)
            grammar = form.get("grammar") if isinstance(form.get("grammar"), Mapping) else form
            return text_tool(custom.name, custom.description or "", grammar, place, None)
        case ChatCustomTool(name=str(name)):
            return text_tool(name, tool.description or "", tool.format, place, None)
        case ChatCustomTool():
            raise missing(f"{place}.custom", "required field missing")
        case Raw():
            hosted = hosted_tool(kind := str(tool.value.get("type")), place)
            return hosted if kind in _OF_RESPONSES else evolve(hosted, opaque=Opaque(API, tool.value, place))


_OF_RESPONSES: Final = frozenset(
    {"code_interpreter", "computer", "computer_use_preview", "file_search", "image_generation", "mcp", "tool_search"}
)
"""Kinds of tools of the Responses API, which services of this one do not have either."""


def _search(body: ChatRequestBody) -> tuple[Tool, ...]:
    """The web search, where it is asked for beside the tools."""
    return () if body.web_search_options is None else (_hosted_search(ChatSearchTool(), "web_search_options"),)


def _hosted_search(tool: ChatSearchTool, place: str) -> Tool:
    domains = tool.filters and tool.filters.allowed_domains
    return evolve(SEARCH_TOOL, options={"allowed_domains": domains} if domains else {}, place=place)


def _function(function: ChatFunction, place: str) -> Tool:
    if not function.name:
        raise invalid(f"{place}.name", "is empty")
    schema = function.parameters or function.input_schema or {}
    unread, strict = BESIDE(function=function.unread or None), function.strict is True
    return Tool(function.name, function.description or "", schema, strict=strict, place=place, unread=unread)


def _functions(body: ChatRequestBody, functions: Sequence[ChatFunction]) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The deprecated form; its answer has room for one call."""
    listed = (_function(function, f"functions[{index}]") for index, function in enumerate(functions))
    tools = (*listed, *_search(body))
    match body.function_call:
        case None:
            return tools, ToolChoice(parallel=False)
        case str(word):
            return tools, ToolChoice(_mode(word, tools, "function_call"), parallel=False, raw=word)
        case raw:
            name = _known(raw.get("name"), tools, "function_call")
            return tools, ToolChoice(ToolChoiceMode.NAMED, name, False, raw)


_NO_TOOLS: Final = "a call is required, but there are no tools"


def _mode(word: Any, tools: Sequence[Tool], place: str) -> ToolChoiceMode:
    mode = _MODES.get(word) if isinstance(word, str) else None
    if mode is None:
        raise invalid(place, f"expected one of {', '.join(_MODES)}, got {str(word)[:60]!r}")
    if mode is ToolChoiceMode.REQUIRED and not tools:
        raise invalid(place, _NO_TOOLS)
    return mode


def _named(choice: Mapping[str, Any], tools: Sequence[Tool]) -> Any:
    """The name in ``{"type": "function", "function": {"name": …}}``, or flat; a hosted tool's by its type."""
    if hosted := name_of_kind(choice.get("type"), tools):
        return hosted
    function = choice.get("function", choice.get("custom", choice))
    return function.get("name") if isinstance(function, Mapping) else None


def _known(name: Any, tools: Sequence[Tool], place: str) -> str:
    if not isinstance(name, str):
        raise invalid(place, "expected the name of a function")
    if all(tool.name != name for tool in tools):
        raise invalid(place, f"no tool is named {name[:60]!r}")
    return name


def _allowed(choice: Mapping[str, Any], tools: Sequence[Tool]) -> tuple[ToolChoiceMode, tuple[Tool, ...]]:
    """Only some of the tools; members nested under ``allowed_tools``, or flat."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise invalid("tool_choice", "expected a list of allowed tools")
    names = {_known(_named(entry, tools), tools, "tool_choice") for entry in listed}
    allowed = tuple(tool for tool in tools if tool.name in names)
    return _mode(inner.get("mode", "auto"), allowed, "tool_choice"), allowed


# The request.


@frozen
class ChatOptions:
    """The part of a request that only this dialect understands."""

    include_usage: bool = False
    """Whether the stream ends with a usage chunk (``stream_options.include_usage``)."""

    legacy_functions: bool = False
    """Whether the request used ``functions``, so that a call is answered as ``function_call``."""

    text_tools: Mapping[str, str] = field(default=MappingProxyType({}))
    """Names of tools that take a text to where their calls have it: ``custom``, or ``function`` for a client that knows
    no other calls.  Cursor declares such tools flat, and takes the arguments of the function for the text."""


def options_of(meta: ResponseMeta) -> ChatOptions:
    """The options that travel with *meta*, or the defaults where there are none."""
    return meta.options if isinstance(meta.options, ChatOptions) else ChatOptions()


_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_KNOWN_EFFORTS: Final = ("none", *_EFFORTS)
"""Words of ``reasoning_effort``, and of OpenRouter's ``reasoning.effort``."""

_TYPES: Final = MappingProxyType(
    {
        "enabled": ThinkingMode.ENABLED,
        "adaptive": ThinkingMode.ADAPTIVE,
        "auto": ThinkingMode.ADAPTIVE,
        "disabled": ThinkingMode.DISABLED,
    }
)

_SILENT: Final = Thinking()


def _read_thinking(body: ChatRequestBody) -> Thinking:
    """The first of the fields that is set decides; one that makes no sense is ignored."""
    template = object_of(body.chat_template_kwargs)
    found = {
        "": _effort(body.reasoning_effort),
        "thinking": _anthropic(object_of(body.thinking)),
        "reasoning": _openrouter(object_of(body.reasoning)),
        "enable_thinking": _switch(body.enable_thinking, body.thinking_budget),
        "chat_template_kwargs": _switch(
            template.get("enable_thinking", template.get("thinking")), body.thinking_budget
        ),
    }
    return next((evolve(it, said=name) for name, it in found.items() if it is not _SILENT), _SILENT)


def _effort(word: str | None) -> Thinking:
    if word == "none":
        return Thinking(ThinkingMode.DISABLED)
    if word is None:
        return _SILENT
    return Thinking(ThinkingMode.ENABLED, effort=word) if word in _EFFORTS else UNKNOWN_EFFORT


def _anthropic(value: Mapping[str, Any]) -> Thinking:
    word = value.get("type")
    mode = _TYPES.get(word) if isinstance(word, str) else None
    return (
        _SILENT
        if mode is None
        else Thinking(mode, _count(value.get("budget_tokens")), omitted=value.get("display") == "omitted")
    )


def _openrouter(value: Mapping[str, Any]) -> Thinking:
    effort, budget, omitted = value.get("effort"), _count(value.get("max_tokens")), value.get("exclude") is True
    if value.get("enabled") is False or effort == "none":
        return Thinking(ThinkingMode.DISABLED)
    if effort in _EFFORTS:
        return Thinking(ThinkingMode.ENABLED, budget, effort, omitted)
    if isinstance(effort, str) and effort:
        return evolve(UNKNOWN_EFFORT, budget_tokens=budget, omitted=omitted)
    if budget is not None or value.get("enabled") is True:
        return Thinking(ThinkingMode.ENABLED, budget, omitted=omitted)
    return _SILENT


def _switch(value: Any, budget: Any) -> Thinking:
    if value is True:
        return Thinking(ThinkingMode.ENABLED, _count(budget))
    return Thinking(ThinkingMode.DISABLED) if value is False else _SILENT


def _count(value: Any) -> int | None:
    return count(value) or None


def parse(body: bytes, notes: Notes = UNHEARD) -> ParsedRequest:
    """Read a request body.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    return _read(body, notes=notes)[0]


_ARRAYS: Final = ("tools", "messages")


def parse_recalled(body: bytes, recalled: Recalled) -> ParsedRequest:
    """The same, where earlier requests are known.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    decoder = ArrayDecoder(_ARRAYS, recalled)
    return recalling(decoder, partial(_read, body, decoder)) or parse(body)


@frozen
class _Before:
    """What was read of earlier requests, and begins this one, too."""

    messages: Sequence[Taken] = ()
    tools: Sequence[Tool] = ()


def _read(
    body: bytes, decoder: ArrayDecoder | None = None, notes: Notes = UNHEARD
) -> tuple[ParsedRequest, Mapping[str, Iterable[Read]]]:
    """The request, and what was read of those elements of its arrays that are not known."""
    value = read_json(body, decoder=decoder)
    foreign = is_of_responses(value) or b'"input_image"' in body
    if is_of_responses(value):
        value = as_messages(value)
        notes.applies(SHAPES, "input")
    refuse_references(value)
    request = structure_value(value, ChatRequestBody, converter=CONVERTER)
    BESIDE.note(notes, request, value)
    before = _Before() if decoder is None else _Before(*(decoder.known(name) for name in reversed(_ARRAYS)))
    _refuse(request, before)
    conversation = MessageReader(notes)
    if texts := [Text(text) for text in texts_beside(request.system, notes)]:
        conversation.system, conversation.system_place = texts, "system"
    foreign = _note_forms(request, notes) or foreign or bool(texts or (request.stop_sequences and not request.stop))
    conversation.read(request.messages or (), before.messages)
    listed = enumerate(request.tools or (), len(before.tools))
    new = tuple(_tool(tool, f"tools[{index}]") for index, tool in listed)
    tools, tool_choice = _choose(request, (*before.tools, *new), notes)
    system, unread_system = system_of(conversation.system)
    handling = handling_of(request, BESIDE, notes)
    prompt = Prompt(
        model=request.model,
        turns=tuple(conversation.turns),
        system=system,
        system_unread=unread_system,
        system_place=conversation.system_place,
        tools=tools,
        tool_choice=tool_choice,
        thinking=_read_thinking(request),
        sampling=_sampling(request, notes),
        metadata=_metadata(request),
        handling=handling,
        cache=LONGEST if handling.retention else "",
        session=_session(request),
        verbosity=read_verbosity(request.verbosity, "verbosity"),
        schema=_schema(request),
        demands=tuple(_demands(request)),
        unread=BESIDE(request, **_in_part(request, notes)),
    )
    require_depths(prompt, (*(taken.turn for taken in before.messages), *before.tools))
    stream_options = request.stream_options
    options = ChatOptions(
        include_usage=stream_options is not None and stream_options.include_usage is True,
        legacy_functions=bool(request.functions) and not (before.tools or new),
        text_tools=_text_tools(value.get("tools"), (*before.tools, *new)),
    )
    checked = set(map(id, tools))
    lasting = takewhile(lambda tool: id(tool) in checked, new)  # up to the first that a choice leaves out
    taken = _lasting(conversation.taken[len(before.messages) :])
    new_tools = (read_tools(tool, (tool,)) for tool in lasting)
    foreign = foreign or any(each.foreign for each in conversation.taken)
    return ParsedRequest(prompt, request.stream is True, options, foreign=foreign), {
        "tools": new_tools,
        "messages": taken,
    }


def _text_tools(declared: Any, tools: Iterable[Tool]) -> Mapping[str, str]:
    """Names of those of *tools* that take a text, as they are *declared*."""
    names = [tool.name for tool in tools if tool.text_form is not None]
    nested = {text_of(object_of(tool.get("custom")), "name") for tool in objects_of(declared)} if names else ()
    return {name: "custom" if name in nested else "function" for name in names}


def _lasting(messages: Iterable[Taken]) -> Iterator[Read]:
    """What *messages* added, up to the first that may not be in several prompts."""
    for taken in messages:
        read = read_turn(taken, taken.turn)
        if read is None:
            return
        yield read


_SUPERSEDED: Final = (("max_completion_tokens", "max_tokens"), ("tools", "functions"), ("tools", "function_call"))
"""A field, and the older one that does not count beside it."""


def _note_forms(request: ChatRequestBody, notes: Notes) -> bool:
    """Note tools in the form of the Messages API, and older fields beside newer ones; whether there are any of the
    former."""
    found = False
    for index, tool in enumerate(request.tools or ()):
        inner = getattr(tool, "function", None)
        found = found or (isinstance(tool, ChatCustomTool) and tool.custom is None)
        for each, place in ((tool, f"tools[{index}]"), (inner, f"tools[{index}].function")):
            if getattr(each, "input_schema", None) is not None:
                found = notes.applies(SHAPES, place)
    if object_of(request.tool_choice).get("type") in CHOICES:
        found = notes.applies(SHAPES, "tool_choice")
    for name, older in _SUPERSEDED:
        if getattr(request, older) and getattr(request, name):
            notes.applies("fields.ignored", older)
    return found


def _sampling(request: ChatRequestBody, notes: Notes) -> Sampling:
    if request.stop_sequences:
        stops = stops_beside(request.stop_sequences)
        notes.applies(SHAPES if stops and not request.stop else "fields.ignored", "stop_sequences")
        if stops and request.stop is None:
            request = evolve(request, stop=stops)
    limits = {"max_completion_tokens": request.max_completion_tokens, "max_tokens": request.max_tokens}
    return read_sampling(request, limits, notes)


_AS_SENT: Final = ("metadata", "user", "safety_identifier", "prompt_cache_key")
"""Fields that have a meaning here, and that services of the API are sent as they are."""

_READ: Final = MappingProxyType(
    {
        "thinking": frozenset({"type", "budget_tokens", "display"}),
        "reasoning": frozenset({"effort", "max_tokens", "exclude", "enabled"}),
        "chat_template_kwargs": frozenset({"enable_thinking", "thinking"}),
    }
)
"""Objects to those of their members that `_read_thinking` reads."""


def _in_part(request: ChatRequestBody, notes: Notes) -> Mapping[str, Any]:
    """Members that were read in part, or mean something else here, as a service of the API needs them."""
    effort = object_of(request.reasoning).get("effort")
    BESIDE.note_word(notes, request.reasoning_effort, _KNOWN_EFFORTS, "reasoning_effort")
    BESIDE.note_word(notes, effort, _KNOWN_EFFORTS, "reasoning.effort")
    BESIDE.note_others(notes, request.web_search_options, (), "web_search_options")
    more = {name: getattr(request, name) for name in _AS_SENT}
    if isinstance(choice := request.tool_choice, Mapping) and choice.get("type") == "function":
        more["tool_choice"] = _rest(choice, ("type", "function", "name"))
        if function := _rest(object_of(choice.get("function")), ("name",)):
            more["tool_choice"] = {**(more["tool_choice"] or {}), "function": function}
    for name, read in _READ.items():
        more[name] = _rest(object_of(getattr(request, name)), read)
        BESIDE.note_others(notes, getattr(request, name), read, name)
    if request.reasoning_effort not in _KNOWN_EFFORTS:
        more["reasoning_effort"] = request.reasoning_effort
    if effort is not None and effort not in _KNOWN_EFFORTS:
        more["reasoning"] = {**(more["reasoning"] or {}), "effort": effort}
    return more


def _rest(value: Mapping[str, Any], read: Container[str]) -> dict[str, Any] | None:
    """The members of an object that are not *read*; ``None`` for none."""
    return {name: it for name, it in value.items() if name not in read} or None


def _refuse(request: ChatRequestBody, before: _Before) -> None:
    """Stop at what cannot be honoured."""
    if not request.model:
        raise missing("model", NO_MODEL)
    if not (before.messages or request.messages):
        raise _no_messages(request)
    if request.n is not None and request.n != 1:
        raise unsupported("n", "only one choice can be made")
    if any(modality != "text" for modality in request.modalities or ()):
        raise unsupported("modalities", "only text can be answered")
    if request.audio is not None:
        raise unsupported("audio", "audio output is not supported")


def _demands(request: ChatRequestBody) -> Iterator[Demand]:
    """What only services of the API can answer."""
    for name, why in _DEMANDED.items():
        if value := getattr(request, name):
            yield Demand(API, {name: value}, unsupported(name, why))
    if isinstance(given := request.response_format, Raw):
        refusal = invalid("response_format.type", f"unknown format: {str(given.value.get('type'))[:60]}")
        yield Demand(API, {"response_format": given.value}, refusal)


_NO_LOGPROBS: Final = "log probabilities are not available"
_DEMANDED: Final = MappingProxyType({"logprobs": _NO_LOGPROBS, "top_logprobs": _NO_LOGPROBS})
"""Fields that only services of the API can be asked for, each with why others cannot."""


def _no_messages(request: ChatRequestBody) -> Exception:
    return missing("messages", "at least one message is needed")


def _schema(request: ChatRequestBody) -> Mapping[str, Any] | None:
    match request.response_format:
        case ChatJsonObjectFormat():
            return {}
        case ChatJsonSchemaFormat(json_schema):
            return json_schema.schema or {}
        case _:
            return None


def _session(request: ChatRequestBody) -> str:
    """The cache key, which clients keep for a conversation; ``user`` names a person, who may have several."""
    key = request.prompt_cache_key
    return key if isinstance(key, str) else ""


def _metadata(request: ChatRequestBody) -> dict[str, Any]:
    """Metadata for routing and cache affinity: the client's own map, the end user's id, and the cache key."""
    metadata = dict(request.metadata) if isinstance(request.metadata, Mapping) else {}
    user = request.safety_identifier or request.user
    for key, value in (("user_id", user), ("prompt_cache_key", request.prompt_cache_key)):
        if isinstance(value, str) and value:
            metadata[key] = value
    return metadata
