"""From a prompt to the body of Converse: messages, tools, and options (length, sampling, thinking).

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.model.handling import MARKED, LabelForm, Tier, Words
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Part, Prompt, Role, Text, ThinkingPart, ToolCallPart, ToolChoiceMode, ToolResult
from kiro_asgi.rendering.argument_names import CLAUDE, with_plain_arguments
from kiro_asgi.rendering.attachments import Attachments
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.options import Bound, bounded, ignored, visible_stops
from kiro_asgi.rendering.schemas import object_schema, schema_instructions
from kiro_asgi.rendering.strict_turns import Draft, merged, strict_turns
from kiro_asgi.rendering.tools import called, distinct, require_choice
from kiro_asgi.rendering.turns import begun, ended, is_resumed, lifted, sendable
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.bedrock import claude
from kiro_asgi.upstreams.bedrock.content import DOCUMENTS, IMAGES, ConverseBlocks, Sendable, cache_point
from kiro_asgi.upstreams.bedrock.models import Family, family_of, is_claude
from kiro_asgi.upstreams.models import effort_of, nearest_effort
from kiro_asgi.wire.json import dumps

_DEFAULT_EFFORT: Final = "medium"
"""Level of a request for thinking that names none."""

_INFERENCE: Final = (
    ("maxTokens", "max_tokens"),
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("stopSequences", "stop_sequences"),
)
"""Members of ``inferenceConfig``, and what the Messages API calls them."""


_UNKNOWN: Final = ("seed", "presence_penalty", "frequency_penalty")
"""Fields of `Sampling` that the service does not have."""

_SAMPLED: Final = MappingProxyType(
    {
        "temperature": Bound("temperature", most=1, rule="sampling.temperature"),
        "top_p": Bound("topP"),
    }
)
"""Fields of `Sampling` that models other than Claude take in ``inferenceConfig``, and their bounds."""


def _claude_options(
    prompt: Prompt, model: ModelCard, resumed: bool, betas: tuple[str, ...], notes: Notes
) -> dict[str, Any]:
    """Length, thinking and sampling of Claude.

    Args:
        prompt: The request.
        model: The model that is asked, as `kiro_asgi.upstreams.bedrock.claude.known` has it.
        resumed: Whether the model is in the middle of a turn that does not begin with thinking.
        betas: The operator's.
        notes: Gets the rules that applied.
    """
    fields = claude.fields(prompt, model, resumed, notes)
    inference = {ours: fields.pop(theirs) for ours, theirs in _INFERENCE if theirs in fields}
    if kept := claude.betas((*betas, *prompt.betas), notes):
        fields["anthropic_beta"] = kept
    made: dict[str, Any] = {"inferenceConfig": inference, "additionalModelRequestFields": fields}
    if "stopSequences" in inference:
        made["additionalModelResponseFieldPaths"] = ["/delta/stop_sequence"]
    return made


def _model_options(prompt: Prompt, family: Family, notes: Notes) -> dict[str, Any]:
    """Length, sampling and reasoning of models that are not Claude."""
    sampling = prompt.sampling
    ignored(sampling, _UNKNOWN, "sampling.ignored", notes)
    stops = visible_stops(sampling, notes)
    inference: dict[str, Any] = {}
    if sampling.max_tokens is not None:
        inference["maxTokens"] = max(sampling.max_tokens, 1)
    if family.sampled:
        inference |= bounded(sampling, _SAMPLED, notes)
    else:
        ignored(sampling, _SAMPLED, "sampling.model", notes)
    if stops:
        inference["stopSequences"] = stops
    own: dict[str, Any] = {}
    if sampling.top_k is not None and family.top_k:
        *outer, last = family.top_k
        own = {last: sampling.top_k}
        for name in reversed(outer):
            own = {name: own}
    elif sampling.top_k is not None:
        notes.applies("sampling.model", "top_k")
    own |= _reasoning(prompt, family, notes)
    return {"inferenceConfig": inference, "additionalModelRequestFields": own}


def _reasoning(prompt: Prompt, family: Family, notes: Notes) -> dict[str, Any]:
    """The member by which the model is asked to reason; nothing where that is not wanted, or it cannot be asked."""
    wanted = prompt.thinking
    if not wanted.wanted and not wanted.effort:
        return {}
    if family.reasoning is None:
        notes.applies("thinking.unavailable", "thinking")
        return {}
    effort = wanted.effort or (effort_of(wanted.budget_tokens) if wanted.budget_tokens else _DEFAULT_EFFORT)
    if effort == "none" and "none" not in family.reasoning.levels:
        return {}
    nearest = nearest_effort(effort, family.reasoning.levels)
    if nearest != wanted.effort:
        notes.applies("thinking.effort", "thinking")
    return family.reasoning.fields(nearest) if nearest else {}


TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")

PAUSE: Final = "."
"""Text of the assistant's turn between results and the user's other parts, where a family wants these apart."""

MOST_POINTS: Final = 4
"""Cache points of one request."""


_LABEL: Final = r"[a-zA-Z0-9\s:_@$#=/+,.-]"
"""Characters of keys and values."""

SERVED: Final[Mapping[str, Tier]] = MappingProxyType(
    {"default": Tier.STANDARD, "flex": Tier.FLEX, "priority": Tier.PRIORITY, "reserved": Tier.SCALE}
)
"""``serviceTier.type`` of an answer to its meaning; InvokeModel has it in a header."""

WORDS: Final = Words(
    tier=("serviceTier", "type"),
    tiers=MappingProxyType({Tier.STANDARD: "default", Tier.FLEX: "flex", Tier.PRIORITY: "priority"}),
    tier_header=b"x-amzn-bedrock-service-tier",
    headed=SERVED,
    labels=LabelForm("requestMetadata", re.compile(f"{_LABEL}{{1,256}}", re.A), re.compile(f"{_LABEL}{{0,256}}", re.A)),
    retentions=MARKED,
)
"""Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html"""


@frozen(kw_only=True)
class ConverseOptions:
    """Options of rendering that are the operator's, or follow from earlier errors."""

    replay_thinking: bool = True
    betas: tuple[str, ...] = ()
    adaptations: tuple[str, ...] = ()
    """Rules that earlier refusals put in force."""

    extra: Mapping[str, Any] = {}
    """Members of every body: guardrail, tier, latency."""

    words: Words = WORDS
    without: Mapping[str, str] = MappingProxyType({})
    """As of `kiro_asgi.rendering.unread.WriteBack`."""


@frozen
class Body:
    """A request body, and facts about it."""

    document: dict[str, Any]
    names: WireNames
    """Of tools."""

    notes: Notes
    streamed: bool
    """Whether the answer can be streamed."""

    formed: bool = False
    """Whether the service holds the answer to the client's schema."""

    crossed: frozenset[str] = frozenset()
    """As of `kiro_asgi.upstreams.base.Rendered`."""


def document(prompt: Prompt, model: ModelCard, options: ConverseOptions) -> Body:
    """The request body for *prompt*.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes, asked, family = Notes(), model, family_of(model)
    if is_claude(model):
        asked = claude.known(model)
        family = evolve(family, prefilled=claude.prefilled(asked), formed=claude.formed(asked))
    names = WireNames(TOOL_NAME, 64, "tools.renamed", notes)
    if is_claude(model):
        prompt, names.arguments = with_plain_arguments(prompt, CLAUDE, notes)
    drafts = _conversation(prompt, model, family, options, notes)
    form = _form(prompt, family, options, notes)
    system = [*_system(prompt, family, notes, with_schema=form is None)]
    if system and not family.system:
        notes.applies("system.told", prompt.system_place)
        drafts[0].parts[:0] = [Text(block["text"]) for block in system if "text" in block]
        system = []
    resumed = is_resumed(drafts)
    drafts = ended(drafts, family.prefilled and form is None, notes)
    tools = _tools(prompt, drafts, family, names, notes)
    made = (
        _claude_options(prompt, asked, resumed, options.betas, notes)
        if is_claude(model)
        else _model_options(prompt, family, notes)
    )
    config = _tool_config(prompt, tools, family, names, notes)
    if is_claude(model) and tools and (choice := _messages_choice(prompt, names)):
        config.pop("toolChoice", None)
        made.setdefault("additionalModelRequestFields", {})["tool_choice"] = choice
    elif prompt.tools and not prompt.tool_choice.parallel and not is_claude(model):
        notes.applies("tools.parallel", "tool_choice")
    attachments = Attachments(notes, IMAGES, DOCUMENTS, blind="" if model.images else model.id)
    blocks = ConverseBlocks(notes, names, attachments, model, family)
    messages: list[dict[str, Any]] = [
        {"role": draft.role.value, "content": blocks.content(draft.parts, draft.place)} for draft in drafts
    ]
    if prompt.cache and "messages" in family.cached:
        messages[-1]["content"].append(cache_point(prompt.cache))
    optional = {"system": system, "toolConfig": config, "outputConfig": _output_config(form), **made, **options.extra}
    fields = {"messages": messages, **{name: value for name, value in optional.items() if value}}
    _bound(fields, notes)
    said = WriteBack("", notes, options.without).said(fields, prompt, options.words)
    streamed = family.streams_calls or not config
    return Body(fields, names, notes, streamed, formed=form is not None and form.exact, crossed=said)


def _form(prompt: Prompt, family: Family, options: ConverseOptions, notes: Notes) -> claude.CompiledSchema | None:
    """The schema as the service is asked to obey it; ``None`` where there is none, or it is stated in the prompt."""
    if not prompt.schema or not family.formed or claude.FORM_RULES & set(options.adaptations):
        return None
    return claude.compiled(prompt.schema, notes)


def _output_config(form: claude.CompiledSchema | None) -> dict[str, Any]:
    """The member that holds the answer to a schema, which is a text there."""
    if form is None:
        return {}
    schema = {"jsonSchema": {"schema": dumps(dict(form.schema)).decode()}}
    return {"textFormat": {"type": "json_schema", "structure": schema}}


def _conversation(
    prompt: Prompt, model: ModelCard, family: Family, options: ConverseOptions, notes: Notes
) -> list[Draft]:
    """The turns in strict order, the user's first, each in the order in which the service wants its parts."""
    ids = WireNames(CALL_ID, 64, "calls.id_changed", notes)
    turns = sendable(prompt.turns, Sendable(model, family, notes, options.replay_thinking))
    drafts = merged((draft for draft in strict_turns(turns, ids, notes) if _in_order(draft, family, notes)), notes)
    return begun(drafts if family.mixed else [*_apart(drafts, notes)], notes)


def _in_order(draft: Draft, family: Family, notes: Notes) -> bool:
    """Whether anything is left of *draft* once its parts stand in order: thinking, text, calls; results, the rest."""
    if draft.role is Role.USER:
        held: tuple[type, ...] = (Text, *family.result_media)
        draft.parts = [*lifted(draft.parts, lambda _: held, draft.place, notes)]
        return bool(draft.parts)
    ranks = [_RANKS.get(type(part), 1) for part in draft.parts]
    if set(ranks) == {0}:
        return not notes.applies("thinking.alone_dropped", draft.place)
    interleaved = any(rank == 0 and before != 0 for before, rank in pairwise(ranks))
    if ranks != sorted(ranks) and not interleaved:
        notes.applies("calls.last", draft.place)
        draft.parts = sorted(draft.parts, key=lambda part: _RANKS.get(type(part), 1))
    return bool(draft.parts)


_RANKS: Final = {ThinkingPart: 0, ToolCallPart: 2}


def _apart(drafts: Iterable[Draft], notes: Notes) -> Iterator[Draft]:
    """The turns with results of tools in turns of their own."""
    for draft in drafts:
        results: list[Part] = [part for part in draft.parts if type(part) is ToolResult]
        if results and len(results) < len(draft.parts):
            notes.applies("results.apart", draft.place)
            yield Draft(Role.USER, results, draft.place)
            yield Draft(Role.ASSISTANT, [Text(PAUSE)], draft.place)
            draft.parts = [part for part in draft.parts if type(part) is not ToolResult]
        yield draft


def _system(prompt: Prompt, family: Family, notes: Notes, *, with_schema: bool) -> Iterator[dict[str, Any]]:
    for index, text in enumerate(prompt.system):
        if text and not text.isspace():
            yield {"text": text}
            mark = prompt.system_marks.get(index, "")
            if mark and "system" in family.cached:
                yield cache_point(mark)
    if prompt.schema is not None and with_schema:
        notes.applies("output.schema_instruction")
        yield {"text": "\n\n".join(schema_instructions(prompt.schema))}


def _tools(
    prompt: Prompt, drafts: Iterable[Draft], family: Family, names: WireNames, notes: Notes
) -> list[dict[str, Any]]:
    """Specifications of the tools to define: each name once, and those that history calls where none is offered.

    Raises:
        RequestError: The choice names a tool that is not there.
    """
    require_choice(prompt.tool_choice, prompt.tools)
    offered, stubs = distinct(prompt.tools, notes), called((draft.place, draft.parts) for draft in drafts)
    if prompt.tool_choice.mode is ToolChoiceMode.NONE and not stubs:
        return []
    if not offered and stubs:
        notes.applies("tools.stubbed", stubs[0].place)
    written: list[dict[str, Any]] = []
    for tool in offered or stubs:
        described = {"description": tool.description} if tool.description.strip() else {}
        schema = object_schema(tool.schema, tool.place, notes)
        strict = {"strict": True} if claude.kept_strict(tool, schema, family.formed, notes) else {}
        name = names.wire(tool.name, tool.place)
        written.append({"toolSpec": {"name": name, **described, "inputSchema": {"json": schema}, **strict}})
        if tool.cache and "tools" in family.cached:
            written.append(cache_point(tool.cache))
    return written


def _tool_config(
    prompt: Prompt, tools: list[dict[str, Any]], family: Family, names: WireNames, notes: Notes
) -> dict[str, Any]:
    wanted = prompt.tool_choice
    if not tools:
        return {}
    mode = wanted.mode if prompt.tools else ToolChoiceMode.NONE
    if mode in (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED) and mode not in family.choices:
        notes.applies("tools.choice", "tool_choice")
        mode = ToolChoiceMode.AUTO
    if mode is ToolChoiceMode.REQUIRED:
        return {"tools": tools, "toolChoice": {"any": {}}}
    if mode is ToolChoiceMode.NAMED:
        return {"tools": tools, "toolChoice": {"tool": {"name": names.wire(wanted.name)}}}
    return {"tools": tools}


def _messages_choice(prompt: Prompt, names: WireNames) -> dict[str, Any]:
    """The choices that Converse lacks, as the Messages API writes them: no call at all, or no two at once."""
    wanted = prompt.tool_choice
    if not prompt.tools or wanted.mode is ToolChoiceMode.NONE:
        return {"type": "none"}
    if wanted.parallel:
        return {}
    alone = {"disable_parallel_tool_use": True}
    match wanted.mode:
        case ToolChoiceMode.REQUIRED:
            return {"type": "any", **alone}
        case ToolChoiceMode.NAMED:
            return {"type": "tool", "name": names.wire(wanted.name), **alone}
    return {"type": "auto", **alone}


def _bound(fields: Mapping[str, Any], notes: Notes) -> None:
    """Remove the first cache points where there are too many: a later one covers more of the prompt."""
    lists = [fields.get("toolConfig", {}).get("tools", []), fields.get("system", [])]
    lists += [message["content"] for message in fields["messages"]]
    too_many = sum("cachePoint" in block for blocks in lists for block in blocks) - MOST_POINTS
    for blocks in lists:
        for block in [block for block in blocks if "cachePoint" in block][: max(too_many, 0)]:
            notes.applies("cache.limit")
            blocks[:] = [each for each in blocks if each is not block]
            too_many -= 1


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    tools = body.get("toolConfig", {}).get("tools", ())
    found = BodyContent(messages=len(body["messages"]), tools=sum("toolSpec" in tool for tool in tools))
    found.values += tools
    found.system += (block["text"] for block in body.get("system", ()) if "text" in block)
    for message in body["messages"]:
        _collect(message["content"], found)
    return found


def _collect(blocks: Iterable[Mapping[str, Any]], found: BodyContent) -> None:
    for block in blocks:
        for kind, value in block.items():
            match kind:
                case "text":
                    found.texts.append(value)
                case "image":
                    found.images += 1
                case "document":
                    found.documents += 1
                case "toolResult":
                    found.results += 1
                    _collect(value["content"], found)
                case _:
                    found.values.append(value)
