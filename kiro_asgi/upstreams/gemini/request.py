"""The request body: sampling and thinking; contents, tools and which of them must be called, the answer's form; and its
tokens.

Thinking is a budget in tokens for the models of 2.5, a level for those after them, and never both.  The service refuses
a number that is out of its bounds, so such a number becomes the nearest that it takes.

It refuses functions beside its search, unless the answer's own tool calls are handed back part by part, for which no
client has a place; so functions win, unless the search is the tool that has to be called.

Sources: https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thinking,
https://ai.google.dev/gemini-api/docs/tool-combination
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.events import WEB_SEARCH
from kiro_asgi.model.handling import Tier, Words
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode, Tool, ToolChoice, ToolChoiceMode
from kiro_asgi.rendering.attachments import Attachments
from kiro_asgi.rendering.content import BodyContent
from kiro_asgi.rendering.names import WireNames
from kiro_asgi.rendering.options import Bound, bounded, ignored
from kiro_asgi.rendering.schemas import schema_instructions
from kiro_asgi.rendering.tools import distinct, require_choice
from kiro_asgi.rendering.unread import WriteBack
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.gemini.content import DOCUMENTS, IMAGES, ContentWriter, skip_missing_signatures
from kiro_asgi.upstreams.gemini.models import GeminiFamily, listed_family
from kiro_asgi.upstreams.gemini.schema import Copies, answer_schema, json_schema, parameters
from kiro_asgi.upstreams.models import BUDGETS, effort_of, nearest_effort

API: Final = "gemini"
"""Name of the client API that the service speaks."""

WORDS: Final = Words(
    tier=("serviceTier",),
    tiers=MappingProxyType({Tier.STANDARD: "standard", Tier.FLEX: "flex", Tier.PRIORITY: "priority"}),
    tier_header=b"x-gemini-service-tier",
    headed=MappingProxyType({"standard": Tier.STANDARD, "flex": Tier.FLEX, "priority": Tier.PRIORITY}),
)
"""Labels are Vertex AI's alone; the tier that answers is in a header here, and in the body there.

Sources: https://googleapis.github.io/python-genai/genai.html#genai.types.ServiceTier,
https://ai.google.dev/gemini-api/docs/priority-inference
"""

DYNAMIC: Final = -1
"""The budget that leaves it to the model how much to think."""


def _thinking_config(thinking: Thinking, family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """``thinkingConfig``; empty where the client asks for nothing, or the model takes none.

    Thoughts are shown only to clients that asked for thinking.
    """
    if thinking.mode is ThinkingMode.DISABLED or thinking.effort == "none":
        return _off(family, notes)
    if not (thinking.wanted or thinking.effort):
        return {}
    if not family.levels and family.budgets is None:
        notes.applies("thinking.unavailable")
        return {}
    config: dict[str, Any] = {"includeThoughts": True} if thinking.wanted else {}
    if family.levels:
        level = _level(thinking, family.levels, notes)
        return {**config, "thinkingLevel": level} if level else config
    return {**config, "thinkingBudget": _budget(thinking, family, notes)}


def _off(family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """As little thinking as there can be."""
    if family.levels:
        notes.applies("thinking.not_off")
        return {"thinkingLevel": family.levels[0]}
    if family.budgets is None:
        return {}
    if family.can_rest:
        return {"thinkingBudget": 0}
    notes.applies("thinking.not_off")
    return {"thinkingBudget": family.budgets[0]}


def _level(thinking: Thinking, levels: tuple[str, ...], notes: Notes) -> str:
    """The level to ask for; empty for the model's own."""
    wanted = thinking.effort
    if not wanted and thinking.budget_tokens is not None:
        notes.applies("thinking.budget_as_level")
        return nearest_effort(effort_of(thinking.budget_tokens), levels)
    nearest = nearest_effort(wanted, levels)
    if nearest != wanted:
        notes.applies("thinking.effort")
    return nearest


def _budget(thinking: Thinking, family: GeminiFamily, notes: Notes) -> int:
    least, most = family.budgets or (0, 0)
    if thinking.budget_tokens is None:
        return min(max(BUDGETS.get(thinking.effort, most), least), most) if thinking.effort else DYNAMIC
    budget = min(max(thinking.budget_tokens, least), most)
    if budget != thinking.budget_tokens:
        notes.applies("thinking.budget")
    return budget


MAX_STOPS: Final = 5
"""Stop sequences of one request."""

_OUT: Final = "sampling.bounds"

BOUNDS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "temperature": Bound("temperature", 0.0, 2.0, _OUT),
        "top_p": Bound("topP", 0.0, 1.0, _OUT),
        "top_k": Bound("topK", 1, 64, _OUT),
    }
)

PENALTIES: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "presence_penalty": Bound("presencePenalty", -2.0, 1.99, _OUT),
        "frequency_penalty": Bound("frequencyPenalty", -2.0, 1.99, _OUT),
    }
)
"""Bounds of what only some models take; 2 itself is refused."""

MAX_SEED: Final = 0x7FFF_FFFF


def _generation_config(prompt: Prompt, model: ModelCard, family: GeminiFamily, notes: Notes) -> dict[str, Any]:
    """``generationConfig``; empty where the client sets nothing.

    Args:
        prompt: The request.
        model: The model that is asked.
        family: The model's.
        notes: Gets the rules that applied.
    """
    sampling = prompt.sampling
    config = bounded(sampling, BOUNDS, notes)
    if family.penalties:
        config |= bounded(sampling, PENALTIES, notes)
    else:
        ignored(sampling, PENALTIES, "sampling.penalties", notes)
    if sampling.seed is not None:
        config["seed"] = sampling.seed & MAX_SEED
        if config["seed"] != sampling.seed:
            notes.applies("sampling.bounds", "seed")
    if stops := _stops(sampling.stop, notes):
        config["stopSequences"] = stops
    thinking = _thinking_config(prompt.thinking, family, notes)
    if sampling.max_tokens is not None:
        config["maxOutputTokens"] = _max_tokens(sampling.max_tokens, thinking, model, family, notes)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def _stops(stops: tuple[str, ...], notes: Notes) -> list[str]:
    """The first of them, as many as the service takes; the gateway ends answers at the others."""
    kept = [stop for stop in stops if stop]  # an empty one would end an answer before it begins
    if len(kept) > MAX_STOPS:
        notes.applies("sampling.stops", "stop")
    return kept[:MAX_STOPS]


def _max_tokens(wanted: int, thinking: dict[str, Any], model: ModelCard, family: GeminiFamily, notes: Notes) -> int:
    """The greatest length, which thoughts share: a budget leaves half of it to the answer, as far as it can."""
    bounded = min(max(wanted, 1), model.max_output_tokens)
    budget = thinking.get("thinkingBudget", 0)
    if budget >= bounded and family.budgets and (halved := max(bounded // 2, family.budgets[0])) < budget:
        thinking["thinkingBudget"] = budget = halved
        notes.applies("thinking.budget")
    if budget >= bounded:
        bounded = min(bounded + budget, model.max_output_tokens)
    if bounded != wanted:
        notes.applies("sampling.max_tokens", "max_tokens")
    return bounded


MAX_NAME: Final = 64
"""Characters."""

_NAME: Final = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_.:-]{{0,{MAX_NAME - 1}}}")

_MODES: Final[Mapping[ToolChoiceMode, str]] = MappingProxyType(
    {ToolChoiceMode.REQUIRED: "ANY", ToolChoiceMode.NAMED: "ANY", ToolChoiceMode.NONE: "NONE"}
)


def _tool_names(notes: Notes) -> WireNames:
    """Names of functions, for one request."""
    return WireNames(_NAME, MAX_NAME, "tools.renamed", notes)


def _written_tools(prompt: Prompt, names: WireNames, write: WriteBack, copies: Copies) -> dict[str, Any]:
    """``tools`` and ``toolConfig``, where they are needed.

    Raises:
        RequestError: The choice names a tool that is not there.
    """
    notes, tools = write.notes, distinct(prompt.tools, write.notes)
    searches = [tool for tool in tools if tool.hosted == WEB_SEARCH]
    others = [it for it in tools if it.hosted != WEB_SEARCH and it.opaque is not None and it.opaque.api == write.api]
    served = [entry for it in others if it.opaque is not None and (entry := write.opaque(it.opaque)) is not None]
    functions = [tool for tool in tools if tool.hosted != WEB_SEARCH and tool not in others]
    require_choice(prompt.tool_choice, tools)
    if functions and _names_one(prompt.tool_choice, searches):
        notes.applies("tools.search_alone", functions[0].place, len(functions))
        functions = []
    if functions:
        for search in searches:
            notes.applies("tools.search_dropped", search.place)
        declarations = [_declaration(tool, names, write, copies) for tool in functions]
        return {
            "tools": [{"functionDeclarations": declarations}, *served],
            **_config(prompt.tool_choice, names, notes),
        }
    if not searches or prompt.tool_choice.mode is ToolChoiceMode.NONE:
        return {"tools": served} if served else {}
    own = next((it.opaque for it in searches if it.opaque is not None and it.opaque.api == write.api), None)
    wanted = write.opaque(own) if own is not None else None
    if prompt.max_tool_calls is not None or (wanted is None and any(search.options for search in searches)):
        notes.applies("tools.search_options", searches[0].place)
    if prompt.tool_choice.demanded:
        notes.applies("tools.search_demanded", "tool_choice")
    return {"tools": [wanted or {"googleSearch": {}}, *served]}


def _names_one(choice: ToolChoice, tools: list[Tool]) -> bool:
    """Whether one of *tools* has to be called, and no other."""
    return choice.mode is ToolChoiceMode.NAMED and any(tool.name == choice.name for tool in tools)


def _declaration(tool: Tool, names: WireNames, write: WriteBack, copies: Copies) -> dict[str, Any]:
    """One function; one without arguments has no ``parameters``, as the service refuses an object without any."""
    declaration: dict[str, Any] = {"name": names.wire(tool.name, tool.place)}
    if tool.description:
        declaration["description"] = tool.description
    if schema := parameters(tool, write.notes, copies):
        declaration["parameters"] = schema
    write.into(declaration, tool.unread, place=tool.place)
    return declaration


def _config(choice: ToolChoice, names: WireNames, notes: Notes) -> dict[str, Any]:
    if not choice.parallel and choice.mode is not ToolChoiceMode.NONE:
        notes.applies("tools.parallel", "tool_choice")
    if choice.mode not in _MODES:
        return {}
    config: dict[str, Any] = {"mode": _MODES[choice.mode]}
    if choice.mode is ToolChoiceMode.NAMED:
        config["allowedFunctionNames"] = [names.wire(choice.name)]
    return {"toolConfig": {"functionCallingConfig": config}}


CATEGORIES: Final = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
"""Kinds of harm with a threshold, without ``HARM_CATEGORY_``."""


@frozen
class GeminiBody:
    """A request body, and facts about it."""

    body: dict[str, Any]
    names: WireNames
    notes: Notes
    unread: frozenset[str] = frozenset()
    """As of `kiro_asgi.upstreams.base.Rendered`."""

    crossed: frozenset[str] = frozenset()
    """As of the same."""


def document(
    prompt: Prompt,
    model: ModelCard,
    *,
    replay_thinking: bool,
    without_signatures: bool,
    threshold: str,
    json_schemas: bool = True,
    unsent: Mapping[str, str] = MappingProxyType({}),
) -> GeminiBody:
    """The request body for *prompt*.

    Args:
        prompt: The request.
        model: The model that is asked.
        replay_thinking: Hand signed thinking of earlier answers back.
        without_signatures: Whether the service refused a signature, or the lack of one.
        threshold: From which probability of harm the service blocks; empty for its own.
        json_schemas: Whether the service takes JSON Schema for the answer, from a model that has it.
        unsent: As `kiro_asgi.rendering.unread.WriteBack.without`.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes, family = Notes(), listed_family(model)
    if without_signatures:
        notes.applies("adapted.signatures")
    if not json_schemas:
        notes.applies("adapted.json_schema")
    names, copies = _tool_names(notes), Copies()
    write = WriteBack(API, notes, unsent)
    tools = _written_tools(prompt, names, write, copies)
    attachments = Attachments(notes, IMAGES, DOCUMENTS)
    writer = ContentWriter(notes, names, attachments, write, replay_thinking and not without_signatures)
    contents = writer.contents(prompt)
    if family.signs_calls or without_signatures:
        skip_missing_signatures(contents, notes)
    in_prompt = prompt.schema is not None and bool(tools) and not family.schema_with_tools
    if in_prompt:
        notes.applies("output.schema_instruction")
    parts = [*_system(prompt, write)]
    if in_prompt and prompt.schema is not None:
        parts += ({"text": text} for text in schema_instructions(prompt.schema))
    body = {
        "systemInstruction": {"parts": parts} if parts else {},
        "contents": contents,
        **tools,
        "generationConfig": {
            **_generation_config(prompt, model, family, notes),
            **({} if in_prompt else _form(prompt, notes, copies, json_schemas=json_schemas and family.json_schema)),
        },
        "safetySettings": [
            {"category": f"HARM_CATEGORY_{category}", "threshold": threshold} for category in CATEGORIES if threshold
        ],
    }
    written = {key: value for key, value in body.items() if value}
    said = write.whole(written, prompt, WORDS)
    return GeminiBody(written, names, notes, frozenset(write.written), said)


def _system(prompt: Prompt, write: WriteBack) -> Iterator[dict[str, Any]]:
    for index, text in enumerate(prompt.system):
        if text:
            part = {"text": text}
            write.into(part, prompt.system_unread.get(index), place=prompt.system_place)
            yield part


def _form(prompt: Prompt, notes: Notes, copies: Copies, *, json_schemas: bool) -> Mapping[str, Any]:
    """The fields for the form of the answer; none where the client demands none."""
    if prompt.schema is None:
        return {}
    if json_schemas:
        name, schema = "responseJsonSchema", json_schema(prompt.schema, notes)
    else:
        name, schema = "responseSchema", answer_schema(prompt.schema, notes, copies)
    return {"responseMimeType": "application/json", **({name: schema} if schema else {})}


def content_of(body: Mapping[str, Any]) -> BodyContent:
    """What *body* holds."""
    declared = (tool.get("functionDeclarations", (tool,)) for tool in body.get("tools", ()))
    found = BodyContent(messages=len(body.get("contents", ())), tools=sum(map(len, declared)))
    config = body.get("generationConfig", {})
    found.values += body.get("tools", ())
    found.values += (config[name] for name in ("responseSchema", "responseJsonSchema") if name in config)
    found.system += (part["text"] for part in body.get("systemInstruction", {}).get("parts", ()))
    for content in body.get("contents", ()):
        for part in content["parts"]:
            _collect(part, found)
    return found


def _collect(part: Mapping[str, Any], found: BodyContent) -> None:
    if "text" in part:
        found.texts.append(part["text"])
    elif attached := part.get("inlineData") or part.get("fileData"):
        is_image = attached.get("mimeType", "image/").startswith("image/")
        found.images += is_image
        found.documents += not is_image
    else:
        found.results += "functionResponse" in part
        found.values.append(part.get("functionCall") or part.get("functionResponse"))
