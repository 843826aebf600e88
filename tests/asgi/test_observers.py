"""What observers are told of calls, in which order, and that they cost nothing and hurt nobody."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import anyio
import pytest
from attrs import define, field

from kiro_asgi import Observer, create_app
from kiro_asgi.model.events import UsageSource
from kiro_asgi.observers import AttemptFacts, ByteObserver, CallFacts, EndFacts, Outcome, PlanFacts
from kiro_asgi.simulator import refusal
from tests.asgi.answers import DIALECTS, text_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get, post
from tests.examples import example

pytestmark = pytest.mark.anyio


@define(eq=False)
class Recorder(Observer):
    """Keeps all that it is told."""

    told: list[tuple[str, Any]] = field(factory=list)
    calls: list[CallFacts] = field(factory=list)

    def began(self, call: CallFacts) -> None:
        self._keep("began", call, call)

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        self._keep("planned", call, plan)

    def attempted(self, call: CallFacts, attempt: AttemptFacts) -> None:
        self._keep("attempted", call, attempt)

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        self._keep("ended", call, end)

    def _keep(self, name: str, call: CallFacts, facts: Any) -> None:
        self.told.append((name, facts))
        self.calls.append(call)

    @property
    def names(self) -> str:
        assert len(set(map(id, self.calls))) <= 1, "one call"
        return " ".join(name for name, _ in self.told)

    def of(self, name: str) -> list[Any]:
        return [facts for each, facts in self.told if each == name]

    @property
    def end(self) -> EndFacts:
        (end,) = self.of("ended")
        return end


@pytest.fixture
async def observed(sim):
    """Makes an app with observers."""
    apps = []

    def make(*observers: Observer, **slices: Any):
        apps.append(create_app(settings_for(sim.url, slices), observers=observers))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])
async def test_an_answer_after_a_retry(dialect, stream, observed, sim):
    """Both attempts, each with what it was asked of and what it came to; the tokens once, with their source."""
    recorder = Recorder()
    sim.enqueue(refusal(429, "Too many requests."))
    app = observed(recorder)
    exchange = await ask(dialect, "sim:count=3", stream=stream, temperature=0.5).run(app)

    assert text_of(dialect, exchange)
    assert recorder.names == "began planned attempted planned attempted ended"
    (call,), plans, (failed, answered), end = (*map(recorder.of, ("began", "planned", "attempted")), recorder.end)
    assert (call.method, call.path, call.route) == ("POST", exchange.scope["path"], exchange.scope["path"])
    assert call.request_id == exchange.headers["x-request-id"]
    assert call.principal and call.api and call.principal != "k"
    assert [plan.number for plan in plans] == [1, 2]
    assert {(plan.upstream, plan.provider, plan.model, plan.listed, plan.credential) for plan in plans} == {
        ("kiro", "aws.kiro", "claude-sonnet-4.5", True, "kiro.api_key")
    }
    assert plans[0].streamed is stream and "sampling.ignored" in plans[0].rules
    assert plans[1].parameters["temperature"] == 0.5
    assert plans[1].response_id and plans[1].response_id.encode() in exchange.content
    assert f"http://{plans[1].host}:{plans[1].port}" == sim.url
    assert end.preparation == plans[0].started - call.started
    assert (failed.outcome, failed.status, failed.error, failed.usage) == (
        Outcome.REFUSED,
        429,
        "UpstreamThrottled",
        None,
    )
    assert (answered.outcome, answered.status, answered.error) == (Outcome.COMPLETE, 200, "")
    assert (end.status, end.outcome, end.error, end.attempts, end.finish) == (200, Outcome.COMPLETE, "", 2, "end")
    assert (end.model, end.upstream, end.plan) == ("claude-sonnet-4.5", "kiro", plans[1])
    assert end.usage == answered.usage and end.usage.output_tokens and end.usage.output_source in UsageSource
    assert 0 < answered.first_content <= answered.seconds
    assert failed.seconds + answered.first_content <= end.first_content <= end.seconds


async def test_an_answer_that_is_cut(observed, sim):
    """What had begun and broke off is cut, with the error that the client was told."""
    recorder = Recorder()
    await ask("anthropic", "sim:reset", stream=True).run(observed(recorder))

    assert recorder.names == "began planned attempted ended"
    (attempt,) = recorder.of("attempted")
    assert (attempt.outcome, recorder.end.outcome, recorder.end.status) == (Outcome.CUT, Outcome.CUT, 200)
    assert attempt.error == recorder.end.error == "UpstreamUnreachable"


async def test_a_client_that_leaves(observed, sim):
    """Its attempt ends before its call does."""
    recorder = Recorder()
    exchange = ask("openai", "sim:count=99 sim:slow=0.05", stream=True)

    async def leave(message: Any) -> None:
        if message.get("body"):
            exchange.leave.set()

    exchange.on_send = leave
    with anyio.fail_after(20):
        await exchange.run(observed(recorder))

    assert recorder.names == "began planned attempted ended"
    assert {facts.outcome for facts in (*recorder.of("attempted"), recorder.end)} == {Outcome.DISCONNECTED}


@pytest.mark.parametrize(
    ("make", "route", "status", "error"),
    [
        pytest.param(lambda: post("/v1/messages", {}, key=None), "/v1/messages", 401, "Unauthorized", id="no-key"),
        pytest.param(lambda: post("/v1/messages", {}), "/v1/messages", 400, "RequestError", id="no-request"),
        pytest.param(lambda: get("/v1/nothing"), "", 404, "RouteNotFound", id="no-path"),
        pytest.param(lambda: get("/v1/models/nope"), "/v1/models/{model:path}", 404, "UnknownModel", id="no-model"),
    ],
)
async def test_a_request_that_is_refused(make, route, status, error, observed):
    """It begins and ends, with no attempt between."""
    recorder = Recorder()
    await make().run(observed(recorder))

    assert recorder.names == "began ended"
    assert recorder.calls[0].route == route
    assert (recorder.end.status, recorder.end.outcome, recorder.end.error) == (status, Outcome.REFUSED, error)
    assert (recorder.end.attempts, recorder.end.usage, recorder.end.plan) == (0, None, None)


@define(eq=False)
class Tape(ByteObserver):
    """Keeps bytes."""

    incoming: list[bytes] = field(factory=list)
    outgoing: list[bytes] = field(factory=list)

    def received(self, call: CallFacts, data: bytes, at: float) -> None:
        self.incoming.append(data)

    def sent(self, call: CallFacts, data: bytes, at: float, blocked: float) -> None:
        assert blocked >= 0
        self.outgoing.append(data)


async def test_bytes_are_told_to_who_wants_them(observed, sim):
    """All that came from the service, and all that the client was sent, errors too."""
    tape = Tape()
    app = observed(Recorder(), tape)
    exchange = await ask("openai", "sim:count=3", stream=True).run(app)
    refused = await post("/v1/messages", {}, key=None).run(app)

    assert b"".join(tape.outgoing) == exchange.content + refused.content
    assert b"assistantResponseEvent" in b"".join(tape.incoming)


class Broken(Observer):
    """Fails wherever it can."""

    def began(self, call: CallFacts) -> None:
        raise LookupError("began")

    def planned(self, call: CallFacts, plan: PlanFacts) -> None:
        raise LookupError("planned")

    def ended(self, call: CallFacts, end: EndFacts) -> None:
        raise LookupError("ended")


@pytest.mark.unexpected("an observer failed")
async def test_an_observer_that_fails_hurts_nobody(observed, sim, caplog):
    """The client gets its answer, the next observer hears of everything, and the log has one traceback."""
    recorder = Recorder()
    app = observed(Broken(), recorder)
    answers = [await ask("openai", "sim:count=3", stream=True).run(app) for _ in range(2)]

    assert all(text_of("openai", exchange) for exchange in answers)
    assert len(recorder.told) == 8
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "an observer failed" in record.getMessage() and "Broken" in record.getMessage()


async def test_nobody_observes_for_nothing(gateway, sim):
    """Without observers one question is asked, whether anybody observes: as often for a long answer as for a short."""
    asked: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "observ" in frame.f_code.co_filename.partition("/kiro_asgi/")[2]:
            asked[frame.f_code.co_name] += 1

    app = gateway()
    for events in (1, 99):
        exchange = ask("openai", f"sim:count={events}", stream=True)
        sys.setprofile(count)
        try:
            await exchange.run(app)
        finally:
            sys.setprofile(None)
        if events == 1:
            first, asked = asked, Counter()

    assert first == asked
    assert set(asked.values()) == {1}


async def test_the_example_counts(observed, sim):
    """Tokens by client, and the failures that no client saw."""
    counting = example("counting_observer").Counting()
    sim.enqueue(refusal(429, "Too many requests."))
    await ask("openai", "sim:count=3", stream=True).run(observed(counting))

    assert counting.failures == {("kiro", "UpstreamThrottled"): 1}
    (tokens,) = counting.tokens.values()
    assert tokens > 3
