"""Which models there are, and by what names people call them.

The service's own list is what counts; the table here stands in for it where it cannot be fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from kiro_asgi.errors import UpstreamProtocolError
from kiro_asgi.upstreams.base import ModelCard, UpstreamRequest
from kiro_asgi.wire.json import JsonError, loads

__all__ = ["FALLBACK", "did_you_mean", "efforts_of", "find", "models_request", "normalise", "parse_models"]

MAX_NAME: Final = 200
"""Characters of a name that is looked at; nothing longer is a model."""

MILLION: Final = 1_000_000
FOUR: Final = ("low", "medium", "high", "max")
FIVE: Final = ("low", "medium", "high", "xhigh", "max")
GPT: Final = ("none", "low", "medium", "high", "xhigh", "max")

FALLBACK: Final[tuple[ModelCard, ...]] = (
    ModelCard("auto", "Auto"),
    ModelCard("claude-sonnet-4.5", "Claude Sonnet 4.5", efforts=FOUR),
    ModelCard("claude-sonnet-4.6", "Claude Sonnet 4.6", MILLION, efforts=FOUR),
    ModelCard("claude-sonnet-5", "Claude Sonnet 5", MILLION, 128_000, efforts=FIVE),
    ModelCard("claude-sonnet-4", "Claude Sonnet 4"),
    ModelCard("claude-haiku-4.5", "Claude Haiku 4.5"),
    ModelCard("claude-opus-4.5", "Claude Opus 4.5", efforts=FOUR),
    ModelCard("claude-opus-4.6", "Claude Opus 4.6", MILLION, efforts=FOUR),
    ModelCard("claude-opus-4.7", "Claude Opus 4.7", MILLION, 128_000, efforts=FIVE),
    ModelCard("claude-opus-4.8", "Claude Opus 4.8", MILLION, 128_000, efforts=FIVE),
    ModelCard("claude-opus-5", "Claude Opus 5", MILLION, 128_000, efforts=FIVE),
    ModelCard("claude-3.7-sonnet", "Claude Sonnet 3.7"),
    ModelCard("gpt-5.6-sol", "GPT-5.6 Sol", 272_000, 128_000, efforts=GPT),
    ModelCard("gpt-5.6-terra", "GPT-5.6 Terra", 272_000, 128_000, efforts=GPT),
    ModelCard("gpt-5.6-luna", "GPT-5.6 Luna", 272_000, 128_000, efforts=GPT),
    ModelCard("deepseek-3.2", "DeepSeek 3.2", 128_000, images=False),
    ModelCard("glm-5", "GLM 5", images=False),
    ModelCard("minimax-m2.1", "MiniMax M2.1", images=False),
    ModelCard("minimax-m2.5", "MiniMax M2.5", images=False),
    ModelCard("qwen3-coder-next", "Qwen3 Coder Next", 256_000, images=False),
)
"""What peers and the service's own announcements name; the longest known window, the smallest known output."""


# Names.

Rewriting = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

REWRITINGS: Final[tuple[Rewriting, ...]] = (
    (re.compile(r"^(?:(?:kiro|kr|anthropic|amazonq)/)+"), ""),
    (re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.(?=claude)"), ""),
    (re.compile(r"^claude_[a-z0-9_]+$"), lambda match: match[0].replace("_", "-")),
    (re.compile(r"\s*\[[0-9]+[km]\]$"), ""),
    (re.compile(r"(?<=.)(?:-thinking|-latest|[-@][0-9]{8})$"), ""),
    (re.compile(r"^(claude-.*)-v[0-9](?:[:-][0-9]+)?$"), r"\1"),
    (re.compile(r"^((?:claude|gpt)-.*)-(?:minimal|low|medium|high|xhigh|max)$"), r"\1"),
    (re.compile(r"^claude-3-([57])-(sonnet|haiku|opus)$"), r"claude-3.\1-\2"),
    (
        re.compile(r"^claude-([4-9])(?:[.-]([0-9]{1,2}))?-(sonnet|haiku|opus|fable)$"),
        lambda match: _inverted(*match.groups()),
    ),
    (re.compile(r"^(claude-(?:sonnet|haiku|opus|fable)-[0-9])-([0-9]{1,2})(?![0-9])"), r"\1.\2"),
    (re.compile(r"^(claude-(?:sonnet|haiku|opus|fable)-[0-9])\.0$"), r"\1"),
)
"""Applied until nothing changes.  A date is never taken for a minor version."""


def _inverted(major: str, minor: str | None, family: str) -> str:
    return f"claude-{family}-{major}.{minor}" if minor else f"claude-{family}-{major}"


def normalise(name: str) -> str:
    """The one spelling of a model's name; one that we do not know loses only what surely is no part of it."""
    name = name.strip()
    if len(name) > MAX_NAME or re.fullmatch(r"(?!CLAUDE_)[A-Z0-9]+(?:_[A-Z0-9]+)+", name):
        return name
    name, before = name.lower(), ""
    while name != before:
        before = name
        for pattern, replacement in REWRITINGS:
            name = pattern.sub(replacement, name).strip()
    return name


def find(name: str, cards: Iterable[ModelCard]) -> ModelCard | None:
    """The card that *name* means: the very id, else the same one spelled differently."""
    cards = tuple(cards)
    wanted = normalise(name)
    exact = (card for card in cards if card.id == name)
    return next(exact, None) or next((card for card in cards if normalise(card.id) == wanted), None)


def did_you_mean(name: str, cards: Iterable[ModelCard]) -> tuple[str, ...]:
    """Up to three ids that resemble *name*, best first."""
    return tuple(get_close_matches(normalise(name)[:MAX_NAME], [card.id for card in cards], 3, 0.6))


# The service's list.


def models_request(
    endpoint: str,
    profile_arn: str,
    headers: tuple[tuple[bytes, bytes], ...],
    *,
    origin: str = "AI_EDITOR",
    page: str = "",
) -> UpstreamRequest:
    """Ask for the list of models; *page* is the ``nextToken`` of the answer before, *headers* are sent as they are."""
    query = {"origin": origin, "maxResults": "50"}
    if profile_arn:
        query["profileArn"] = profile_arn
    if page:
        query["nextToken"] = page
    return UpstreamRequest("GET", f"{endpoint}/ListAvailableModels?{urlencode(query)}", headers)


def parse_models(body: bytes) -> tuple[ModelCard, ...]:
    """The models of an answer, in its order; entries without an id are passed over, absent facts have our defaults.

    Raises:
        UpstreamProtocolError: Not a JSON object.
    """
    try:
        listing = loads(body)
    except JsonError as error:
        raise UpstreamProtocolError(f"the list of models is unreadable: {error}", code="upstream.models") from None
    if type(listing) is not dict:
        raise UpstreamProtocolError("the list of models is not an object", code="upstream.models")
    entries = listing.get("models")
    cards: dict[str, ModelCard] = {}
    for card in filter(None, map(_card, entries if type(entries) is list else ())):
        cards.setdefault(card.id, card)
    return tuple(cards.values())


def _card(entry: Any) -> ModelCard | None:
    entry = _map(entry)
    name, schema = entry.get("modelId"), _map(entry.get("additionalModelRequestFieldsSchema"))
    if type(name) is not str or not name:
        return None
    limits, inputs = _map(entry.get("tokenLimits")), entry.get("supportedInputTypes")
    title = entry.get("modelName")
    known = find(name, FALLBACK) or ModelCard(name)
    return ModelCard(
        name,
        title if type(title) is str else known.name,
        _limit(limits, "maxInputTokens", known.context_window),
        _limit(limits, "maxOutputTokens", known.max_output_tokens),
        "IMAGE" in inputs if type(inputs) is list else known.images,
        efforts_of(schema),
        schema,
    )


def efforts_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The effort levels that a schema of free request fields lists."""
    properties = _map(schema.get("properties"))
    for parent in ("output_config", "reasoning"):
        levels = _map(_map(_map(properties.get(parent)).get("properties")).get("effort")).get("enum")
        if type(levels) is list:
            return tuple(level for level in levels if type(level) is str)
    return ()


def _map(value: Any) -> Mapping[str, Any]:
    return value if type(value) is dict else MappingProxyType({})


def _limit(limits: Mapping[str, Any], key: str, default: int) -> int:
    value = limits.get(key)
    return value if type(value) is int and value > 0 else default
