"""Claude: its facts from the Messages API, whichever API it is asked by.

This is the one module that knows another party: InvokeModel takes a body of the Messages API and hands out its events.
Schemas for answers are the same for every model of the service, and compiled as Anthropic has them.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve

from kiro_asgi.model.events import Delta
from kiro_asgi.model.notes import Notes
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Stage
from kiro_asgi.upstreams.anthropic import models
from kiro_asgi.upstreams.anthropic.answer import MessageEvents
from kiro_asgi.upstreams.anthropic.models import listed_family, normalise
from kiro_asgi.upstreams.anthropic.request import (
    FORM_RULES,
    kept_strict,
    length_and_thinking,
    sampling_fields,
    thinks,
)
from kiro_asgi.upstreams.anthropic.rules import RULES
from kiro_asgi.upstreams.anthropic.schema import CompiledSchema, compiled
from kiro_asgi.upstreams.anthropic.upstream import LESSONS, SIGNATURES, AnthropicUpstream
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.bedrock.models import behind
from kiro_asgi.upstreams.json_events import JsonEvent

__all__ = [
    "FORM_RULES",
    "LESSONS",
    "RULES",
    "SIGNATURES",
    "AnthropicUpstream",
    "CompiledSchema",
    "betas",
    "compiled",
    "fields",
    "formed",
    "invoked",
    "kept_strict",
    "known",
    "messages",
    "prefilled",
]

VERSION: Final = "bedrock-2023-05-31"
"""``anthropic_version`` of bodies; the service's name of the API's version."""

_SAMPLED: Final = "2023-06-01"
"""Version of the API whose rules for sampling hold."""

_LENGTHS: Final = (("claude-3-7-", 64_000), ("claude-3-5-", 8_192), ("claude-3-", 4_096))
"""Beginning of a name to the greatest length of its answers, in tokens, where the Messages API has it no longer."""

BETAS: Final = (
    "computer-use-",
    "context-1m-",
    "context-management-",
    "compact-",
    "effort-",
    "fine-grained-tool-streaming-",
    "interleaved-thinking-",
    "max-tokens-",
    "structured-outputs-",
    "thinking-",
    "token-efficient-tools-",
    "tool-examples-",
    "tool-search-tool-",
)
"""Beginnings of the names of betas that the service has; it refuses a request for any other."""


def known(model: ModelCard) -> ModelCard:
    """*model* with the facts of our list for the Messages API."""
    name = normalise(behind(model))
    card = next((card for card in models.KNOWN if normalise(card.id) == name), None)
    if card is None:
        card = models.named(name, answer=next((length for begins, length in _LENGTHS if name.startswith(begins)), 0))
    return evolve(card, id=name, images=model.images)


def messages() -> Stage[JsonEvent, Delta]:
    """A fresh stage from events of the Messages API to deltas."""
    return MessageEvents()


def betas(asked: Iterable[str], notes: Notes) -> list[str]:
    """Those of the betas that were *asked* for that the service has."""
    names = [*dict.fromkeys(asked)]
    kept = [name for name in names if name.startswith(BETAS)]
    if len(kept) != len(names):
        notes.applies("betas.unknown", "anthropic-beta", len(names) - len(kept))
    return kept


def invoked(document: Mapping[str, Any], betas: list[str]) -> dict[str, Any]:
    """The body of InvokeModel for one of the Messages API; the URL names the model, and whether to stream."""
    rest = {name: value for name, value in document.items() if name not in ("model", "stream")}
    return {"anthropic_version": VERSION, **({"anthropic_beta": betas} if betas else {}), **rest}


def prefilled(model: ModelCard) -> bool:
    """Whether *model*, as `known` has it, goes on from an assistant's last turn."""
    return listed_family(model).prefilled


def formed(model: ModelCard) -> bool:
    """Whether the answers of *model*, as `known` has it, can be held to a JSON Schema."""
    return listed_family(model).formed


def fields(prompt: Prompt, model: ModelCard, resumed: bool, notes: Notes) -> dict[str, Any]:
    """Length, thinking and sampling as members of the Messages API; Converse has places of its own for some.

    Args:
        prompt: The request.
        model: The model that is asked, as `known` has it.
        resumed: Whether the model is in the middle of a turn that does not begin with thinking.
        notes: Gets the rules that applied.
    """
    family = listed_family(model)
    thinking = thinks(prompt, family, resumed, notes)
    made = length_and_thinking(prompt, model, family, notes, thinking=thinking)
    return {**made, **sampling_fields(prompt.sampling, family, _SAMPLED, notes, thinking=thinking)}
