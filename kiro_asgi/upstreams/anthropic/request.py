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
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Part,
    Prompt,
    Role,
    Sampling,
    Text,
    Thinking,
    ThinkingMode,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolChoiceMode,
    ToolResult,
)
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.upstreams.anthropic.blocks import as_server_calls
from kiro_asgi.upstreams.anthropic.content import Blocks, bounded, marked, sendable
from kiro_asgi.upstreams.anthropic.errors import FORM, FORM_UNKNOWN
from kiro_asgi.upstreams.anthropic.models import ClaudeFamily, listed_family
from kiro_asgi.upstreams.anthropic.schema import CompiledSchema, compiled
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.models import BUDGETS, MIN_BUDGET, effort_of, nearest_effort
from kiro_asgi.upstreams.rendering import COMBINATORS, WireNames, flat, schema_instructions, target
from kiro_asgi.upstreams.strict_turns import Draft, merged, strict_turns
from kiro_asgi.wire.json import dumps

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
        fields["thinking"] = {"type": "adaptive", "display": display}
    elif prompt.thinking.mode is ThinkingMode.DISABLED and family.thinks:
        fields["thinking"] = {"type": "disabled"}
    effort = _effort(asked, thinking)
    return {**fields, "output_config": {"effort": effort}} if effort else fields


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
    bounded = min(max(wanted, 1), most)
    if bounded != wanted:
        asked.notes.applies("sampling.max_tokens", "max_tokens")
    return bounded


def _within_budget(asked: _ThinkingRequest) -> dict[str, Any]:
    """A budget of the least size or more, and a length that is greater."""
    wanted = _budget(asked)
    length = _length(asked, wanted)
    budget = max(wanted if wanted < length else length // 2, MIN_BUDGET)
    if budget != wanted:
        asked.notes.applies("thinking.budget", "thinking")
    display = {"display": "omitted"} if asked.prompt.thinking.omitted else {}
    return {"max_tokens": length, "thinking": {"type": "enabled", "budget_tokens": budget, **display}}


def _budget(asked: _ThinkingRequest) -> int:
    wanted = asked.prompt.thinking
    if wanted.budget_tokens is not None:
        return wanted.budget_tokens
    if wanted.effort:
        asked.notes.applies("thinking.effort")
        return BUDGETS.get(wanted.effort, GREATEST)
    return DEFAULT_BUDGET


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
    for name in sampling.given(("seed", "presence_penalty", "frequency_penalty")):
        notes.applies("sampling.ignored", name)
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
    return {**fields, **_stop(sampling.stop, notes)}


def _stop(sequences: tuple[str, ...], notes: Notes) -> dict[str, Any]:
    kept = [sequence for sequence in sequences if sequence and not sequence.isspace()]
    if len(kept) != len(sequences):
        notes.applies("sampling.stop_blank", "stop_sequences")
    return {"stop_sequences": kept} if kept else {}


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
    first: dict[str, Tool] = {}
    for tool in prompt.tools:
        if first.setdefault(_name(tool), tool) is not tool:
            notes.applies("tools.duplicate_dropped", tool.place)
    _require_choice(prompt.tool_choice, prompt.tools)
    return tuple(first.values()) if first else _called(prompt, notes)


def _called(prompt: Prompt, notes: Notes) -> tuple[Tool, ...]:
    """Tools for the calls in the history: the service refuses calls of tools that are not defined."""
    called: dict[str, Tool] = {}
    for turn in prompt.turns:
        for part in turn.parts:
            if type(part) is ToolCallPart and part.name not in called:
                notes.applies("tools.stubbed", turn.place)
                called[part.name] = Tool(part.name, schema={"type": "object"}, place=turn.place)
    return tuple(called.values())


def _name(tool: Tool) -> str:
    return WEB_SEARCH if tool.hosted == WEB_SEARCH else tool.name


def _require_choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> None:
    rule = "tools.choice_unknown"
    if choice.mode is not ToolChoiceMode.NAMED or any(tool.name == choice.name for tool in tools):
        return
    message = f"tool_choice: no tool is named {choice.name[:60]!r} (rule {rule})"
    raise RequestError(message, code="unsupported_value", param="tool_choice")


def _specification(tool: Tool, prompt: Prompt, names: WireNames, notes: Notes) -> dict[str, Any]:
    """One entry of ``tools``.  A hosted tool that the service does not run is defined like any other."""
    if tool.hosted == WEB_SEARCH:
        options = {**tool.options, "max_uses": prompt.max_uses(tool)}
        return marked({**SEARCH, **{name: options[name] for name in SEARCH_OPTIONS if options.get(name)}}, tool.cache)
    described = {"description": tool.description} if tool.description.strip() else {}
    schema = _schema(tool.schema, tool.place, notes)
    return marked({"name": names.wire(tool.name, tool.place), **described, "input_schema": schema}, tool.cache)


def _schema(schema: Mapping[str, Any], place: str, notes: Notes) -> dict[str, Any]:
    """The client's schema, an object at its root."""
    if schema.get("type") == "object" and not any(keyword in schema for keyword in COMBINATORS):
        return dict(schema)
    if "$ref" in schema and (found := target(schema, schema)):
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    if any(keyword in schema for keyword in COMBINATORS):
        notes.applies("schema.combinators", place)
        schema = flat(schema)
    if schema.get("type") == "object":
        return dict(schema)
    notes.applies("schema.root", place)
    return {**schema, "type": "object"}


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

FORM_RULES: Final[Mapping[str, str]] = MappingProxyType(
    {"adapted.output_format": FORM_UNKNOWN, "adapted.output_schema": FORM}
)
"""Rule by which the prompt states a schema, to the code of the refusal that puts it in force."""

GO_ON: Final = "Continue."
"""Text of a user's turn that has to be there, and has none."""


@frozen(kw_only=True)
class MessagesOptions:
    """Options of rendering that are the operator's, or follow from earlier errors."""

    version: str
    replay_thinking: bool
    adaptations: tuple[str, ...] = ()
    """Rules that earlier refusals put in force."""

    custom: bool = False
    """Whether another server than Anthropic's answers: it may ignore parts of the API that it does not know."""


@frozen
class MessagesBody:
    """A request body, and facts about it."""

    document: dict[str, Any]
    names: WireNames
    """Of tools."""

    notes: Notes
    formed: bool = False
    """Whether the service holds the answer to the client's schema."""


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
    tools = [_specification(tool, prompt, names, notes) for tool in _offered(prompt, notes)]
    drafts = _conversation(prompt, options, notes)
    thinking = thinks(prompt, family, _is_resumed(drafts), notes)
    form = _form(prompt, family, options, notes)
    drafts = _ended(drafts, family.prefilled and not thinking and form is None, notes)
    blocks = Blocks(notes, names, model)
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    fields |= length_and_thinking(prompt, model, family, notes, thinking=thinking)
    fields |= sampling_fields(prompt.sampling, family, options.version, notes, thinking=thinking)
    optional = {
        "system": _system(prompt, notes, with_schema=form is None or options.custom),
        "tools": tools,
        "tool_choice": _choice(prompt, names) if tools else {},
        "metadata": {"user_id": user_id} if user_id else {},
    }
    if form is not None:
        asked = {"format": {"type": "json_schema", "schema": form.schema}}
        fields["output_config"] = {**fields.get("output_config", {}), **asked}
    fields |= {name: value for name, value in optional.items() if value}
    fields["messages"] = [_message(draft, blocks, notes) for draft in drafts]
    fields = marked(fields, prompt.cache)
    bounded(fields, blocks.marked, notes)
    return MessagesBody(fields, names, notes, form is not None and form.exact and not options.custom)


def _form(prompt: Prompt, family: ClaudeFamily, options: MessagesOptions, notes: Notes) -> CompiledSchema | None:
    """The schema as the service is asked to obey it; ``None`` where there is none, or it is stated in the prompt."""
    if not prompt.schema or not family.formed or FORM_RULES.keys() & set(options.adaptations):
        return None
    return compiled(prompt.schema, notes)


def _conversation(prompt: Prompt, options: MessagesOptions, notes: Notes) -> list[Draft]:
    """The turns in strict order, the user's first."""
    ids = WireNames(CALL_ID, 128, "calls.id_changed", notes)
    turns = [*sendable(prompt, notes, replay_thinking=options.replay_thinking)]
    drafts = merged((draft for draft in strict_turns(turns, ids, notes) if _lead_with_thinking(draft, notes)), notes)
    if not drafts:
        notes.applies("turns.empty")
    elif drafts[0].role is Role.ASSISTANT:
        notes.applies("turns.user_first", drafts[0].place)
    else:
        return drafts
    return [Draft(Role.USER, [Text(GO_ON)]), *drafts]


def _lead_with_thinking(draft: Draft, notes: Notes) -> bool:
    """Whether anything is left of *draft* once its thinking stands before what came of it."""
    thinking = [part for part in draft.parts if type(part) is ThinkingPart]
    if not thinking:
        return True
    others = [part for part in draft.parts if type(part) is not ThinkingPart]
    if not others:
        notes.applies("thinking.alone_dropped", draft.place)
    elif type(draft.parts[0]) is not ThinkingPart or type(draft.parts[-1]) is ThinkingPart:
        notes.applies("thinking.first", draft.place)
        draft.parts = [*thinking, *others]
    return bool(others)


def _is_resumed(drafts: list[Draft]) -> bool:
    """Whether the model is in the middle of a turn that does not begin with thinking: it cannot begin to think now."""
    *before, last = drafts
    resumed = bool(before) and last.role is Role.USER and type(last.parts[0]) is ToolResult
    return resumed and type(before[-1].parts[0]) is not ThinkingPart


def _ended(drafts: list[Draft], prefilled: bool, notes: Notes) -> list[Draft]:
    """Let the last turn be the user's, or an assistant's that the model goes on from."""
    last = drafts[-1]
    if last.role is Role.USER:
        return drafts
    final = last.parts[-1]
    if not prefilled or type(final) is not Text:
        notes.applies("turns.prefill", last.place)
        return [*drafts, Draft(Role.USER, [Text(GO_ON)], last.place)]
    if final.text != final.text.rstrip():
        notes.applies("turns.trimmed", last.place)
        last.parts[-1] = Text(final.text.rstrip(), final.cache)
    return drafts


def _message(draft: Draft, blocks: Blocks, notes: Notes) -> dict[str, Any]:
    parts = draft.parts if draft.role is Role.ASSISTANT else [*_plain_errors(draft, notes)]
    return {"role": draft.role.value, "content": [blocks.write(part, draft.place) for part in parts]}


def _plain_errors(draft: Draft, notes: Notes) -> Iterator[Part]:
    """The parts of a user's turn: an error holds nothing but text, and the rest of it stands behind all results."""
    lifted: list[Part] = []
    others: list[Part] = []
    for part in draft.parts:
        if type(part) is not ToolResult:
            others.append(part)
            continue
        texts = tuple(each for each in part.parts if type(each) is Text)
        if part.is_error and texts != part.parts:
            notes.applies("results.attachment_lifted", draft.place)
            lifted += [each for each in part.parts if type(each) is not Text]
            part = evolve(part, parts=texts)
        yield part
    yield from lifted
    yield from others


def _system(prompt: Prompt, notes: Notes, *, with_schema: bool) -> list[dict[str, Any]]:
    texts = [
        marked({"type": "text", "text": text}, prompt.system_marks.get(index, ""))
        for index, text in enumerate(prompt.system)
        if text and not text.isspace()
    ]
    if prompt.schema is not None and with_schema:
        notes.applies("output.schema_instruction")
        texts.append({"type": "text", "text": "\n\n".join(schema_instructions(prompt.schema))})
    return texts


def estimate_tokens(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and arguments as JSON, images and documents at a fixed price each."""
    texts: list[str] = [block["text"] for block in body.get("system", ())]
    values: list[Any] = [*body.get("tools", ())]
    tokens = 0.0
    for block in _blocks(body):
        tokens += _collect(block, texts, values)
    tokens += TURN_TOKENS * len(body["messages"])
    return tokens + estimator.estimate_tokens("".join(texts)) + estimator.estimate_tokens(dumps(values)[1:-1].decode())


def _collect(block: Mapping[str, Any], texts: list[str], values: list[Any]) -> float:
    """Sort the content of a block into *texts* and *values*; returns the tokens of what has a fixed price."""
    match block["type"]:
        case "text":
            texts.append(block["text"])
        case "image":
            return IMAGE_TOKENS
        case "document" if block["source"]["type"] == "text":
            texts.append(block["source"]["data"])
        case "document":
            return DOCUMENT_TOKENS
        case "tool_use":
            texts.append(block["name"])
            values.append(block["input"])
        case "thinking":
            texts.append(block["thinking"])
    return 0


def _blocks(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every block, those in the results of tools among them."""
    for message in body["messages"]:
        for block in message["content"]:
            yield block
            if block["type"] == "tool_result":
                yield from block.get("content", ())


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; none of its texts."""
    kinds = [block["type"] for block in _blocks(body)]
    return {
        "bytes": size,
        "messages": len(body["messages"]),
        "tools": len(body.get("tools", ())),
        "tool_results": kinds.count("tool_result"),
        "images": kinds.count("image"),
        "system": sum(len(block["text"]) for block in body.get("system", ())),
    }
