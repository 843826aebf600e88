"""Requests for embeddings, and the vectors that come back.

A service takes so many inputs at once.  A request with more is sent in parts, one after the other, and its vectors are
joined in the order of the inputs.  What has come is kept where a later part fails: the next attempt goes on from there,
but for one at another model, whose vectors mean something else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, Self

from anyio.lowlevel import checkpoint
from attrs import define, evolve, field, frozen

from kiro_asgi.asgi.exchange.facts import Estimate
from kiro_asgi.asgi.exchange.model_routes import Permit, Route, require_permit
from kiro_asgi.asgi.exchange.output import Whole
from kiro_asgi.asgi.exchange.plan import first_event_timeout
from kiro_asgi.asgi.exchange.reading import AnswerContext, AnswerReading
from kiro_asgi.asgi.exchange.settling import Settler
from kiro_asgi.asgi.protocol import Headers, Send, respond_while_made
from kiro_asgi.asgi.scheduling import Offload, Pace
from kiro_asgi.config import Settings
from kiro_asgi.dialects.base import EmbeddingDialect, ParsedEmbeddings
from kiro_asgi.errors import AnswerTooLarge, KiroAsgiError, UpstreamProtocolError
from kiro_asgi.failures.report import document_of
from kiro_asgi.loops import PerLoop
from kiro_asgi.model.embeddings import WIDTH, EmbeddingPrompt, Embeddings
from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.model.message import Message
from kiro_asgi.model.notes import Note
from kiro_asgi.stages.estimate import Estimator
from kiro_asgi.upstreams.base import (
    AdaptableEmbedder,
    Credential,
    Embedder,
    EmbeddingReader,
    Rendered,
    Upstream,
    UpstreamRequest,
)
from kiro_asgi.upstreams.headers import JSON, require_media_type

_SLICE: Final = 2 * 1024
"""Bytes of an answer that are read in one go: of vectors of one number, those take 2 ms."""


@define(kw_only=True)
class EmbeddingRequest:
    """A client's request for embeddings, whichever upstream is going to answer."""

    request_id: str
    permit: Permit
    dialect: EmbeddingDialect
    size: int
    """Bytes of the request."""

    parsed: ParsedEmbeddings
    _hold: Callable[[int], None]
    _held: int = field(init=False, default=0)

    def hold(self, size: int) -> None:
        """Make room for *size* bytes of vectors in all, until they have gone out.

        Raises:
            TooBusy: There is none now.
        """
        if size > self._held:
            self._hold(size - self._held)
            self._held = size

    @property
    def model(self) -> str:
        """As the client wrote it."""
        return self.parsed.prompt.model

    @property
    def parameters(self) -> Mapping[str, float]:
        """None: nothing is sampled."""
        return {}

    @property
    def response_id(self) -> str:
        """Empty: vectors have no identifier."""
        return ""

    def without_passthrough(self) -> Self:
        """The same: each is translated."""
        return self


@define
class Made:
    """The answers to the first parts."""

    answers: list[Embeddings] = field(factory=list)
    size: int = 0
    """Bytes of their vectors."""

    length: int = 0
    """Numbers of each vector; 0 before there is any."""

    rendered: tuple[int, Credential, Rendered] | None = None
    """The latest request, with the place of its part, and whose name it is in."""

    def add(self, made: Embeddings) -> None:
        """Keep the answer to the next part."""
        self.answers.append(made)
        self.size += sum(map(len, made.vectors))
        self.length = len(made.vectors[0]) // WIDTH


@frozen(kw_only=True)
class EmbeddingExchange:
    """An exchange whose answer is vectors."""

    request: EmbeddingRequest
    route: Route
    embedder: Embedder
    credential: Credential
    estimate: Estimate
    parts: tuple[EmbeddingPrompt, ...]
    """What is asked, in as many requests as the service needs."""

    made: Made = field(factory=Made, repr=False)
    """It grows while the request is answered."""

    @property
    def next_part(self) -> EmbeddingPrompt | None:
        """The first that has no answer yet; ``None`` behind the last."""
        at = len(self.made.answers)
        return self.parts[at] if at < len(self.parts) else None

    @property
    def upstream(self) -> Upstream:
        """The route's."""
        return self.route.provider.setup.upstream

    @property
    def rendered(self) -> Rendered:
        """The next part."""
        return self.render()

    def render(self) -> Rendered:
        """Render the next part, once for a credential: it is looked at often, and that of many texts takes long."""
        asked, at, kept = self.next_part, len(self.made.answers), self.made.rendered
        assert asked is not None, "all parts are answered"
        if kept is not None and kept[:2] == (at, self.credential):
            return kept[2]
        rendered = Rendered(self.embedder.request(asked, self.route.model, self.credential))
        self.made.rendered = at, self.credential, rendered
        return rendered

    @property
    def operation(self) -> str:
        """Embeddings."""
        return "embeddings"

    @property
    def streamed(self) -> bool:
        """Never."""
        return False

    @property
    def notes(self) -> tuple[Note, ...]:
        """Nothing: what a service lacks is refused."""
        return ()

    @property
    def first_event_timeout(self) -> float:
        """Seconds from asking the upstream to the whole answer to a part."""
        return first_event_timeout(self.route.provider.setup.answer_options, self.estimate.input_tokens, thinks=False)

    @property
    def expected(self) -> Usage:
        """Tokens of the inputs that have no answer yet, by an estimate."""
        return Usage(self.share_of(len(self.parts) - len(self.made.answers)))

    def share_of(self, parts: int) -> int:
        """Tokens of so many parts, by an estimate."""
        return round(self.estimate.input_tokens * parts / len(self.parts))

    @property
    def known_answer(self) -> Message | None:
        """``None``: the service makes all vectors."""
        return None

    def sizes(self) -> Mapping[str, int]:
        """Counts of what the upstream is sent."""
        return {"inputs": sum(len(part.inputs) for part in self.parts), "parts": len(self.parts)}

    def with_credential(self, credential: Credential) -> EmbeddingExchange:
        """The same request in the name of *credential*."""
        return evolve(self, credential=credential).made_ready()

    def made_ready(self) -> EmbeddingExchange:
        """The same, with its request rendered."""
        self.render()
        return self

    def with_route(self, route: Route) -> EmbeddingExchange:
        """The same request, with another way to go on if it fails."""
        return evolve(self, route=route)

    async def adapted(self, error: KiroAsgiError, offload: Offload) -> EmbeddingExchange | None:
        """The same request in another form, where *error* shows that the form was refused; else ``None``."""
        if not isinstance(self.embedder, AdaptableEmbedder):
            return None
        document = document_of(self.rendered.request.body)
        changed = self.embedder.adapt_after_error(error, document)
        if changed is None:
            return None
        self.made.rendered = None
        return evolve(self, embedder=changed).made_ready()

    def reminded(self, complaint: str) -> EmbeddingExchange:
        """The same: vectors break no promise."""
        return self

    def output(
        self, send: Send, headers: Callable[[], Headers], settings: Settings, clock: Callable[[], float]
    ) -> EmbeddingOutput:
        """Where the vectors go: into one body."""
        request = self.request
        return EmbeddingOutput(send, headers, lambda made: request.dialect.render_embeddings(made, request.parsed))

    def reading(self, output: EmbeddingOutput, context: AnswerContext) -> EmbeddingReading:
        """Make the reader of one attempt's answers into *output*."""
        return EmbeddingReading(self, output, context)


@define
class EmbeddingOutput(Whole[Embeddings]):
    """Sends all vectors in one body, which is made while it is sent: as decimals they take three times their room."""

    _render: Callable[[Embeddings], Iterable[bytes]]
    turn: Callable[[], Awaitable[None]] = field(init=False, default=checkpoint)
    """Waits for a turn of the event loop where one is due; a reader that shares them with others sets it."""

    _made: Embeddings = field(init=False, default=Embeddings(()))

    def restart(self) -> None:
        """Nothing: vectors are put when all of them are there."""

    def put(self, items: Iterable[Embeddings], /) -> None:
        """Take all vectors."""
        (self._made,) = items

    async def finish(self) -> None:
        """Send them."""
        self.committed = self.begun = self.closing = True
        await respond_while_made(self._send, 200, self._render(self._made), self._headers(), self.turn)


@define
class EmbeddingReading(AnswerReading[EmbeddingExchange, EmbeddingOutput]):
    """Reads the vectors of each part, while they come."""

    _reader: EmbeddingReader | None = field(init=False, default=None)
    _before: int = field(init=False)
    """Parts that earlier attempts had answers to."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._before = len(self._exchange.made.answers)

    @property
    def begun(self) -> bool:
        """Whether a vector has come: from then on the service is silent only where no other comes."""
        return self._reader is not None and self._reader.size > 0

    @property
    def ended(self) -> bool:
        """Whether all vectors are there."""
        return self._exchange.next_part is None

    @property
    def used(self) -> Usage | None:
        """Tokens of the inputs that this attempt has read so far; ``None`` before there are any."""
        return self._usage(self._before)

    def _usage(self, first: int) -> Usage | None:
        """Tokens of the parts from the *first* on that have an answer."""
        answers = self._exchange.made.answers[first:]
        counted = [each.tokens for each in answers if each.tokens is not None]
        if not answers:
            return None
        if len(counted) == len(answers):
            return Usage(sum(counted), input_source=UsageSource.UPSTREAM, output_source=UsageSource.UPSTREAM)
        return Usage(self._exchange.share_of(len(answers)), output_source=UsageSource.UPSTREAM)

    def open(self) -> Iterable[Embeddings]:
        """Nothing."""
        return ()

    async def next_part(self) -> Callable[[], UpstreamRequest] | None:
        """Makes the request for the next part; ``None`` after the last.

        Raises:
            KiroAsgiError: The answer to this one has not as many vectors as it has inputs, or is none.
        """
        if not self._accepted:
            return None
        exchange = self._exchange
        await self._advance()
        reader, asked, self._reader = self._reader or self._new_reader(), exchange.next_part, None
        assert asked is not None, "an answer to nothing"
        await self._pace.wait()
        made = await self._context.offload.run(reader.rest_size, reader.finish)
        require_fitting(made, asked, exchange.made.length)
        exchange.made.add(made)
        if exchange.next_part is None:
            return None
        self._accepted = False
        return lambda: exchange.render().request

    async def finish(self) -> None:
        """Bring the vectors to the client.

        Raises:
            KiroAsgiError: What the upstream's refusal means.
        """
        if not self._accepted:
            self._refuse()
        usage = self._usage(0)
        assert usage is not None, "an answer that was not read"
        vectors = (vector for each in self._exchange.made.answers for vector in each.vectors)
        self._output.put([Embeddings(tuple(vectors), usage.input_tokens)])
        self._output.turn = self._pace.turns().next
        await self._output.finish()
        self._exchange.route.provider.learn_embedding(self._exchange.route.model, self._exchange.embedder)

    def _accept(self, content_type: str) -> None:
        require_media_type(content_type, (JSON,))

    def _new_reader(self) -> EmbeddingReader:
        return self._exchange.embedder.reader(self._headers)

    async def _advance(self) -> None:
        reader = self._reader = self._reader or self._new_reader()
        turns, inputs = self._pace.turns(), self._exchange.sizes()["inputs"]
        for chunk in self._taken():
            for at in range(0, len(chunk), _SLICE):
                await turns.next()
                reader.feed(chunk[at : at + _SLICE])
                # The first vector says how much all will take.  Were room made for each by itself, many requests would
                # get as far as it reaches, and none of them to its end.
                self._require_room(max(self._exchange.made.size + reader.size, reader.length * inputs))
        self._note_event(content=False)

    def _require_room(self, size: int) -> None:
        self._exchange.request.hold(size)
        most = self._settings.limits.answer_bytes
        if size > most:
            message = f"the embeddings have more than {most} bytes (limits.answer_bytes)"
            raise AnswerTooLarge(message, code="answer_too_large")


def require_fitting(made: Embeddings, asked: EmbeddingPrompt, length: int) -> None:
    """Refuse an answer to a part that is not what was asked: vectors of different lengths cannot be compared.

    Args:
        made: The answer.
        asked: The part.
        length: Numbers of each vector of the parts before; 0 for the first.

    Raises:
        UpstreamProtocolError: Code ``upstream.embeddings``: there are too many vectors or too few, or one has not as
            many numbers as the others, or as were asked for.
    """
    words = f"the service made {len(made.vectors)} embeddings of {len(asked.inputs)} inputs"
    if len(made.vectors) == len(asked.inputs):
        lengths = {len(vector) // WIDTH for vector in made.vectors}
        wanted = asked.dimensions or length or next(iter(lengths))
        if lengths == {wanted}:
            return
        words = f"the service made embeddings of {max(lengths - {wanted})} numbers where {wanted} were due"
    raise UpstreamProtocolError(words, code="upstream.embeddings")


@define(kw_only=True)
class EmbeddingFactory(Settler[EmbeddingRequest]):
    """Settles the requests of one application for embeddings."""

    _offload: Offload
    _pace: PerLoop[Pace]
    _estimator: Estimator

    async def _settled(self, request: EmbeddingRequest, route: Route) -> EmbeddingExchange:
        require_permit(request.permit, route.provider, route.model)
        embedder, prompt = self.models.embedder(route), request.parsed.prompt
        await self._pace.here().wait()
        await self._offload.run(request.size, partial(embedder.check, prompt, route.model))
        exchange = EmbeddingExchange(
            request=request,
            route=route,
            embedder=embedder,
            credential=await route.provider.credentials.get(route.model.id),
            estimate=await self._offload.run(request.size, partial(self._estimated, prompt)),
            parts=prompt.parts(embedder.size(route.model)),
        )
        return await self._offload.run(request.size, exchange.made_ready)

    def _estimated(self, prompt: EmbeddingPrompt) -> Estimate:
        estimate = self._estimator.estimate_tokens
        tokens = sum(estimate(each) if isinstance(each, str) else len(each) for each in prompt.inputs)
        return Estimate(self._estimator, round(tokens), tokens)
