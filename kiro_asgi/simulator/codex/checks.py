"""The rules of the Codex command's service; behind its own those of the Responses API about items."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from time import time
from typing import Any, Final

from kiro_asgi.simulator.conversation import as_list, as_map
from kiro_asgi.simulator.format import FormatRule, Json, Question
from kiro_asgi.simulator.request import RecordedRequest, bearer
from kiro_asgi.simulator.responses.checks import CALLED, fields_known, items_of, tools_flat
from kiro_asgi.simulator.responses.checks import RULES as RESPONSES_RULES

FIELDS: Final = frozenset(
    (
        "client_metadata", "include", "input", "instructions", "model", "parallel_tool_calls", "prompt_cache_key",
        "reasoning", "store", "stream", "text", "tool_choice", "tools",
    )
)  # fmt: skip
"""The fields that the command sends, by ``build_responses_request`` in https://github.com/openai/codex."""


def sign_in_fault(request: RecordedRequest) -> str:
    """The fault of a request's sign-in; empty if there is none.

    The token has not expired, and ``chatgpt-account-id`` names the account:
    ``codex-rs/codex-api/src/auth.rs`` in https://github.com/openai/codex.
    """
    if not request.headers.get("chatgpt-account-id"):
        return "Could not parse your authentication token: there is no account."
    ends = as_map(_claims(bearer(request))).get("exp")
    if isinstance(ends, int | float) and ends <= time():
        return "Provided authentication token is expired. Please try signing in again."
    return "" if bearer(request) else "Missing bearer authentication in header"


def _claims(token: str) -> Any:
    parts = token.split(".")
    try:
        return json.loads(urlsafe_b64decode(parts[1] + "==")) if len(parts) == 3 else None
    except ValueError:
        return None


def fields_sent_by_the_command(document: Json, question: Question) -> str:
    """No field is there but those that the command sends: https://github.com/langwatch/langwatch/pull/7507."""
    strange = question.habits.get("unrecognized")
    unknown = next((name for name in document if name not in FIELDS or name == strange), None)
    return "" if unknown is None else f"Unsupported parameter: {unknown}"


def nothing_stored(document: Json, _: Question) -> str:
    """``store`` is false: https://github.com/openai/codex/issues/26173."""
    return "" if document.get("store") is False else "Store must be set to false"


def streamed(document: Json, _: Question) -> str:
    """``stream`` is true: https://github.com/BYK/loreai/pull/1597."""
    return "" if document.get("stream") is True else "Stream must be set to true"


def instructed(document: Json, _: Question) -> str:
    """There are instructions, or developer messages; https://github.com/diegosouzapw/OmniRoute/pull/746."""
    told = document.get("instructions") or any(item.get("role") == "developer" for item in items_of(document))
    return "" if told else "Instructions are required"


def no_system_messages(document: Json, _: Question) -> str:
    """No message has the role ``system``: https://github.com/router-for-me/CLIProxyAPI makes it ``developer``."""
    system = any(item.get("role") == "system" for item in items_of(document))
    return "System messages are not allowed" if system else ""


def items_in_a_list(document: Json, _: Question) -> str:
    """The input is a list: https://github.com/router-for-me/CLIProxyAPI makes one of a text."""
    return "" if isinstance(document.get("input"), list) else "Input must be a list"


def efforts_known(document: Json, _: Question) -> str:
    """No effort is ``minimal``: https://github.com/KarpelesLab/teamclaude/pull/154."""
    effort = as_map(document.get("reasoning")).get("effort")
    return "Unsupported value: 'minimal' is not supported with this model." if effort == "minimal" else ""


def called_tools_flat(document: Json, question: Question) -> str:
    """Functions, and tools that take a text, are as the Responses API wants them; the command has other kinds, too."""
    tools = [tool for tool in map(as_map, as_list(document.get("tools"))) if tool.get("type") in CALLED]
    return tools_flat({**document, "tools": tools}, question)


RULES: Final[tuple[FormatRule, ...]] = (
    fields_sent_by_the_command,
    nothing_stored,
    streamed,
    instructed,
    no_system_messages,
    items_in_a_list,
    efforts_known,
    called_tools_flat,
    *(rule for rule in RESPONSES_RULES if rule not in (fields_known, tools_flat)),
)
"""In the order in which the service checks them."""
