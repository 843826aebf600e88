"""Facts about one call for its observers, gathered from those who serve it.

Without an observer there is no `Observation`: those who serve the call look at one attribute, and nothing else is
done, neither for a call nor for its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import getLogger
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from attrs import define, field

from kiro_asgi.asgi.exchange.facts import Exchange
from kiro_asgi.asgi.exchange.reading import AnswerReading
from kiro_asgi.asgi.exchange.record import CallRecord
from kiro_asgi.asgi.exchange.reports import notices_in
from kiro_asgi.asgi.kept.hosted import OBSERVERS, HostedParts
from kiro_asgi.asgi.protocol import Message, Scope
from kiro_asgi.asgi.routing import Routes, root_of
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.limits import CLOSING_SECONDS
from kiro_asgi.model.charge import Charge
from kiro_asgi.model.events import ServerResult
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.observers.base import AttemptFacts, ByteObserver, CallFacts, EndFacts, Observer, Outcome, PlanFacts
from kiro_asgi.observers.logs import AccessLog
from kiro_asgi.upstreams.base import UpstreamRequest
from kiro_asgi.wire.json import dumps

_log = getLogger("kiro_asgi")

_PORTS: Final = {"http": 80, "https": 443}

_HANDSHAKE: Final = "GET"
"""Method of a WebSocket's handshake."""


@define(eq=False)
class Observers:
    """All that observe one application."""

    _observers: tuple[Observer, ...]
    _access_log: AccessLog
    _routes: Routes
    _clocks: Clocks
    _hosted: HostedParts = field(factory=HostedParts)
    _outside: int = 0
    """How many of the first observers are from outside."""

    _byte_observers: tuple[tuple[int, ByteObserver], ...] = field(init=False)
    """Observers of every byte, each with its place among all."""

    _failed: set[int] = field(init=False, factory=set)
    """Places of those that have failed before."""

    def __attrs_post_init__(self) -> None:
        each = enumerate(self._observers)
        self._byte_observers = tuple((place, it) for place, it in each if isinstance(it, ByteObserver))

    def observation(self, scope: Scope, request_id: str) -> Observation | None:
        """Begin to gather the facts of one call; ``None`` without observers, and for probes."""
        if not (self._observers or self._access_log.is_read) or self._routes.is_probe(scope):
            return None
        observers = (*self._observers, self._access_log) if self._access_log.is_read else self._observers
        return Observation(scope, request_id, observers, self._byte_observers, self._routes, self._clocks, self._report)

    def _report(self, place: int, observer: Observer, method: str, *facts: Any) -> None:
        report = getattr(observer, method)
        try:
            if place < self._outside:
                self._hosted.timed(OBSERVERS, f"the observer {type(observer).__name__}", report, *facts)
            else:
                report(*facts)
        except Exception:  # noqa: BLE001 - whatever an observer does, the client gets its answer
            if place not in self._failed:
                self._failed.add(place)
                _log.exception("an observer failed, which is logged once: %s of %r", method, observer)

    async def aclose(self) -> None:
        """Have each observer write what it still has to; one that fails keeps no other from it."""
        for observer in self._observers:
            try:
                with anyio.move_on_after(CLOSING_SECONDS) as scope:
                    await observer.aclose()
                if scope.cancelled_caught:
                    words = f"was not closed within {CLOSING_SECONDS:g} s, and is left behind"
                    self._hosted.late(OBSERVERS, f"the observer {type(observer).__name__}", words)
            except Exception:  # noqa: BLE001 - the others are to be closed as well
                _log.exception("an observer could not be closed: %r", observer)


@define(eq=False)
class Observation:
    """One call, as reported to its observers."""

    _scope: Scope
    _request_id: str
    _observers: tuple[Observer, ...]
    _byte_observers: tuple[tuple[int, ByteObserver], ...]
    _routes: Routes
    _clocks: Clocks
    _report: Callable[..., None]
    _started: float = field(init=False)
    _time: float = field(init=False)
    route: str = field(init=False, default="")
    """Template of the path, once it was found."""

    _call: CallFacts = field(init=False)
    _begun: bool = field(init=False, default=False)
    _plan: PlanFacts | None = field(init=False, default=None)
    _prepared: float | None = field(init=False, default=None)
    """When the first attempt was made."""

    _reading: AnswerReading[Any, Any] | None = field(init=False, default=None)
    """Of the latest attempt."""

    _under_way: bool = field(init=False, default=False)
    """Whether the latest attempt has not ended."""

    _attempts: list[AttemptFacts] = field(init=False, factory=list)
    """Those that have."""

    def __attrs_post_init__(self) -> None:
        self._started, self._time = self._clocks.steady(), self._clocks.wall()

    def begin(self, call: CallRecord) -> None:
        """Report that *call* has begun, once, now that its client is known, or is not going to be."""
        if self._begun:
            return
        scope, self._begun = self._scope, True
        self._call = CallFacts(
            request_id=self._request_id,
            api=self._routes.api(scope).name,
            method=_HANDSHAKE if scope["type"] == "websocket" else scope["method"],
            path=scope["path"],
            root_path=root_of(scope),
            route=self.route,
            principal=call.principal,
            group=call.client.group_name,
            headers=tuple(scope.get("headers") or ()),
            time=self._time,
            started=self._started,
        )
        for place, observer in enumerate(self._observers):
            self._report(place, observer, "began", self._call)

    def plan(self, exchange: Exchange, number: int, reading: AnswerReading[Any, Any]) -> None:
        """Report an attempt that is about to be made."""
        upstream, route, request = exchange.upstream, exchange.route, exchange.request
        url = urlsplit(exchange.rendered.request.url)
        self._plan = plan = PlanFacts(
            number=number,
            upstream=upstream.name,
            provider=upstream.traits.provider or upstream.name,
            model=route.model.id,
            listed=route.provider.catalogue.knows(route.model.id),
            credential=exchange.credential.source,
            operation=exchange.operation,
            streamed=exchange.streamed,
            rules=tuple(note.rule for note in exchange.notes),
            host=url.hostname or "",
            port=url.port or _PORTS[url.scheme],
            parameters=request.parameters,
            response_id=request.response_id,
            context_window=route.model.context_window,
            input_estimate=exchange.estimate.input_tokens,
            output_factor=exchange.estimate.output_factor,
            started=self._clocks.steady(),
        )
        if self._prepared is None:
            self._prepared = plan.started
        self._reading, self._under_way = reading, True
        if self._byte_observers:
            reading.tell(self)
        for place, observer in enumerate(self._observers):
            self._report(place, observer, "planned", self._call, plan)

    def attempted(self, error: KiroAsgiError | None, charge: Charge) -> None:
        """Report that the attempt has ended, with *error* or as it should, and what it is charged."""
        begun = self._reading is not None and self._reading.span is not None
        self._attempted(Outcome.COMPLETE if error is None else Outcome.CUT if begun else Outcome.REFUSED, error, charge)

    def _attempted(self, outcome: Outcome, error: KiroAsgiError | None, charge: Charge) -> None:
        plan, reading, self._under_way = self._plan, self._reading, False
        assert plan is not None and reading is not None, "an attempt that was not planned"
        facts = AttemptFacts(
            plan=plan,
            outcome=outcome,
            status=reading.status,
            error="" if error is None else type(error).__name__,
            code="" if error is None else error.code,
            seconds=self._clocks.steady() - plan.started,
            first_content=None if reading.span is None else reading.span[0] - plan.started,
            usage=charge.usage,
            cost=charge.cost,
            cost_guessed=charge.guessed,
            finish="" if reading.end is None else reading.end.stop_reason.value,
        )
        self._attempts.append(facts)
        for place, observer in enumerate(self._observers):
            self._report(place, observer, "attempted", self._call, facts)

    def end(self, call: CallRecord) -> None:
        """Report the end of *call*."""
        self.begin(call)
        failure = call.failure
        outcome = call.outcome or (Outcome.COMPLETE if failure is None else Outcome.REFUSED)
        if self._under_way:
            self._attempted(outcome, failure, call.charge)
        end = None if self._reading is None else self._reading.end
        facts = EndFacts(
            status=call.status,
            outcome=outcome,
            error="" if failure is None else type(failure).__name__,
            code="" if failure is None else failure.code,
            model=call.model,
            upstream=call.upstream,
            plan=self._plan,
            usage=call.charge.usage,
            cost=call.charge.cost,
            cost_guessed=call.charge.guessed,
            earlier=tuple(each for each in self._attempts[:-1] if each.usage is not None),
            finish="" if end is None else end.stop_reason.value,
            notices={} if end is None else notices_in(end),
            preparation=None if self._prepared is None else self._prepared - self._started,
            seconds=self._clocks.steady() - self._started,
            first_content=None if call.span is None else call.span[0] - self._started,
            content_seconds=0.0 if call.span is None else call.span[1] - call.span[0],
        )
        for place, observer in enumerate(self._observers):
            self._report(place, observer, "ended", self._call, facts)

    def take_request(self, body: bytes) -> None:
        """Report the client's request."""
        for place, observer in self._byte_observers:
            query = self._scope.get("query_string", b"")
            self._report(place, observer, "request_received", self._call, query, body, self._clocks.steady())

    def take_frame(self, value: Mapping[str, Any]) -> None:
        """Report a client's request that came as a frame; *value* is the body that it would have over HTTP."""
        if self._byte_observers:
            self.take_request(dumps(value))

    def ask(self, request: UpstreamRequest) -> None:
        """Report a request to the upstream."""
        for place, observer in self._byte_observers:
            facts = request.method, request.url, request.headers, request.body
            self._report(place, observer, "request_sent", self._call, *facts, self._clocks.steady())

    def end_body(self, error: KiroAsgiError | None) -> None:
        """Report that the upstream's answer was read, or that *error* has ended that."""
        for place, observer in self._byte_observers:
            self._report(place, observer, "body_ended", self._call, error, self._clocks.steady())

    def take_results(self, results: Iterable[ServerResult]) -> None:
        """Report results of tools that the client does not run."""
        for result in results:
            for place, observer in self._byte_observers:
                self._report(place, observer, "tool_ran", self._call, result, self._clocks.steady())

    def take_head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Report the head of the upstream's answer."""
        for place, observer in self._byte_observers:
            self._report(place, observer, "head_received", self._call, status, headers, self._clocks.steady())

    def take_bytes(self, data: bytes) -> None:
        """Report bytes of the upstream's answer."""
        at = self._clocks.steady()
        for place, observer in self._byte_observers:
            self._report(place, observer, "received", self._call, data, at)

    def take_sent(self, message: Message, at: float) -> None:
        """Report *message*, which was handed to the server *at* this moment, and taken now."""
        if not (self._byte_observers and self._begun):
            return
        if message["type"] == "http.response.start":
            for place, observer in self._byte_observers:
                self._report(place, observer, "head_sent", self._call, message["status"], message["headers"], at)
        elif data := message.get("body"):
            blocked = self._clocks.steady() - at
            for place, observer in self._byte_observers:
                self._report(place, observer, "sent", self._call, data, at, blocked)
