"""The models, and the names that clients give them.

The service's own list counts; the table here stands in for it where, and as long as, there is none.

Clients write a version with dots or dashes, add a date, a provider or the size of a window, and some put options of the
answer into the name: ``claude-opus-4.8-high``, ``claude-sonnet-4.5-thinking``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from kiro_asgi.model.prompt import Thinking, ThinkingMode
from kiro_asgi.upstreams.base import ModelCard, ModelPage
from kiro_asgi.upstreams.models import limit_of, listed, read_listing, resembling
from kiro_asgi.wire.json import object_of, text_of

MAX_NAME: Final = 200
"""Characters of a name that is looked at; nothing longer is a model."""

Rewriting = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_WISHES: Final = "thinking|none|minimal|low|medium|high|xhigh|max"

_KIND: Final = rf"(?!(?:{_WISHES})(?![a-z]))[a-z]{{2,20}}"
"""Name of a kind of Claude, the next one's, too."""

REWRITINGS: Final[tuple[Rewriting, ...]] = (
    (re.compile(r"^(?:(?:kiro|kr|anthropic|openai|amazonq)/)+"), ""),
    (re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.(?=claude)"), ""),
    (re.compile(r"^claude_[a-z0-9_]+$"), lambda match: match[0].replace("_", "-")),
    (re.compile(r"(?<!\s)\s*+\[[0-9]+[km]\]$"), ""),
    (re.compile(r"(?<=.)(?:-latest|[-@][0-9]{8}|-20[0-9]{2}-[0-9]{2}-[0-9]{2})$"), ""),
    (re.compile(r"^(claude-.*)-v[0-9](?:[:-][0-9]+)?$"), r"\1"),
    (re.compile(r"^claude-3-([57])-(sonnet|haiku|opus)$"), r"claude-3.\1-\2"),
    (
        re.compile(rf"^claude-([4-9]|[1-9][0-9])(?:[.-]([0-9]{{1,2}}))?-({_KIND})$"),
        lambda match: _inverted(*match.groups()),
    ),
    (re.compile(rf"^(claude-{_KIND}-[0-9]{{1,2}})-([0-9]{{1,2}})(?![0-9])"), r"\1.\2"),
    (re.compile(rf"^(claude-{_KIND}-[0-9]{{1,2}})\.0$"), r"\1"),
)
"""Applied until nothing changes.  A date is never taken for a minor version."""

WISH: Final = re.compile(rf"((?:claude|gpt)-.*)[-:]({_WISHES})")
"""A name with a wish behind it.  Other families have such words in their own names."""


@frozen
class ModelSpelling:
    """The parts of a model's name."""

    name: str
    """The one spelling of the model's own name."""

    effort: str = ""
    """The level that is asked for; empty where none is."""

    thinking: bool = False
    """Whether thinking is asked for."""


def _inverted(major: str, minor: str | None, family: str) -> str:
    return f"claude-{family}-{major}.{minor}" if minor else f"claude-{family}-{major}"


def read_name(name: str) -> ModelSpelling:
    """The parts of a model's name; one that we do not know loses only parts that surely do not belong to it."""
    if name in _OWN_NAMES:
        return ModelSpelling(name)
    name = name.strip()
    if len(name) > MAX_NAME or re.fullmatch(r"(?!CLAUDE_)[A-Z0-9]+(?:_[A-Z0-9]+)+", name):
        return ModelSpelling(name)
    name, before = name.lower(), ""
    wishes: list[str] = []
    while name != before:
        before = name
        for pattern, replacement in REWRITINGS:
            name = pattern.sub(replacement, name).strip()
        if match := WISH.fullmatch(name):
            name, wish = match.groups()
            wishes.append(wish)
    effort = next((wish for wish in wishes if wish != "thinking"), "")
    return ModelSpelling(name, effort, "thinking" in wishes)


def normalise(name: str) -> str:
    """The one spelling of a model's name, without wishes."""
    return read_name(name).name


def spelled_wishes(name: str, model: str = "") -> tuple[str | None, bool]:
    """The effort level that a name asks for, if any, and whether it asks for thinking.

    Args:
        name: As the client writes it.
        model: The id of the model that it means: a model's very own name asks for nothing.
    """
    if name.strip().lower() == model.lower():
        return None, False
    spelling = read_name(name)
    return spelling.effort or None, spelling.thinking


def with_wishes(thinking: Thinking, name: str, model: str = "") -> Thinking:
    """The client's options for thinking, with those of its model's name; explicit options take precedence."""
    effort, wanted = spelled_wishes(name, model)
    if effort == "none":
        return Thinking(ThinkingMode.DISABLED) if thinking == Thinking() else thinking
    if thinking.effort or thinking.budget_tokens is not None:
        effort = None
    if thinking.mode is ThinkingMode.DISABLED or not (effort or wanted):
        return thinking
    mode = ThinkingMode.ENABLED if thinking.mode is ThinkingMode.DEFAULT else thinking.mode
    return evolve(thinking, mode=mode, effort=effort or thinking.effort)


MILLION: Final = 1_000_000
FOUR: Final = ("low", "medium", "high", "max")
FIVE: Final = ("low", "medium", "high", "xhigh", "max")
GPT: Final = ("none", "low", "medium", "high", "xhigh", "max")

_NAMED: Final[tuple[ModelCard, ...]] = (
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
    ModelCard("deepseek-3.2", "DeepSeek 3.2", 164_000, images=False),
    ModelCard("glm-5", "GLM 5", images=False),
    ModelCard("minimax-m2.1", "MiniMax M2.1", images=False),
    ModelCard("minimax-m2.5", "MiniMax M2.5", images=False),
    ModelCard("qwen3-coder-next", "Qwen3 Coder Next", 256_000, images=False),
)

FALLBACK: Final[tuple[ModelCard, ...]] = (
    ModelCard("auto", "Auto", max(card.context_window for card in _NAMED)),
    *_NAMED,
)
"""Models that the service has announced or peers know; the longest known window, the smallest known output.  ``auto``
may be any of them: a window that is too short would refuse conversations that the service takes."""

_OWN_NAMES: Final = frozenset(card.id for card in FALLBACK)
"""Spelled as they are: most requests ask for one of these, and each asks more than once."""

THINK_IF_ASKED: Final = frozenset(
    {
        "claude-3.7-sonnet",
        "claude-sonnet-4",
        "claude-sonnet-4.5",
        "claude-sonnet-4.6",
        "claude-haiku-4.5",
        "claude-opus-4.5",
        "claude-opus-4.6",
        "qwen3-coder-next",
    }
)
"""Models that begin to answer at once unless they are asked to think, or do not think at all."""


def thinks_unasked(card: ModelCard) -> bool:
    """Whether a model may think, and send nothing meanwhile, without being asked to: unless it is known not to."""
    return normalise(card.id) not in THINK_IF_ASKED


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

MODELS_A_PAGE: Final = 50


def models_fields(profile_arn: str, origin: str, page: str) -> Mapping[str, str | int]:
    """The parameters of a question for the list of models; *page* is the ``nextToken`` of the answer before."""
    fields: dict[str, str | int] = {"origin": origin, "maxResults": MODELS_A_PAGE}
    fields |= {"profileArn": profile_arn, "nextToken": page}
    return {name: value for name, value in fields.items() if value}


def parse_models(body: bytes) -> ModelPage:
    """The models of an answer, in its order; entries without an id are skipped, absent facts have our defaults.

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
        _efforts_of(schema),
        schema,
    )


def _efforts_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The effort levels that a schema of free request fields lists."""
    properties = object_of(schema.get("properties"))
    for parent in ("output_config", "reasoning"):
        levels = object_of(object_of(object_of(properties.get(parent)).get("properties")).get("effort")).get("enum")
        if type(levels) is list:
            return tuple(level for level in levels if type(level) is str)
    return ()
