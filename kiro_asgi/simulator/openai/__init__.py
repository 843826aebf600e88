"""The simulated service in OpenAI's format: Chat Completions, and what servers like it make of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kiro_asgi.simulator.catalogue import Model
from kiro_asgi.simulator.extras import habit, repertoire
from kiro_asgi.simulator.format import Endpoint, Format, bearer
from kiro_asgi.simulator.openai.faults import INVALID, REFUSALS, envelope, refusal
from kiro_asgi.simulator.openai.reader import read
from kiro_asgi.simulator.openai.rules import OUTPUT, RULES
from kiro_asgi.simulator.openai.speaker import CREATED, OpenAISpeaker
from kiro_asgi.simulator.scripts import Script

__all__ = ["OPENAI"]

MODELS: Final = tuple(
    Model(name, 400_000 if "5" in name else 128_000, OUTPUT.get(name, 128_000), family="gpt")
    for name in ("gpt-5", "gpt-5-mini", "gpt-5.2", "gpt-4o", "gpt-4o-mini", "o3", "o4-mini")
)


def _listing(models: tuple[Model, ...], _: Mapping[str, str]) -> Mapping[str, Any]:
    entries = [{"id": model.id, "object": "model", "created": CREATED, "owned_by": "simulated"} for model in models]
    return {"object": "list", "data": entries}


def _no_model(model: str) -> Script:
    status, kind, code, message = REFUSALS["bad-model"]
    return refusal(status, kind, code, message.replace("none", model, 1))


OPENAI: Final = Format(
    "openai",
    MODELS,
    repertoire(
        {},
        {
            "no-done": habit("no [DONE] at the end"),
            "no-index": habit("tool calls without an index"),
            "no-ids": habit("tool calls without an id"),
            "reasoning-field": habit("thinking in another field", "name (reasoning_content)"),
            "unrecognized": habit("status 400 as long as the request has this field", "name"),
        },
        REFUSALS,
        refusal,
        lambda words: envelope(*words[1:]),
    ),
    REFUSALS,
    RULES,
    lambda request: bearer(request, "bearer", "token"),
    None,
    lambda request, document: read(document),
    lambda request, question, used: OpenAISpeaker(question, used),
    _listing,
    lambda size: {"input_tokens": size},
    lambda message: refusal(400, INVALID, None, message),
    _no_model,
    endpoints=(
        Endpoint.at(r"(?:/v1)?/chat/completions", "POST", "chat"),
        Endpoint.at(r"(?:/v1)?/models", "GET", "models"),
        Endpoint.at(r"/copilot_internal/v2/token", "GET", "token"),
    ),
)
"""Everything about the format."""
