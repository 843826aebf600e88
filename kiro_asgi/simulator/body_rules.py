"""What the service refuses about a request as a whole: its size, its members, its words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map, context_of, results_of
from kiro_asgi.simulator.rules import IMPROPER, INVALID, TOO_LONG, Asked, Refusal, Rule

__all__ = ["BODY", "LENGTHS", "MAX_BODY", "MAX_CONTENT"]

MAX_BODY: Final = 615_000
"""Bytes of a body without its attachments, for a window of 200,000 tokens; in proportion for other windows."""

WINDOW: Final = 200_000

MAX_CONTENT: Final = 600_000
"""Characters of one user message."""

MAX_RESULT: Final = 800_000
"""Characters of one tool result."""

MAX_DIRECTORY: Final = 256
"""Characters of a working directory."""

UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

TRIGGERS: Final = frozenset(("MANUAL", "DIAGNOSTIC", "INLINE_CHAT"))

WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "agentTaskType": frozenset(("vibe", "spectask")),
        "origin": frozenset(
            (
                "AI_EDITOR", "CHATBOT", "CLI", "CONSOLE", "DOCUMENTATION", "GITLAB", "IDE", "INLINE_CHAT", "KIRO_CLI",
                "KIRO_WEB", "MARKETING", "MD", "MD_CE", "MD_IDE", "MOBILE", "OPENSEARCH_DASHBOARD", "Q_DEV_BEXT",
                "SAGE_MAKER", "SERVICE_INTERNAL", "SM_AI_STUDIO_IDE", "UNIFIED_SEARCH", "UNKNOWN",
            )
        ),
        "userIntent": frozenset(
            (
                "APPLY_COMMON_BEST_PRACTICES", "CITE_SOURCES", "CODE_GENERATION", "EXPLAIN_CODE_SELECTION",
                "EXPLAIN_LINE_BY_LINE", "GENERATE_CLOUDFORMATION_TEMPLATE", "GENERATE_UNIT_TESTS", "IMPROVE_CODE",
                "SHOW_EXAMPLES", "SUGGEST_ALTERNATE_IMPLEMENTATION",
            )
        ),
    }
)  # fmt: skip
"""Members with a closed list of values, wherever they stand."""

OMITTED: Final = frozenset(
    ("history", "userInputMessageContext", "toolUses", "toolResults", "tools", "images", "documents")
)
"""Members that are left out rather than empty."""

SYSTEM_FIELDS: Final = frozenset(("systemPrompt", "system", "systemMessage"))


def body_size_allowed(asked: Asked) -> bool:
    """A body is not larger than 615 KB for a window of 200,000 tokens, attachments not counted.

    Larger ones fail as if they were malformed; with windows of a million tokens, 772 KB and more pass.
    """
    window = asked.model.window if asked.model else WINDOW
    attached = sum(
        len(str(as_map(as_map(part).get("source")).get("bytes", "")))
        for message in asked.conversation.users
        for part in (*as_list(message.get("images")), *as_list(message.get("documents")))
    )
    return asked.body_size - attached <= MAX_BODY * window // WINDOW


def current_message_present(asked: Asked) -> bool:
    """The current message is a user message."""
    return bool(asked.conversation.current) and len(as_map(asked.conversation.state.get("currentMessage"))) == 1


def trigger_known(asked: Asked) -> bool:
    """``chatTriggerType`` is ``MANUAL``, ``DIAGNOSTIC`` or ``INLINE_CHAT``; at least one client sends ``AUTO``."""
    return asked.conversation.state.get("chatTriggerType") in TRIGGERS


def words_known(asked: Asked) -> bool:
    """``origin``, ``agentTaskType`` and ``userIntent``, where they are sent, have a value of the service's model."""
    return all(value in WORDS[name] for name, value in asked.conversation.members if name in WORDS)


def conversation_id_valid(asked: Asked) -> bool:
    """``conversationId``, where it is sent, is a UUID."""
    value = asked.conversation.state.get("conversationId", "0" * 8 + "-0000" * 3 + "-" + "0" * 12)
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def profile_valid(asked: Asked) -> bool:
    """``profileArn`` is an ARN or absent, never empty."""
    profile = asked.conversation.document.get("profileArn")
    return profile is None or (isinstance(profile, str) and profile.startswith("arn:"))


def no_profile_with_key(asked: Asked) -> bool:
    """``profileArn`` is not sent along with an API key."""
    return asked.token_type != "API_KEY" or asked.conversation.document.get("profileArn") is None


def nothing_null(asked: Asked) -> bool:
    """No member is null: it is left out instead.

    Some clients send null without harm; those who found it refused outnumber them.
    """
    return all(value is not None or name == "profileArn" for name, value in asked.conversation.members)


def nothing_empty(asked: Asked) -> bool:
    """``history``, ``userInputMessageContext``, ``toolUses``, ``toolResults``, ``tools``, ``images`` and ``documents``
    are left out where they are empty.

    One client sends ``images: []`` without harm; an empty ``history`` is refused.
    """
    return all(value or name not in OMITTED for name, value in asked.conversation.members)


def no_system_field(asked: Asked) -> bool:
    """There is no field for a system text; unknown members are passed over, but this one was seen refused."""
    state = asked.conversation.state
    return not SYSTEM_FIELDS & {*asked.conversation.document, *state, *asked.conversation.current}


def content_length_allowed(asked: Asked) -> bool:
    """A user message is not longer than 600,000 characters."""
    return all(len(str(message.get("content", ""))) <= MAX_CONTENT for message in asked.conversation.users)


def result_length_allowed(asked: Asked) -> bool:
    """A tool result is not longer than 800,000 characters."""
    return all(
        sum(map(_length, as_list(result.get("content")))) <= MAX_RESULT
        for message in asked.conversation.users
        for result in results_of(message)
    )


def _length(part: Any) -> int:
    text = as_map(part).get("text")
    return len(text) if isinstance(text, str) else len(json.dumps(as_map(part).get("json", "")))


def directory_length_allowed(asked: Asked) -> bool:
    """The working directory of ``envState`` is not longer than 256 characters."""
    return all(
        len(str(as_map(context_of(message).get("envState")).get("currentWorkingDirectory", ""))) <= MAX_DIRECTORY
        for message in asked.conversation.users
    )


BODY: Final = (
    Rule(body_size_allowed, IMPROPER),
    Rule(current_message_present, INVALID),
    Rule(trigger_known, INVALID),
    Rule(words_known, INVALID),
    Rule(conversation_id_valid, Refusal(400, "Invalid conversation ID.", "INVALID_CONVERSATION_ID")),
    Rule(profile_valid, IMPROPER),
    Rule(no_profile_with_key, Refusal(400, "profileArn must not be sent with an API key.")),
    Rule(nothing_null, IMPROPER),
    Rule(nothing_empty, IMPROPER),
    Rule(no_system_field, IMPROPER),
)

LENGTHS: Final = (
    Rule(content_length_allowed, TOO_LONG),
    Rule(result_length_allowed, TOO_LONG),
    Rule(directory_length_allowed, INVALID),
)
