"""Translate a prompt to a request as the contract has it, and that to what the service takes.

The contract knows plain text only.  Earlier tool calls and results become lines of text, which stand in front of the
current text unless they are to stand in their own turns.  Descriptions of tools are short, the whole ones stand in a
manifest, and the client's tool choice is a sentence.  All texts are sanitised; the hash of a description is that of the
text as the client sent it, so where it holds control characters, the text in the manifest has another hash.

The result is an equivalent prompt, rendered by `kiro_asgi.upstreams.kiro.request`: so all that the service insists on,
the order of roles, the alphabet of names, sizes, is handled in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.model.depth import require_depth
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Opaque,
    Part,
    Prompt,
    Role,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
    Turn,
)
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro import request as native
from kiro_asgi.upstreams.kiro.contract import (
    BUDGETS,
    ClaudeToolChoice,
    ContractOptions,
    HistoryMessage,
    ManifestEntry,
    MessageContext,
    Request,
    ToolSpec,
    UserInputMessage,
)
from kiro_asgi.upstreams.kiro.rules.texts import Texts, tool_names
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.wire.json import dumps


def reasoning_effort_from_budget(budget: int | None, low: int = BUDGETS[0], medium: int = BUDGETS[1]) -> str:
    """``low``, ``medium`` or ``high``.

    Args:
        budget: Tokens; ``None``, where none is given, is ``high``.
        low: The largest budget that is ``low``.
        medium: The largest budget that is ``medium``.
    """
    if budget is None or budget > medium:
        return "high"
    return "low" if budget <= low else "medium"


def effort_of(thinking: Thinking, budgets: tuple[int, ...]) -> str:
    """The effort that a client asks for: by name, else by its budget.

    ``none`` where it declined thinking, empty where it asked for nothing.
    """
    if thinking.mode is ThinkingMode.DISABLED:
        return "none"
    return thinking.effort or (
        reasoning_effort_from_budget(thinking.budget_tokens, *budgets) if thinking.wanted else ""
    )


KEPT: Final = frozenset(("type", "description", "properties", "required", "enum", "items"))


def clean_json_schema_properties(schema: Any) -> Any:
    """*schema* with six keywords only, at every level: ``type description properties required enum items``.

    Names of properties are not keywords, and all stay.  Anything but an object is returned as it is; *schema* itself is
    never changed.

    Raises:
        RequestError: It is nested deeper than `kiro_asgi.limits.JSON_DEPTH` levels.
    """
    require_depth(schema, "schema", "schema")
    return _kept_keywords(schema)


def _kept_keywords(schema: Any) -> Any:
    """The same, for a schema whose depth was checked."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: _kept_value(key, value) for key, value in schema.items() if key in KEPT}


def _kept_value(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, Mapping):
        return {name: _kept_keywords(part) for name, part in value.items()}
    return _kept_keywords(value) if key == "items" else value


def _left_out(schema: Any) -> dict[str, int]:
    """Rules that apply where `clean_json_schema_properties` takes keywords out of *schema*, with how often each does:
    for single keywords, and for parts that lose all of theirs."""
    found: dict[str, int] = {}
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if dropped := len(node.keys() - KEPT):
                found["schema.keywords"] = found.get("schema.keywords", 0) + dropped
                if dropped == len(node):
                    found["contract.schema_emptied"] = found.get("contract.schema_emptied", 0) + 1
            properties = node.get("properties")
            pending += properties.values() if isinstance(properties, Mapping) else ()
            pending.append(node.get("items"))
    return found


HEADING: Final = "Tool reference manifest (hash → tool)"

MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {
        ToolChoiceMode.AUTO: "auto",
        ToolChoiceMode.REQUIRED: "any",
        ToolChoiceMode.NAMED: "tool",
        ToolChoiceMode.NONE: "none",
    }
)

DIRECTIVES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {
        ToolChoiceMode.REQUIRED: "Tool directive: you must use at least one of the tools in this answer.",
        ToolChoiceMode.NAMED: "Tool directive: you must use the tool {} in this answer.",
        ToolChoiceMode.NONE: "Tool directive: you must not use any tool in this answer.",
    }
)


def _context(prompt: Prompt, options: ContractOptions, notes: Notes) -> MessageContext:
    """The context of the messages, with the client's own tool names."""
    for tool in prompt.tools:
        for rule, times in _left_out(tool.schema).items():
            notes.applies(rule, tool.place, times)
    return MessageContext(
        tuple(_specification(tool, options.description_limit) for tool in prompt.tools),
        tuple(_entry(tool) for tool in prompt.tools if tool.description.strip()),
        _choice(prompt.tool_choice),
        prompt.metadata.get(options.plan_mode_key) in (True, "true"),
        prompt.metadata,
    )


def _specification(tool: Tool, limit: int) -> ToolSpec:
    return ToolSpec(tool.name, tool.description.strip()[:limit], clean_json_schema_properties(tool.schema))


def _entry(tool: Tool) -> ManifestEntry:
    text = tool.description.strip()
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ManifestEntry(tool.name, digest, len(text), text)


def _choice(choice: ToolChoice) -> ClaudeToolChoice | None:
    if choice.raw is None and choice.mode is ToolChoiceMode.AUTO:
        return None
    name = choice.name if choice.mode is ToolChoiceMode.NAMED else ""
    return ClaudeToolChoice(MODES[choice.mode], name, choice.raw)


def _manifest(entries: Iterable[ManifestEntry], limit: int, names: WireNames) -> str:
    """The heading and a line for every description of more than *limit* characters; empty without any."""
    lines = [
        f"- {names.wire(it.name)} [{it.hash}, {it.length} chars]: {it.description}"
        for it in entries
        if it.length > limit
    ]
    return "\n".join((HEADING, *lines)) if lines else ""


def _directive(choice: ToolChoice, names: WireNames) -> str:
    """The client's tool choice as one sentence; empty where it leaves the choice to the model."""
    return DIRECTIVES.get(choice.mode, "").format(names.wire(choice.name) if choice.name else "")


RESULTS: Final = "Tool result context:"


@frozen
class _PlainTurn:
    """One turn."""

    role: Role
    text: str
    lines: tuple[str, ...] = ()
    """Its tool calls and results as lines of text."""

    parts: tuple[Part, ...] = ()
    place: str = ""


def translate(prompt: Prompt, model_id: str, options: ContractOptions, notes: Notes) -> Request:
    """The request for *prompt*; *model_id* is the service's name of the model; *notes* get the rules that applied."""
    texts = Texts(notes, sanitize=True, reminders=options.strip_system_reminders)
    names = tool_names(Notes())
    for tool in prompt.tools:
        names.wire(tool.name)
    context = _context(prompt, options, notes)
    turns = [_plain_turn(turn, names, texts, options) for turn in prompt.turns]
    if not turns or turns[-1].role is Role.ASSISTANT:
        turns.append(_PlainTurn(Role.USER, options.continue_text if turns else ""))
    *earlier, last = turns
    lines = last.lines if options.inline_tool_context else [line for it in turns for line in it.lines]
    content = _paragraphs(
        texts.stripped(_system(prompt, context, names, options), prompt.system_place),
        "\n".join((RESULTS, *lines)) if lines else "",
        last.text,
    )
    history = tuple(_history(earlier, inline=options.inline_tool_context))
    return Request(UserInputMessage(content, model_id, options.origin, last.parts), context, history)


def _system(prompt: Prompt, context: MessageContext, names: WireNames, options: ContractOptions) -> str:
    base = "\n\n".join(prompt.system)
    listed = _manifest(context.tool_context_manifest, options.description_limit, names)
    demand = _directive(prompt.tool_choice, names)
    return _paragraphs(base, listed, demand).strip() if listed or demand else base


def _history(earlier: Iterable[_PlainTurn], *, inline: bool) -> Iterator[HistoryMessage]:
    """The turns with content."""
    for turn in earlier:
        text = _inline(turn) if inline else turn.text
        if text.strip() or turn.parts:
            yield HistoryMessage(turn.role, text, turn.parts, turn.place)


def _inline(turn: _PlainTurn) -> str:
    """The lines where they belong: calls behind the assistant's text, results in front of the user's."""
    lines = "\n".join(turn.lines)
    return _paragraphs(lines, turn.text) if turn.role is Role.USER else _paragraphs(turn.text, lines)


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _plain_turn(turn: Turn, names: WireNames, texts: Texts, options: ContractOptions) -> _PlainTurn:
    def clean(text: str) -> str:
        return texts.stripped(text, turn.place)

    text = clean("\n".join(part.text for part in turn.parts if isinstance(part, Text) and part.text))
    if not options.drop_tool_events:
        rest = tuple(_cleaned(part, clean) for part in turn.parts if not isinstance(part, Text))
        return _PlainTurn(turn.role, text, (), rest, turn.place)
    lines = tuple(clean(line) for line in _lines(turn.parts, names))
    return _PlainTurn(turn.role, text, lines, tuple(_attachments(turn.parts)), turn.place)


def _cleaned(part: Part, clean: Callable[[str], str]) -> Part:
    """A result with clean texts; anything else as it is."""
    if not isinstance(part, ToolResult):
        return part
    inner = (evolve(it, text=clean(it.text)) if isinstance(it, Text) else it for it in part.parts)
    return evolve(part, parts=tuple(inner))


def _attachments(parts: Iterable[Part]) -> Iterator[Image | Document]:
    """Parts that text cannot hold, inside results too."""
    for part in parts:
        if isinstance(part, Image | Document):
            yield part
        elif isinstance(part, ToolResult):
            yield from _attachments(part.parts)


def _lines(parts: Iterable[Part], names: WireNames) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ToolCallPart):
            yield f"Tool invoked ({part.call_id}): {names.wire(part.name)}"
        elif isinstance(part, ToolResult):
            yield f"Tool result ({part.call_id}): {_value(part)}"


def _value(result: ToolResult) -> str:
    """The text of a result; JSON of its parts, if it has several or other parts, which are sent beside the text."""
    match result.parts:
        case ():
            return ""
        case (Text(text),):
            return text
    return dumps([_block(part) for part in result.parts]).decode()


def _block(part: Text | Image | Document | Opaque) -> dict[str, str]:
    return {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": type(part).__name__.lower()}


ACKNOWLEDGED: Final = "OK."
"""The assistant's message between the user's last one of the history and the current one."""


def contract_document(
    prompt: Prompt,
    model: ModelCard,
    settings: KiroSettings,
    *,
    options: ContractOptions,
    adaptations: Iterable[str] = (),
    conversation_id: str,
    profile_arn: str,
) -> native.RequestBody:
    """The request body for *prompt*, as `kiro_asgi.upstreams.kiro.request.document` writes it.

    Where *settings* and *options* both have an option, *settings* counts.

    Raises:
        RequestError: As for the native writer.
    """
    options = evolve(
        options,
        description_limit=settings.description_limit,
        drop_tool_events=settings.tool_history == "text",
        strip_system_reminders=settings.strip_system_reminders,
        origin=settings.origin,
    )
    notes = Notes()
    request = translate(prompt, model.id, options, notes)
    written = native.document(
        _as_prompt(prompt, request, options),
        model,
        evolve(settings, sanitize_text=False, strip_system_reminders=False),
        adaptations=adaptations,
        conversation_id=conversation_id,
        profile_arn=profile_arn,
    )
    for note in notes.found():
        written.notes.applies(note.rule, note.place, note.times)
    for rule, place in _changes(prompt, options):
        written.notes.applies(rule, place)
    if options.send_sidecar_fields:
        current = written.body["conversationState"]["currentMessage"]["userInputMessage"]
        current.setdefault("userInputMessageContext", {}).update(request.context.sidecar())
    return written


def _as_prompt(prompt: Prompt, request: Request, options: ContractOptions) -> Prompt:
    """*request*, the translation of *prompt*, as a prompt; its turns hold system text and choice of tools, too."""
    history = [Turn(it.role, _parts(it), it.place) for it in request.history]
    if history and history[-1].role is Role.USER:
        history.append(Turn(Role.ASSISTANT, (Text(ACKNOWLEDGED),)))
    place = prompt.turns[-1].place if prompt.turns else ""
    return evolve(
        prompt,
        system=(),
        turns=(*history, Turn(Role.USER, _parts(request.current_message), place)),
        tools=tuple(map(_tool, prompt.tools, request.context.tools)),
        tool_choice=ToolChoice(parallel=prompt.tool_choice.parallel),
        thinking=evolve(prompt.thinking, effort=effort_of(prompt.thinking, options.effort_budgets)),
    )


def _parts(message: HistoryMessage | UserInputMessage) -> tuple[Part, ...]:
    return (Text(message.content), *message.parts) if message.content else message.parts


def _tool(tool: Tool, specification: ToolSpec) -> Tool:
    return evolve(tool, description=specification.description, schema=specification.json_schema)


def _changes(prompt: Prompt, options: ContractOptions) -> Iterator[tuple[str, str]]:
    """Rules and places of parts that the contract sends in another form, or not at all."""
    if any(text.strip() for text in prompt.system):
        yield "contract.system_told", prompt.system_place
    for tool in prompt.tools:
        if len(tool.description.strip()) > options.description_limit:
            yield "contract.description_moved", tool.place
    for turn in prompt.turns if options.drop_tool_events else ():
        for part in turn.parts:
            if type(part) in PART_RULES:
                yield PART_RULES[type(part)], turn.place


PART_RULES: Final[Mapping[type, str]] = MappingProxyType(
    {
        ToolCallPart: "contract.call_told",
        ToolResult: "contract.result_told",
        ThinkingPart: "contract.thinking_dropped",
    }
)
"""Part to the rule that takes it out of text-only conversations."""
