"""Checks that ask the service: its models, the account's limits, one small answer."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic, time
from typing import Any, Final

from attrs import define, evolve, field

from kiro_asgi.cli import doctor_network
from kiro_asgi.cli.findings import Finding, Verdict, failed
from kiro_asgi.config import Settings
from kiro_asgi.errors import KiroAsgiError, UpstreamRejected
from kiro_asgi.model.events import ContextUsage, Stop, TextDelta, ThinkingDelta, TokenUsage
from kiro_asgi.model.prompt import Prompt, Role, Text, Turn
from kiro_asgi.net.transport import Headers, Transport
from kiro_asgi.net.whole import WholeAnswer, fetch_whole
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.upstreams.base import Credential, ModelCard, UpstreamRequest
from kiro_asgi.upstreams.kiro import KiroUpstream
from kiro_asgi.upstreams.kiro.auth import without_profile
from kiro_asgi.upstreams.kiro.limits import Limits, parse_limits
from kiro_asgi.upstreams.kiro.models import FALLBACK, parse_models
from kiro_asgi.upstreams.replies import clean

__all__ = ["Questions"]

PATIENCE: Final = 15.0
"""Seconds for each small question."""

CHEAP: Final = ("claude-haiku-4.5", "auto")
"""Models to try first; the question is small, so any will do."""

QUESTION: Final = "Say ok."
MAX_REFUSAL: Final = 65_536


@define
class _Reader:
    """Takes one answer of the chat operation apart."""

    _upstream: KiroUpstream
    _patience: float
    _started: float = field(init=False, factory=monotonic)
    _chunks: list[bytes] = field(init=False, factory=list)
    _pipeline: Pipeline[bytes, Any] | None = field(init=False, default=None)
    status: int = field(init=False, default=0)
    headers: Headers = field(init=False, default=())
    first: float | None = field(init=False, default=None)
    """Seconds to the first event."""

    deltas: list[Any] = field(init=False, factory=list)

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers
        if status == 200:
            types = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-type"]
            self._pipeline = Pipeline(*self._upstream.decoder("".join(types[:1])))

    def take(self, chunk: bytes, /) -> None:
        self._chunks.append(chunk)

    async def turn(self) -> float:
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
            raise self._upstream.fault(self.status, self.headers, b"".join(self._chunks)[:MAX_REFUSAL])
        self._read(self._pipeline.feed(self._chunks))
        self._read(self._pipeline.flush())

    def _read(self, deltas: Any) -> None:
        for delta in deltas:
            if self.first is None:
                self.first = monotonic() - self._started
            self.deltas.append(delta)


@define
class Questions:
    """Asks one service with one credential."""

    settings: Settings
    transport: Transport
    upstream: KiroUpstream
    credential: Credential
    date: Finding | None = field(init=False, default=None)
    """What the first answer says about the clocks."""

    _cards: tuple[ModelCard, ...] = field(init=False, default=())

    async def models(self) -> Finding:
        """Which models there are."""
        try:
            answer = await self._ask(self.upstream.models_request(self.credential))
            self._cards = parse_models(answer.body).cards
        except UpstreamRejected as error:
            found = failed("models", error)
            return evolve(found, verdict=Verdict.WARN, advice="none are listed, so every name is passed on as it is")
        except KiroAsgiError as error:
            return failed("models", error)
        names = ", ".join(clean(card.id) for card in self._cards[:4])
        more = f" and {len(self._cards) - 4} more" if len(self._cards) > 4 else ""
        return Finding("models", Verdict.OK, f"{names}{more}")

    async def limits(self) -> Finding:
        """What is left of the quota."""
        try:
            try:
                answer = await self._ask(self.upstream.limits_request(self.credential))
            except UpstreamRejected:  # some enterprise accounts must not name their profile here
                answer = await self._ask(self.upstream.limits_request(without_profile(self.credential)))
            return _left(parse_limits(answer.body))
        except KiroAsgiError as error:
            found = failed("usage limits", error)
            return evolve(found, verdict=Verdict.WARN, advice="chats may work all the same")

    async def answer(self) -> Finding:
        """One small question, answered."""
        card = next((card for name in CHEAP for card in self._cards if card.id == name), (*self._cards, *FALLBACK)[0])
        prompt = Prompt(card.id, (Turn(Role.USER, (Text(QUESTION),)),))
        reader = _Reader(self.upstream, self.settings.stream.idle_timeout or PATIENCE)
        try:
            request = self.upstream.render(prompt, card, self.credential).request
            patience = self.settings.kiro.first_token_timeout
            await self.transport.fetch(request, reader, head_timeout=patience)
            reader.finish()
        except KiroAsgiError as error:
            return failed("request", error)
        return _answered(card, reader)

    async def _ask(self, request: UpstreamRequest) -> WholeAnswer:
        answer = await fetch_whole(self.transport, request, patience=PATIENCE)
        self.date = self.date or doctor_network.clock(answer.headers, time())
        if answer.status != 200:
            raise self.upstream.fault(answer.status, answer.headers, answer.body)
        return answer


def _left(limits: Limits) -> Finding:
    reset = f", reset on {datetime.fromtimestamp(limits.resets_at, UTC):%Y-%m-%d %H:%M} UTC" if limits.resets_at else ""
    plan, unit = clean(limits.plan) or "unnamed plan", clean(limits.unit).lower() or "units"
    detail = f"{plan}: {limits.remaining:g} of {limits.limit:g} {unit} left{reset}"
    if limits.limit and not limits.remaining:
        return Finding("usage limits", Verdict.WARN, detail, "wait for the reset, or change the plan")
    return Finding("usage limits", Verdict.OK, detail)


def _answered(card: ModelCard, reader: _Reader) -> Finding:
    deltas = reader.deltas
    stops = [delta.reason.name.lower() for delta in deltas if isinstance(delta, Stop)]
    usage = next((words for kind, words in USAGE.items() if any(isinstance(it, kind) for it in deltas)), "estimated")
    words = f"{clean(card.id)}: first event after {reader.first or 0:.2f} s, "
    words += f"stop reason {stops[-1] if stops else 'not given'}, usage {usage}"
    if any(isinstance(delta, TextDelta | ThinkingDelta) for delta in deltas):
        return Finding("request", Verdict.OK, words)
    return Finding("request", Verdict.WARN, f"{words}, but no text", "ask once more; empty answers happen")


USAGE: Final = {TokenUsage: "in tokens by the service", ContextUsage: "by the share of the context window"}
"""Kind of report to where token counts come from, best first."""
