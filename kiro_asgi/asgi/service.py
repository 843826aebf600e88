"""The upstream side of one app: whom to ask, and how."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from kiro_asgi._version import __version__
from kiro_asgi.asgi.exchange import Exchange
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import Dialect, Inquiry
from kiro_asgi.net.catalogue import Catalogue, ModelSource
from kiro_asgi.net.retry import RetryPolicy
from kiro_asgi.net.transport import Transport
from kiro_asgi.stages.estimate import Estimator, count_prompt
from kiro_asgi.upstreams.base import Credential
from kiro_asgi.upstreams.kiro import KiroUpstream
from kiro_asgi.upstreams.kiro.auth import credential
from kiro_asgi.upstreams.kiro.models import FALLBACK, did_you_mean, normalise, parse_models

__all__ = ["Service"]


@define
class Service:
    """Everything an app needs to ask its upstream."""

    settings: Settings
    transport: Transport
    policy: RetryPolicy
    upstream: KiroUpstream
    catalogue: Catalogue
    _credential: Credential
    _wall_clock: Callable[[], float]
    _token: Callable[[], str]
    estimator: Estimator

    @classmethod
    def create(
        cls,
        settings: Settings,
        wall_clock: Callable[[], float],
        token: Callable[[], str],
        estimator: Estimator,
    ) -> Service:
        """Build it from settings; opens nothing.

        Raises:
            ConfigError: There is no credential.
        """
        secret = credential(settings.kiro.api_key, settings.kiro.access_token, settings.kiro.profile_arn)
        transport, upstream = _transport(settings), _upstream(settings)
        source = ModelSource(
            request=lambda: upstream.models_request(secret),
            parse=parse_models,
            normalise=normalise,
            suggest=did_you_mean,
            builtin=FALLBACK,
        )
        catalogue = Catalogue(transport, source, settings.kiro.models_ttl)
        return cls(settings, transport, _policy(settings), upstream, catalogue, secret, wall_clock, token, estimator)

    async def exchange(self, dialect: Dialect, inquiry: Inquiry, request_id: str, principal: str) -> Exchange:
        """Settle all facts about a request.

        Raises:
            RequestError: The upstream cannot be asked this.
        """
        prompt = inquiry.prompt
        model = await self.catalogue.find(prompt.model)
        return Exchange(
            request_id=request_id,
            principal=principal,
            dialect=dialect,
            inquiry=inquiry,
            heading=dialect.heading(inquiry, self._token, int(self._wall_clock())),
            upstream=self.upstream,
            model=model,
            rendered=self.upstream.render(prompt, model, self._credential),
            estimator=self.estimator,
            input_tokens=count_prompt(prompt, self.estimator),
        )


def _transport(settings: Settings) -> Transport:
    limits = settings.limits
    return Transport(
        library=settings.http_library,
        connections=limits.connections,
        queue=limits.queue,
        keep_alive=limits.keep_alive,
        connect_timeout=limits.connect_timeout,
    )


def _policy(settings: Settings) -> RetryPolicy:
    retry = settings.retry
    return RetryPolicy(
        attempts=retry.attempts,
        timeout_attempts=retry.timeout_attempts,
        base=retry.base,
        factor=retry.factor,
        cap=retry.cap,
        jitter=retry.jitter,
    )


def _upstream(settings: Settings) -> KiroUpstream:
    kiro = settings.kiro
    return KiroUpstream(
        endpoint=kiro.endpoint,
        region=kiro.region,
        wire_style=kiro.wire_style,
        origin=kiro.origin,
        agent_mode=kiro.agent_mode,
        user_agent=kiro.user_agent or f"kiro-asgi/{__version__}",
        checksums=kiro.checksums,
        fake_reasoning=kiro.fake_reasoning_enabled,
    )
