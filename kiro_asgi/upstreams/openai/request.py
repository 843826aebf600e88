"""The request body: messages, tools and which of them must be called, and everything else about the answer: its length,
sampling, its form, how hard to think; and its tokens.

Where neither the server nor the name shows whether a model thinks, a client that asks for thinking is believed.

Sources: https://platform.openai.com/docs/api-reference/chat/create, https://platform.openai.com/docs/guides/reasoning
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sized
from operator import is_
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.model.handling import NO_WORDS, LabelForm, Tier, Words
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt, Sampling, Tool, ToolChoiceMode
from kiro_asgi.model.unread import Unread
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.schemas import is_exact
from kiro_asgi.rendering.tools import distinct, require_choice, unknown_choice
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.openai.adapting import CALL_IDS, DEMANDED, DETAILED, REPLAYED, SHORTER
from kiro_asgi.upstreams.openai.content import AS_SENT, MessageWriter, attachments
from kiro_asgi.upstreams.openai.models import longest_answer, refuses_sampling
from kiro_asgi.upstreams.openai.thinking import AS_SAID, EFFORT, thinking_fields
from kiro_asgi.wire.json import object_of

API: Final = "openai_chat"
"""Name of the client API that the service speaks."""

WORDS: Final = Words(
    tier=("service_tier",),
    tiers=MappingProxyType(
        {
            Tier.AUTO: "auto",
            Tier.STANDARD: "default",
            Tier.FLEX: "flex",
            Tier.PRIORITY: "priority",
            Tier.SCALE: "scale",
        }
    ),
    labels=LabelForm("metadata"),
    user=("safety_identifier",),
    retention=("prompt_cache_retention",),
    retentions=MappingProxyType({"1h": "24h", "24h": "24h"}),  # the other, in_memory, lasts an hour at most
)
"""Of OpenAI's own service, in either of its APIs.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

SERVED: Final[Mapping[str, Tier]] = MappingProxyType({word: tier for tier, word in WORDS.tiers.items()})
"""``service_tier`` of an answer to its meaning."""

MAX_STOPS: Final = 4
"""Stop sequences that OpenAI takes."""

_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def _written_options(prompt: Prompt, model: ModelCard, notes: Notes, options: ChatRenderOptions) -> dict[str, Any]:
    """Length, sampling, thinking and form of the answer."""
    sampling, custom = prompt.sampling, options.custom
    fields: dict[str, Any] = {options.max_tokens_field: max_tokens(sampling, model, notes), "seed": sampling.seed}
    fields["stop"] = _stop(sampling, model, notes, custom=custom)
    control = options.thinking_control if custom else EFFORT
    fields |= thinking_fields(prompt, model, notes, control, options.efforts)
    fields |= sampling_options(sampling, model, notes, thinks=fields.get(EFFORT) != "none")
    if sampling.top_k is not None:
        if custom:
            fields["top_k"] = sampling.top_k
        else:
            notes.applies("sampling.top_k", "top_k")
    fields["verbosity"] = prompt.verbosity or None
    if prompt.schema is not None:
        fields["response_format"] = form_of(prompt.schema)
    return {name: value for name, value in fields.items() if value is not None}


def is_guaranteed(form: Mapping[str, Any]) -> bool:
    """Whether OpenAI's own service, asked for this *form* in either of its APIs, holds the model to it."""
    return form.get("type") == "json_object" or form.get("json_schema", form).get("strict") is True


def max_tokens(sampling: Sampling, model: ModelCard, notes: Notes) -> int | None:
    """The greatest length of the answer: clients of other services ask for more than a model of this one writes."""
    wanted, most = sampling.max_tokens, longest_answer(model)
    if wanted is None or most is None or wanted <= most:
        return wanted
    notes.applies("sampling.max_tokens", "max_tokens")
    return most


def _stop(sampling: Sampling, model: ModelCard, notes: Notes, *, custom: bool) -> list[str] | None:
    """The first of them, as many as the service takes; the gateway ends answers at the others."""
    if sampling.stop and refuses_sampling(model.id):
        notes.applies("stop.unavailable", "stop")
        return None
    if len(sampling.stop) > MAX_STOPS and not custom:
        notes.applies("stop.limit", "stop")
        return [*sampling.stop[:MAX_STOPS]]
    return [*sampling.stop] or None


def sampling_options(sampling: Sampling, model: ModelCard, notes: Notes, *, thinks: bool) -> dict[str, float]:
    """Temperature and its kin, where the model takes them; *thinks*: whether it is going to think."""
    given = {name: getattr(sampling, name) for name in sampling.given(_SAMPLING)}
    if not given or not thinks or not refuses_sampling(model.id):
        return given
    for name in given:
        notes.applies("sampling.fixed", name)
    return {}


def form_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The form of an answer that obeys *schema*, as Chat Completions writes it."""
    if not schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": is_exact(schema)}}


def as_named(form: dict[str, Any], unread: Unread | None, *path: str) -> dict[str, Any]:
    """*form* without the name and the strictness that it was given here, where the client's own stand at *path*."""
    given: Any = unread.members if unread is not None else {}
    for name in path:
        given = object_of(given.get(name))
    inner = {name: value for name, value in form.get("json_schema", form).items() if given.get(name) is None}
    return {**form, "json_schema": inner} if "json_schema" in form else inner


MAX_NAME: Final = 64

_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")

_MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {ToolChoiceMode.REQUIRED: "required", ToolChoiceMode.NONE: "none"}
)

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords with schemas by name."""

_SCHEMAS: Final = frozenset({"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not"})
"""Keywords with schemas."""


AS_FUNCTIONS: Final = frozenset({"apply_patch", "local_shell", "shell"})
"""Types of tools of the Responses API that the client runs: their calls and results are those of functions here."""


def tool_names(notes: Notes) -> WireNames:
    """Names of tools, for one request."""
    return WireNames(_NAME, MAX_NAME, "tools.renamed", notes)


def written_tools(prompt: Prompt, names: WireNames, write: WriteBack) -> dict[str, Any]:
    """The fields about tools, each a function or an entry as its API has it; none where no tool is offered.

    Raises:
        RequestError: The choice demands a tool that is not offered.
    """
    tools = distinct(prompt.tools, write.notes)  # hosted ones like all others: the service runs none of them here
    require_choice(prompt.tool_choice, tools)
    if prompt.tool_choice.mode is ToolChoiceMode.REQUIRED and not tools:
        raise unknown_choice("no tool is offered")
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": [_tool(tool, names, write) for tool in tools]}
    choice = prompt.tool_choice
    if choice.mode is ToolChoiceMode.NAMED:
        fields["tool_choice"] = {"type": "function", "function": {"name": names.wire(choice.name)}}
    elif choice.mode in _MODES:
        fields["tool_choice"] = _MODES[choice.mode]
    if not choice.parallel:
        fields["parallel_tool_calls"] = False
    return fields


def _tool(tool: Tool, names: WireNames, write: WriteBack) -> dict[str, Any]:
    opaque = tool.opaque
    if opaque is not None and opaque.api == write.api:
        if opaque.value.get("type") in AS_FUNCTIONS:
            write.notes.applies("tools.as_function", tool.place)
        elif (entry := write.opaque(opaque)) is not None:
            return entry
    function: dict[str, Any] = {"name": names.wire(tool.name, tool.place)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = _parameters(tool, write.notes)
    if tool.strict and (is_exact(function["parameters"]) or not write.notes.applies("tools.strict", tool.place)):
        function["strict"] = True
    entry = {"type": "function", "function": function}
    write.into(entry, tool.unread, place=tool.place)
    return entry


def _parameters(tool: Tool, notes: Notes) -> Mapping[str, Any]:
    """The schema; OpenAI insists on an object with properties as its root, and on items in every array."""
    schema: Mapping[str, Any] = _with_items(tool.schema)
    if schema is not tool.schema:
        notes.applies("schema.items", tool.place)
    properties = schema.get("properties")
    if schema.get("type") == "object" and type(properties) is dict:
        return schema
    if schema:
        notes.applies("schema.root", tool.place)
    return {**schema, "type": "object", "properties": properties if type(properties) is dict else {}}


def _with_items(schema: Any) -> Any:
    """*schema* with items in every array that has none; the very same where there is no such array."""
    if type(schema) is list:
        members = [_with_items(member) for member in schema]
        return schema if all(map(is_, members, schema)) else members
    if not isinstance(schema, Mapping):
        return schema
    changed = {key: new for key, value in schema.items() if (new := _inner(key, value)) is not value}
    kind = schema.get("type")
    is_array = kind == "array" or (type(kind) is list and "array" in kind)
    if is_array and "items" not in schema and "prefixItems" not in schema:
        changed["items"] = {}
    return {**schema, **changed} if changed else schema


def _inner(key: str, value: Any) -> Any:
    """The value of a keyword: schemas by name, schemas, or plain values."""
    if key in _NAMED and isinstance(value, Mapping):
        members = {name: _with_items(member) for name, member in value.items()}
        return members if any(members[name] is not value[name] for name in members) else value
    return _with_items(value) if key in _SCHEMAS else value


_ADAPTED: Final[Mapping[str, str]] = MappingProxyType(
    {**dict.fromkeys((REPLAYED, DEMANDED, DETAILED), "adapted.reasoning"), CALL_IDS: "adapted.call_ids"}
)
"""Refused values that are not fields of the request, to the rule that adapts them."""


@frozen(kw_only=True)
class ChatRenderOptions:
    """Options of rendering, the same for all prompts."""

    service: str = ""
    """Name of the upstream, to which its own reasoning is handed back; empty where it is not to be."""

    custom: bool = False
    """Whether the server is another than OpenAI's."""

    max_tokens_field: str = "max_completion_tokens"
    include_usage: bool = True
    replay_thinking: bool = False
    thinking_field: str = AS_SENT
    """Member of earlier answers that holds their thinking; `AS_SENT` for the one in which the client sent it."""

    demands_thinking: bool = False
    """Whether the server wants some in each of them."""

    thinking_control: str = AS_SAID
    """One of `kiro_asgi.upstreams.openai.thinking.CONTROLS`."""

    efforts: tuple[str, ...] = ()
    """Efforts that the server knows for all of its models; empty where that is not known."""

    max_tools: int = 0
    """The most tools that the server takes; 0 where that is not known."""

    short_ids: bool = False
    """Whether ids of calls are nine letters and digits."""

    cache_key: str = ""
    """The same for all requests of a conversation; empty for none."""

    without: tuple[str, ...] = ()
    """Fields that the service refused, see `kiro_asgi.upstreams.openai.adapting`."""

    words: Words = NO_WORDS
    """The server's, of how requests are handled."""

    unsent: Mapping[str, str] = MappingProxyType({})
    """As `kiro_asgi.rendering.unread.WriteBack.without`."""


@frozen
class ChatBody:
    """A request body, and facts about it."""

    body: dict[str, Any]
    tool_names: Mapping[str, str]
    notes: tuple[Note, ...]
    unread: frozenset[str] = frozenset()
    """As of `kiro_asgi.upstreams.base.Rendered`."""

    crossed: frozenset[str] = frozenset()
    """As of the same."""


def document(prompt: Prompt, model: ModelCard, options: ChatRenderOptions) -> ChatBody:
    """The request body for *prompt*.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes()
    for name in options.without:
        notes.applies(_ADAPTED[name])
    names = tool_names(notes)
    write = WriteBack(API, notes, options.unsent)
    tools = written_tools(prompt, names, write)
    _require_few(tools.get("tools", ()), options.max_tools)
    messages = MessageWriter(
        notes=notes,
        names=names,
        attachments=attachments(model, notes, custom=options.custom),
        write_back=write,
        service=options.service,
        replay_thinking=options.replay_thinking,
        demands_thinking=options.demands_thinking,
        thinking_field=options.thinking_field,
        sign_calls=options.custom,
        refusals=not options.custom,
        short_ids=options.short_ids or CALL_IDS in options.without,
    )
    body: dict[str, Any] = {"model": model.id, "messages": messages.messages(prompt), "stream": True}
    if options.include_usage:
        body["stream_options"] = {"include_usage": True}
    if options.cache_key:
        body["prompt_cache_key"] = options.cache_key
    body |= _written_options(prompt, model, notes, options)
    body |= tools
    if "response_format" in body:
        body["response_format"] = as_named(body["response_format"], prompt.unread, "response_format", "json_schema")
    said = write.whole(body, prompt, options.words, _BEGUN)
    return ChatBody(body, names.changed(), notes.found(), frozenset(write.written), said)


_BEGUN: Final = frozenset({"response_format", "thinking", "tool_choice"})
"""Members that mean nothing without their type."""


def _require_few(tools: Sized, most: int) -> None:
    """Stop where the server would refuse so many *tools* without naming their number.

    Raises:
        RequestError: There are more than *most*, which is not 0.
    """
    if most and len(tools) > most:
        rule = "tools.limit"
        message = (
            f"tools: the service takes at most {most}, and the request has {len(tools)}: offer fewer (rule {rule})"
        )
        raise RequestError(message, code="too_many_tools", param="tools")


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    found = BodyContent(messages=len(body["messages"]), tools=len(body.get("tools", ())))
    found.values += (tool.get("function", tool) for tool in body.get("tools", ()))
    for message in body["messages"]:
        if message["role"] == "system":
            texts = message["content"]
            found.system += (texts,) if isinstance(texts, str) else (part["text"] for part in texts)
            continue
        found.results += message["role"] == "tool"
        found.texts += (message.get(REPLAYED, ""), message.get(SHORTER, ""))
        for call in message.get("tool_calls", ()):
            found.texts += call["function"].values()
        if isinstance(message["content"], list):
            _collect(message["content"], found)
        else:
            found.texts.append(message["content"] or message.get("refusal", ""))
    return found


def _collect(parts: Iterable[Mapping[str, Any]], found: BodyContent) -> None:
    for part in parts:
        match part["type"]:
            case "text":
                found.texts.append(part["text"])
            case "image_url":
                found.images += 1
            case _:
                found.documents += 1
