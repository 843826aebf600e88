"""One upstream that is set up: how it is talked to, what it is asked with, and what else it can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from kiro_asgi.model.notes import Rule
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.server_tools import SearchHit
from kiro_asgi.upstreams.access import Keys, SignIns
from kiro_asgi.upstreams.base import Credential, ModelCard, Upstream, UpstreamRequest

__all__ = ["Adapt", "AnswerOptions", "Quota", "Search", "Setup", "unchanged"]

Adapt = Callable[[Prompt, str, ModelCard], Prompt]
"""A prompt, the name by which the model was asked for, and the model, to the prompt as the name means it."""


@frozen(kw_only=True)
class AnswerOptions:
    """How an upstream's answers are waited for and read."""

    first_event_timeout: float
    """Seconds from asking to the first event."""

    thinking_first_event_timeout: float
    """The same where the client asked for thinking."""

    thinking_tags: tuple[str, ...] = ()
    """Names of tags that hold thinking, where it was asked for."""

    thinking_scan: str = "start"
    thinking_handling: str = "as_reasoning_content"
    """Handling of thinking, in tags or not, see `ThinkingSplitter`."""

    drop_equal_tool_calls: bool = False
    drop_repeated_text: bool = False


class Search(Protocol):
    """A web search that the service runs beside its answers, for the gateway to run it where a client offers one."""

    def request(self, credential: Credential, query: str) -> UpstreamRequest:
        """Ask for pages about *query*."""
        ...

    def parse(self, body: bytes) -> tuple[SearchHit, ...]:
        """The pages of an answer, best first.

        Raises:
            RequestError: The service does not take the query.
            UpstreamError: The search failed.
        """
        ...


class Quota(Protocol):
    """Queries for the quota that is left of an account, where the service offers them."""

    @property
    def questions(self) -> tuple[Callable[[Credential], UpstreamRequest], ...]:
        """Ways to ask; each further one is for accounts that are refused those before it."""
        ...

    def reset(self, body: bytes) -> float | None:
        """When there is a new quota, in seconds since the epoch; ``None`` where the answer does not say."""
        ...


def unchanged(prompt: Prompt, name: str, model: ModelCard) -> Prompt:
    """*prompt*: the model's name means nothing but the model."""
    return prompt


@frozen(kw_only=True)
class Setup:
    """Everything that it takes to ask one upstream, and nothing that is open."""

    upstream: Upstream
    access: Keys | SignIns
    answer_options: AnswerOptions
    account: str
    """Whose accounts its credentials are, e.g. the host of the endpoint; two upstreams may be one service."""

    rules: tuple[Rule, ...] = ()
    """The rules of which `kiro_asgi.upstreams.base.Rendered.notes` tell."""

    adapt: Adapt = unchanged
    choose: Callable[[ModelCard], Upstream] | None = None
    """The upstream for a model, where a service is talked to in several ways; ``None`` where *upstream* is for all."""

    others: tuple[Upstream, ...] = ()
    """Further ways in which the service may be talked to, some of which *choose* or a refusal may lead to."""

    search: Search | None = None
    quota: Quota | None = None
