"""Models: the known ones, and the efforts that each knows.

The list has little more than names at OpenAI; other servers list more, each in its own form.  Efforts are only known of
OpenAI's own models, and where a server lists them.

Sources: https://platform.openai.com/docs/api-reference/models/list, https://platform.openai.com/docs/guides/reasoning
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.upstreams.base import ModelCard, ModelPage, ThinkingForm
from kiro_asgi.upstreams.models import LEVELS, expected, listed, moment_of, read_listing
from kiro_asgi.wire.json import count

USUAL_EFFORTS: Final = ("low", "medium", "high")
"""Efforts to assume of a model where neither its name nor the server shows which it knows."""

_FIVE: Final = ("minimal", *USUAL_EFFORTS)
_FIVE_ONE: Final = ("none", *USUAL_EFFORTS)
_NEWEST: Final = ("none", *USUAL_EFFORTS, "xhigh")

_FAMILIES: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (re.compile(r"gpt-5(\.\d+)?-chat"), ()),
    (re.compile(r"gpt-5(\.[2-9]|\.1-codex-max)|gpt-([6-9]|[1-9]\d)"), _NEWEST),
    (re.compile(r"gpt-5\.1"), _FIVE_ONE),
    (re.compile(r"gpt-5"), _FIVE),
    (re.compile(r"o[1-9]\b"), USUAL_EFFORTS),
    (re.compile(r"gpt-[34]|gpt-audio|chatgpt-"), ()),
)
"""Beginning of a model's name to the efforts that it knows; the first that fits counts."""


def efforts_of(model: str) -> tuple[str, ...] | None:
    """Efforts that OpenAI's model of this name knows, weakest first; ``None`` for a name that is not OpenAI's."""
    name = _bare(model)
    return next((efforts for pattern, efforts in _FAMILIES if pattern.match(name)), None)


def refuses_sampling(model: str) -> bool:
    """Whether this model refuses temperature, ``top_p`` and penalties while it thinks."""
    return bool(efforts_of(model))


_RESPONSES_ONLY: Final = re.compile(r"-codex|-pro\b|deep-research|computer-use|-cyber|daybreak|rosalind")
"""In names of OpenAI's models that Chat Completions does not serve, by the types of its own library; where a name
does not show it, the service's refusal does."""


def wants_responses(model: str) -> bool:
    """Whether OpenAI serves this model by the Responses API alone, as far as its name shows."""
    return bool(_RESPONSES_ONLY.search(_bare(model)))


def _bare(model: str) -> str:
    """A model's name without its owner: ``openai/gpt-5`` is ``gpt-5``."""
    return model.rpartition("/")[2].lower()


_DEFAULTS: Final = ModelCard("")


def _card(name: str, title: str, window: int, output: int) -> ModelCard:
    return ModelCard(name, title, window, output, efforts=efforts_of(name) or (), embeds=False)


_FIFTH: Final = re.compile(r"gpt-([5-9]|[1-9]\d)")


def named(model: str) -> ModelCard:
    """The card of OpenAI's *model* as far as its name shows it: window and efforts."""
    window = 400_000 if _FIFTH.match(_bare(model)) else _DEFAULTS.context_window
    return _card(model, "", window, _DEFAULTS.max_output_tokens)


BUILTIN: Final[tuple[ModelCard, ...]] = (
    _card("gpt-6-sol", "GPT-6 Sol", 400_000, 128_000),
    _card("gpt-5.6-sol", "GPT-5.6 Sol", 400_000, 128_000),
    _card("gpt-5.2", "GPT-5.2", 400_000, 128_000),
    _card("gpt-5.1", "GPT-5.1", 400_000, 128_000),
    _card("gpt-5", "GPT-5", 400_000, 128_000),
    _card("gpt-5-mini", "GPT-5 mini", 400_000, 128_000),
    _card("gpt-5-nano", "GPT-5 nano", 400_000, 128_000),
    _card("gpt-4.1", "GPT-4.1", 1_047_576, 32_768),
    _card("gpt-4.1-mini", "GPT-4.1 mini", 1_047_576, 32_768),
    _card("gpt-4o", "GPT-4o", 128_000, 16_384),
    _card("gpt-4o-mini", "GPT-4o mini", 128_000, 16_384),
    _card("o3", "o3", 200_000, 100_000),
    _card("o4-mini", "o4-mini", 200_000, 100_000),
)
"""OpenAI's, as its model pages have them; the first two, of which only the names are known, as those before them."""


EMBEDDING: Final[tuple[ModelCard, ...]] = tuple(
    ModelCard(name, context_window=8_192, max_output_tokens=0, images=False, embeds=True)
    for name in ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
)
"""OpenAI's embedding models."""


def longest_answer(model: ModelCard) -> int | None:
    """Tokens of the longest answer, thinking included; ``None`` where neither the server nor the name shows it."""
    if model.max_output_tokens != _DEFAULTS.max_output_tokens:
        return model.max_output_tokens
    known = (card for card in BUILTIN if model.id == card.id or model.id.startswith(f"{card.id}-20"))
    return next((card.max_output_tokens for card in known), None)


_NO_CHAT: Final = re.compile(
    r"whisper|tts|dall-e|moderation|davinci|babbage|realtime|transcribe|image|audio|sora|instruct"
)
"""In names of OpenAI's models that are not asked here."""

_EMBEDS: Final = re.compile(r"embedding")
"""In names of OpenAI's models that make embeddings."""

_KINDS: Final[Mapping[str, bool]] = MappingProxyType(
    {"embedding": True, "embeddings": True, "chat": False, "llm": False, "vlm": False}
)
"""``type`` in the lists of Together and LM Studio to whether the model makes embeddings."""

_WINDOWS: Final = (
    ("context_length",),
    ("max_model_len",),
    ("context_window",),
    ("max_context_length",),
    ("meta", "n_ctx_train"),
    ("capabilities", "limits", "max_context_window_tokens"),
)
"""Where OpenRouter and Together, vLLM, Groq, LM Studio, llama.cpp and Copilot list the size of the window."""

_OUTPUTS: Final = (
    ("max_completion_tokens",),
    ("top_provider", "max_completion_tokens"),
    ("capabilities", "limits", "max_output_tokens"),
)

_MODALITIES: Final = (("architecture", "input_modalities"), ("input_modalities",))
_VISION: Final = (("capabilities", "vision"), ("capabilities", "supports", "vision"))
"""Where lists name the kinds of input, and where Mistral and Copilot list whether images are taken."""

_EFFORTS: Final = ("capabilities", "supports", "reasoning_effort")
"""Where Copilot lists the levels of effort."""

_REASONING: Final = ("capabilities", "reasoning")
"""Where Mistral lists whether a model thinks."""

_PARAMETERS: Final = ("supported_parameters",)
"""Where OpenRouter lists the fields of requests; below, those of them that ask for thinking:
https://openrouter.ai/docs/guides/overview/models#supported-parameters"""

_THINKING: Final = frozenset({"reasoning", "reasoning_effort", "include_reasoning"})


def parse_models(body: bytes, *, custom: bool) -> ModelPage:
    """The models of an answer, in its order; entries without a name are skipped, absent facts have our defaults.

    Args:
        body: An object with the list as ``data`` or ``models``, or the list itself.
        custom: Whether the server is another than OpenAI's, so that names mean nothing.

    Raises:
        UpstreamProtocolError: Neither.
    """
    listing = read_listing(body, dict, list)
    if type(listing) is dict:
        listing = listing.get("data") or listing.get("models") or []
    cards = listed(expected(listing, list), _read)
    if custom:
        return ModelPage(cards)
    asked = (card for card in cards if not _NO_CHAT.search(card.id))
    return ModelPage(tuple(evolve(card, embeds=bool(_EMBEDS.search(card.id))) for card in asked))


def _read(entry: Any) -> ModelCard | None:
    name = _at(entry, ("id",)) or _at(entry, ("name",))
    if type(name) is not str or not name:
        return None
    known = next((card for card in (*BUILTIN, *EMBEDDING) if card.id == name), _DEFAULTS)
    title, efforts = _at(entry, ("name",)), _at(entry, _EFFORTS)
    return ModelCard(
        name,
        title if type(title) is str else known.name,
        _count(entry, _WINDOWS, known.context_window),
        _count(entry, _OUTPUTS, known.max_output_tokens),
        _images(entry, known.images),
        tuple(level for level in LEVELS if level in efforts) if type(efforts) is list else known.efforts,
        thinking=_thinking(entry),
        embeds=_KINDS.get(str(_at(entry, ("type",))), known.embeds),
        created=moment_of(_at(entry, ("created",))),
    )


def _images(entry: Any, default: bool) -> bool:
    modalities = next(filter(None, (_at(entry, path) for path in _MODALITIES)), None)
    if type(modalities) is list:
        return "image" in modalities
    return next((flag for path in _VISION if type(flag := _at(entry, path)) is bool), default)


def _thinking(entry: Any) -> frozenset[ThinkingForm] | None:
    """The forms of thinking that a server lists, in any of the servers' forms of lists."""
    efforts, parameters = _at(entry, _EFFORTS), _at(entry, _PARAMETERS)
    if type(efforts) is list:
        thinks = any(level in efforts for level in LEVELS)
    elif type(parameters) is list:
        thinks = any(name in parameters for name in _THINKING)
    elif type(thinks := _at(entry, _REASONING)) is not bool:
        return None
    return frozenset({ThinkingForm.EFFORT} if thinks else ())


def _count(entry: Any, paths: tuple[tuple[str, ...], ...], default: int) -> int:
    return next(filter(None, (count(_at(entry, path)) for path in paths)), default)


def _at(entry: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        entry = entry.get(name) if isinstance(entry, Mapping) else None
    return entry
