"""Parts of a Chat Completions request that no service receives, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from kiro_asgi.dialects.openai_chat.shapes import FORMATS, MESSAGES, PARTS, TOOLS, ChatCall, ChatRequestBody, JsonSchema
from kiro_asgi.dialects.unread import Finding, Reading, unread, unread_tools
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.wire.members import objects_of

__all__ = ["unread_fields"]


@frozen
class _Google:
    """Members of ``extra_content.google`` that are read."""

    thought_signature: Any = None


@frozen
class _ExtraContent:
    """Members of ``extra_content`` that are read."""

    google: _Google | None = None


@frozen
class _SearchOptions:
    """``web_search_options``, of which only the presence is read."""


@frozen
class _Thinking:
    """Members of ``thinking`` that are read."""

    budget_tokens: Any = None
    display: Any = None


@frozen
class _Reasoning:
    """Members of ``reasoning`` that are read."""

    effort: Any = None
    max_tokens: Any = None
    exclude: Any = None
    enabled: Any = None


@frozen
class _TemplateArguments:
    """Members of ``chat_template_kwargs`` that are read."""

    enable_thinking: Any = None


_READING: Final = Reading(
    body=ChatRequestBody,
    unions=((PARTS, ""), (MESSAGES, ""), (TOOLS, ""), (FORMATS, "")),
    views=MappingProxyType(
        {
            (ChatCall, "extra_content"): lambda _: _ExtraContent,
            (ChatRequestBody, "web_search_options"): lambda _: _SearchOptions,
            (ChatRequestBody, "thinking"): lambda _: _Thinking,
            (ChatRequestBody, "reasoning"): lambda _: _Reasoning,
            (ChatRequestBody, "chat_template_kwargs"): lambda _: _TemplateArguments,
        }
    ),
    members=MappingProxyType(
        {
            (ChatRequestBody, "metadata"): "fields.no_effect",
            (ChatRequestBody, "user"): "fields.no_effect",
            (ChatRequestBody, "safety_identifier"): "fields.no_effect",
            (ChatRequestBody, "input"): "fields.ignored",
            (JsonSchema, "name"): "fields.no_effect",
            (JsonSchema, "strict"): "",
        }
    ),
)

_NUMBERS: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty")
"""Extensions, which are never refused."""

_OTHERWISE: Final = (("max_completion_tokens", "max_tokens"), ("tools", "functions"), ("tools", "function_call"))
"""A field, and the older one that does not count beside it."""


def unread_fields(value: Mapping[str, Any], prompt: Prompt) -> Iterator[Finding]:
    """Rules and places of a request's body, which became *prompt*."""
    yield from unread(value, _READING)
    for name in _NUMBERS:
        if value.get(name) and getattr(prompt.sampling, name) is None:
            yield "values.unknown", name
    for name, older in _OTHERWISE:
        if value.get(name) and value.get(older):
            yield "fields.ignored", older
    for place in ("tools",) if value.get("tools") else ("functions",):
        yield from unread_tools(value.get(place), prompt.tools, place)
    for index, message in enumerate(objects_of(value.get("messages"))):
        if message.get("role") == "assistant":
            yield from _second_thoughts(message, f"messages[{index}]")


def _second_thoughts(message: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Earlier thinking under two names, or in a form that is no text."""
    found = [name for name in ("reasoning_content", "reasoning") if message.get(name)]
    told = next((name for name in found if isinstance(message[name], str)), "")
    for name in found:
        if name != told and message[name] != message.get(told):
            yield "values.unknown", f"{place}.{name}"
