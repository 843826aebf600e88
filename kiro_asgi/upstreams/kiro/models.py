"""Which models there are.

The service's own list is what counts; the table here stands in for it where, and as long as, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from kiro_asgi.upstreams.base import ModelCard, ModelPage, UpstreamRequest
from kiro_asgi.upstreams.kiro.spelling import normalise
from kiro_asgi.upstreams.models import limit_of, listed, read_listing, resembling
from kiro_asgi.wire.members import object_of, text_of

__all__ = ["FALLBACK", "did_you_mean", "efforts_of", "find", "models_request", "parse_models"]

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
    ModelCard("claude-opus-5.5", "Claude Opus 5.5", MILLION, 128_000, efforts=FIVE),
    ModelCard("claude-fable-5", "Claude Fable 5", MILLION, 128_000, efforts=FIVE),
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


def find(name: str, cards: Iterable[ModelCard]) -> ModelCard | None:
    """The card that *name* means: the very id, else the same one spelled differently."""
    cards = tuple(cards)
    wanted = normalise(name)
    exact = (card for card in cards if card.id == name)
    return next(exact, None) or next((card for card in cards if normalise(card.id) == wanted), None)


def did_you_mean(name: str, cards: Iterable[ModelCard]) -> tuple[str, ...]:
    """Up to three ids that resemble *name*, best first."""
    return resembling(normalise(name), cards)


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


def parse_models(body: bytes) -> ModelPage:
    """The models of an answer, in its order; entries without an id are passed over, absent facts have our defaults.

    Raises:
        UpstreamProtocolError: Not a JSON object.
    """
    listing = read_listing(body, dict)
    return ModelPage(listed(listing.get("models"), _card), text_of(listing, "nextToken"))


def _card(entry: Any) -> ModelCard | None:
    entry = object_of(entry)
    name, schema = entry.get("modelId"), object_of(entry.get("additionalModelRequestFieldsSchema"))
    if type(name) is not str or not name:
        return None
    limits, inputs = object_of(entry.get("tokenLimits")), entry.get("supportedInputTypes")
    title = entry.get("modelName")
    known = find(name, FALLBACK) or ModelCard(name)
    return ModelCard(
        name,
        title if type(title) is str else known.name,
        limit_of(limits, "maxInputTokens", known.context_window),
        limit_of(limits, "maxOutputTokens", known.max_output_tokens),
        "IMAGE" in inputs if type(inputs) is list else known.images,
        efforts_of(schema),
        schema,
    )


def efforts_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The effort levels that a schema of free request fields lists."""
    properties = object_of(schema.get("properties"))
    for parent in ("output_config", "reasoning"):
        levels = object_of(object_of(object_of(properties.get(parent)).get("properties")).get("effort")).get("enum")
        if type(levels) is list:
            return tuple(level for level in levels if type(level) is str)
    return ()
