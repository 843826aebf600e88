"""The contract's request for the service: as a prompt that says the same, for the native writer to write down.

So whatever the service insists on, the order of roles, the alphabet of names, sizes, is seen to in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import evolve

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import (
    Part,
    Prompt,
    Role,
    Text,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResult,
    Turn,
)
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro import request as native
from kiro_asgi.upstreams.kiro.contract.functions import effort_of
from kiro_asgi.upstreams.kiro.contract.model import HistoryMessage, Request, ToolSpec, UserInputMessage
from kiro_asgi.upstreams.kiro.contract.options import ContractOptions
from kiro_asgi.upstreams.kiro.contract.request import translate
from kiro_asgi.upstreams.kiro.settings import KiroSettings

__all__ = ["contract_document", "reworded"]

HEARD: Final = "OK."
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

    Where *settings* and *options* speak of the same thing, *settings* counts.

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
        reworded(prompt, request, options),
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


def reworded(prompt: Prompt, request: Request, options: ContractOptions) -> Prompt:
    """*request*, which is the translation of *prompt*, as a prompt: nothing but turns, tools and what has no text."""
    history = [Turn(it.role, _parts(it), it.place) for it in request.history]
    if history and history[-1].role is Role.USER:
        history.append(Turn(Role.ASSISTANT, (Text(HEARD),)))
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
            if type(part) in TOLD:
                yield TOLD[type(part)], turn.place


TOLD: Final[Mapping[type, str]] = MappingProxyType(
    {
        ToolCallPart: "contract.call_told",
        ToolResult: "contract.result_told",
        ThinkingPart: "contract.thinking_dropped",
    }
)
"""Part to the rule that takes it out of text-only conversations."""
