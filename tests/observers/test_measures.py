"""Facts become measures, each once, under names and labels of one table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from attrs import define, evolve, field
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes, http_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from kiro_asgi.model.events import Usage, UsageSource
from kiro_asgi.observers import Outcome
from kiro_asgi.observers.measures import (
    MEASURES,
    MODEL,
    NAMED_CLIENTS,
    NAMED_NOTICES,
    OTHER,
    Kind,
    Labels,
    Measure,
    Measuring,
)
from tests.observers.facts import ATTEMPT, CALL, END, PLAN, USAGE, refused


@define(eq=False)
class Sums(Measuring):
    """Adds everything up, by the measure's name and the values of its labels."""

    sums: Counter[tuple[str, ...]] = field(factory=Counter)

    def add(self, measure: Measure, value: float, labels: Labels) -> None:
        assert labels.keys() <= set(measure.labels)
        assert all(type(label) is str and label for label in labels.values())
        self.sums[(measure.name, *labels.values())] += value  # type: ignore[assignment]

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        return {key[1:]: value for key, value in self.sums.items() if key[0] == name}


def sums_of(*ends: Any) -> Sums:
    sums = Sums()
    for end in ends:
        sums.began(CALL)
        if end.plan is not None:
            sums.attempted(CALL, ATTEMPT)
        sums.ended(CALL, end)
    return sums


def test_names_are_those_of_the_conventions() -> None:
    """Where they have one; every other begins with our own."""
    known = {value for name, value in vars(gen_ai_metrics).items() if name.startswith("GEN_AI")}
    labels = {
        value
        for module in (gen_ai_attributes, http_attributes, error_attributes)
        for name, value in vars(module).items()
        if isinstance(value, str)
    }

    assert {it.name for it in MEASURES if not it.name.startswith("kiro_asgi.")} <= known
    assert {it for each in MEASURES for it in each.labels if not it.startswith("kiro_asgi.")} <= labels
    assert len({it.name for it in MEASURES}) == len(MEASURES)
    assert all(bool(it.buckets) == (it.kind is Kind.SPREAD) for it in MEASURES)
    assert {it.flat_name for it in MEASURES} >= {
        "gen_ai_server_request_duration_seconds",
        "gen_ai_client_token_usage",
        "kiro_asgi_requests_total",
        "kiro_asgi_requests_active",
    }


def test_gaps_and_waits() -> None:
    """A gap is between two reads of one attempt; a send that took no time has waited for nobody."""
    sums = Sums()
    sums.began(CALL)
    for number, reads in ((1, (101.0,)), (2, (102.0, 102.25, 103.0))):
        sums.planned(CALL, evolve(PLAN, number=number))
        for at in reads:
            sums.received(CALL, b"data", at)
        sums.attempted(CALL, ATTEMPT)
    for blocked in (0.0005, 0.5, 0.25):
        sums.sent(CALL, b"data", 103.0, blocked)
    sums.ended(CALL, END)

    assert sums.of("kiro_asgi.stream.gap") == {("kiro",): 0.75}
    assert sums.of("kiro_asgi.preparation") == {("kiro",): 0.5}
    assert sums.of("kiro_asgi.client.blocked") == {("anthropic",): 0.75}
    assert not sums.waits


def test_tokens_are_counted_once() -> None:
    """However many attempts there were; what was cached is no part of the input, where parts are added up."""
    sums = sums_of(evolve(END, plan=evolve(PLAN, number=3)))

    assert sums.of("kiro_asgi.tokens") == {
        ("kiro", "claude-sonnet-4.5", "input", "estimate"): 100,
        ("kiro", "claude-sonnet-4.5", "cache_read", "service"): 7,
        ("kiro", "claude-sonnet-4.5", "output", "service"): 21,
    }
    assert sums.of("gen_ai.client.token.usage") == {("chat", "aws.kiro", "claude-sonnet-4.5", "output"): 21}
    assert sums.of("kiro_asgi.credits") == {("kiro", "claude-sonnet-4.5"): 0.25}


@pytest.mark.parametrize("source", UsageSource)
def test_what_is_estimated_is_no_count_of_the_service(source: UsageSource) -> None:
    """The convention's metrics have what the service has counted; the pace of tokens needs that, too."""
    usage = Usage(10, 11, input_source=source, output_source=source)
    sums = sums_of(evolve(END, usage=usage))

    counted = source is UsageSource.UPSTREAM
    assert bool(sums.of("gen_ai.client.token.usage")) == bool(sums.of("gen_ai.server.time_per_output_token")) == counted
    assert {key[3] for key in sums.of("kiro_asgi.tokens")} == {"service" if counted else "estimate"}


def test_a_client_invents_no_label() -> None:
    """A model that no list has, and a path that there is not, are others."""
    invented = evolve(PLAN, model="canary", listed=False)
    call = evolve(CALL, path="/canary", route="", method="CANARY")
    sums = Sums()
    sums.began(call)
    sums.attempted(call, evolve(ATTEMPT, plan=invented))
    sums.ended(call, evolve(END, plan=invented, model="canary"))

    assert OTHER in {label for key in sums.sums for label in key}
    assert "canary" not in str(sums.sums)
    assert all(OTHER in key for key in sums.sums if MODEL in _labels(key[0]))


def test_clients_and_groups_are_bounded_labels() -> None:
    """What those beyond the first hundred use is counted as others'; who is in no group has no such label."""
    sums = Sums()
    for number in range(NAMED_CLIENTS + 3):
        call = evolve(CALL, principal=f"key:{number}", group=f"team-{number}")
        sums.began(call)
        sums.ended(call, END)
    sums.began(CALL)
    sums.ended(evolve(CALL, principal="key:0"), END)
    counted = sums.of("kiro_asgi.client.requests")

    assert len(counted) == NAMED_CLIENTS + 2
    assert counted["key:1", "team-1", "complete"] == counted["key:0", "complete"] == 1
    assert counted[OTHER, OTHER, "complete"] == 3
    assert {key[:2] for key in sums.of("kiro_asgi.client.tokens") if len(key) == 4} == {
        key[:2] for key in counted if len(key) == 3
    }


def test_names_of_unknown_events_are_bounded_labels() -> None:
    """A service's new events count by their names, and those of one that never stops inventing them by their kind."""
    seen = Counter({f"event.unknown:e{number}": 1 for number in range(NAMED_NOTICES + 5)})
    sums = sums_of(evolve(END, notices=seen), evolve(END, notices=Counter({"event.unknown:e0": 1, "call.cut": 1})))

    counted = {label: value for (_, label), value in sums.of("kiro_asgi.notices").items()}
    named = {f"event.unknown:e{number}": 1 for number in range(NAMED_NOTICES)}
    assert counted == {**named, "event.unknown:e0": 2, "event.unknown": 5, "call.cut": 1}


def _labels(name: str) -> tuple[str, ...]:
    return next(it.labels for it in MEASURES if it.name == name)


def test_what_is_refused_is_counted_as_that() -> None:
    """By status and outcome; a client's quota by its name; nothing stays active."""
    limited = refused("LimitReached", 429, code="quota.tokens_day")
    gone = refused("", 0)
    sums = sums_of(refused(), limited, evolve(gone, outcome=Outcome.DISCONNECTED))

    assert sums.of("kiro_asgi.requests") == {
        ("anthropic", "/v1/messages", "4xx", "refused"): 2,
        ("anthropic", "/v1/messages", "none", "disconnected"): 1,
    }
    assert sums.of("kiro_asgi.limit.refusals") == {("quota.tokens_day",): 1}
    assert sums.of("kiro_asgi.requests.active") == {("anthropic",): 0}
    assert not sums.of("gen_ai.server.request.duration")


def test_an_attempt_that_failed_is_measured_with_its_error() -> None:
    """So is the call, where the last one failed."""
    sums = Sums()
    failed = evolve(ATTEMPT, error="UpstreamTimeout", outcome=Outcome.REFUSED, first_content=None, usage=None)
    sums.began(CALL)
    sums.attempted(CALL, failed)
    sums.ended(CALL, evolve(END, error="UpstreamTimeout", status=504, outcome=Outcome.REFUSED, usage=None, notices={}))

    asked = ("chat", "aws.kiro", "claude-sonnet-4.5", "UpstreamTimeout")
    assert sums.of("gen_ai.client.operation.duration") == {asked: 2.0}
    assert sums.of("gen_ai.server.request.duration") == {asked: 2.5}
    assert sums.of("kiro_asgi.attempts") == {("kiro", "refused", "UpstreamTimeout"): 1}
    assert not sums.of("gen_ai.client.operation.time_to_first_chunk")


def test_rules_and_notices_are_counted() -> None:
    """By their names."""
    sums = sums_of(END)

    assert sums.of("kiro_asgi.rules.applied") == {("kiro", "turns.merged"): 1, ("kiro", "sampling.ignored"): 1}
    assert sums.of("kiro_asgi.notices") == {("kiro", "call.cut"): 1}
    assert USAGE.prompt_tokens == 107
