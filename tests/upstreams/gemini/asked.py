"""Short ways to ask the Gemini upstream something."""

from __future__ import annotations

import json
from typing import Any

from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.gemini.upstream import GeminiUpstream

KEY = Credential(CredentialKind.API_KEY, "secret-key")
PRO = ModelCard("gemini-2.5-pro", max_output_tokens=65_536)
FLASH = ModelCard("gemini-2.5-flash", max_output_tokens=65_536)
THREE = ModelCard("gemini-3-pro-preview", max_output_tokens=65_536)
THREE_FLASH = ModelCard("gemini-3-flash-preview", max_output_tokens=65_536)
TWO = ModelCard("gemini-2.0-flash", max_output_tokens=8_192)


def rendered(prompt: Prompt, model: ModelCard = FLASH, **settings: Any) -> Rendered:
    return GeminiUpstream(**settings).render(prompt, model, KEY)


def body(prompt: Prompt, model: ModelCard = FLASH, **settings: Any) -> Any:
    return json.loads(rendered(prompt, model, **settings).request.body)


def contents(prompt: Prompt, model: ModelCard = FLASH, **settings: Any) -> list[tuple[str, Any]]:
    """Role and parts, in order."""
    return [(content["role"], content["parts"]) for content in body(prompt, model, **settings)["contents"]]


def rules(prompt: Prompt, model: ModelCard = FLASH, **settings: Any) -> list[str]:
    return [note.rule for note in rendered(prompt, model, **settings).notes]
