"""What the service refuses about the order of messages, about empty ones, and about thinking that comes back."""

from __future__ import annotations

import binascii
import re
from typing import Any, Final

from kiro_asgi.simulator.builders import SEALED, sign
from kiro_asgi.simulator.conversation import Message, as_map, context_of, results_of
from kiro_asgi.simulator.rules import IMPROPER, INVALID, Asked, Refusal, Rule

__all__ = ["HISTORY", "THINKING"]

MODE_TAGS: Final = re.compile(r"\s*<(?:thinking_mode|max_thinking_length|thinking_effort)>")


def history_alternates(asked: Asked) -> bool:
    """History is user, assistant, user … assistant: it starts with the user and ends with the assistant."""
    sides = [side for side, _ in asked.conversation.history]
    return sides == ["user", "assistant"] * (len(sides) // 2)


def history_starts_without_results(asked: Asked) -> bool:
    """The first message of history has no tool results."""
    return not asked.conversation.history or not results_of(asked.conversation.history[0][1])


def user_content_present(asked: Asked) -> bool:
    """A user message has content that is not blank; only tool results may stand in for it, never attachments.

    Some gateways put a filler beside tool results too.  The AWS client sends an empty string there, which passes.
    """
    return all(_says(message, context_of(message).get("toolResults")) for message in asked.conversation.users)


def assistant_content_present(asked: Asked) -> bool:
    """An assistant message has content that is not blank; only tool uses may stand in for it."""
    return all(_says(message, message.get("toolUses")) for message in asked.conversation.assistants)


def _says(message: Message, instead: Any) -> bool:
    content = message.get("content")
    return isinstance(content, str) and bool(instead or (content and not content.isspace()))


def tools_only_now(asked: Asked) -> bool:
    """Tools are listed with the current message, never in history."""
    return not any("tools" in context_of(message) for message in asked.conversation.users[:-1])


def thinking_well_formed(asked: Asked) -> bool:
    """``reasoningContent`` is either text with its signature, or bytes in base64."""
    return all(map(_well_formed, asked.conversation.assistants))


def _well_formed(message: Message) -> bool:
    match message.get("reasoningContent", {"redactedContent": ""}):
        case {"reasoningText": {"text": str(text)}, **rest}:
            return not rest and bool(text)
        case {"redactedContent": str(sealed), **rest}:
            return not rest and _is_base64(sealed)
    return False


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True


def signatures_valid(asked: Asked) -> bool:
    """Thinking that comes back bears the seal that this service put on it: none that is foreign, altered or missing."""
    return all(map(_is_ours, asked.conversation.assistants))


def _is_ours(message: Message) -> bool:
    thought = as_map(message.get("reasoningContent"))
    if not thought:
        return True
    told = as_map(thought.get("reasoningText"))
    return told.get("signature") == sign(str(told["text"])) if told else thought.get("redactedContent") == SEALED


def no_thinking_request_in_history(asked: Asked) -> bool:
    """No message of history but the first, where the system text may be, begins with tags that ask for thinking.

    Its answer would have to hold signed thinking.  There is one report of this; tags further within a message are
    taken for a quotation.
    """
    return not any(MODE_TAGS.match(str(message.get("content"))) for message in asked.conversation.users[1:-1])


HISTORY: Final = (
    Rule(history_alternates, IMPROPER),
    Rule(history_starts_without_results, IMPROPER),
    Rule(user_content_present, IMPROPER),
    Rule(assistant_content_present, IMPROPER),
    Rule(tools_only_now, IMPROPER),
)

UNSIGNED: Final = Refusal(400, "Invalid signature in thinking block", "THINKING_SIGNATURE_INVALID")

THINKING: Final = (
    Rule(thinking_well_formed, INVALID),
    Rule(signatures_valid, UNSIGNED),
    Rule(no_thinking_request_in_history, UNSIGNED),
)
