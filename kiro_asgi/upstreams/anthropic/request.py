"""The body of ``POST /v1/messages``: thinking, length and sampling; the conversation, tools and the choice among them;
and its size in tokens.

How a model is asked to think, which is a part of the greatest length, depends on it:

=================  ==========================================================================================
the model          is sent
=================  ==========================================================================================
thinks in budgets  ``{"type": "enabled", "budget_tokens": …}``; an effort becomes the budget that it stands for
is adaptive        ``{"type": "adaptive"}`` and ``output_config.effort``, the nearest level that it has; a budget
                   becomes the level that it stands for.  One that takes both is sent a budget if the client names one
does not think     nothing
=================  ==========================================================================================

Sources: https://docs.anthropic.com/en/api/messages,
https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use,
https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
https://docs.claude.com/en/docs/build-with-claude/effort
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.handling import MARKED, Tier, Words
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Document,
    Image,
    Opaque,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolChoiceMode,
    ToolResult,
)
from kiro_asgi.rendering.argument_names import CLAUDE, with_plain_arguments
from kiro_asgi.rendering.attachments import Attachments
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.options import ignored, length, visible_stops
from kiro_asgi.rendering.schemas import is_closed, object_schema, schema_instructions
from kiro_asgi.rendering.strict_turns import Draft, merged, strict_turns
from kiro_asgi.rendering.tools import called, distinct, require_choice
from kiro_asgi.rendering.turns import begun, ended, is_resumed, lifted, sendable
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.anthropic.blocks import API, as_server_calls
from kiro_asgi.upstreams.anthropic.content import (
    DOCUMENTS,
    IMAGES,
    MARK,
    MessageBlocks,
    Sendable,
    bounded,
    marked,
    unmarked,
)
from kiro_asgi.upstreams.anthropic.models import ClaudeFamily, listed_family
from kiro_asgi.upstreams.anthropic.schema import CompiledSchema, compiled
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import BUDGETS, MIN_BUDGET, effort_of, nearest_effort

GREATEST: Final = 32_000
"""Tokens of a budget for the strongest efforts."""

DEFAULT_BUDGET: Final = 10_000

DEFAULT_LENGTH: Final = 32_000
"""Tokens of an answer, thinking not counted, whose client names no limit; the service wants one."""


@frozen
class _ThinkingRequest:
    """A request for thinking, and the model that it is for."""

    prompt: Prompt
    model: ModelCard
    family: ClaudeFamily
    notes: Notes


def thinks(prompt: Prompt, family: ClaudeFamily, resumed: bool, notes: Notes) -> bool:
    """Whether to ask for thinking.

    Args:
        prompt: The request.
        family: Of the model.
        resumed: Whether the last turn hands over results of calls of a turn that does not begin with thinking.
        notes: Gets the rule, where the answer is no.
    """
    if not prompt.thinking.wanted:
        return False
    if not family.thinks:
        return not notes.applies("thinking.unavailable")
    if prompt.tools and prompt.tool_choice.mode in (ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED):
        return not notes.applies("thinking.forced_call", "tool_choice")
    if _is_adaptive(prompt, family):
        return True
    if resumed:
        return not notes.applies("thinking.resumed")
    longest = prompt.sampling.max_tokens
    if longest is not None and longest <= MIN_BUDGET:  # not raised: the client would pay for a longer answer
        return not notes.applies("thinking.max_tokens", "max_tokens")
    return True


def _is_adaptive(prompt: Prompt, family: ClaudeFamily) -> bool:
    return family.adaptive and not (family.budgets and prompt.thinking.budget_tokens)


def length_and_thinking(
    prompt: Prompt, model: ModelCard, family: ClaudeFamily, notes: Notes, *, thinking: bool
) -> dict[str, Any]:
    """``max_tokens``, ``thinking`` and ``output_config``; *thinking*: whether to ask for it."""
    asked = _ThinkingRequest(prompt, model, family, notes)
    if thinking and not _is_adaptive(prompt, family):
        return _within_budget(asked)
    fields: dict[str, Any] = {"max_tokens": _length(asked)}
    if thinking:
        if prompt.thinking.budget_tokens is not None:
            notes.applies("thinking.adaptive", "thinking")
        display = "omitted" if prompt.thinking.omitted else "summarized"
        fields["thinking"] = {"type": "adaptive", **({} if _is_shown_otherwise(prompt) else {"display": display})}
    elif prompt.thinking.mode is ThinkingMode.DISABLED and family.thinks:
        fields["thinking"] = {"type": "disabled"}
    effort = _effort(asked, thinking)
    return {**fields, "output_config": {"effort": effort}} if effort else fields


def _is_shown_otherwise(prompt: Prompt) -> bool:
    """Whether the client has its thinking shown in a way of the API that is not known here, and written back."""
    rest = prompt.unread.members.get("thinking") if prompt.unread is not None and prompt.unread.api == API else None
    return isinstance(rest, Mapping) and "display" in rest


def _effort(asked: _ThinkingRequest, thinking: bool) -> str:
    """The level to name; empty for none."""
    wanted = _wanted_effort(asked.prompt.thinking, thinking)
    if not wanted:
        return ""
    nearest = nearest_effort(wanted, asked.model.efforts)
    if nearest != wanted:
        asked.notes.applies("thinking.effort")
    return nearest


def _wanted_effort(wanted: Thinking, thinking: bool) -> str:
    if wanted.effort or not thinking or wanted.budget_tokens is None:
        return "" if wanted.effort == "none" else wanted.effort
    return effort_of(wanted.budget_tokens)


def _length(asked: _ThinkingRequest, extra: int = 0) -> int:
    """The greatest length of the answer; *extra* are tokens of thinking, where the client names no limit."""
    wanted, most = asked.prompt.sampling.max_tokens, asked.model.max_output_tokens
    if wanted is None:
        asked.notes.applies("sampling.max_tokens_default")
        return min(DEFAULT_LENGTH + extra, most)
    return length(wanted, 1, most, asked.notes)


def _within_budget(asked: _ThinkingRequest) -> dict[str, Any]:
    """A budget of the least size or more, and a length that is greater."""
    wanted = _budget(asked)
    longest = _length(asked, wanted)
    budget = max(wanted if wanted < longest else longest // 2, MIN_BUDGET)
    if budget != wanted:
        asked.notes.applies("thinking.budget", "thinking")
    display = {"display": "omitted"} if asked.prompt.thinking.omitted else {}
    return {"max_tokens": longest, "thinking": {"type": "enabled", "budget_tokens": budget, **display}}


def _budget(asked: _ThinkingRequest) -> int:
    wanted = asked.prompt.thinking
    if wanted.budget_tokens is not None:
        return wanted.budget_tokens
    if wanted.effort:
        asked.notes.applies("thinking.effort")
        return BUDGETS.get(wanted.effort, GREATEST)
    return DEFAULT_BUDGET


UNKNOWN: Final = ("seed", "presence_penalty", "frequency_penalty")
"""Fields of `Sampling` that the service does not have."""

LAST_SAMPLED: Final = "2026-10-21"
"""Version of the API that is the first without temperature, ``top_p`` and ``top_k``."""


def sampling_fields(
    sampling: Sampling, family: ClaudeFamily, version: str, notes: Notes, *, thinking: bool
) -> dict[str, Any]:
    """``temperature``, ``top_p``, ``top_k`` and ``stop_sequences``.

    Args:
        sampling: The client's options.
        family: Of the model.
        version: Of the API, a date.
        notes: Gets the rules that applied.
        thinking: Whether thinking is asked for.
    """
    ignored(sampling, UNKNOWN, "sampling.ignored", notes)
    fields = {name: getattr(sampling, name) for name in sampling.given(("temperature", "top_p", "top_k"))}
    refused = not family.sampled or version >= LAST_SAMPLED
    if refused or thinking:
        for name in fields:
            notes.applies("sampling.model" if refused else "sampling.thinking", name)
        fields = {}
    if fields.get("temperature", 0) > 1:
        notes.applies("sampling.temperature", "temperature")
        fields["temperature"] = 1
    if family.sampled_once and "temperature" in fields and "top_p" in fields:
        notes.applies("sampling.top_p", "top_p")
        del fields["top_p"]
    stops = visible_stops(sampling, notes)
    return {**fields, **({"stop_sequences": stops} if stops else {})}


TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

SEARCH: Final = MappingProxyType({"type": "web_search_20250305", "name": WEB_SEARCH})
"""The tool that the service runs itself; its name is not ours to choose."""

SEARCH_OPTIONS: Final = ("max_uses", "allowed_domains", "blocked_domains")

_CHOICES: Final = MappingProxyType(
    {
        ToolChoiceMode.AUTO: "auto",
        ToolChoiceMode.REQUIRED: "any",
        ToolChoiceMode.NAMED: "tool",
        ToolChoiceMode.NONE: "none",
    }
)


def _offered(prompt: Prompt, notes: Notes) -> tuple[Tool, ...]:
    """The tools to define, each name once; those that history calls where the client offers none.

    Raises:
        RequestError: The choice names a tool that is not there.
    """
    require_choice(prompt.tool_choice, prompt.tools)
    if offered := distinct(prompt.tools, notes, _name):
        return offered
    stubs = called((turn.place, turn.parts) for turn in prompt.turns)
    for tool in stubs:
        notes.applies("tools.stubbed", tool.place)
    return stubs


def _name(tool: Tool) -> str:
    return WEB_SEARCH if tool.hosted == WEB_SEARCH else tool.name


@frozen
class _Held:
    """How tools are taken at the service."""

    custom: bool
    """Whether it is another server than Anthropic's."""

    exact: bool
    """Whether the model can be held to schemas."""


def _specification(tool: Tool, prompt: Prompt, names: WireNames, write: WriteBack, held: _Held) -> dict[str, Any]:
    """One entry of ``tools``.  A hosted tool that the service does not run is defined like any other."""
    notes, opaque = write.notes, tool.opaque
    if opaque is not None and opaque.api == API:
        as_function = held.custom and not tool.hosted and notes.applies("tools.as_function", tool.place)
        if not as_function and (entry := write.opaque(opaque)) is not None:
            return entry
    if tool.hosted == WEB_SEARCH:
        options = {**tool.options, "max_uses": prompt.max_uses(tool)}
        return marked({**SEARCH, **{name: options[name] for name in SEARCH_OPTIONS if options.get(name)}}, tool.cache)
    described = {"description": tool.description} if tool.description.strip() else {}
    schema = object_schema(tool.schema, tool.place, notes)
    strict = {"strict": True} if kept_strict(tool, schema, held.exact, notes) else {}
    written = {"name": names.wire(tool.name, tool.place), **described, "input_schema": schema, **strict}
    write.into(written, tool.unread, place=tool.place)
    return marked(written, tool.cache)


def kept_strict(tool: Tool, schema: Mapping[str, Any], exact: bool, notes: Notes) -> bool:
    """Whether calls of *tool* are to be held to its *schema*, as it is sent; *exact*: whether the model can be."""
    if not tool.strict:
        return False
    return (exact and is_closed(schema)) or not notes.applies("tools.strict", tool.place)


def _choice(prompt: Prompt, names: WireNames) -> dict[str, Any]:
    """The member ``tool_choice``; empty where it would be the default."""
    wanted = prompt.tool_choice
    if not prompt.tools:
        return {"type": "none"}
    chosen: dict[str, Any] = {"type": _CHOICES[wanted.mode]}
    if wanted.mode is ToolChoiceMode.NAMED:
        tool = next(tool for tool in prompt.tools if tool.name == wanted.name)
        chosen["name"] = WEB_SEARCH if tool.hosted == WEB_SEARCH else names.wire(wanted.name)
    if not wanted.parallel and wanted.mode is not ToolChoiceMode.NONE:
        chosen["disable_parallel_tool_use"] = True
    return {} if chosen == {"type": "auto"} else chosen


CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

FORM_RULES: Final = frozenset({"adapted.output_format", "adapted.output_schema"})
"""Rules by which the prompt states a schema, in the place of the service."""

WORDS: Final = Words(
    tier=("service_tier",),
    tiers=MappingProxyType({Tier.AUTO: "auto", Tier.STANDARD: "standard_only"}),
    user=("metadata", "user_id"),
    retentions=MARKED,
)
"""Source: https://docs.anthropic.com/en/api/messages"""


@frozen(kw_only=True)
class MessagesOptions:
    """Options of rendering that are the operator's, or follow from earlier errors."""

    version: str
    replay_thinking: bool
    adaptations: tuple[str, ...] = ()
    """Rules that earlier refusals put in force."""

    custom: bool = False
    """Whether another server than Anthropic's answers: it may ignore parts of the API that it does not know."""

    words: Words = WORDS
    """The service's, of how requests are handled."""

    without: Mapping[str, str] = MappingProxyType({})
    """As of `kiro_asgi.rendering.unread.WriteBack`."""


@frozen
class MessagesBody:
    """A request body, and facts about it."""

    document: dict[str, Any]
    names: WireNames
    """Of tools."""

    notes: Notes
    formed: bool = False
    """Whether the service holds the answer to the client's schema."""

    unread: frozenset[str] = frozenset()
    """As of `kiro_asgi.upstreams.base.Rendered`."""

    crossed: frozenset[str] = frozenset()
    """As of the same."""


def document(prompt: Prompt, model: ModelCard, options: MessagesOptions, user_id: str = "") -> MessagesBody:
    """The request body for *prompt*.

    Args:
        prompt: The request.
        model: The model that is asked.
        options: The operator's, and adaptations.
        user_id: Opaque, the same for all requests of a conversation; empty for none.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes, family = Notes(), listed_family(model)
    for rule in options.adaptations:
        notes.applies(rule)
    prompt = evolve(prompt, turns=tuple(map(as_server_calls, prompt.turns)))
    names = WireNames(TOOL_NAME, 128, "tools.renamed", notes)
    prompt, names.arguments = with_plain_arguments(prompt, CLAUDE, notes)
    write = WriteBack(API, notes, options.without)
    held = _Held(options.custom, family.formed and not options.custom)
    tools = [_specification(tool, prompt, names, write, held) for tool in _offered(prompt, notes)]
    drafts = _conversation(prompt, options, notes)
    thinking = thinks(prompt, family, is_resumed(drafts), notes)
    form = _form(prompt, family, options, notes)
    drafts = ended(drafts, family.prefilled and not thinking and form is None, notes)
    attachments = Attachments(notes, IMAGES, DOCUMENTS, blind="" if model.images else model.id)
    blocks = MessageBlocks(names, attachments, write)
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    fields |= length_and_thinking(prompt, model, family, notes, thinking=thinking)
    fields |= sampling_fields(prompt.sampling, family, options.version, notes, thinking=thinking)
    optional = {
        "system": _system(prompt, write, with_schema=form is None or options.custom, custom=options.custom),
        "tools": tools,
        "tool_choice": _choice(prompt, names) if tools else {},
    }
    if form is not None:
        asked = {"format": {"type": "json_schema", "schema": form.schema}}
        fields["output_config"] = {**fields.get("output_config", {}), **asked}
    fields |= {name: value for name, value in optional.items() if value}
    fields["messages"] = [_message(draft, blocks, write) for draft in drafts]
    fields = marked(fields, prompt.cache)
    said = write.whole(fields, prompt, options.words, _BEGUN)
    if user_id and not {"metadata", "user_id"} & {*fields, *options.without}:
        fields["metadata"] = {"user_id": user_id}
    if rule := write.rule_against(MARK):
        unmarked(fields, blocks.marked, rule, notes)
    else:
        bounded(fields, blocks.marked, notes)
    if MARK in fields or blocks.marked or any(MARK in part for part in (*tools, *fields.get("system", ()))):
        write.written.add(MARK)
    guaranteed = form is not None and form.exact and not options.custom
    return MessagesBody(fields, names, notes, guaranteed, frozenset(write.written), said)


_BEGUN: Final = frozenset({"thinking", "tool_choice", "output_format"})
"""Members that mean nothing without their type."""


def _form(prompt: Prompt, family: ClaudeFamily, options: MessagesOptions, notes: Notes) -> CompiledSchema | None:
    """The schema as the service is asked to obey it; ``None`` where there is none, or it is stated in the prompt."""
    if not prompt.schema or not family.formed or FORM_RULES & set(options.adaptations):
        return None
    return compiled(prompt.schema, notes)


def _conversation(prompt: Prompt, options: MessagesOptions, notes: Notes) -> list[Draft]:
    """The turns in strict order, the user's first."""
    ids = WireNames(CALL_ID, 128, "calls.id_changed", notes)
    turns = [*sendable(prompt.turns, Sendable(notes, options.replay_thinking))]
    drafts = strict_turns(turns, ids, notes, API)
    return begun(merged((draft for draft in drafts if _lead_with_thinking(draft, notes)), notes), notes)


def _lead_with_thinking(draft: Draft, notes: Notes) -> bool:
    """Whether anything is left of *draft* once its thinking stands before what came of it."""
    thinking = [part for part in draft.parts if type(part) is ThinkingPart]
    if not thinking:
        return True
    others = [part for part in draft.parts if type(part) is not ThinkingPart]
    if not others:
        notes.applies("thinking.alone_dropped", draft.place)
    elif type(draft.parts[0]) not in (ThinkingPart, Opaque) or type(draft.parts[-1]) is ThinkingPart:
        notes.applies("thinking.first", draft.place)
        draft.parts = [*thinking, *others]
    return bool(others)


def _message(draft: Draft, blocks: MessageBlocks, write: WriteBack) -> dict[str, Any]:
    parts = draft.parts if draft.role is Role.ASSISTANT else lifted(draft.parts, _held, draft.place, write.notes)
    message = {"role": draft.role.value, "content": blocks.blocks(parts, draft.place)}
    write.into(message, draft.unread, place=draft.place)
    return message


def _held(result: ToolResult) -> Container[type]:
    """A result that is an error holds nothing but text."""
    return (Text,) if result.is_error else (Text, Image, Document, Opaque)


def _system(prompt: Prompt, write: WriteBack, *, with_schema: bool, custom: bool) -> list[dict[str, Any]]:
    texts: list[dict[str, Any]] = []
    if prompt.attribution is not None and not (custom and write.notes.applies("system.attribution", "system")):
        texts.append({"type": "text", "text": prompt.attribution.text})
        write.into(texts[-1], prompt.attribution.unread, place=prompt.system_place)
    for index, text in enumerate(prompt.system):
        if text and not text.isspace():
            block = {"type": "text", "text": text}
            write.into(block, prompt.system_unread.get(index), place=prompt.system_place)
            texts.append(marked(block, prompt.system_marks.get(index, "")))
    if prompt.schema is not None and with_schema:
        write.notes.applies("output.schema_instruction")
        texts.append({"type": "text", "text": "\n\n".join(schema_instructions(prompt.schema))})
    return texts


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    found = BodyContent(messages=len(body["messages"]), tools=len(body.get("tools", ())))
    found.system += (block["text"] for block in body.get("system", ()))
    found.values += body.get("tools", ())
    for message in body["messages"]:
        _collect(message["content"], found)
    return found


def _collect(blocks: Iterable[Mapping[str, Any]], found: BodyContent) -> None:
    for block in blocks:
        match block["type"]:
            case "text":
                found.texts.append(block["text"])
            case "image":
                found.images += 1
            case "document" if block["source"]["type"] == "text":
                found.texts.append(block["source"]["data"])
            case "document":
                found.documents += 1
            case "tool_use":
                found.texts.append(block["name"])
                found.values.append(block["input"])
            case "tool_result":
                found.results += 1
                _collect(block.get("content", ()), found)
            case "thinking":
                found.texts.append(block["thinking"])
