"""Short ways to ask the Messages API."""

from __future__ import annotations

import json
from typing import Any

from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.anthropic.upstream import AnthropicUpstream
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered

KEY = Credential(CredentialKind.API_KEY, "sk-ant-secret")
BUDGETED = ModelCard("claude-sonnet-4-5-20250929")
EITHER = ModelCard("claude-opus-4-6", efforts=("low", "medium", "high", "max"))
ADAPTIVE = ModelCard("claude-opus-4-7", efforts=("low", "medium", "high", "xhigh", "max"))
THOUGHTLESS = ModelCard("claude-3-5-haiku-20241022", max_output_tokens=8192)
MODELS = (BUDGETED, EITHER, ADAPTIVE, THOUGHTLESS, ModelCard("of-another-family"))


def rendered(prompt: Prompt, model: ModelCard = BUDGETED, conversation: str = "", **settings: Any) -> Rendered:
    return AnthropicUpstream(**settings).render(prompt, model, KEY, conversation)


def body(*args: Any, **kwargs: Any) -> Any:
    return json.loads(rendered(*args, **kwargs).request.body)


def rules(*args: Any, **kwargs: Any) -> list[str]:
    return [note.rule for note in rendered(*args, **kwargs).notes]


def content(*args: Any, **kwargs: Any) -> list[tuple[str, list[Any]]]:
    """Role and blocks of each message."""
    return [(message["role"], message["content"]) for message in body(*args, **kwargs)["messages"]]
