"""The Kiro service as it is set up: the upstream, its tokens, and what it can be asked besides answers."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from kiro_asgi.model.events import SearchHit
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.access import SignIns
from kiro_asgi.upstreams.base import Credential, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.kiro.auth import without_profile
from kiro_asgi.upstreams.kiro.limits import parse_reset
from kiro_asgi.upstreams.kiro.mcp import parse_search
from kiro_asgi.upstreams.kiro.models import with_wishes
from kiro_asgi.upstreams.kiro.rules.table import RULES
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from kiro_asgi.upstreams.kiro.vendor import KiroVendor
from kiro_asgi.upstreams.manifest import Configured
from kiro_asgi.upstreams.settings import AnswerOptions, Setup


def set_up(configured: Configured[KiroSettings]) -> Setup:
    """Everything that it takes to ask the service.

    Raises:
        ConfigError: A setting that cannot work.
    """
    settings = configured.settings
    upstream = KiroUpstream(settings=settings, name=configured.name)
    return Setup(
        upstream=upstream,
        access=SignIns(KiroVendor(settings), settings),
        answer_options=AnswerOptions(
            first_event_timeout=settings.first_token_timeout,
            thinking_first_event_timeout=settings.thinking_first_token_timeout,
            thinking_tags=settings.thinking_tags if settings.fake_reasoning_enabled else (),
            thinking_scan=settings.thinking_scan,
            thinking_handling=settings.fake_reasoning_handling,
            drop_equal_tool_calls=settings.drop_equal_tool_calls,
            drop_repeated_text=settings.drop_repeated_content,
        ),
        account=configured.path,
        rules=RULES,
        adapt=_with_wishes,
        search=_Search(upstream) if settings.web_search else None,
        quota=_Quota(upstream),
    )


def _with_wishes(prompt: Prompt, name: str, model: ModelCard) -> Prompt:
    return evolve(prompt, thinking=with_wishes(prompt.thinking, name, model.id))


@frozen
class _Search:
    """The service's web search, as `kiro_asgi.upstreams.settings.Search`."""

    _upstream: KiroUpstream

    def request(self, credential: Credential, query: str) -> UpstreamRequest:
        return self._upstream.search_request(credential, query)

    def parse(self, body: bytes) -> tuple[SearchHit, ...]:
        return parse_search(body)


@frozen
class _Quota:
    """The account's limits, as `kiro_asgi.upstreams.settings.Quota`."""

    _upstream: KiroUpstream

    @property
    def questions(self) -> tuple[Callable[[Credential], UpstreamRequest], ...]:
        # some enterprise accounts must not name their profile here
        return self._upstream.limits_request, lambda it: self._upstream.limits_request(without_profile(it))

    def reset(self, body: bytes) -> float | None:
        return parse_reset(body)
