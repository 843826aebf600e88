"""A prompt in the service's words.

The service has no field for a system text.  It is told as the first exchange of the history, a user's message and
the assistant's consent, and not in front of the user's first words: so the beginning of a conversation is the same
bytes in every request, which is what prompt caching and the signatures of thinking depend on, and the user's own
words stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Image, Prompt, Role, ToolCallPart, ToolResult
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro import thinking, tools
from kiro_asgi.upstreams.kiro.drafts import Draft, Notes, draft
from kiro_asgi.upstreams.kiro.history import repair
from kiro_asgi.upstreams.kiro.names import ToolNames

__all__ = ["DESCRIPTION_LIMIT", "Document", "Wording", "document"]

DESCRIPTION_LIMIT: Final = 10_000
"""Characters of a tool description; the service's own limit is slightly above."""

CONSENT: Final = "I will follow these instructions."

TASK_TYPES: Final = ("vibe", "spectask")


@frozen(kw_only=True)
class Wording:
    """How prompts are put, the same for all of them."""

    origin: str = "AI_EDITOR"
    agent_mode: str = "vibe"
    fake_reasoning: bool = True
    """Ask for thinking in tags where a model has no native thinking."""

    replay_thinking: bool = True
    """Hand signed thinking of earlier answers back.  The service refuses a signature that another account received."""

    description_limit: int = DESCRIPTION_LIMIT
    """Characters of a tool description; what is beyond moves to the system text."""


@frozen
class Document:
    """A request body, and what is to be known about it."""

    body: dict[str, Any]
    names: ToolNames
    thinking_tags: bool
    notes: tuple[str, ...]


def document(prompt: Prompt, model: ModelCard, wording: Wording, *, conversation_id: str, profile_arn: str) -> Document:
    """The request body for *prompt*.

    Raises:
        RequestError: The prompt holds something that the service cannot be asked.
    """
    _require_images(prompt, model)
    names, notes = ToolNames(), Notes()
    specifications, manifest = _tools(prompt, names, notes, wording.description_limit)
    drafts = repair(draft(prompt, names, notes, replay_thinking=wording.replay_thinking), notes)
    tagged = wording.fake_reasoning and prompt.thinking.wanted and not thinking.is_native(model)
    if tagged:
        notes.add("thinking.tags")
        drafts[-1].text = f"{thinking.instruction(prompt.thinking)}\n\n{drafts[-1].text}".strip()
    drafts = [*_preface(prompt, manifest, names, notes), *drafts]
    _note_ignored(prompt, notes)
    if names.changed():
        notes.add("tools.renamed")
    state = _state(drafts, model, wording, specifications, conversation_id)
    body = {
        "conversationState": state,
        "profileArn": profile_arn,
        "additionalModelRequestFields": thinking.options(prompt, model),
    }
    return Document(_present(body), names, tagged, tuple(notes))


def _require_images(prompt: Prompt, model: ModelCard) -> None:
    parts = [part for turn in prompt.turns for part in turn.parts]
    nested = [each for part in parts if isinstance(part, ToolResult) for each in part.parts]
    if not model.images and any(isinstance(part, Image) for part in (*parts, *nested)):
        raise RequestError(f"not supported: {model.id} takes no images", code="unsupported_value", param="messages")


def _tools(prompt: Prompt, names: ToolNames, notes: Notes, limit: int) -> tuple[list[dict[str, Any]], str]:
    """The specifications of all tools that are offered or were called, and what did not fit into them."""
    for tool in prompt.tools:
        names.wire(tool.name)
    used = [part.name for turn in prompt.turns for part in turn.parts if isinstance(part, ToolCallPart)]
    offered = tools.offered(prompt, used)
    stubs = tools.stubs(offered, used)
    if stubs:
        notes.add("tools.stubbed")
    manifest = tools.manifest(offered, names, limit)
    if manifest:
        notes.add("tools.description_moved")
    return [tools.specification(tool, names, limit) for tool in (*offered, *stubs)], manifest


def _preface(prompt: Prompt, manifest: str, names: ToolNames, notes: Notes) -> Iterator[Draft]:
    """The system text as an exchange; what changes from request to request stands last."""
    texts = (*prompt.system, manifest, *tools.directives(prompt, names))
    system = "\n\n".join(text for text in texts if text.strip())
    if system:
        notes.add("system.exchange")
        yield Draft(Role.USER, system)
        yield Draft(Role.ASSISTANT, CONSENT)


def _note_ignored(prompt: Prompt, notes: Notes) -> None:
    sampling = prompt.sampling
    if (sampling.temperature, sampling.top_p, sampling.top_k) != (None, None, None):
        notes.add("sampling.ignored")


def _state(
    drafts: list[Draft], model: ModelCard, wording: Wording, specifications: list[dict[str, Any]], conversation_id: str
) -> dict[str, Any]:
    *history, current = (_message(each, model.id, wording.origin) for each in drafts)
    user = current["userInputMessage"]
    user["userInputMessageContext"] = _present({**user.get("userInputMessageContext", {}), "tools": specifications})
    return _present(
        {
            "chatTriggerType": "MANUAL",
            "agentTaskType": wording.agent_mode if wording.agent_mode in TASK_TYPES else "",
            "conversationId": conversation_id,
            "history": history,
            "currentMessage": {"userInputMessage": _present(user)},
        }
    )


def _message(each: Draft, model_id: str, origin: str) -> dict[str, Any]:
    """One item of the history, or the current message."""
    if each.role is Role.ASSISTANT:
        said = {"toolUses": each.calls, "reasoningContent": each.reasoning}
        return {"assistantResponseMessage": {"content": each.text, **_present(said)}}
    attached = {
        "images": each.images,
        "documents": each.documents,
        "userInputMessageContext": _present({"toolResults": each.results}),
    }
    return {"userInputMessage": {"content": each.text, "modelId": model_id, "origin": origin, **_present(attached)}}


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Without members that say nothing: the service refuses null, and some empty lists."""
    return {key: value for key, value in fields.items() if value or key == "content"}
