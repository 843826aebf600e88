"""Services that are asked with a key: what is the same in setting each of them up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, TypeVar
from urllib.parse import urlsplit

from kiro_asgi.model.notes import Rule
from kiro_asgi.stages.thinking import TAGS
from kiro_asgi.upstreams.access import KeyExchange, Keys
from kiro_asgi.upstreams.base import Upstream
from kiro_asgi.upstreams.headers import Headers
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import DirectSettings, user_agent
from kiro_asgi.upstreams.setup import Manner, Setup

__all__ = ["Common", "common", "direct_setup"]

D = TypeVar("D", bound=DirectSettings)


class Common(TypedDict):
    """Fields that every upstream of the kind has."""

    name: str
    endpoint: str
    user_agent: str
    headers: Headers
    replay_thinking: bool


def common(configured: Configured[D]) -> Common:
    """The fields as the settings have them."""
    settings = configured.settings
    return Common(
        name=configured.name,
        endpoint=settings.endpoint,
        user_agent=user_agent(settings.user_agent),
        headers=settings.sent_headers,
        replay_thinking=settings.replay_thinking,
    )


def direct_setup(
    configured: Configured[D],
    upstream: Upstream,
    rules: Iterable[Rule],
    public: str,
    *,
    thinking_tags: tuple[str, ...] = (),
    exchange: KeyExchange | None = None,
) -> Setup:
    """Everything that it takes to ask *upstream* with the keys that are configured.

    Args:
        configured: Its settings.
        upstream: How it is talked to.
        rules: What it does to prompts.
        public: Base URL of the vendor's own service.
        thinking_tags: Names of tags that hold thinking; none for the usual ones.
        exchange: How a key becomes a token, where the service wants that instead.
    """
    settings = configured.settings
    return Setup(
        upstream=upstream,
        access=Keys(settings.keys(configured.path), exchange),
        manner=Manner(
            first_event_timeout=settings.first_token_timeout,
            thinking_first_event_timeout=settings.thinking_first_token_timeout,
            thinking_tags=thinking_tags or TAGS,
        ),
        account=urlsplit(settings.endpoint or public).netloc,
        rules=tuple(rules),
    )
