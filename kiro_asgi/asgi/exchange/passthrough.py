"""Requests that go to a service of the client's own API as they are, and answers that come back as they are.

Bytes go through only where the gateway has nothing to do in the request and its answer.  That is decided by doing it:
the request is read and translated, and where no rule has changed it, and no stage would change its answer, it goes on
as it came.  Each reason against that is a row of `REASONS`.  Attempts, time limits, credentials and signs of
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
from kiro_asgi.dialects.passthrough import Fault, PassthroughStage
from kiro_asgi.dialects.references import HELD
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
from kiro_asgi.failures.remedies import Remedy, mended
from kiro_asgi.failures.report import document_of
from kiro_asgi.limits import REFUSAL_BYTES, REQUEST_DEPTH
from kiro_asgi.model.events import WEB_SEARCH, Event, Usage, UsageSource
from kiro_asgi.model.media_types import essence
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.model.prompt import Prompt, Thinking, ThinkingMode, Tool, ToolChoice, ToolChoiceMode
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
class Way:
    """A request, and what would become of it where it is translated for the service that it goes to."""

    dialect: Dialect
    body: bytes | None = field(repr=False)
    """As it may go on; ``None`` where a part of it is the gateway's."""

    misspelt: bool = False
    """Whether a member has the name of another one but for case."""

    forwarding: Forwarding | None
    """Of the upstream."""

    toolbox: Toolbox
    answer_options: AnswerOptions
    stream: StreamSettings
    stages: tuple[OwnStage, ...] = ()
    """The application's own."""

    remedies: tuple[Remedy, ...] = ()
    """What the upstream does otherwise since a refusal; members that it changes, it changes in a request that goes
    through, too."""

    parsed: ParsedRequest = field(repr=False)
    """As the service is asked it."""

    asked: Rendered | None = field(default=None, repr=False)
    """The translated request; ``None`` before it was made, and where it cannot be read."""

    notes: tuple[Note, ...] = ()
    """Rules that have applied on the way there, apart from those of the request's reader: what it leaves out, a service
    of the API gets all the same where the request goes on as it is."""

    fetched: bool = False
    """Whether the gateway has fetched something for the service."""

    @classmethod
    def to(cls, provider: Provider, model: ModelCard, parsed: ParsedRequest, principal: str = "", **facts: Any) -> Way:
        """The way of a request of *principal* to *provider*; *facts* are those of the request, and how streams are to
        be."""
        upstream = asked(parsed, provider, model, principal)
        return cls(
            forwarding=upstream.forwarding,
            remedies=remedies_of(upstream),
            toolbox=provider.toolbox,
            answer_options=provider.setup.answer_options,
            parsed=parsed,
            **facts,
        )

    def rendered(self, parsed: ParsedRequest, asked: Rendered, notes: Iterable[Note], fetched: bool) -> Way:
        """The same, after it was translated."""
        return evolve(self, parsed=parsed, asked=asked, notes=(*notes, *asked.notes), fetched=fetched)

    @property
    def prompt(self) -> Prompt:
        """What is asked."""
        return self.parsed.prompt

    @property
    def is_served(self) -> bool:
        """Whether the request uses something that only the service itself has: tools of its own kinds, which it runs
        or its own API can call, or what it holds."""
        prompt, traits = self.prompt, self.dialect.traits
        if prompt.unread is not None and "mcp_servers" in prompt.unread.members:
            return True
        if any(not HELD.isdisjoint(demand.members) for demand in prompt.demands):
            return True
        if any(tool.text_form is not None for tool in prompt.tools):
            return True
        if traits.self_contained:
            return any(tool.opaque is not None for tool in prompt.tools)
        return traits.runs_tools and any(tool.hosted not in ("", WEB_SEARCH) for tool in prompt.tools)

    @property
    def rules(self) -> tuple[str, ...]:
        """Rules that would change what the service is asked, but for those about tools that it gets as they are."""
        tools = self.prompt.tools  # what the gateway runs of them is another reason, and comes before
        unrepaired = self.is_served or (bool(tools) and (self.stream.relay == "unrepaired" or not _is_clients(tools)))
        left: tuple[str, ...] = (*_OF_FORM, *_OF_TOOLS) if unrepaired else _OF_FORM
        if all(each.place is not None for each in self.remedies):  # they are applied to what goes through, too
            left += _ADAPTED
        return tuple(it.rule for it in self.notes if not it.rule.startswith(left))

    @property
    def renames(self) -> bool:
        """Whether the service has another name, or none, for a member that the client sends."""
        if self.asked is None or self.body is None:
            return False
        known = {each.feature for each in self.remedies}
        given = (name for name in _NAMED if name not in known and f'"{name}"'.encode() in self.body)
        return any(name not in self.asked.document for name in given)


_NAMED: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "stream_options")
"""Members for which a service may have another name, or none."""

_OF_FORM: Final = ("turns.merged",)
"""Rules about the gateway's own form of a conversation; the client's is its API's."""

_ADAPTED: Final = ("adapted.",)
"""Beginning of the names of rules that a refusal has taught."""

_OF_TOOLS: Final = ("calls.", "names.", "schema.", "strict.", "thinking.", "tools.")
"""Beginnings of the names of rules about tools, and about thinking with them."""


@frozen
class Reason:
    """One reason."""

    name: str
    what: str
    """A sentence, for people."""

    holds: Callable[[Way], bool]


REASONS: Final[tuple[Reason, ...]] = (
    Reason(
        "relay.never",
        "The operator has set ``stream.relay`` to ``never``.",
        lambda way: way.stream.relay == "never",
    ),
    Reason(
        "service.other",
        "The service has another API, or is one of ``custom.*``, which copy another service's API, and "
        "``custom.NAME.relay`` is not ``allow``.",
        lambda way: way.forwarding is None or way.forwarding.dialect != way.dialect.name,
    ),
    Reason(
        "fields.withheld",
        "The operator lets nobody pass some fields on (``withheld``).",
        lambda way: way.forwarding is not None and bool(way.forwarding.withheld),
    ),
    Reason(
        "state.kept_here",
        "The gateway stores, makes or has sealed part of it: a named conversation, a compaction, reasoning of another "
        "service, an item that it does not know.",
        lambda way: way.body is None,
    ),
    Reason(
        "stages.own",
        "The application has stages of its own (``create_app(..., stages=...)``, or of installed packages), which take "
        "the gateway's events.",
        lambda way: bool(way.stages),
    ),
    Reason(
        "stream.synthetic",
        "``stream.synthetic`` is on: a stream is sent only after its whole answer has come.",
        lambda way: way.stream.synthetic and way.parsed.stream,
    ),
    Reason(
        "stream.usage_chunk",
        "``stream.usage_chunk`` is ``finish``: token counts are sent in another chunk than the service's.",
        lambda way: way.dialect.traits.alters_streams and way.parsed.stream,
    ),
    Reason(
        "thinking.handled",
        "The service's models write thinking between tags (``thinking_tags``), or clients get it in another form.",
        lambda way: (
            way.answer_options.thinking_handling != KEPT or (way.forwarding is not None and way.forwarding.tagged)
        ),
    ),
    Reason(
        "fields.misspelt",
        "A member has the name of another one but for case (``Model``): a service that reads names without case would "
        "take it for that, so none is sent it.",
        lambda way: way.misspelt,
    ),
    Reason(
        "fields.unknown",
        "The service has a part of its API only: Codex streams, and has no texts of the system among the items. Or "
        "earlier thinking is not to be handed back (``replay_thinking``).",
        lambda way: way.forwarding is not None and not way.forwarding.takes(way.body or b""),
    ),
    Reason(
        "tools.run_here",
        "The gateway runs a tool of the request, and the service does not.",
        lambda way: way.toolbox.runs(way.prompt),
    ),
    Reason(
        "shapes.foreign",
        "The request has tools, parts of messages or a choice in the form of another API, as the service has not.",
        lambda way: way.parsed.foreign,
    ),
    Reason(
        "tools.calls",
        "The client has tools: the gateway repairs their calls, keeps them whole, and remembers those that were cut.",
        lambda way: _is_clients(way.prompt.tools) and way.stream.relay != "unrepaired" and not way.is_served,
    ),
    Reason(
        "tools.choice",
        "The request has a tool choice other than ``auto``, or wants one call at a time: the gateway enforces it.",
        lambda way: _is_enforced(way.prompt.tool_choice) and not way.is_served,
    ),
    Reason(
        "output.checked",
        "The answer must be JSON, with a schema or without: the gateway checks it.",
        lambda way: way.prompt.schema is not None,
    ),
    Reason(
        "thinking.asked",
        "The request says whether to think: the gateway says it in the model's own form, and finds thinking between "
        "tags, or leaves it out.",
        lambda way: _is_handled(way.prompt.thinking, way.dialect) and not way.is_served,
    ),
    Reason(
        "stop.kept_here",
        "The model refuses stop sequences or a greatest length, or there are too many: the gateway ends the answer.",
        lambda way: way.asked is not None and bool(way.asked.stop or way.asked.max_tokens is not None),
    ),
    Reason(
        "fields.renamed",
        "The service has another name for the greatest length (``max_tokens_field``), or takes none, or no wish for "
        "token counts (``include_usage`` is off).",
        lambda way: way.renames,
    ),
    Reason(
        "attachments.fetched",
        "The service does not fetch what the request names by its address: the gateway has.",
        lambda way: way.fetched,
    ),
    Reason(
        "rules.applied",
        "A rule changes what the service is asked: the report names it.",
        lambda way: bool(way.rules),
    ),
    Reason(
        "service.taught",
        "The service has refused such a request, and an answer is to be had only in the gateway's own form.",
        lambda way: any(each.place is None and each.rule for each in way.remedies),
    ),
)
"""In the order in which they are checked; the first that holds is reported.  Those behind ``tools.calls`` are known
once the request was translated."""


def _is_clients(tools: Iterable[Tool]) -> bool:
    """Whether the client runs one of *tools*."""
    return any(not tool.hosted for tool in tools)


def _is_enforced(choice: ToolChoice) -> bool:
    return choice.mode is not ToolChoiceMode.AUTO or not choice.parallel or choice.allowed is not None


def _is_handled(thinking: Thinking, dialect: Dialect) -> bool:
    """Whether an answer's thinking is left out, or has to be looked for."""
    return thinking.mode is ThinkingMode.DISABLED or (thinking.wanted and not dialect.traits.self_contained)


def reason_to_translate(way: Way) -> Reason | None:
    """Why a request does not go on as it is; ``None`` where it does, as far as that is known."""
    return next((reason for reason in REASONS if reason.holds(way)), None)


def asked(parsed: ParsedRequest, provider: Provider, model: ModelCard, principal: str) -> Upstream:
    """Who asks *model* for a request that may go on as it is."""
    return provider.asking(model, principal=principal, members=_TOOLS if parsed.prompt.tools else _NOTHING)


_TOOLS: Final = frozenset({"tools"})
_NOTHING: Final = frozenset[str]()


def render_passthrough(
    source: PassthroughRequest, parsed: ParsedRequest, upstream: Upstream, model: ModelCard, credential: Credential
) -> Rendered:
    """Render *source* as a request to *upstream*."""
    forwarding = upstream.forwarding
    assert forwarding is not None, "an upstream that has no client's API"
    body = source.dialect.renamed(source.body, parsed.prompt.model, model.id)
    if remedies := remedies_of(upstream):
        document, applied = mended(loads(body, max_depth=REQUEST_DEPTH), remedies)
        body = dumps(document) if applied else body
    return Rendered(forwarding.request(body, credential, source.headers, model, parsed.stream))


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
        upstream = asked(request.parsed, route.provider, route.model, request.principal)
        return cls(
            request=request,
            source=source,
            route=route,
            upstream=upstream,
            credential=credential,
            rendered=render_passthrough(source, request.parsed, upstream, route.model, credential),
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
        return self.request.parsed.stream

    @property
    def notes(self) -> tuple[Note, ...]:
        """Nothing: nothing was adapted."""
        return ()

    @property
    def first_event_timeout(self) -> float:
        """Seconds from asking the upstream to its first event, by the bytes of a prompt that was not read, and no more
        than the model could read."""
        options = self.route.provider.setup.answer_options
        thinks = self.request.parsed.prompt.thinking.wanted or options.thinks_unasked(self.route.model)
        return first_event_timeout(options, self.prompt_tokens, thinks=thinks)

    @property
    def expected(self) -> Usage:
        """Tokens of the prompt by its bytes, and of an answer as long as the client allows, within reason."""
        return Usage(self.prompt_tokens, expected_answer(self.request.parsed))

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt by its bytes."""
        return min(len(self.source.body) // _BYTES_A_TOKEN, self.route.model.context_window)

    @property
    def known_answer(self) -> Message | None:
        """``None``: the service gives every answer."""
        return None

    def sizes(self) -> Mapping[str, int]:
        """Bytes of the body, which was not read."""
        return {"bytes": len(self.rendered.request.body)}

    def with_credential(self, credential: Credential) -> PassthroughExchange:
        """The same request in the name of *credential*."""
        rendered = render_passthrough(self.source, self.request.parsed, self.upstream, self.route.model, credential)
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
        rendered = render_passthrough(self.source, self.request.parsed, changed, self.route.model, self.credential)
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
        request = exchange.request
        name = "" if request.model == exchange.route.model.id else request.model
        meta = request.new_meta()
        self._stage = source.dialect.passthrough(_fault_of(exchange.upstream), meta, name)
        self._output.through(self._stage)
        if not request.parsed.stream:  # nothing comes of such an answer before it is complete
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
            plan = plan_answer(exchange, exchange.request.parsed, exchange.estimate, self._settings)
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
