"""Requests that go to a service of the client's own API as they are, and answers that come back as they are.

Bytes go through only where the gateway has nothing to do in the request and its answer.  Each reason to do something
is a row of `REASONS`; a request for which none holds goes on as it is.  Attempts, time limits, credentials and signs of
life are the same as for every other answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Protocol

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.facts import ClientRequest, Estimate, PassthroughRequest
from kiro_asgi.asgi.exchange.model_routes import Provider, Route
from kiro_asgi.asgi.exchange.output import Output, Sending, Whole
from kiro_asgi.asgi.exchange.plan import expected_answer, first_event_timeout, plan_answer
from kiro_asgi.asgi.exchange.reading import AnswerContext, AnswerReading, Readable
from kiro_asgi.asgi.kept.server_tools import Toolbox
from kiro_asgi.asgi.protocol import Headers, Send
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.config import Settings, StreamSettings
from kiro_asgi.dialects.base import Dialect, ParsedRequest, Writer
from kiro_asgi.dialects.passthrough import Fault, PassthroughStage, RequestPeek
from kiro_asgi.errors import (
    AnswerTooLarge,
    ContextTooLong,
    KiroAsgiError,
    RequestError,
    ServiceReply,
    UpstreamDenied,
    UpstreamFault,
    UpstreamRejected,
)
from kiro_asgi.failures.members import blames_member, named_members
from kiro_asgi.failures.remedies import mended
from kiro_asgi.failures.report import document_of
from kiro_asgi.limits import REFUSAL_BYTES, REQUEST_DEPTH
from kiro_asgi.model.events import Event, Usage, UsageSource
from kiro_asgi.model.features import Ask
from kiro_asgi.model.media_types import essence
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode
from kiro_asgi.stages.answer import Answer
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.stages.thinking import KEPT
from kiro_asgi.upstreams.base import Credential, Forwarding, ModelCard, Rendered, Upstream, remedies_of
from kiro_asgi.upstreams.headers import EVENT_STREAM, JSON
from kiro_asgi.upstreams.settings import AnswerOptions
from kiro_asgi.wire.json import dumps, loads

_BYTES_A_TOKEN: Final = 4


@frozen(kw_only=True)
class PassthroughCandidate:
    """A request that might go on as it is, and where it would go."""

    peek: RequestPeek = field(repr=False)
    dialect: Dialect
    forwarding: Forwarding | None
    """Of the upstream."""

    model: ModelCard
    toolbox: Toolbox
    answer_options: AnswerOptions
    stream: StreamSettings
    stages: tuple[OwnStage, ...] = ()
    """The application's own."""

    taught: bool = False
    """Whether the service has taught the upstream a rule."""

    def asks(self, *kinds: Ask) -> bool:
        """Whether the request asks for any of *kinds*."""
        return not self.peek.asks.isdisjoint(kinds)

    def differs(self, *kinds: Ask) -> bool:
        """Whether the request asks for any of *kinds* in another way than the service is asked for it."""
        asked = self.peek.asks.intersection(kinds)
        return bool(asked) and self.forwarding is not None and self.forwarding.differs(asked, self.model)


@frozen
class Reason:
    """One reason."""

    name: str
    what: str
    """A sentence, for people."""

    holds: Callable[[PassthroughCandidate], bool]


REASONS: Final[tuple[Reason, ...]] = (
    Reason(
        "relay.never",
        "The operator has set ``stream.relay`` to ``never``.",
        lambda c: c.stream.relay == "never",
    ),
    Reason(
        "service.other",
        "The service has another API, or is one of ``custom.*``, which copy another service's API, and "
        "``custom.NAME.relay`` is not ``allow``.",
        lambda c: c.forwarding is None or c.forwarding.dialect != c.dialect.name,
    ),
    Reason(
        "fields.withheld",
        "The operator lets nobody pass some fields on (``withheld``).",
        lambda c: c.forwarding is not None and bool(c.forwarding.withheld),
    ),
    Reason(
        "state.kept_here",
        "The gateway stores or makes part of it: a named conversation, a compaction, an item that it does not know.",
        lambda c: c.asks(Ask.STATE),
    ),
    Reason(
        "stages.own",
        "The application has stages of its own (``create_app(..., stages=...)``, or of installed packages), which take "
        "the gateway's events.",
        lambda c: bool(c.stages),
    ),
    Reason(
        "stream.synthetic",
        "``stream.synthetic`` is on: a stream is sent only after its whole answer has come.",
        lambda c: c.stream.synthetic and c.peek.stream,
    ),
    Reason(
        "stream.usage_chunk",
        "``stream.usage_chunk`` is ``finish``: token counts are sent in another chunk than the service's.",
        lambda c: c.dialect.traits.alters_streams and c.peek.stream,
    ),
    Reason(
        "signatures.foreign",
        "The client hands back a signature of another service, which this one would refuse.",
        lambda c: c.asks(Ask.FOREIGN_SIGNATURES),
    ),
    Reason(
        "tools.run_here",
        "The gateway runs a tool of the request, and the service does not.",
        lambda c: c.toolbox.runs(Prompt(c.peek.model, tools=c.peek.tools)),
    ),
    Reason(
        "tools.unknown",
        "The request declares a tool that the client does not run and the service does not have.",
        lambda c: c.asks(Ask.UNKNOWN_TOOLS),
    ),
    Reason(
        "shapes.foreign",
        "The request has tools, parts of messages or a choice in the form of another API, as the service has not.",
        lambda c: c.asks(Ask.FOREIGN_SHAPES),
    ),
    Reason(
        "tools.calls",
        "The client has tools: the gateway repairs their calls, keeps them whole, and remembers those that were cut.",
        lambda c: c.asks(Ask.TOOLS) and c.stream.relay != "unrepaired" and not c.asks(Ask.SERVED),
    ),
    Reason(
        "tools.choice",
        "The request has a tool choice other than ``auto``, or wants one call at a time: the gateway enforces it.",
        lambda c: c.asks(Ask.CHOICE) and not c.asks(Ask.SERVED),
    ),
    Reason(
        "output.checked",
        "The answer must be JSON, with a schema or without: the gateway checks it.",
        lambda c: c.asks(Ask.FORM),
    ),
    Reason(
        "thinking.asked",
        "The request asks for thinking: the gateway asks in the model's own form, and finds it between tags, too.",
        lambda c: c.asks(Ask.THINKING) and not c.asks(Ask.SERVED),
    ),
    Reason(
        "thinking.effort",
        "The request names an effort, and the model takes none, or the service has refused it.",
        lambda c: c.differs(Ask.EFFORT),
    ),
    Reason(
        "thinking.handled",
        "The service's models write thinking between tags (``thinking_tags``), or clients get it in another form.",
        lambda c: c.answer_options.thinking_handling != KEPT or (c.forwarding is not None and c.forwarding.tagged),
    ),
    Reason(
        "thinking.replayed",
        "The client returns earlier thinking, and the service gets none: OpenAI, or with ``replay_thinking`` off.",
        lambda c: c.differs(Ask.THOUGHTS),
    ),
    Reason(
        "sampling.differs",
        "The request has a temperature, ``top_p``, ``top_k`` or penalties, and the model refuses them.",
        lambda c: c.differs(Ask.SAMPLING, Ask.SAMPLED_TWICE),
    ),
    Reason(
        "stop.kept_here",
        "The service refuses stop sequences, or these, or so many: the gateway ends the answer at them.",
        lambda c: c.differs(Ask.STOP, Ask.MANY_STOPS, Ask.BLANK_STOPS),
    ),
    Reason(
        "system.own_line",
        "Before the system text stands a line for the client's own vendor, and another one answers.",
        lambda c: c.differs(Ask.OWN_LINE),
    ),
    Reason(
        "fields.renamed",
        "The service has another name for the greatest length (``max_tokens_field``), or takes none.",
        lambda c: c.differs(Ask.MAX_TOKENS, Ask.MAX_COMPLETION_TOKENS),
    ),
    Reason(
        "fields.counts",
        "The request asks for token counts, and the service refuses that: ``include_usage`` is off.",
        lambda c: c.differs(Ask.COUNTS),
    ),
    Reason(
        "fields.misspelt",
        "A member has the name of another one but for case (``Model``): a service that reads names without case would "
        "take it for that, so none is sent it.",
        lambda c: c.asks(Ask.MISSPELT),
    ),
    Reason(
        "fields.unknown",
        "The service has a part of its API only: Codex streams, demands instructions, and has no other fields than its "
        "own command sends.",
        lambda c: c.differs(Ask.WHOLE, Ask.UNINSTRUCTED, Ask.OPTIONS),
    ),
    Reason(
        "service.taught",
        "The service has refused such a request, and an answer is to be had only in the gateway's own form.",
        lambda c: c.taught,
    ),
)
"""In the order in which they are checked; the first that holds is reported."""


def reason_against(candidate: PassthroughCandidate) -> Reason | None:
    """Why a request does not go on as it is; ``None`` where it does."""
    return next((reason for reason in REASONS if reason.holds(candidate)), None)


def reason_to_translate(
    request: PassthroughRequest,
    provider: Provider,
    model: ModelCard,
    stream: StreamSettings,
    stages: tuple[OwnStage, ...] = (),
    principal: str = "",
) -> Reason | None:
    """Why *request* of *principal* does not go to *provider* as it is; ``None`` where it does."""
    upstream = asked(request, provider, model, principal)
    return reason_against(
        PassthroughCandidate(
            peek=request.peek,
            dialect=request.dialect,
            forwarding=upstream.forwarding,
            taught=any(each.place is None and each.rule for each in remedies_of(upstream)),
            model=model,
            toolbox=provider.toolbox,
            answer_options=provider.setup.answer_options,
            stream=stream,
            stages=stages,
        )
    )


def asked(request: PassthroughRequest, provider: Provider, model: ModelCard, principal: str) -> Upstream:
    """Who asks *model* for a request that may go on as it is."""
    tools = _TOOLS if Ask.TOOLS in request.peek.asks else _NOTHING
    return provider.asking(model, principal=principal, members=tools)


_TOOLS: Final = frozenset({"tools"})
_NOTHING: Final = frozenset[str]()


def parsed_request_of(peek: RequestPeek) -> ParsedRequest:
    """The fields of the request that were looked at, as a parsed request."""
    mode = ThinkingMode.ENABLED if peek.thinking else ThinkingMode.DEFAULT
    return ParsedRequest(Prompt(peek.model, tools=peek.tools, thinking=Thinking(mode)), peek.stream, None)


def render_passthrough(
    source: PassthroughRequest, upstream: Upstream, model: ModelCard, credential: Credential
) -> Rendered:
    """Render *source* as a request to *upstream*."""
    forwarding = upstream.forwarding
    assert forwarding is not None, "an upstream that has no client's API"
    peek = source.peek
    body = peek.renamed(model.id)
    if remedies := remedies_of(upstream):
        document, applied = mended(loads(body, max_depth=REQUEST_DEPTH), remedies)
        body = dumps(document) if applied else body
    return Rendered(forwarding.request(body, credential, source.headers, model, peek.stream))


@frozen(kw_only=True)
class PassthroughExchange:
    """An exchange whose bytes go through.  The service counts; only what it has not counted is estimated."""

    request: ClientRequest
    source: PassthroughRequest
    route: Route
    upstream: Upstream
    credential: Credential
    rendered: Rendered
    estimator: Estimator
    """For an answer that must be translated after all."""

    translate: Callable[[Route, Credential, Upstream], Awaitable[Readable]] = field(repr=False)
    """Makes the exchange for a request that must be translated after all."""

    @classmethod
    def create(
        cls,
        request: ClientRequest,
        source: PassthroughRequest,
        route: Route,
        credential: Credential,
        estimator: Estimator,
        translate: Callable[[Route, Credential, Upstream], Awaitable[Readable]],
    ) -> PassthroughExchange:
        """The exchange for *request*, which goes on as *source*."""
        upstream = asked(source, route.provider, route.model, request.principal)
        return cls(
            request=request,
            source=source,
            route=route,
            upstream=upstream,
            credential=credential,
            rendered=render_passthrough(source, upstream, route.model, credential),
            estimator=estimator,
            translate=translate,
        )

    @property
    def estimate(self) -> Estimate:
        """The estimator alone, for an answer that must be translated after all."""
        return Estimate(self.estimator)

    @property
    def operation(self) -> str:
        """An answer to a conversation."""
        return "chat"

    @property
    def streamed(self) -> bool:
        """Whether the client wants the answer as it comes."""
        return self.source.peek.stream

    @property
    def notes(self) -> tuple[Note, ...]:
        """Nothing: nothing was adapted."""
        return ()

    @property
    def first_event_timeout(self) -> float:
        """Seconds from asking the upstream to its first event, by the bytes of a prompt that was not read, and no more
        than the model could read."""
        thinks = self.source.peek.thinking
        return first_event_timeout(self.route.provider.setup.answer_options, self.prompt_tokens, thinks=thinks)

    @property
    def expected(self) -> Usage:
        """Tokens of the prompt by its bytes, and of an answer as long as the client allows, within reason."""
        return Usage(self.prompt_tokens, expected_answer(self.source.peek.max_tokens, self.source.peek.choices))

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt by its bytes."""
        return min(len(self.source.peek.body) // _BYTES_A_TOKEN, self.route.model.context_window)

    @property
    def known_answer(self) -> Message | None:
        """``None``: the service gives every answer."""
        return None

    def sizes(self) -> Mapping[str, int]:
        """Bytes of the body, which was not read."""
        return {"bytes": len(self.rendered.request.body)}

    def with_credential(self, credential: Credential) -> PassthroughExchange:
        """The same request in the name of *credential*."""
        rendered = render_passthrough(self.source, self.upstream, self.route.model, credential)
        return evolve(self, credential=credential, rendered=rendered)

    def with_route(self, route: Route) -> PassthroughExchange:
        """The same request, with another way to go on if it fails."""
        return evolve(self, route=route)

    async def adapted(self, error: KiroAsgiError, offload: Offload) -> Readable | None:
        """The same request without what *error* refuses, or with its other name; translated, where that takes more than
        a change of members, or where the gateway has to do what the service does not; else ``None``.

        Raises:
            RequestError: The request has no place for something in the prompt when it is translated.
        """
        if not isinstance(error, UpstreamRejected | UpstreamDenied):
            return None
        document = loads(self.rendered.request.body, max_depth=REQUEST_DEPTH)
        changed = self.upstream.adapt_after_error(error, evolve(self.rendered, document=document))
        if changed is None:
            is_blamed = blames_member(error) and any(named_members(error, document))
            return await self._translated(self.upstream, document) if is_blamed else None
        latest = remedies_of(changed)[-1]
        if latest.place is None or latest.feature in _KEPT_HERE or changed.forwarding is None:
            return await self._translated(changed, document)
        rendered = render_passthrough(self.source, changed, self.route.model, self.credential)
        same = rendered.request.body == self.rendered.request.body
        return None if same else evolve(self, upstream=changed, rendered=rendered)

    async def _translated(self, upstream: Upstream, document: Any) -> Readable | None:
        """The request translated for *upstream*; ``None`` where that says the same as *document*, or cannot be."""
        try:
            translated = await self.translate(self.route, self.credential, upstream)
        except RequestError:
            return None
        return None if translated.rendered.document == document else translated

    def reminded(self, complaint: str) -> PassthroughExchange:
        """The same: an answer that is not read breaks no promise."""
        return self

    def output(
        self, send: Send, headers: Callable[[], Headers], settings: Settings, clock: Callable[[], float]
    ) -> PassthroughOutput:
        """Where the answer goes: out as it comes, or as one body at the end."""
        if self.streamed:
            return PassthroughStream(send, headers, clock)
        return PassthroughWhole(send, headers, settings.limits.answer_bytes)

    def reading(self, output: PassthroughOutput, context: AnswerContext) -> PassthroughReading:
        """Make the reader of one attempt's answer into *output*."""
        return PassthroughReading(self, output, context)


class PassthroughOutput(Output[bytes], Protocol):
    """Takes the bytes of one answer."""

    @property
    def size(self) -> int:
        """Bytes of an answer that is sent whole, so far."""
        ...

    def through(self, stage: PassthroughStage) -> None:
        """Watch the answer of the next try by *stage*."""
        ...


@define
class PassthroughStream(Sending[bytes]):
    """Sends whole events as they come."""

    @property
    def size(self) -> int:
        """0: nothing is kept."""
        return 0

    def through(self, stage: PassthroughStage) -> None:
        """Watch the answer of the next try by *stage*."""
        self._encoder = stage


@define
class PassthroughWhole(Whole[bytes]):
    """Sends one body."""

    _max_bytes: int
    _stage: PassthroughStage = field(init=False)
    _body: bytearray = field(init=False, factory=bytearray)

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return len(self._body)

    def through(self, stage: PassthroughStage) -> None:
        """Watch the answer of the next try by *stage*."""
        self._stage = stage

    def restart(self) -> None:
        """Forget what has come."""
        self._body.clear()

    def put(self, items: Iterable[bytes], /) -> KiroAsgiError | None:
        """Add to the body."""
        for item in items:
            self._body += item
            if len(self._body) > self._max_bytes:
                message = f"the answer has more than {self._max_bytes} bytes (limits.answer_bytes)"
                return AnswerTooLarge(message, code="answer_too_large")
        return None

    async def finish(self) -> None:
        """Send the body."""
        await self._respond(self._stage.whole(bytes(self._body)))


@define
class WholeAsStream:
    """The stage from the bytes of a whole answer to the events of a stream with the same content."""

    _answer: Answer
    _encoder: Writer[Event]

    @property
    def usage(self) -> Usage | None:
        """Tokens of the answer, where it came to an end."""
        return None if self._answer.end is None else self._answer.end.usage

    def feed(self, items: Iterable[bytes], /) -> Iterator[bytes]:
        """Nothing, as a rule."""
        return self._encoder.feed(self._answer.feed(items))

    def flush(self) -> Iterator[bytes]:
        """All of it."""
        yield from self._encoder.feed(chain(self._answer.drain(), self._answer.flush()))
        yield from self._encoder.flush()


@define
class PassthroughReading(AnswerReading[PassthroughExchange, PassthroughOutput]):
    """Hands an answer on as it comes; only one that is whole where a stream was asked for is encoded anew."""

    _stage: PassthroughStage = field(init=False)
    _as_stream: WholeAsStream | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        exchange, source = self._exchange, self._exchange.source
        name = "" if source.peek.model == exchange.route.model.id else source.peek.model
        meta = exchange.request.new_meta(parsed_request_of(source.peek))
        self._stage = source.dialect.passthrough(_fault_of(exchange.upstream), meta, name)
        self._output.through(self._stage)
        if not source.peek.stream:  # nothing comes of such an answer before it is complete
            self.first_event_timeout = self._settings.limits.request_timeout

    def _keep(self, refusal: KiroAsgiError, reply: ServiceReply) -> None:
        """Keep what the service says of the request itself: clients of its API read its words, and ask differently.

        What it says of a credential or a quota is not the client's, and a body that was cut is no answer.  A proxy's
        words for a prompt that is too long may be its own, which no client of the API knows.
        """
        if isinstance(refusal, ContextTooLong) and self._exchange.source.dialect.traits.too_long not in reply.body:
            return
        is_whole = len(reply.body) <= REFUSAL_BYTES and essence(reply.content_type) == JSON
        if isinstance(refusal, UpstreamRejected | ContextTooLong) and is_whole and _is_report(reply.body):
            refusal.given = reply

    @property
    def begun(self) -> bool:
        """Whether there has been an event."""
        return self._stage.begun

    @property
    def ended(self) -> bool:
        """Whether all of the answer has come."""
        return self._stage.ended if self._as_stream is None else self._as_stream.usage is not None

    @property
    def used(self) -> Usage | None:
        """Tokens by the service's count, and of what it did not count, or not yet, by an estimate."""
        if self._as_stream is not None:
            return self._as_stream.usage
        stage, counted, written = self._stage, self._stage.usage, self._stage.written
        if not stage.begun and not stage.ended:  # nothing of it was read, though much may have come
            size = 0 if stage.failure is not None else self._output.size
            return Usage(self._exchange.prompt_tokens, size // _BYTES_A_TOKEN) if size else None
        if counted is None:
            return Usage(self._exchange.prompt_tokens, written)
        if not counted.prompt_tokens and counted.input_source is UsageSource.ESTIMATE:
            counted = evolve(counted, input_tokens=self._exchange.prompt_tokens)
        if not stage.counted and written > counted.output_tokens:
            counted = evolve(counted, output_tokens=written, output_source=UsageSource.ESTIMATE)
        return counted

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
        seen = self._stage.events_seen
        await self._put(self._arrived())
        if self._stage.events_seen != seen:
            self._note_event(content=True)
        if self._as_stream is not None:
            await self._put(self._as_stream.flush())
        if not self._stage.ended:  # what came before a failure is sent first: it must not matter how it was cut
            await self._push()
        await self._output.finish()
        exchange = self._exchange
        if remedies_of(exchange.upstream):
            exchange.route.provider.learn(exchange.route.model, exchange.upstream, exchange.request.principal)

    def _accept(self, content_type: str) -> None:
        exchange, self._stage.tier = self._exchange, self._tier
        if not exchange.streamed:
            return
        decoder = exchange.upstream.decoder(content_type)
        if essence(content_type) == JSON:
            parsed = parsed_request_of(exchange.source.peek)
            plan = plan_answer(exchange, parsed, exchange.estimate, self._settings)
            answer = self._context.pipeline(decoder, evolve(plan, tier=self._tier))
            request = exchange.request
            self._as_stream = WholeAsStream(answer, request.dialect.encoder(request.meta))

    async def _advance(self) -> None:
        seen = self._stage.events_seen
        await self._put(self._arrived())
        await self._push()
        if self._stage.events_seen != seen:
            self._note_event(content=True)

    def _arrived(self) -> Iterable[bytes]:
        """Chunks that have arrived, in the form in which the client is to see them."""
        return self._taken() if self._as_stream is None else self._as_stream.feed(self._taken())


def _fault_of(upstream: Upstream) -> Fault:
    """Find the meaning of an error in an answer of *upstream*, by its decoder."""

    def fault(event: bytes) -> KiroAsgiError:
        stages: Pipeline[bytes, Any] = Pipeline(*upstream.decoder(EVENT_STREAM))
        try:
            deque(stages.feed([event]), maxlen=0)
        except KiroAsgiError as error:
            return error
        return UpstreamFault("the upstream reports an error", code="stream.error")

    return fault


def _is_report(body: bytes) -> bool:
    """Whether *body* is a JSON object that reports an error as the APIs do."""
    return "error" in document_of(body)


_KEPT_HERE: Final = frozenset({"stop", "stop_sequences", "max_completion_tokens", "max_tokens", "max_output_tokens"})
"""Members that the gateway keeps itself where the service takes none."""
