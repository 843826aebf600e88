"""Adaptations of a request after a refusal: the three that are known to help, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.upstreams.kiro.settings import KiroSettings

__all__ = ["remedy"]


Change = Callable[[KiroSettings, Mapping[str, Any]], Mapping[str, Any]]


def remedy(error: KiroAsgiError, asking: KiroSettings, document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The rule that answers *error*, the answer to *document*, and the settings that it changes: none where asking
    differently is no remedy, was tried already, or is switched off."""
    code = IMPROPER if IMPROPER_WORDS in error.message.lower() else error.code
    rule, change = REMEDIES.get(code, ("", _nothing))
    return rule, {} if rule in asking.rules_off else change(asking, document)


def _without_signatures(asking: KiroSettings, document: Mapping[str, Any]) -> Mapping[str, Any]:
    replayed = any("reasoningContent" in each for each in _assistants(document))
    return {"replay_thinking": False} if asking.replay_thinking and replayed else {}


def _with_stubs(asking: KiroSettings, document: Mapping[str, Any]) -> Mapping[str, Any]:
    stubs = "tools.stubbed"
    return {"rules_off": tuple(name for name in asking.rules_off if name != stubs)} if stubs in asking.rules_off else {}


def _as_text(asking: KiroSettings, document: Mapping[str, Any]) -> Mapping[str, Any]:
    called = any("toolUses" in each for each in _assistants(document))
    return {"tool_history": "text"} if asking.tool_history == "auto" and called else {}


def _nothing(asking: KiroSettings, document: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def _assistants(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The assistant's messages of a body."""
    for item in document["conversationState"].get("history", ()):
        if "assistantResponseMessage" in item:
            yield item["assistantResponseMessage"]


IMPROPER: Final = "improperly_formed"
IMPROPER_WORDS: Final = "improperly formed request"
"""The service says so whatever the reason that it gives beside it."""

REMEDIES: Final[Mapping[str, tuple[str, Change]]] = MappingProxyType(
    {
        "THINKING_SIGNATURE_INVALID": ("adapted.signatures", _without_signatures),
        "TOOL_CONFIG_MISSING": ("adapted.stubs", _with_stubs),
        IMPROPER: ("adapted.as_text", _as_text),
    }
)
"""Code of an error to the rule that answers it, and the settings that it changes; none where that changes nothing."""
