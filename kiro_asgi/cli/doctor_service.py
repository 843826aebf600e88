"""Checks of a service: its key, its models, one small answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Any, Final

from anyio import to_thread
from attrs import define, evolve, field

from kiro_asgi.asgi.providers import new_transport
from kiro_asgi.cli import doctor_checks
from kiro_asgi.cli.doctor_checks import Advice, Finding, Verdict, failed, with_key
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.limits import REFUSAL_BYTES
from kiro_asgi.model.events import ContextUsage, RefusalDelta, Stop, TextDelta, ThinkingDelta, TokenUsage
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.net.catalogue import pages
from kiro_asgi.net.credentials.pool import Credentials
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.access import Keys
from kiro_asgi.upstreams.base import Credential, ModelCard, Upstream, UpstreamRequest
from kiro_asgi.upstreams.errors import clean
from kiro_asgi.upstreams.manifest import Configured, probes_in

PATIENCE: Final = 15.0
"""Seconds for each small question."""

QUESTION: Final = "Say ok."


@define
class _AnswerReader:
    """Takes one answer of the chat operation apart."""

    _upstream: Upstream
    _first_patience: float
    _patience: float
    _started: float = field(init=False, factory=monotonic)
    _chunks: list[bytes] = field(init=False, factory=list)
    _pipeline: Pipeline[bytes, Any] | None = field(init=False, default=None)
    status: int = field(init=False, default=0)
    headers: Headers = field(init=False, default=())
    first: float | None = field(init=False, default=None)
    """Seconds to the first event."""

    deltas: list[Any] = field(init=False, factory=list)

    def start(self) -> float:
        return self._first_patience

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers
        if status == 200:
            types = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-type"]
            self._pipeline = Pipeline(*self._upstream.decoder("".join(types[:1])))

    def take(self, chunk: bytes, /) -> None:
        self._chunks.append(chunk)

    async def process(self) -> float:
        if self._pipeline is not None:
            self._read(self._pipeline.feed(self._chunks))
            self._chunks.clear()
        return self._patience

    def finish(self) -> None:
        """Read the rest.

        Raises:
            KiroAsgiError: What a refusal means, or the end of the answer.
        """
        if self._pipeline is None:
            raise self._upstream.fault(self.status, self.headers, b"".join(self._chunks)[:REFUSAL_BYTES])
        self._read(self._pipeline.feed(self._chunks))
        self._read(self._pipeline.flush())

    def _read(self, deltas: Any) -> None:
        for delta in deltas:
            if self.first is None:
                self.first = monotonic() - self._started
            self.deltas.append(delta)


@define(kw_only=True)
class Questions:
    """Asks one service with one credential."""

    prefix: str = ""
    """Prefix of the names of findings."""

    advice: Advice
    """Advice for errors of the service."""

    transport: Transport
    upstream: Upstream
    credential: Credential
    first_patience: float
    """Seconds to the start of an answer."""

    patience: float
    """Seconds between two parts of it."""

    probes: tuple[str, ...]
    """Models that are known to cost little, best first."""

    date: Finding | None = field(init=False, default=None)
    """The comparison of clocks, made from the first response."""

    _cards: tuple[ModelCard, ...] = field(init=False, default=())

    async def models(self) -> Finding:
        """Check the list of models."""
        name = self.called("models")
        try:
            listed = await pages(
                lambda page: self.ask(self.upstream.models_request(self.credential, page=page)),
                self.upstream.parse_models,
            )
        except UpstreamRejected as error:
            found = failed(name, error, self.advice)
            return evolve(found, verdict=Verdict.WARN, advice="none are listed, so every name is passed on as it is")
        except KiroAsgiError as error:
            return failed(name, error, self.advice)
        self._cards = cards = tuple(card for page in listed for card in page.cards)
        names = ", ".join(clean(card.id) for card in cards[:4]) or "none"
        more = f" and {len(cards) - 4} more" if len(cards) > 4 else ""
        return Finding(name, Verdict.OK, f"{names}{more}{' on the first pages' if listed[-1].following else ''}")

    async def answer(self) -> Finding:
        """Check that a model answers one small question."""
        name = self.called("request")
        card = self._cheapest()
        if card is None:
            return Finding(name, Verdict.WARN, "not asked, since no model is known", "ask for one by its name")
        prompt = Prompt(card.id, (Turn(Role.USER, (Text(QUESTION),)),))
        reader = _AnswerReader(self.upstream, self.first_patience, self.patience)
        try:
            request = self.upstream.render(prompt, card, self.credential).request
            await self.transport.fetch(request, reader, patience=self.first_patience)
            reader.finish()
        except KiroAsgiError as error:
            return failed(name, error, self.advice)
        return _answered(name, card, reader)

    async def ask(self, request: UpstreamRequest) -> bytes:
        """The body of the answer to a small question.

        Raises:
            KiroAsgiError: There is none, or a refusal.
        """
        answer = await fetch_whole(self.transport, request, patience=PATIENCE)
        self.date = self.date or doctor_checks.clock(answer.headers, time())
        if answer.status != 200:
            raise self.upstream.fault(answer.status, answer.headers, answer.body)
        return answer.body

    def called(self, name: str) -> str:
        """The name of a finding about this upstream."""
        return f"{self.prefix}{name}"

    def _cheapest(self) -> ModelCard | None:
        """A model for a small question: one that is known to cost little, else the first; ``None`` where none is."""
        cards = self._cards or self.upstream.builtin
        by_name = {self.upstream.normalise(card.id): card for card in reversed(cards)}
        return next((by_name[name] for name in self.probes if name in by_name), next(iter(cards), None))


def _answered(name: str, card: ModelCard, reader: _AnswerReader) -> Finding:
    deltas = reader.deltas
    stops = [delta.reason.name.lower() for delta in deltas if isinstance(delta, Stop)]
    usage = next((words for kind, words in USAGE.items() if any(isinstance(it, kind) for it in deltas)), "estimated")
    words = f"{clean(card.id)}: first event after {reader.first or 0:.2f} s, "
    words += f"stop reason {stops[-1] if stops else 'not given'}, usage {usage}"
    if any(isinstance(delta, TextDelta | RefusalDelta | ThinkingDelta) for delta in deltas):
        return Finding(name, Verdict.OK, words)
    return Finding(name, Verdict.WARN, f"{words}, but no text", "ask once more; empty answers happen")


USAGE: Final = {TokenUsage: "in tokens by the service", ContextUsage: "by the share of the context window"}
"""Kind of report to where token counts come from, best first."""


@define
class DirectExamination:
    """Checks one upstream that is asked with keys, link by link, and stops where the chain breaks."""

    _settings: Settings
    _configured: Configured[Any]
    _environ: Mapping[str, str]
    _put: Callable[[Finding], None]
    _held: list[Credentials]
    """Gets the credentials that are used, so that their tokens are masked in findings."""

    _upstream: Upstream = field(init=False)
    _keys: Keys = field(init=False)
    _first_patience: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = self._configured.make()
        assert isinstance(setup.access, Keys), "whoever is not asked with keys is examined by somebody else"
        self._upstream, self._keys = setup.upstream, setup.access
        self._first_patience = setup.answer_options.first_event_timeout

    async def run(self, *, refresh: bool, ask: bool) -> None:
        """Put a finding for each link; ask a model if *ask*.  There is nothing that could be renewed."""
        key = await self._key()
        self._put(key)
        if key.verdict is Verdict.FAIL:
            return
        transport = new_transport(self._settings, self._configured.settings.proxy)
        credential = await self._credential(transport)
        if credential is not None:
            reached = await self._connection(credential)
            self._put(reached)
            if reached.verdict is not Verdict.FAIL:
                await self._answers(transport, credential, ask)
        await transport.aclose()

    def _called(self, name: str) -> str:
        return f"{self._configured.name} {name}"

    async def _key(self) -> Finding:
        """Which keys there are, and what is to be said about what is asked with."""
        found = doctor_checks.keys(self._called("key"), self._keys)
        if self._keys.examine is None:
            return found
        try:
            more = await to_thread.run_sync(self._keys.examine)
        except KiroAsgiError as error:
            return failed(found.name, error, with_key(self._configured.path))
        return evolve(found, detail=f"{found.detail}; {more}")

    async def _credential(self, transport: Transport) -> Credential | None:
        """The first key, or the token that it is exchanged for."""
        credentials = Credentials.create(evolve(self._keys, named=self._keys.named[:1]), transport)
        self._held.append(credentials)
        name = self._called("token")
        try:
            credential = await credentials.get()
        except KiroAsgiError as error:
            self._put(failed(name, error, with_key(self._configured.path)))
            return None
        if self._keys.exchange is not None:
            self._put(Finding(name, Verdict.OK, "the key was exchanged for one"))
        return credential

    async def _connection(self, credential: Credential) -> Finding:
        settings, name = self._configured.settings, self._called("service")
        if settings.proxy:
            return doctor_checks.proxied(name, f"{self._configured.path}.proxy", settings.proxy)
        url, patience = self._upstream.models_request(credential).url, self._settings.limits.connect_timeout
        way = await doctor_checks.walk(url, doctor_checks.trusted(self._settings), patience)
        return doctor_checks.connection(name, way, self._environ, time())

    async def _answers(self, transport: Transport, credential: Credential, ask: bool) -> None:
        questions = Questions(
            prefix=self._called(""),
            advice=with_key(self._configured.path),
            transport=transport,
            upstream=self._upstream,
            credential=credential,
            first_patience=self._first_patience,
            patience=self._settings.stream.idle_timeout or PATIENCE,
            probes=tuple(probes_in(type(self._settings))),
        )
        models = await questions.models()
        self._put(models)
        if ask and models.verdict is not Verdict.FAIL:
            self._put(await questions.answer())
