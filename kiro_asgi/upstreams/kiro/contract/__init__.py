"""The contract that the first gateways promised: earlier tool calls as text, descriptions of 256 characters at most.

Requests, answers and options have types of its own here, simpler than what the service really takes.  The
difference is bridged in one place each: `kiro_asgi.upstreams.kiro.contract.request` puts a request into the service's
shape, `kiro_asgi.upstreams.kiro.contract.answer` makes an answer from the service's events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import Attribute, field, frozen

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.message import RedactedThinkingBlock, ThinkingBlock
from kiro_asgi.model.prompt import Part, Role
from kiro_asgi.upstreams.kiro.settings import KiroSettings

BUDGETS: Final = (50, 200)
"""Largest budgets, in tokens, that mean low and medium effort."""


@frozen
class UserInputMessage:
    """The current message."""

    content: str
    model_id: str
    origin: str
    parts: tuple[Part, ...] = ()
    """Parts that text cannot hold: images and documents; with native tool history also calls, results and thinking."""


@frozen
class HistoryMessage:
    """One message before the current one."""

    role: Role
    content: str
    parts: tuple[Part, ...] = ()
    """As for `UserInputMessage`."""

    place: str = field(default="", eq=False)
    """As for `kiro_asgi.model.prompt.Turn`."""


@frozen
class ToolSpec:
    """A tool as the model is offered it."""

    name: str
    description: str
    """Trimmed, and cut to the limit."""

    json_schema: Any


@frozen
class ManifestEntry:
    """The whole description of a tool."""

    name: str
    hash: str
    """The first 64 bits of the description's SHA-256, in 16 hexadecimal digits."""

    length: int
    """Characters, not bytes."""

    description: str


@frozen
class ClaudeToolChoice:
    """The client's tool choice."""

    mode: str
    """``auto``, ``any``, ``tool`` or ``none``."""

    tool_name: str = ""
    """For ``tool`` only."""

    raw_payload: Any = None
    """As the client sent it."""


@frozen
class MessageContext:
    """The context of the messages: tools, tool choice and metadata."""

    tools: tuple[ToolSpec, ...] = ()
    tool_context_manifest: tuple[ManifestEntry, ...] = ()
    """One entry for every tool that has a description."""

    claude_tool_choice: ClaudeToolChoice | None = None
    plan_mode: bool = False
    metadata: Mapping[str, Any] = field(factory=dict)
    """The client's own, as it came."""

    def sidecar(self) -> dict[str, Any]:
        """Everything but the tools, ready for JSON; without empty members."""
        choice = self.claude_tool_choice
        fields = {
            "toolContextManifest": [
                {"name": it.name, "hash": it.hash, "length": it.length, "description": it.description}
                for it in self.tool_context_manifest
            ],
            "claudeToolChoice": choice
            and {"mode": choice.mode, "toolName": choice.tool_name, "rawPayload": choice.raw_payload},
            "planMode": self.plan_mode,
            "metadata": dict(self.metadata),
        }
        return {name: value for name, value in fields.items() if value}


@frozen
class Request:
    """A request as the contract has it."""

    current_message: UserInputMessage
    context: MessageContext
    history: tuple[HistoryMessage, ...] = ()

    def document(self) -> dict[str, Any]:
        """The same ready for JSON, in the contract's own shape; `UserInputMessage.parts` have no place in it."""
        current = self.current_message
        tools = [
            {"name": it.name, "description": it.description, "jsonSchema": it.json_schema} for it in self.context.tools
        ]
        state: dict[str, Any] = {
            "currentMessage": {
                "userInputMessage": {
                    "content": current.content,
                    "modelId": current.model_id,
                    "origin": current.origin,
                },
                "userInputMessageContext": {**({"tools": tools} if tools else {}), **self.context.sidecar()},
            }
        }
        if self.history:
            state["history"] = [{"role": it.role.value, "content": it.content} for it in self.history]
        return {"conversationState": state}


@frozen
class ToolUse:
    """A tool call in an answer."""

    id: str
    name: str
    input: Any
    """The arguments as `kiro_asgi.upstreams.kiro.contract.answer.safe_parse_json` reads them."""


@frozen
class OutputMessage:
    """One piece of an answer: a stretch of text, or what stands between two of them."""

    content: str = ""
    tool_use: ToolUse | None = None
    thinking: ThinkingBlock | RedactedThinkingBlock | None = None


@frozen
class ResponseUsage:
    """Token counts of an answer."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


@frozen
class Response:
    """An answer as the contract has it."""

    output_messages: tuple[OutputMessage, ...] = ()
    usage: ResponseUsage | None = None
    stop_reason: str = ""
    """The service's stop reason, e.g. ``MAX_TOKENS``; empty where it has none."""


def _check_budgets(_: Any, __: Attribute[tuple[int, ...]], value: tuple[int, ...]) -> None:
    if len(value) != 2 or value[0] > value[1]:
        raise ConfigError("kiro.effort_budgets must be two numbers, the smaller one first", code="kiro.effort_budgets")


@frozen(kw_only=True)
class ContractOptions:
    """Choices that hold for all requests.

    Raises:
        ConfigError: Not two budgets, or the wrong way round.
    """

    description_limit: int = 256
    """Characters of a tool description; what is longer stands in full in the system text."""

    drop_tool_events: bool = True
    """Send earlier tool calls and results as text, instead of as structures."""

    inline_tool_context: bool = False
    """Write them into the turns that they belong to, instead of all of them in front of the current text."""

    strip_system_reminders: bool = True
    """Take complete ``<system-reminder>`` blocks out of all texts."""

    send_sidecar_fields: bool = False
    """Send manifest, tool choice, plan mode and metadata as members of their own, which the service does not know."""

    legacy_stop_map: bool = True
    """A stop sequence ends an answer as ``end_turn``, and so does every reason that the contract does not know."""

    plan_mode_key: str = "plan_mode"
    """The member of ``metadata`` that switches plan mode on."""

    effort_budgets: tuple[int, ...] = field(default=BUDGETS, validator=_check_budgets)
    """Largest thinking budgets, in tokens, that mean low and medium effort."""

    continue_text: str = "Continue"
    """The user's message where the assistant's is the last."""

    origin: str = "AI_EDITOR"


def contract_options(settings: KiroSettings) -> ContractOptions:
    """The choices that *settings* make.

    Raises:
        ConfigError: As for the class.
    """
    return ContractOptions(
        inline_tool_context=settings.inline_tool_context,
        send_sidecar_fields=settings.send_sidecar_fields,
        strip_system_reminders=settings.strip_system_reminders,
        legacy_stop_map=settings.legacy_stop_map,
        plan_mode_key=settings.plan_mode_key,
        effort_budgets=tuple(map(int, settings.effort_budgets)),
    )
