"""Whether the client wants thinking: one official field and the extensions in use.

Sources: https://platform.openai.com/docs/api-reference/chat/create (``reasoning_effort``),
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking (``thinking``),
https://openrouter.ai/docs/use-cases/reasoning-tokens (``reasoning``),
https://qwen.readthedocs.io/ (``enable_thinking``, also inside ``chat_template_kwargs``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.dialects.openai_chat.body import Body
from kiro_asgi.dialects.refusals import invalid
from kiro_asgi.model.prompt import Thinking, ThinkingMode
from kiro_asgi.wire.members import count, object_of

__all__ = ["read_thinking"]

_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")

_TYPES: Final = MappingProxyType(
    {
        "enabled": ThinkingMode.ENABLED,
        "adaptive": ThinkingMode.ADAPTIVE,
        "auto": ThinkingMode.ADAPTIVE,
        "disabled": ThinkingMode.DISABLED,
    }
)

_SILENT: Final = Thinking()


def read_thinking(body: Body) -> Thinking:
    """The first of the fields that says something decides.

    Raises:
        RequestError: An unknown ``reasoning_effort``; an extension that makes no sense is ignored instead.
    """
    found = (
        _effort(body.reasoning_effort),
        _anthropic(object_of(body.thinking)),
        _openrouter(object_of(body.reasoning)),
        _switch(body.enable_thinking, body.thinking_budget),
        _switch(object_of(body.chat_template_kwargs).get("enable_thinking"), body.thinking_budget),
    )
    return next((thinking for thinking in found if thinking is not _SILENT), _SILENT)


def _effort(word: str | None) -> Thinking:
    if word is None:
        return _SILENT
    if word == "none":
        return Thinking(ThinkingMode.DISABLED)
    if word not in _EFFORTS:
        raise invalid("reasoning_effort", f"expected one of none, {', '.join(_EFFORTS)}, got {word[:60]!r}")
    return Thinking(ThinkingMode.ENABLED, effort=word)


def _anthropic(value: Mapping[str, Any]) -> Thinking:
    word = value.get("type")
    mode = _TYPES.get(word) if isinstance(word, str) else None
    return (
        _SILENT
        if mode is None
        else Thinking(mode, _count(value.get("budget_tokens")), omitted=value.get("display") == "omitted")
    )


def _openrouter(value: Mapping[str, Any]) -> Thinking:
    effort, budget, omitted = value.get("effort"), _count(value.get("max_tokens")), value.get("exclude") is True
    if value.get("enabled") is False or effort == "none":
        return Thinking(ThinkingMode.DISABLED)
    if effort in _EFFORTS:
        return Thinking(ThinkingMode.ENABLED, budget, effort, omitted)
    if budget is not None or value.get("enabled") is True:
        return Thinking(ThinkingMode.ENABLED, budget, omitted=omitted)
    return _SILENT


def _switch(value: Any, budget: Any) -> Thinking:
    if value is True:
        return Thinking(ThinkingMode.ENABLED, _count(budget))
    return Thinking(ThinkingMode.DISABLED) if value is False else _SILENT


def _count(value: Any) -> int | None:
    return count(value) or None
