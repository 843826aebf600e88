"""Models: how they are listed, what their ids mean, and traits of their families in Converse.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListFoundationModels.html,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListInferenceProfiles.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from attrs import evolve, frozen

from kiro_asgi.model.prompt import Attachment, Document, Image, ToolChoiceMode
from kiro_asgi.upstreams.base import ModelCard, ModelPage
from kiro_asgi.upstreams.bedrock.settings import GEOGRAPHIES
from kiro_asgi.upstreams.models import expected, listed, moment_of, read_listing
from kiro_asgi.wire.json import object_of, objects_of, text_of

_AUTO, _ANY, _NAMED = ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED, ToolChoiceMode.NAMED

THREE: Final = ("low", "medium", "high")


@frozen
class Reasoning:
    """How a model is asked to reason: a level of effort in ``additionalModelRequestFields``."""

    path: tuple[str, ...]
    levels: tuple[str, ...] = THREE
    beside: Mapping[str, Any] = MappingProxyType({})
    """Members beside the level."""

    def fields(self, level: str) -> dict[str, Any]:
        """The member that asks for *level*."""
        *outer, last = self.path
        made: dict[str, Any] = {**self.beside, last: level}
        for name in reversed(outer):
            made = {name: made}
        return made


@frozen(kw_only=True)
class Family:
    """Traits of a family of models in Converse."""

    streams_calls: bool = True
    """Whether answers are streamed where tools are offered."""

    choices: frozenset[ToolChoiceMode] = frozenset({_AUTO})
    """Choices of tools that it takes."""

    system: bool = True
    """Whether it takes system texts."""

    mixed: bool = True
    """Whether results of tools may stand beside other content."""

    result_media: tuple[type[Attachment], ...] = (Image, Document)
    """Media that results of tools may hold, as well as text."""

    status: bool = True
    """Whether results of tools may be marked as errors."""

    cached: frozenset[str] = frozenset()
    """Where cache points may stand: ``system``, ``tools``, ``messages``."""

    prefilled: bool = False
    """Whether it goes on from an assistant's last turn."""

    sampled: bool = True
    """Whether it takes temperature and ``top_p``."""

    top_k: tuple[str, ...] = ()
    """Where ``top_k`` stands in the model's own fields; empty where it takes none."""

    images: bool = True
    formed: bool = False
    """Whether its answers can be held to a JSON Schema."""

    reasoning: Reasoning | None = None
    """How it is asked to reason; ``None`` where it is not."""

    reasoning_text: bool = False
    """Whether it takes back earlier reasoning without a signature."""

    context_window: int = 128_000
    """Tokens."""

    max_output_tokens: int = 8_192


_ALL: Final = frozenset({_AUTO, _ANY, _NAMED})
_SOME: Final = frozenset({_AUTO, _ANY})
_EVERYWHERE: Final = frozenset({"system", "tools", "messages"})
_IMAGE: Final = (Image,)
_DOCUMENT: Final = (Document,)
_NOTHING: Final = ()

CLAUDE: Final = Family(
    choices=_ALL, cached=_EVERYWHERE, top_k=("top_k",), context_window=200_000, max_output_tokens=64_000
)
"""Thinking, sampling, prefills and schemas of Claude depend on its version, as in the Messages API."""

_NOVA: Final = Family(
    choices=_ALL,
    result_media=_IMAGE,
    cached=frozenset({"system", "messages"}),
    top_k=("inferenceConfig", "topK"),
    context_window=300_000,
    max_output_tokens=10_000,
)

FAMILIES: Final[tuple[tuple[tuple[str, ...], Family], ...]] = (
    (("anthropic.",), CLAUDE),
    (
        ("amazon.nova-2-",),
        Family(
            choices=_ALL,
            result_media=_IMAGE,
            cached=frozenset({"system", "messages"}),
            top_k=("inferenceConfig", "topK"),
            reasoning=Reasoning(("reasoningConfig", "maxReasoningEffort"), THREE, {"type": "enabled"}),
            context_window=1_000_000,
            max_output_tokens=64_000,
        ),
    ),
    (("amazon.nova-micro",), Family(choices=_ALL, images=False, cached=_NOVA.cached, top_k=_NOVA.top_k)),
    (("amazon.nova",), _NOVA),
    (("amazon.titan",), Family(streams_calls=False, system=False, images=False)),
    (("meta.",), Family(context_window=128_000, images=True, streams_calls=False, mixed=False)),
    (
        (
            "mistral.mistral-7b",
            "mistral.mixtral",
        ),
        Family(
            system=False,
            images=False,
            streams_calls=False,
            mixed=False,
            result_media=_NOTHING,
            context_window=32_000,
        ),
    ),
    (("mistral.",), Family(choices=_SOME, streams_calls=False, mixed=False, result_media=_DOCUMENT)),
    (("writer.",), Family(images=False, status=False, streams_calls=False, mixed=False)),
    (("cohere.command-r",), Family(images=False, result_media=_NOTHING)),
    (("cohere.",), Family(streams_calls=False, system=False, images=False)),
    (("deepseek.r1",), Family(streams_calls=False, images=False, reasoning_text=True)),
    (
        ("deepseek.",),
        Family(choices=_SOME, images=False, formed=True, reasoning=Reasoning(("reasoning_effort",), ("high",))),
    ),
    (
        ("openai.gpt-oss",),
        Family(choices=_ALL, images=False, reasoning=Reasoning(("reasoning_effort",)), max_output_tokens=16_384),
    ),
    (
        ("openai.",),
        Family(
            choices=_ALL,
            sampled=False,
            reasoning=Reasoning(("reasoning", "effort"), ("none", *THREE, "xhigh")),
            context_window=400_000,
            max_output_tokens=128_000,
        ),
    ),
    (
        ("xai.",),
        Family(
            choices=_ALL,
            sampled=False,
            reasoning=Reasoning(("reasoning", "effort"), (*THREE, "xhigh")),
            context_window=256_000,
            max_output_tokens=64_000,
        ),
    ),
    (
        (
            "zai.",
            "zhipu",
        ),
        Family(choices=_SOME, images=False, reasoning=Reasoning(("reasoning_effort",), ("high",))),
    ),
    (
        ("qwen.",),
        Family(
            result_media=_NOTHING,
            images=False,
            formed=True,
            reasoning=Reasoning(("reasoning_config",), ("none", *THREE)),
        ),
    ),
    (("moonshot",), Family(result_media=_NOTHING, images=False, formed=True)),
)
"""Beginning of a model's id, without its geography, to its family; the first that fits counts."""

UNKNOWN: Final = Family()

_PROVIDER: Final = re.compile(r"[a-z0-9]+\.[a-z0-9]")


_EMBEDS: Final = re.compile(r"embed")
"""In ids of models that make embeddings."""


def base_model(name: str) -> str:
    """The id of the model that an id, a profile's id or an ARN names; what follows the ARN's kind where it hides it."""
    name = name.strip().lower()
    if name.startswith("arn:"):
        name = name.rpartition("/")[2]
    geography, _, rest = name.partition(".")
    return rest if geography in GEOGRAPHIES and "." in rest else name


def behind(model: ModelCard) -> str:
    """The id of the model that *model* stands for, where that is known; a profile's card has it for a name."""
    base = base_model(model.id)
    return base if _PROVIDER.match(base) or not model.name else base_model(model.name)


def family_of(model: ModelCard) -> Family:
    """The family of *model*."""
    base = behind(model)
    return next((found for begins, found in FAMILIES if base.startswith(begins)), UNKNOWN)


def is_claude(model: ModelCard) -> bool:
    """Whether it is one of Anthropic's."""
    return behind(model).startswith("anthropic.")


def card_of(model: str, name: str = "", base: str = "", images: bool | None = None) -> ModelCard:
    """A model by its id; *base* is the model behind it, where the id does not show it."""
    named = ModelCard(model, base)
    found, known = family_of(named), behind(named)
    return ModelCard(
        model,
        base or name,
        context_window=found.context_window,
        max_output_tokens=found.max_output_tokens,
        images=found.images if images is None else images,
        efforts=found.reasoning.levels if found.reasoning else (),
        embeds=bool(_EMBEDS.search(known)) if _PROVIDER.match(known) else None,
    )


def set_cards(entries: Iterable[str]) -> tuple[ModelCard, ...]:
    """Models that the settings name, each as ``id`` or ``id=model behind it``."""
    pairs = (entry.partition("=") for entry in entries)
    return tuple(card_of(name, base=base) for name, _, base in pairs)


_KINDS: Final = ("SYSTEM_DEFINED", "APPLICATION")
"""Types of inference profiles, in the order in which they are asked for."""


def models_path(page: str) -> str:
    """Path of a part of the account's models: first those that need no profile, then profiles by type.

    Args:
        page: Empty for the first; else a type of profiles, and after a space the service's cursor of the part.
    """
    kind, _, token = page.partition(" ")
    if not kind:
        return "/foundation-models?byInferenceType=ON_DEMAND"
    query = {"maxResults": "1000", "type": kind, **({"nextToken": token} if token else {})}
    return f"/inference-profiles?{urlencode(query)}"


def parse_models(body: bytes) -> ModelPage:
    """The models of a part, in its order.

    Raises:
        UpstreamProtocolError: It is not a list of models.
    """
    listing = read_listing(body, dict)
    if "modelSummaries" in listing:
        return ModelPage(listed(expected(listing["modelSummaries"], list), _foundation), _KINDS[0])
    profiles = expected(listing.get("inferenceProfileSummaries"), list)
    kind = next((text_of(profile, "type") for profile in objects_of(profiles)), "")
    token = text_of(listing, "nextToken")
    following = f"{kind} {token}" if token and kind else _KINDS[1] if kind == _KINDS[0] else ""
    return ModelPage(listed(profiles, _profile), following)


def _foundation(entry: Any) -> ModelCard | None:
    """One that answers in text, or makes embeddings of texts, and can be asked without a profile."""
    model = text_of(entry, "modelId") if type(entry) is dict else ""
    lifecycle = entry.get("modelLifecycle") if model else None
    legacy = type(lifecycle) is dict and text_of(lifecycle, "status") not in ("", "ACTIVE")
    if not model or legacy or not {"TEXT", "EMBEDDING"} & {*map(str, _words(entry, "outputModalities", "TEXT"))}:
        return None
    if "ON_DEMAND" not in _words(entry, "inferenceTypesSupported", "ON_DEMAND"):
        return None
    card = card_of(model, text_of(entry, "modelName"), images="IMAGE" in _words(entry, "inputModalities", "IMAGE"))
    return evolve(card, created=moment_of(object_of(lifecycle).get("startOfLifeTime")))


def _words(entry: Mapping[str, Any], key: str, default: str) -> list[Any]:
    value = entry.get(key)
    return value if type(value) is list else [default]


def _profile(entry: Any) -> ModelCard | None:
    """An inference profile: one of AWS's by its id, one of the account's by its ARN."""
    if type(entry) is not dict or text_of(entry, "status") not in ("", "ACTIVE"):
        return None
    own = text_of(entry, "type") == "APPLICATION"
    model = text_of(entry, "inferenceProfileArn" if own else "inferenceProfileId")
    if not model:
        return None
    arns = [text_of(each, "modelArn") for each in objects_of(entry.get("models"))]
    return card_of(model, text_of(entry, "inferenceProfileName"), base_model(arns[0]) if own and arns else "")
