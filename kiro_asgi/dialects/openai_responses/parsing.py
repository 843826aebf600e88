"""From the body of a Responses request to a `ParsedRequest`, whose options decide the form of the answer.

Sources: https://platform.openai.com/docs/api-reference/responses/create,
https://platform.openai.com/docs/api-reference/responses/object (the fields that the answer repeats)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.dialects.base import ParsedRequest, ResponseMeta
from kiro_asgi.dialects.errors import NO_MODEL, invalid, missing, unsupported
from kiro_asgi.dialects.known import ArrayDecoder, Read, Recalled, read_tools, read_turn, recalling
from kiro_asgi.dialects.openai_common import LONGEST, UNKNOWN_EFFORT, handling_of, read_verbosity
from kiro_asgi.dialects.openai_responses.compaction import compacting, is_triggered, superseded
from kiro_asgi.dialects.openai_responses.fields import FIELDS, Fate
from kiro_asgi.dialects.openai_responses.items import ItemReader, OpenSummary, OpenThinking, Taken
from kiro_asgi.dialects.openai_responses.shapes import (
    API,
    BESIDE,
    CONVERTER,
    ResponsesBody,
    ResponsesJsonObjectFormat,
    ResponsesJsonSchemaFormat,
    ToolBody,
)
from kiro_asgi.dialects.openai_responses.tools import ToolCollector, read_choice
from kiro_asgi.dialects.references import refuse_references
from kiro_asgi.dialects.structure import Raw, read_json, structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.model.depth import require_depths
from kiro_asgi.model.notes import UNHEARD, Notes
from kiro_asgi.model.prompt import (
    Demand,
    Prompt,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    Tool,
    ToolChoice,
    Turn,
    system_of,
)
from kiro_asgi.wire.json import objects_of, text_of

SEALED: Final = "reasoning.encrypted_content"
"""The one entry of ``include`` that has an effect."""

SUPPLIED: Final = frozenset({"previous_response_id", "conversation"})
"""References to what is stored here, which stands in the input before a request is read."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen
class ResponsesOptions:
    """The part of a request that only this dialect understands.

    Fields that carry the name of a field of the request hold it as the client sent it, or as the API fills it in.
    """

    instructions: Any = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool = True
    text: Mapping[str, Any] = field(default=MappingProxyType({"format": MappingProxyType({"type": "text"})}))
    """``format``, always, and ``verbosity`` where it was sent."""

    reasoning: Mapping[str, Any] = _NOTHING
    """``effort`` and ``summary``, where they were sent."""

    include: tuple[str, ...] = ()
    truncation: str = "disabled"
    metadata: Mapping[str, Any] = _NOTHING
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    store: bool = True
    background: bool = False
    previous_response_id: str | None = None
    conversation: str | None = None
    """Id of the conversation that the answer becomes part of."""

    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    custom_tools: frozenset[str] = frozenset()
    """Names of tools, as the model calls them, whose calls come back as ``custom_tool_call``: the input is the one
    string of the arguments, under `kiro_asgi.model.prompt.TEXT_INPUT`."""

    client_tools: Mapping[str, str] = _NOTHING
    """Names of tools, as the model calls them, whose calls come back as items of a kind of their own, to that kind:
    ``local_shell_call``, ``shell_call``, ``apply_patch_call`` or ``tool_search_call``; see
    `kiro_asgi.dialects.openai_responses.tools.item_fields`."""

    namespaces: Mapping[str, tuple[str, str]] = _NOTHING
    """Names of tools, as the model calls them, that are in a namespace, to that namespace and their name in it."""

    input_items: tuple[Mapping[str, Any], ...] = ()
    """The input as a list of items: a text has become one message of the user's.  Items that were sent without an id
    have none; `kiro_asgi.dialects.openai_responses.kept.identified` gives them one."""

    compaction: Mapping[str, Any] = _NOTHING
    """``encrypted_content`` and ``usage`` of a compaction that was made before the answer; empty where none was."""

    compact_threshold: int | None = None
    """Tokens of input from which on a compaction is wanted before the answer."""

    compacts: bool = False
    """Whether the answer is a compaction of the input."""

    @property
    def seals_reasoning(self) -> bool:
        """Whether reasoning items carry their seals, ``encrypted_content``."""
        return SEALED in self.include

    @property
    def summarises_reasoning(self) -> bool:
        """Whether thinking is shown as a summary, because the client asked for one."""
        return isinstance(self.reasoning.get("summary"), str)


def options_of(meta: ResponseMeta) -> ResponsesOptions:
    """The options that travel with *meta*, or the defaults where there are none."""
    return meta.options if isinstance(meta.options, ResponsesOptions) else ResponsesOptions()


_ECHOED: Final = (
    "background",
    "instructions",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "truncation",
    "metadata",
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "store",
    "previous_response_id",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
"""Fields that the answer repeats as they came."""


def _read_options(request: ResponsesBody, value: Mapping[str, Any], toolbox: ToolCollector) -> ResponsesOptions:
    """The options of a request; *value* is its body as it came, which *request* was read from."""
    echoed = {name: value[name] for name in _ECHOED if value.get(name) is not None}
    text = {name: each for name, each in echoed.pop("text", {}).items() if each is not None}
    if echoed.get("truncation") not in TRUNCATIONS:  # the object has a word of the API's, or none
        echoed.pop("truncation", None)
    text["format"] = _shown_format(text.get("format") or {"type": "text"})
    if isinstance(choice := echoed.get("tool_choice"), Mapping):
        echoed["tool_choice"] = _shown_choice(choice)
    reasoning = {"effort": request.reasoning.effort, "summary": request.reasoning.shown} if request.reasoning else {}
    return ResponsesOptions(
        **echoed,
        text=text,
        reasoning={name: word for name, word in reasoning.items() if word in REASONING[name]},
        tools=tuple(_shown(tool) for tool in value.get("tools") or ()),
        include=request.include or (),
        conversation=conversation_named(value),
        compact_threshold=_compact_threshold(request),
        custom_tools=frozenset(toolbox.custom),
        client_tools=toolbox.items,
        namespaces=toolbox.namespaces,
        input_items=input_items(value["input"]),
    )


def _compact_threshold(request: ResponsesBody) -> int | None:
    for place, entry in enumerate(request.context_management or ()):
        if entry.type == "compaction" and entry.compact_threshold is not None:
            _within(f"context_management[{place}].compact_threshold", entry.compact_threshold, 1, None)
            return entry.compact_threshold
    return None


def _shown(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool as the answer repeats it: a function has every field that the API's schema demands."""
    if (tool.get("type") or "function") != "function":
        return tool
    nested = tool.get("function") or {}
    flat = {name: value for name, value in tool.items() if name != "function"}
    return {"description": None, "parameters": None, "strict": None, **flat, **nested, "type": "function"}


def _shown_choice(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice as the answer repeats it: of a function flat, of several with its mode."""
    if choice.get("type") == "allowed_tools":
        return {"mode": "auto", **choice}
    if choice.get("type") == "function" and isinstance(nested := choice.get("function"), Mapping):
        return {"type": "function", "name": nested["name"]}
    return choice


def _shown_format(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """The form of the text as the answer repeats it; a schema has every field that the API's schema demands."""
    if form.get("type") != "json_schema":
        return form
    return {"name": "response", "description": None, **form, "strict": form.get("strict") is True}


def input_items(value: str | list[Any]) -> tuple[Mapping[str, Any], ...]:
    """The input as items, as they came."""
    if isinstance(value, str):
        return ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]},)
    return tuple(value)


_REFUSED: Final = MappingProxyType(
    {name: handling.note for name, handling in FIELDS.items() if handling.fate is Fate.REFUSED}
)

_RANGES: Final = (
    ("max_output_tokens", 1, None),
    ("max_tool_calls", 1, None),
    ("temperature", 0, 2),
    ("top_p", 0, 1),
    ("presence_penalty", -2, 2),
    ("frequency_penalty", -2, 2),
    ("top_logprobs", 0, 20),
)
"""Field, least and greatest value."""

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

REASONING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"effort": EFFORTS, "summary": ("auto", "concise", "detailed", "none")}
)
"""Members of ``reasoning`` to the words that they have."""

TRUNCATIONS: Final = ("auto", "disabled")

_MOST_METADATA: Final = 16

_LONGEST_KEY: Final = 64

_LONGEST_VALUE: Final = 512


def _nothing_opened(_: str) -> None:
    """Without a key, nothing that is sealed is ours."""


def parse_request(
    body: bytes,
    *,
    open_thinking: OpenThinking = _nothing_opened,
    open_summary: OpenSummary = _nothing_opened,
    notes: Notes = UNHEARD,
) -> ParsedRequest:
    """Read a request body.

    Args:
        body: UTF-8 JSON.
        open_thinking: Opens the ``encrypted_content`` of reasoning items.
        open_summary: Opens that of compactions.
        notes: Takes what no service, or none of another API, is sent.

    Raises:
        RequestError: Not a legal request, or one that we cannot honour; ``param`` names the place.
    """
    return parse_value(read_json(body), open_thinking=open_thinking, open_summary=open_summary, notes=notes)


def parse_value(
    value: Any,
    *,
    open_thinking: OpenThinking = _nothing_opened,
    open_summary: OpenSummary = _nothing_opened,
    decoder: ArrayDecoder | None = None,
    notes: Notes = UNHEARD,
) -> ParsedRequest:
    """Like `parse_request`, of an already decoded body, e.g. one into which stored items were put.

    Args:
        value: The body.
        open_thinking: As of `parse_request`.
        open_summary: As of `parse_request`.
        decoder: The one with which `read_recalled` has read it.
        notes: As of `parse_request`; without a *decoder*.
    """
    if decoder is not None:
        parsed = recalling(decoder, partial(_parsed, value, open_thinking, open_summary, UNHEARD, decoder))
        if parsed is not None:
            return parsed
    return _parsed(value, open_thinking, open_summary, notes)[0]


_ARRAYS: Final = ("tools", "input")


def recalling_decoder(recalled: Recalled) -> ArrayDecoder:
    """A decoder for one request, which is kept for `parse_value`: elements are needed as they came, too."""
    return ArrayDecoder(_ARRAYS, recalled, values=2)


def read_recalled(body: bytes, decoder: ArrayDecoder) -> Any:
    """The value of a request's body, where earlier requests are known.

    Raises:
        RequestError: It is not JSON.
    """
    value = read_json(body, decoder=decoder)
    for name in _ARRAYS:
        if known := decoder.known(name):
            value[name] = [*(each.given for each in known), *value[name]]
    return value


@frozen
class _Known:
    """What is remembered of an element."""

    given: Mapping[str, Any]
    """As it came."""

    read: Any
    """What an item added, or the one tool or namespace that was collected."""


def _parsed(
    value: Any,
    open_thinking: OpenThinking,
    open_summary: OpenSummary,
    notes: Notes,
    decoder: ArrayDecoder | None = None,
) -> tuple[ParsedRequest, Mapping[str, Iterable[Read]]]:
    """The request, and what was read of those elements of its arrays that are not known."""
    refuse_references(value, SUPPLIED)
    request = structure_value(_unknown(value, decoder), ResponsesBody, converter=CONVERTER)
    BESIDE.note(notes, request, value)
    _refuse(request)
    without = superseded(value["input"])
    if decoder is not None and not _stands(decoder.known("input"), without):
        decoder.forget("input")
        request = structure_value(_unknown(value, decoder), ResponsesBody, converter=CONVERTER)
    before = _Before() if decoder is None else _Before(decoder.known("tools"), decoder.known("input"))
    toolbox, new = _collected(request.tools or (), before.tools, notes)
    conversation = ItemReader(toolbox, open_thinking, open_summary, notes)
    conversation.read(request.input or (), without, (each.read for each in before.items))
    compacts = is_triggered(value["input"])
    if not conversation.turns:
        raise _nothing_to_read(value["input"])
    tools, tool_choice = read_choice(request.tool_choice, toolbox.tools, request.parallel_tool_calls is not False)
    _note_left_out(toolbox.tools.values(), tool_choice, notes)
    instructions = (Text(request.instructions),) if request.instructions else ()
    system, unread_system = system_of((*instructions, *conversation.system))
    handling = handling_of(request, BESIDE, notes)
    _note_words(request, notes)
    prompt = Prompt(
        model=request.model,
        turns=tuple(conversation.turns),
        system=system,
        system_unread=unread_system,
        system_place="instructions" if request.instructions else conversation.system_place,
        tools=tools,
        tool_choice=tool_choice,
        thinking=_thinking(request),
        sampling=_sampling(request),
        metadata=_metadata(request),
        handling=handling,
        cache=LONGEST if handling.retention else "",
        session=request.prompt_cache_key or "",
        shortens=request.truncation == "auto",
        verbosity=read_verbosity(request.text.verbosity if request.text else None, "text.verbosity"),
        max_tool_calls=request.max_tool_calls,
        schema=_schema(request),
        demands=tuple(_demands(request)),
        unread=BESIDE(request, **_in_part(request)),
    )
    require_depths(prompt, before.checked())
    options = _read_options(request, value, toolbox)
    if compacts:
        prompt = compacting(prompt, f"input[{len(options.input_items) - 1}]")
        options = evolve(options, compacts=True)
    read = {
        "tools": _lasting_tools(value, before, new, tools),
        "input": _lasting_items(options.input_items, conversation.taken, len(before.items)),
    }
    return ParsedRequest(prompt, request.stream is True, options), read


def _unknown(value: Any, decoder: ArrayDecoder | None) -> Any:
    """The body without what is known."""
    if decoder is None or not decoder.is_recalling:
        return value
    return {**value, **{name: value[name][len(decoder.known(name)) :] for name in decoder.parts}}


def _stands(known: Iterable[_Known], without: Container[int]) -> bool:
    """Whether those of the *known* items were left out that are now, because a compaction stands for them."""
    return all((index in without) is (each.read is None) for index, each in enumerate(known))


@frozen
class _Before:
    """What is known of earlier requests, and begins this one, too."""

    tools: Sequence[_Known] = ()
    items: Sequence[_Known] = ()

    def checked(self) -> Iterator[Turn | Tool]:
        """Turns and tools that may be in the prompt."""
        for tool in self.tools:
            yield from tool.read.tools.values()
        for item in self.items:
            if item.read is not None and item.read.turn is not None:
                yield item.read.turn


def _collected(
    bodies: Iterable[ToolBody], before: Sequence[_Known], notes: Notes
) -> tuple[ToolCollector, list[ToolCollector]]:
    """The tools, those *before* them first, and what each of *bodies* is by itself."""
    new = []
    for index, body in enumerate(bodies, len(before)):
        new.append(ToolCollector())
        new[-1].take(body, f"tools[{index}]")
    toolbox = ToolCollector()
    for each in (*(it.read for it in before), *new):
        toolbox.join(each, notes)
    return toolbox, new


def _note_left_out(tools: Iterable[Tool], choice: ToolChoice, notes: Notes) -> None:
    """Note those of the *tools* that the request lists, and that its *choice* does not allow."""
    if choice.allowed is None:
        return
    for tool in tools:
        if tool.name not in choice.allowed and tool.place.startswith("tools["):
            notes.applies("tools.left_out", tool.place)


def _note_words(request: ResponsesBody, notes: Notes) -> None:
    """Note the words that the API has not."""
    BESIDE.note_word(notes, request.truncation, TRUNCATIONS, "truncation")
    for name, known in REASONING.items():
        BESIDE.note_word(notes, getattr(request.reasoning, name, None), known, f"reasoning.{name}")
    for index, name in enumerate(request.include or ()):
        BESIDE.note_word(notes, name, (SEALED,), f"include[{index}]")
    for index, entry in enumerate(request.context_management or ()):
        if entry.type != "compaction":
            notes.applies("values.unknown", f"context_management[{index}]")


def _lasting_tools(
    value: Mapping[str, Any], before: _Before, new: Iterable[ToolCollector], checked: Iterable[Tool]
) -> Iterator[Read]:
    """What is remembered of *new* tools, up to the first that was not *checked*, as a choice leaves it out."""
    done = frozenset(map(id, checked))
    for given, collected in zip((value.get("tools") or ())[len(before.tools) :], new, strict=True):
        if not done.issuperset(map(id, collected.tools.values())):
            return
        yield read_tools(_Known(given, collected), collected.tools.values())


def _lasting_items(items: Sequence[Mapping[str, Any]], taken: Sequence[Taken | None], start: int) -> Iterator[Read]:
    """What is remembered of those of *items* that are not known, up to the first that may not be in several prompts."""
    for given, added in zip(items[start:], taken[start:], strict=False):
        turn = None if added is None else added.turn
        read = read_turn(_Known(given, added), turn, is_decoded="encrypted_content" in given)
        if read is None:
            return
        yield read


_AS_SENT: Final = (
    "include",
    "max_tool_calls",
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "top_logprobs",
    "truncation",
    "user",
)
"""Fields that have a meaning here, or none, and that services of the API are sent as they are."""


def _in_part(request: ResponsesBody) -> Mapping[str, Any]:
    """Members that were read in part, or mean something else here, as a service of the API needs them."""
    more = {name: getattr(request, name) for name in _AS_SENT}
    choice = request.tool_choice
    if isinstance(choice, Mapping) and choice.get("type") in ("function", "custom"):
        more["tool_choice"] = {name: it for name, it in choice.items() if name not in _CHOICE} or None
    if request.reasoning is not None:
        said = {"effort": request.reasoning.effort, "summary": request.reasoning.summary}
        unknown = {name: word for name, word in said.items() if word and word not in REASONING[name]}
        more["reasoning"] = {**request.reasoning.unread, **unknown} or None
    return more


_CHOICE: Final = frozenset({"type", "name", "function", "namespace"})
"""Members of a choice that are read."""


def _refuse(request: ResponsesBody) -> None:
    """Stop at what cannot be honoured."""
    if not request.model:
        raise missing("model", NO_MODEL)
    if request.input is None:
        for demand in _demands(request):
            raise demand.refusal
        raise _no_input(request)
    for name, least, greatest in _RANGES:
        _within(name, getattr(request, name), least, greatest)
    if request.background and request.store is False:
        raise unsupported("background", "a response that is made in the background has to be stored")


def _demands(request: ResponsesBody) -> Iterator[Demand]:
    """What only services of the API can be asked for."""
    for name, why in _REFUSED.items():
        if (value := getattr(request, name)) not in (None, False):
            yield Demand(API, {name: value}, unsupported(name, why))
    if request.text is not None and isinstance(given := request.text.format, Raw):
        refusal = invalid("text.format.type", f"unknown format: {str(given.value.get('type'))[:60]}")
        yield Demand(API, {"text": {"format": given.value}}, refusal)


def _nothing_to_read(items: Any) -> RequestError:
    """The error for an input of which no turn is left."""
    kinds = [text_of(item, "type") or "message" for item in objects_of(items)]
    if not kinds or kinds[0] == "message":
        return missing("input", "is empty; send at least one message")
    return invalid(
        "input[0]",
        f"nothing in this input can be read here, and this {kinds[0][:60]} is the first of it; "
        "send a message, or what is in it",
    )


def _no_input(request: ResponsesBody) -> RequestError:
    if request.messages is not None:
        return missing("input", "this request has messages, as of Chat Completions: POST it to /v1/chat/completions")
    return missing("input", "required field missing")


def _within(name: str, value: float | None, least: int, greatest: int | None) -> None:
    if value is not None and (value < least or (greatest is not None and value > greatest)):
        wanted = f"at least {least}" if greatest is None else f"between {least} and {greatest}"
        raise invalid(name, f"expected a number {wanted}, got {value}")


def _sampling(request: ResponsesBody) -> Sampling:
    """How to sample; a penalty of 0, which is the API's default, is none."""
    return Sampling(
        request.max_output_tokens,
        request.temperature,
        request.top_p,
        presence_penalty=request.presence_penalty or None,
        frequency_penalty=request.frequency_penalty or None,
    )


def _thinking(request: ResponsesBody) -> Thinking:
    """Effort decides; without it, a summary that is asked for means that there should be something to show."""
    if request.reasoning is None:
        return Thinking()
    effort, summary = request.reasoning.effort, request.reasoning.shown
    if effort == "none":
        return Thinking(ThinkingMode.DISABLED)
    if effort in EFFORTS:
        return Thinking(ThinkingMode.ENABLED, effort=effort)
    if effort:
        return UNKNOWN_EFFORT
    return Thinking(ThinkingMode.ADAPTIVE) if summary else Thinking()


def _schema(request: ResponsesBody) -> Mapping[str, Any] | None:
    match request.text and request.text.format:
        case ResponsesJsonObjectFormat():
            return {}
        case ResponsesJsonSchemaFormat(schema):
            return schema
        case _:
            return None


def conversation_named(value: Mapping[str, Any]) -> str | None:
    """Id of the conversation that a request names, by itself or in an object.

    Raises:
        RequestError: It is neither, or the request goes on with a response at the same time.
    """
    named = value.get("conversation")
    if named is None:
        return None
    known = named.get("id") if isinstance(named, Mapping) else named
    if not isinstance(known, str):
        raise invalid("conversation", "expected the id of a conversation, or an object with one as id")
    if value.get("previous_response_id") is not None:
        raise invalid("conversation", "send either this or previous_response_id, not both")
    return known


def require_metadata(metadata: Mapping[str, str]) -> None:
    """Check the bounds that the API has for a client's own map.

    Raises:
        RequestError: There are too many entries, or they are too long.
    """
    if len(metadata) > _MOST_METADATA:
        raise invalid("metadata", f"at most {_MOST_METADATA} entries, got {len(metadata)}")
    for key, text in metadata.items():
        if len(key) > _LONGEST_KEY or len(text) > _LONGEST_VALUE:
            raise invalid("metadata", f"keys have at most {_LONGEST_KEY} characters, values {_LONGEST_VALUE}")


def _metadata(request: ResponsesBody) -> dict[str, Any]:
    """Metadata for routing and cache affinity: the client's own map, the end user's id, and the cache key."""
    metadata: dict[str, Any] = dict(request.metadata or {})
    require_metadata(metadata)
    user = request.safety_identifier or request.user
    return metadata | {
        key: text for key, text in (("user_id", user), ("prompt_cache_key", request.prompt_cache_key)) if text
    }
