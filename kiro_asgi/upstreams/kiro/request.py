"""Render a prompt as a request body, and estimate its tokens and sizes from that.

The service has no field for a system text.  It is sent as the first exchange of the history, a user's message and
the assistant's consent, and not in front of the user's first message: so the beginning of a conversation is the same
bytes in every request, which is what prompt caching and the signatures of thinking depend on, and the user's own
texts stay as they are.

Empty members are left out: the service refuses null, and some empty lists.  That goes for an empty profile, too.  Tools
stand with the current message only, and no cache point is ever sent: the service takes it for a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Image, Prompt, Role, ToolCallPart, ToolResult
from kiro_asgi.stages.estimate import DOCUMENT_TOKENS, IMAGE_TOKENS, TURN_TOKENS, Estimator
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.rules import sizes, thinking, turns
from kiro_asgi.upstreams.kiro.rules.drafts import AttachmentWriter, Drafting, MessageDraft, require_images
from kiro_asgi.upstreams.kiro.rules.sizes import messages
from kiro_asgi.upstreams.kiro.rules.texts import Texts, paragraphs, tool_names
from kiro_asgi.upstreams.kiro.rules.tools import Specifications, directives, offered
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.rendering import WireNames
from kiro_asgi.wire.json import dumps

__all__ = ["CONSENT", "RequestBody", "document", "estimate_tokens", "statistics"]

CONSENT: Final = "I will follow these instructions."
"""The assistant's answer to the system text."""

TASK_TYPES: Final = ("vibe", "spectask")

SIDES: Final[Mapping[Role, str]] = MappingProxyType(
    {Role.USER: "userInputMessage", Role.ASSISTANT: "assistantResponseMessage"}
)


@frozen
class RequestBody:
    """A request body, and what is to be known about it."""

    body: dict[str, Any]
    names: WireNames
    thinking_tags: bool
    notes: Notes
    preface: int = 0
    """Messages at the beginning of the history that are the system text."""


def document(
    prompt: Prompt,
    model: ModelCard,
    settings: KiroSettings,
    *,
    adaptations: Iterable[str] = (),
    conversation_id: str,
    profile_arn: str,
) -> RequestBody:
    """The request body for *prompt*; *adaptations* are rules that earlier refusals put in force.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked; the message names the rule.
    """
    notes = Notes(frozenset(settings.rules_off))
    for rule in adaptations:
        notes.applies(rule)
    names, texts = tool_names(notes), Texts(notes, settings.sanitize_text, settings.strip_system_reminders)
    images, used = _survey(prompt)
    as_text = settings.tool_history == "text"
    require_images(model, images, notes)
    tools = offered(prompt, {} if as_text else used, notes)
    specifications = Specifications(notes, names, texts, settings.description_limit)
    written = [specifications.write(tool) for tool in tools]
    surplus = len(images) - settings.max_images
    drafting = Drafting(notes, names, texts, AttachmentWriter(notes), surplus, settings.replay_thinking)
    drafts = turns.arrange(drafting.write(prompt), notes, turns.TEXT if as_text else turns.NATIVE)
    tagged = thinking.wants_tags(prompt, model, notes, allowed=settings.fake_reasoning_enabled)
    if tagged:
        drafts[-1].text = paragraphs(thinking.instruction(prompt.thinking), drafts[-1].text)
    options = thinking.options(prompt, model, notes)
    preface = [*_preface(prompt, specifications.manifest(), names, texts, notes)]
    sizes.require_messages([*preface, *drafts], prompt, notes)
    _note_ignored(prompt, notes)
    state = _state([*preface, *drafts], model, settings, written, conversation_id)
    body = {"conversationState": state, "profileArn": profile_arn, "additionalModelRequestFields": options}
    return RequestBody(_present(body), names, tagged, notes, len(preface))


def _survey(prompt: Prompt) -> tuple[list[Image], dict[str, str]]:
    """All images, and the names of the tools that were called, each with the place of its first call."""
    images: list[Image] = []
    used: dict[str, str] = {}
    for turn in prompt.turns:
        for part in turn.parts:
            if type(part) is ToolCallPart:
                used.setdefault(part.name, turn.place)
            elif type(part) is ToolResult:
                images += [inner for inner in part.parts if type(inner) is Image]
            elif type(part) is Image:
                images.append(part)
    return images, used


def _preface(prompt: Prompt, manifest: str, names: WireNames, texts: Texts, notes: Notes) -> Iterator[MessageDraft]:
    """The system text as an exchange; what changes from request to request stands last."""
    place = prompt.system_place if prompt.system else ""
    cleaned = [texts.clean(text, place) for text in prompt.system]
    system = paragraphs(*cleaned, manifest, *directives(prompt, names, notes))
    if system and notes.applies("system.exchange", place):
        yield MessageDraft(Role.USER, place, system)
        yield MessageDraft(Role.ASSISTANT, place, CONSENT)


_IGNORED: Final = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
"""Fields of `kiro_asgi.model.prompt.Sampling` that the service has no place for."""


def _note_ignored(prompt: Prompt, notes: Notes) -> None:
    for name in prompt.sampling.given(_IGNORED):
        notes.applies("sampling.ignored", name)


def _state(
    drafts: list[MessageDraft],
    model: ModelCard,
    settings: KiroSettings,
    specifications: list[dict[str, Any]],
    conversation_id: str,
) -> dict[str, Any]:
    *history, current = [_message(each, model.id, settings.origin) for each in drafts]
    if specifications:
        user = next(iter(current.values()))
        user.setdefault("userInputMessageContext", {})["tools"] = specifications
    return _present(
        {
            "chatTriggerType": "MANUAL",
            "agentTaskType": settings.agent_mode if settings.agent_mode in TASK_TYPES else "",
            "conversationId": conversation_id,
            "history": history,
            "currentMessage": current,
        }
    )


def _message(each: MessageDraft, model_id: str, origin: str) -> dict[str, Any]:
    """One item of the history, or the current message."""
    fields: dict[str, Any] = {"content": each.text}
    if each.role is Role.USER:
        fields["modelId"], fields["origin"] = model_id, origin
    if each.images:
        fields["images"] = each.images
    if each.documents:
        fields["documents"] = each.documents
    if each.results:
        fields["userInputMessageContext"] = {"toolResults": each.results}
    if each.calls:
        fields["toolUses"] = each.calls
    if each.thinking:
        fields["reasoningContent"] = each.thinking[0] if len(each.thinking) == 1 else each.thinking
    return {SIDES[each.role]: fields}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def estimate_tokens(body: Mapping[str, Any], estimator: Estimator) -> float:
    """Tokens that the model reads: texts, tools and arguments as JSON, images and documents at a fixed price each."""
    texts: list[str] = []
    values: list[Any] = []
    tokens = 0.0
    for message in messages(body):
        tokens += TURN_TOKENS
        tokens += IMAGE_TOKENS * len(message.get("images", ())) + DOCUMENT_TOKENS * len(message.get("documents", ()))
        _collect(message, texts, values)
    return tokens + estimator.estimate_tokens("".join(texts)) + estimator.estimate_tokens(dumps(values)[1:-1].decode())


def _collect(message: Mapping[str, Any], texts: list[str], values: list[Any]) -> None:
    """Sort what a message says: all of a kind is estimated at once, which is cheaper than piece by piece."""
    texts.append(message["content"])
    for call in message.get("toolUses", ()):
        texts.append(call["name"])
        values.append(call["input"])
    if reasoning := message.get("reasoningContent"):
        values.append(reasoning)
    if context := message.get("userInputMessageContext"):
        for result in context.get("toolResults", ()):
            texts += [part["text"] for part in result["content"]]
        if tools := context.get("tools"):
            values.append([tool["toolSpecification"] for tool in tools])


def statistics(body: Mapping[str, Any], size: int) -> dict[str, int]:
    """Counts of a *body* that is *size* bytes, and the characters of its system text; never a word of it."""
    every = [*messages(body)]
    contexts = [message.get("userInputMessageContext", {}) for message in every]
    told = len(every) > 2 and every[1]["content"] == CONSENT
    return {
        "bytes": size,
        "messages": len(every),
        "tools": sum(len(context.get("tools", ())) for context in contexts),
        "tool_results": sum(len(context.get("toolResults", ())) for context in contexts),
        "images": sum(len(message.get("images", ())) for message in every),
        "system": len(every[0]["content"]) if told else 0,
    }
