"""Requests that go to a service of the client's own API as they are, and answers that come back as they are.

What keeps a request from it is in `kiro_asgi.asgi.reasons`.  Tries, time limits, credentials and signs of life are the
relay's, as for every other answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from attrs import define, field

from kiro_asgi.asgi.exchange import Asked, Exchange, Passed
from kiro_asgi.asgi.models import Route
from kiro_asgi.asgi.passed_output import PassedOutput
from kiro_asgi.asgi.plan import plan_answer
from kiro_asgi.asgi.provider import Provider
from kiro_asgi.asgi.reading import Reading
from kiro_asgi.asgi.reasons import Candidate, Reason, reason_against
from kiro_asgi.asgi.recovery import Recovered
from kiro_asgi.config import StreamSettings
from kiro_asgi.dialects.base import Glance, Inquiry, Writer
from kiro_asgi.dialects.passage import Fault, Passage
from kiro_asgi.errors import KiroAsgiError, UpstreamFault
from kiro_asgi.model.events import Event, Usage
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode
from kiro_asgi.stages.answer import Answer, build_pipeline
from kiro_asgi.stages.base import Pipeline, StageFactory
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import Credential, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.media_types import EVENT_STREAM, JSON, essence

__all__ = [
    "Passing",
    "inquiry_of",
    "passed",
    "reason_against_passing",
    "rendered",
]


def reason_against_passing(
    request: Passed,
    provider: Provider,
    model: ModelCard,
    stream: StreamSettings,
    stages: tuple[StageFactory, ...] = (),
) -> Reason | None:
    """Why *request* does not go to *provider* as it is; ``None`` where it does."""
    return reason_against(
        Candidate(
            glance=request.glance,
            dialect=request.dialect,
            forwarding=provider.asking(model).forwarding,
            model=model,
            toolbox=provider.toolbox,
            manner=provider.manner,
            stream=stream,
            stages=stages,
        )
    )


def inquiry_of(glance: Glance) -> Inquiry:
    """As much of the request as was looked at."""
    mode = ThinkingMode.ENABLED if glance.thinking else ThinkingMode.DEFAULT
    return Inquiry(Prompt(glance.model, tools=glance.tools, thinking=Thinking(mode)), glance.stream, None)


def rendered(request: Passed, upstream: Upstream, model: ModelCard, credential: Credential) -> Rendered:
    """*request* as *upstream* is sent it."""
    forwarding = upstream.forwarding
    assert forwarding is not None, "an upstream that speaks no client's API"
    return Rendered(forwarding.request(request.glance.renamed(model.id), credential, request.headers))


def passed(asked: Asked, route: Route, credential: Credential, request: Passed, estimator: Estimator) -> Exchange:
    """The exchange for a request that goes on as it is.  Nothing is estimated: the service counts."""
    inquiry, upstream = inquiry_of(request.glance), route.provider.asking(route.model)
    return Exchange(
        asked=asked,
        route=route,
        inquiry=inquiry,
        upstream=upstream,
        credential=credential,
        conversation="",
        rendered=rendered(request, upstream, route.model, credential),
        estimator=estimator,
        weight=0.0,
        output_factor=1.0,
        input_tokens=0,
        recovered=Recovered(inquiry.prompt, inquiry.prompt, asked.principal),
        passed=request,
    )


@define
class Retold:
    """The stage from the bytes of a whole answer to the events of a stream that says the same."""

    _answer: Answer
    _encoder: Writer[Event]

    def feed(self, items: Iterable[bytes], /) -> Iterator[bytes]:
        """Nothing, as a rule."""
        return self._encoder.feed(self._answer.feed(items))

    def flush(self) -> Iterator[bytes]:
        """All of it."""
        yield from self._encoder.feed(chain(self._answer.drain(), self._answer.flush()))
        yield from self._encoder.flush()


@define
class Passing(Reading[PassedOutput]):
    """Hands an answer on as it comes; only one that is whole where a stream was asked for is told anew."""

    _passage: Passage = field(init=False)
    _retold: Retold | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        exchange, request = self._exchange, self._exchange.passed
        assert request is not None, "a request that does not go on as it is"
        name = "" if request.glance.model == exchange.model.id else request.glance.model
        heading = exchange.asked.head(exchange.inquiry)
        self._passage = request.dialect.passage(_fault_of(exchange.upstream), heading, name)
        self._output.through(self._passage)
        if not request.glance.stream:  # nothing comes of such an answer before it is complete
            self.first_event_timeout = self._settings.limits.request_timeout

    @property
    def heard(self) -> bool:
        """Whether there has been an event."""
        return self._passage.begun

    @property
    def usage(self) -> Usage | None:
        """What the answer took, as far as the service said."""
        return self._passage.usage

    def open(self) -> Iterable[bytes]:
        """Nothing: the answer's own start is still to come."""
        return ()

    async def finish(self) -> None:
        """Bring the rest to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means, or that its answer did not come to its end.
        """
        if not self._accepted:
            self._refuse()
        heard = self._passage.heard
        await self._put(self._said())
        if self._passage.heard != heard:
            self._note_event(content=True)
        if self._retold is not None:
            await self._put(self._retold.flush())
        if not self._passage.ended:  # what came before a failure is sent first: it must not matter how it was cut
            await self._push()
        await self._output.finish()

    def _accept(self, content_type: str) -> None:
        exchange = self._exchange
        if not exchange.inquiry.stream:
            return
        decoder = exchange.upstream.decoder(content_type)
        if essence(content_type) == JSON:
            answer = build_pipeline(decoder, plan_answer(exchange, self._settings))
            self._retold = Retold(answer, exchange.asked.dialect.encoder(exchange.asked.heading))

    async def _advance(self) -> None:
        heard = self._passage.heard
        await self._put(self._said())
        await self._push()
        if self._passage.heard != heard:
            self._note_event(content=True)

    def _said(self) -> Iterable[bytes]:
        """What has arrived, as the client is to see it."""
        return self._taken() if self._retold is None else self._retold.feed(self._taken())


def _fault_of(upstream: Upstream) -> Fault:
    """What errors of *upstream* mean; its decoder knows."""

    def fault(event: bytes) -> KiroAsgiError:
        stages: Pipeline[bytes, Any] = Pipeline(*upstream.decoder(EVENT_STREAM))
        try:
            deque(stages.feed([event]), maxlen=0)
        except KiroAsgiError as error:
            return error
        return UpstreamFault("the upstream reports an error", code="stream.error")

    return fault
