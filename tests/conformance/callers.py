"""Clients with their default settings, their own tries among them, and the calls to the service that each costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import anthropic
import openai

from tests.conformance.asking import MODEL, user
from tests.conformance.gateways import KEY, Gateway

__all__ = ["CALLERS", "FAILURES", "Caller", "calls_made"]

Caller = Callable[[Gateway, str, str], object]
"""Asks a gateway's model something once, by one call of its library; raises what that raises."""

FAILURES: Final = ("429", "overloaded", "500", "reset-first")
"""Markers of failures that pass, so that somebody has to try again."""


def _openai_chat(gateway: Gateway, model: str, content: str) -> object:
    with openai.OpenAI(base_url=gateway.openai_base, api_key=KEY) as client:
        return client.chat.completions.create(model=model, messages=user(content))


def _openai_chat_streamed(gateway: Gateway, model: str, content: str) -> object:
    with openai.OpenAI(base_url=gateway.openai_base, api_key=KEY) as client:
        return list(client.chat.completions.create(model=model, messages=user(content), stream=True))


def _openai_responses(gateway: Gateway, model: str, content: str) -> object:
    with openai.OpenAI(base_url=gateway.openai_base, api_key=KEY) as client:
        return client.responses.create(model=model, input=content)


def _openai_responses_streamed(gateway: Gateway, model: str, content: str) -> object:
    with openai.OpenAI(base_url=gateway.openai_base, api_key=KEY) as client:
        return list(client.responses.create(model=model, input=content, stream=True))


def _anthropic_messages(gateway: Gateway, model: str, content: str) -> object:
    with anthropic.Anthropic(base_url=gateway.base, api_key=KEY) as client:
        return client.messages.create(model=model, max_tokens=99, messages=user(content))


def _anthropic_messages_streamed(gateway: Gateway, model: str, content: str) -> object:
    with anthropic.Anthropic(base_url=gateway.base, api_key=KEY) as client:
        return list(client.messages.create(model=model, max_tokens=99, messages=user(content), stream=True))


CALLERS: Final[Mapping[str, Caller]] = MappingProxyType(
    {
        "openai-chat": _openai_chat,
        "openai-chat-streamed": _openai_chat_streamed,
        "openai-responses": _openai_responses,
        "openai-responses-streamed": _openai_responses_streamed,
        "anthropic-messages": _anthropic_messages,
        "anthropic-messages-streamed": _anthropic_messages_streamed,
    }
)
"""The official SDKs; what is not among the test dependencies is counted in ``tests/clients``."""


def calls_made(gateway: Gateway, caller: Caller, content: str, model: str = MODEL) -> tuple[int, Exception | None]:
    """Calls that the service got for one call of *caller*, and what that raised."""
    assert gateway.service is not None
    gateway.service.forget()
    raised: Exception | None = None
    try:
        caller(gateway, model, content)
    except Exception as error:  # noqa: BLE001 - each library has its own
        raised = error
    return len(gateway.asked(content)), raised
