"""A scrape and a trace of a run with a retry, a cut answer, a client that leaves and a refusal, on both loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kiro_asgi import create_app, simulator
from kiro_asgi.observers.otel import OpenTelemetryObserver
from kiro_asgi.observers.prometheus import PrometheusObserver
from kiro_asgi.simulator import refusal
from tests.asgi.conftest import settings_for
from tests.asgi.driver import ask, get

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
CANARY = "canary-7f3"


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@define
class Run:
    """What came of the run."""

    scrape: str
    spans: tuple[ReadableSpan, ...]
    metrics: dict[str, float]
    """Names to the sums, or the numbers of values."""

    hosted: tuple[ReadableSpan, ...]
    """Spans of a call below a span of the host's."""

    context: Any
    """Of the task that made the calls, when they were made."""

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        """Values of a metric by those of its labels, in the order of the labels' names."""
        samples = (it for family in text_string_to_metric_families(self.scrape) for it in family.samples)
        return {tuple(value for _, value in sorted(it.labels.items())): it.value for it in samples if it.name == name}


@pytest.fixture(scope="module")
async def run(anyio_backend: str) -> Run:
    registry, exporter, reader = CollectorRegistry(), InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    observers = (PrometheusObserver(registry), OpenTelemetryObserver(tracers, meters))
    async with simulator.serve() as sim:
        app = create_app(settings_for(sim.url, {}), observers=observers)
        sim.enqueue(refusal(429, "Too many requests."))
        retried = ask("anthropic", f"sim:count=5 {CANARY}", stream=True, temperature=0.5)
        retried.scope["headers"].append((b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode()))
        leaving = ask("openai", "sim:count=99 sim:slow=0.05", stream=True)

        async def leave(message: Any) -> None:
            if message.get("body"):
                leaving.leave.set()

        leaving.on_send = leave
        with anyio.fail_after(30):
            await retried.run(app)
            await ask("anthropic", "sim:reset", stream=True).run(app)
            await leaving.run(app)
            await ask("openai", "sim:count=3", stream=False, model="no-such-model").run(app)
            await get(f"/v1/{CANARY}").run(app)
            spans = exporter.get_finished_spans()
            exporter.clear()
            with tracers.get_tracer("host").start_as_current_span("host"):
                before = contexts.get_current()
                await ask("responses", "sim:count=2", stream=True).run(app)
                after = contexts.get_current()
        await app.aclose()
    data = reader.get_metrics_data()
    assert data is not None
    sums: dict[str, float] = {}
    for metric in (it for each in data.resource_metrics for scope in each.scope_metrics for it in scope.metrics):
        for point in metric.data.data_points:
            sums[metric.name] = sums.get(metric.name, 0) + getattr(point, "value", getattr(point, "count", 0))
    scrape = generate_latest(registry).decode()
    tracers.shutdown()
    meters.shutdown()
    return Run(scrape, spans, sums, exporter.get_finished_spans() or (), before is after)


async def test_the_scrape(run: Run) -> None:
    """Every request, every attempt, and each token once; no label, no name and no help text tells of a prompt."""
    chat, messages = "/v1/chat/completions", "/v1/messages"
    assert run.of("kiro_asgi_requests_total") == {
        (messages, "anthropic", "complete", "2xx"): 1,
        (messages, "anthropic", "cut", "2xx"): 1,
        (chat, "openai_chat", "disconnected", "2xx"): 1,
        (chat, "openai_chat", "refused", "4xx"): 1,
        ("other", "openai_chat", "refused", "4xx"): 1,
        ("/v1/responses", "openai_responses", "complete", "2xx"): 1,
    }
    assert run.of("kiro_asgi_attempts_total") == {
        ("UpstreamThrottled", "refused", "kiro"): 1,
        ("UpstreamUnreachable", "cut", "kiro"): 1,
        ("", "complete", "kiro"): 2,
        ("", "disconnected", "kiro"): 1,
    }
    assert set(run.of("kiro_asgi_requests_active").values()) == {0}
    outputs = {key: value for key, value in run.of("kiro_asgi_tokens_total").items() if "output" in key}
    assert {source for *_, source in outputs} == {"service", "estimate"}, "an answer whose client left is estimated"
    assert 5 < sum(outputs.values()) < 50
    assert sum(run.of("gen_ai_server_request_duration_seconds_count").values()) == 4
    assert sum(run.of("gen_ai_client_operation_duration_seconds_count").values()) == 5
    assert CANARY not in run.scrape and "no-such-model" not in run.scrape and "ksk_test" not in run.scrape


async def test_the_trace(run: Run) -> None:
    """A span a call, in the trace that its client began, and one an attempt below it, with the times that they took."""
    (first,) = (span for span in run.spans if span.kind is SpanKind.SERVER and span.parent is not None)
    attempts = [span for span in run.spans if span.parent is not None and span.parent.span_id == first.context.span_id]
    failed, answered = attempts

    assert f"{first.context.trace_id:032x}" == TRACE
    assert (first.name, first.attributes["kiro_asgi.attempts"]) == ("POST /v1/messages", 2)
    assert {span.name for span in attempts} == {"chat claude-sonnet-4.5"}
    assert (failed.status.status_code, failed.attributes["error.type"]) == (StatusCode.ERROR, "UpstreamThrottled")
    assert answered.attributes["gen_ai.usage.output_tokens"] > 0
    assert answered.attributes["gen_ai.provider.name"] == "aws.kiro"
    assert answered.attributes["gen_ai.response.finish_reasons"] == ("end",)
    assert "sampling.ignored" in answered.attributes["kiro_asgi.rules"]
    assert answered.attributes["gen_ai.request.temperature"] == 0.5
    assert answered.attributes["gen_ai.response.id"].startswith("msg_")
    assert answered.attributes["server.address"] == "127.0.0.1"
    assert first.attributes["kiro_asgi.preparation"] > 0
    assert first.start_time <= failed.start_time < failed.end_time <= answered.start_time < answered.end_time
    assert answered.end_time <= first.end_time

    ends = {span.attributes["kiro_asgi.outcome"]: span for span in run.spans if span.kind is SpanKind.SERVER}
    assert ends.keys() == {"complete", "cut", "disconnected", "refused"}
    assert [name for name, span in ends.items() if span.status.status_code is StatusCode.ERROR] == ["cut"]
    assert CANARY not in "".join(span.to_json() for span in run.spans)


async def test_a_call_is_below_the_hosts_span(run: Run) -> None:
    """And leaves the context of its task as it was."""
    attempt, call, host = run.hosted

    assert (host.name, call.kind, attempt.kind) == ("host", SpanKind.INTERNAL, SpanKind.CLIENT)
    assert call.parent.span_id == host.context.span_id and attempt.parent.span_id == call.context.span_id
    assert run.context
    assert not trace.get_current_span().get_span_context().is_valid


async def test_both_measure_the_same(run: Run) -> None:
    """Prometheus and OpenTelemetry are told by the same table."""
    counters = ("kiro_asgi.requests", "kiro_asgi.attempts", "kiro_asgi.tokens", "kiro_asgi.rules.applied")
    for name in counters:
        assert run.metrics[name] == sum(run.of(name.replace(".", "_") + "_total").values())
    for name in ("gen_ai.server.request.duration", "gen_ai.client.operation.duration"):
        assert run.metrics[name] == sum(run.of(name.replace(".", "_") + "_seconds_count").values())


OF_TWO = """
import os, sys
from prometheus_client import CollectorRegistry, generate_latest
from kiro_asgi.observers.prometheus import PrometheusObserver, registry_to_serve
from tests.observers.facts import CALL, END
observer = PrometheusObserver(CollectorRegistry())
child = os.fork()
observer.began(CALL)
observer.ended(CALL, END)
if child:
    os.waitpid(child, 0)
    print(generate_latest(registry_to_serve()).decode())
"""


def test_several_processes_are_counted_together(tmp_path: Path) -> None:
    """Where they share a directory, as Prometheus's own client library does it."""
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", OF_TWO]
    scraped = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout

    samples = [it for family in text_string_to_metric_families(scraped) for it in family.samples]
    (requests,) = (it for it in samples if it.name == "kiro_asgi_requests_total")
    assert requests.value == 2
    assert "pid" not in requests.labels
