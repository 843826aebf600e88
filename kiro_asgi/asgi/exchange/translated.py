"""Requests that are rendered for the upstream, and their answers, which are encoded for the client."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Final

from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.facts import ClientRequest, Estimate
from kiro_asgi.asgi.exchange.model_routes import Route
from kiro_asgi.asgi.exchange.output import PART, Collected, Output, Streamed, Synthetic
from kiro_asgi.asgi.exchange.plan import expected_answer, first_event_timeout, plan_answer
from kiro_asgi.asgi.exchange.reading import AnswerContext, AnswerReading
from kiro_asgi.asgi.kept.memory import Recovered
from kiro_asgi.asgi.protocol import Headers, Send
from kiro_asgi.asgi.scheduling import Offload
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import ParsedRequest
from kiro_asgi.errors import ContextTooLong, KiroAsgiError, UpstreamRejected
from kiro_asgi.limits import CONTINUATIONS
from kiro_asgi.model.events import Event, MessageEnd, MessageStart, Metering, StopReason, Usage, UsageSource
from kiro_asgi.model.history import beginnings, shortened
from kiro_asgi.model.message import Message, split_sentences, unsplit
from kiro_asgi.model.notes import Note, holding
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.net.transport import StopReading
from kiro_asgi.quota.claims import LEAST_CREDITS
from kiro_asgi.stages.answer import Answer
from kiro_asgi.upstreams.base import Credential, PausingTurn, Rendered, Upstream, UpstreamRequest

OLDEST_DROPPED: Final = Rule(
    "turns.oldest_dropped",
    "The oldest turns are left out where the client allows that and the conversation does not fit the model.",
    Loss.CONTENT,
)


def with_prompt(parsed: ParsedRequest, prompt: Prompt, turns: int) -> ParsedRequest:
    """*parsed* as it is asked with *prompt*, with a note where that has fewer than *turns*."""
    if prompt is parsed.prompt:
        return parsed
    left_out = turns - len(prompt.turns)
    notes = (*parsed.notes, Note(OLDEST_DROPPED.name, left_out)) if left_out > 0 else parsed.notes
    return evolve(parsed, prompt=prompt, notes=notes)


@frozen(kw_only=True)
class TranslatedExchange:
    """An exchange whose answer goes through the stages."""

    request: ClientRequest
    route: Route
    parsed: ParsedRequest
    """The client's request, as this upstream is to be asked it."""

    upstream: Upstream
    credential: Credential
    conversation: str
    """The UUID that the upstream knows the conversation by."""

    rendered: Rendered
    estimate: Estimate
    recovered: Recovered
    """The prompt, with the notices about answers that were cut."""

    translate: Callable[[Route, Credential, Upstream], Awaitable[TranslatedExchange]] = field(repr=False)
    """Makes the exchange for a model that must be asked by another API: that may have what this one had not."""

    learn: Callable[[TranslatedExchange, Answer], Awaitable[None]] = field(repr=False)
    """Called with a whole answer before its end is sent: the client's next request may follow at once."""

    @property
    def operation(self) -> str:
        """An answer to a conversation."""
        return "chat"

    @property
    def streamed(self) -> bool:
        """Whether the client wants the answer as it comes."""
        return self.parsed.stream

    @property
    def notes(self) -> tuple[Note, ...]:
        """Everything that was adapted."""
        own = holding(self.parsed.notes, self.upstream.traits.api)
        return (*own, *self.recovered.notes, *self.rendered.notes)

    @property
    def first_event_timeout(self) -> float:
        """Seconds from asking the upstream to its first event."""
        options = self.route.provider.setup.answer_options
        thinks = self.parsed.prompt.thinking.wanted or options.thinks_unasked(self.route.model)
        return first_event_timeout(options, self.estimate.input_tokens, thinks=thinks)

    @property
    def expected(self) -> Usage:
        """Tokens of the prompt by an estimate, and of an answer as long as the client allows, within reason; credits
        by what they took before."""
        usage = Usage(self.estimate.input_tokens, expected_answer(self.parsed))
        if not self.upstream.traits.meters:
            return usage
        amount = max(self.estimate.credits * (usage.input_tokens + usage.output_tokens), LEAST_CREDITS)
        return evolve(usage, metering=Metering(amount, source=UsageSource.ESTIMATE))

    @property
    def known_answer(self) -> Message | None:
        """An answer without a token, where ``max_tokens`` is 0: at other services such a request fills a cache."""
        if self.parsed.prompt.sampling.max_tokens != 0:
            return None
        return Message(stop_reason=StopReason.LENGTH, usage=Usage(input_tokens=self.estimate.input_tokens))

    def sizes(self) -> Mapping[str, int]:
        """Sizes and counts of what the upstream is sent."""
        return self.upstream.statistics(self.rendered)

    def with_credential(self, credential: Credential) -> TranslatedExchange:
        """The same request in the name of *credential*."""
        return self._asking(self.parsed.prompt, self.upstream, credential)

    def with_route(self, route: Route) -> TranslatedExchange:
        """The same request, with another way to go on if it fails."""
        return evolve(self, route=route)

    async def adapted(self, error: KiroAsgiError, offload: Offload) -> TranslatedExchange | None:
        """The same request in another form, where *error* shows that the form was refused; else ``None``."""
        upstream = self.upstream.adapt_after_error(error, self.rendered)
        if upstream is not None and upstream.traits.api != self.upstream.traits.api:
            return await self.translate(self.route, self.credential, upstream)
        return await offload.run(self.request.size, partial(self._adapted, error, upstream))

    def _adapted(self, error: KiroAsgiError, upstream: Upstream | None) -> TranslatedExchange | None:
        prompt = self.parsed.prompt
        if isinstance(error, ContextTooLong) and prompt.shortens and (places := beginnings(prompt)):
            return self._asking(shortened(prompt, places[len(places) // 2]), self.upstream, self.credential)
        before = self.rendered.request
        while upstream is not None:
            asked = self._asking(prompt, upstream, self.credential)
            after = asked.rendered.request
            if (after.url, after.body) != (before.url, before.body) or not isinstance(error, UpstreamRejected):
                return asked  # or its answer is read otherwise
            upstream = upstream.adapt_after_error(error, asked.rendered)
        return None

    def reminded(self, complaint: str) -> TranslatedExchange:
        """The same request with *complaint* as the user's last turn."""
        prompt = self.parsed.prompt
        longer = evolve(prompt, turns=(*prompt.turns, Turn(Role.USER, (Text(complaint),))))
        return self._asking(longer, self.upstream, self.credential)

    def _asking(self, prompt: Prompt, upstream: Upstream, credential: Credential) -> TranslatedExchange:
        return evolve(
            self,
            parsed=with_prompt(self.parsed, prompt, len(self.parsed.prompt.turns)),
            upstream=upstream,
            credential=credential,
            rendered=upstream.render(prompt, self.route.model, credential, self.conversation),
        )

    def output(
        self, send: Send, headers: Callable[[], Headers], settings: Settings, clock: Callable[[], float]
    ) -> Output[Event]:
        """Where the answer goes: out as it comes, as a stream when it is complete, or as one body."""
        dialect, meta = self.request.dialect, self.request.meta
        if not self.streamed:
            return Collected(send, headers, clock, lambda message: dialect.render(message, meta))
        if settings.stream.synthetic:
            cut = split_sentences if settings.stream.sentences else unsplit
            return Synthetic(send, headers, clock, partial(dialect.encoder, meta), cut)
        return Streamed(send, headers, clock, partial(dialect.encoder, meta))

    def reading(self, output: Output[Event], context: AnswerContext) -> TranslatedReading:
        """Make the reader of one attempt's answer into *output*."""
        return TranslatedReading(self, output, context)


@define
class TranslatedReading(AnswerReading[TranslatedExchange, Output[Event]]):
    """Decodes an answer, for whichever client API."""

    answer: Answer | None = field(init=False, default=None)
    """The stages; ``None`` until the upstream answers with 200."""

    _turn: PausingTurn | None = field(init=False)
    """Reads all parts of the answer, where the service may pause."""

    _continuations: int = field(init=False, default=0)
    _seen_before: int = field(init=False, default=0)
    """Events of the parts before."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        make = self._exchange.rendered.turn
        self._turn = None if make is None else make()

    @property
    def begun(self) -> bool:
        """Whether there has been an event since the upstream was asked."""
        return self.answer is not None and self.answer.events_seen > self._seen_before

    @property
    def end(self) -> MessageEnd | None:
        """How the answer ended, where it came to an end."""
        return None if self.answer is None else self.answer.end

    @property
    def ended(self) -> bool:
        """Whether all of the answer has come."""
        return self.end is not None

    @property
    def used(self) -> Usage | None:
        """Tokens of what has come; ``None`` where the model has written nothing and the answer has not ended."""
        if self.answer is None or not self.answer.events_seen:
            return None
        try:
            usage = self.answer.usage
        except Exception:  # noqa: BLE001 - an estimator of the application's own, whose failure is told as the answer's
            return None if self.end is None else self.end.usage
        return usage if self.ended or usage.output_tokens else None

    def open(self) -> Iterable[Event]:
        """The start of the message, before there is anything in it."""
        if self.answer is not None:
            return self.answer.begin()
        return [MessageStart(Usage(input_tokens=self._exchange.estimate.input_tokens))]

    async def finish(self) -> None:
        """Bring the rest to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means, or what the end of its answer revealed.
        """
        answer = self.answer
        if answer is None or not self._accepted:
            self._refuse()
        await self._end(answer, answer.drain())
        await self._run_server_tools(answer)
        await self._put(answer.flush())
        await self._exchange.learn(self._exchange, answer)
        await self._output.finish()

    async def next_part(self) -> Callable[[], UpstreamRequest] | None:
        """Makes the request for the rest, where the service has paused and may be asked to go on.

        Raises:
            KiroAsgiError: What the end of the part revealed.
        """
        turn, answer = self._turn, self.answer
        if turn is None or answer is None or not self._accepted or self._continuations == CONTINUATIONS:
            return None
        if answer.enough:
            return None
        await self._end(answer, answer.end_part())
        if answer.enough or not turn.paused:
            return None
        await self._push()
        self._continuations += 1
        self._accepted, self._seen_before = False, answer.events_seen
        return turn.following

    async def _end(self, answer: Answer, rest: Iterable[Event]) -> None:
        """Bring the last bytes of a call to the client, and the *rest* that they lead to."""
        seen = answer.events_seen
        await self._put(chain(answer.feed(self._taken()), rest))
        if answer.events_seen != seen:
            self._note_event(content=answer.opened)

    def _accept(self, content_type: str) -> None:
        reader = self._turn or self._exchange.upstream
        decoder = reader.decoder(content_type)
        if self.answer is not None:
            self.answer.resume(decoder)
            return
        exchange = self._exchange
        plan = plan_answer(exchange, exchange.parsed, exchange.estimate, self._settings)
        conversation = exchange.request.parsed.prompt.turns  # all that the client has, where fewer were asked with, too
        self.answer = self._context.pipeline(decoder, evolve(plan, tier=self._tier, conversation=conversation))
        if self._output.opened:  # the client has been shown the start of the message before there were stages
            deque(self.answer.begin(), maxlen=0)

    async def _run_server_tools(self, answer: Answer) -> None:
        """Run the model's calls that the client does not run; the client is shown them while it waits."""
        if calls := answer.pending:
            await self._push()
            results = await self._exchange.route.provider.toolbox.run(calls, self._exchange.parsed.prompt)
            if self.listener is not None:
                self.listener.take_results(results)
            await self._put(answer.resolve(results))

    async def _advance(self) -> None:
        """One pass through the stages."""
        answer = self.answer
        assert answer is not None, "bytes of an answer that has no stages"
        seen = answer.events_seen
        self._turned = self._clock()
        for batch in self._batches():
            if self._clock() - self._turned >= PART:
                await self._give_way()
            await self._put(answer.feed(batch))
        await self._push()
        if answer.events_seen != seen:
            self._note_event(content=answer.opened)
        if answer.enough:
            raise StopReading
