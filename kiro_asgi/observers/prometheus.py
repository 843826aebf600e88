"""Metrics for Prometheus, by its own client library (the extra ``metrics``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from kiro_asgi.observers.measures import MEASURES, Kind, Labels, Measure, Measuring, flat

MULTIPROCESS_DIR: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the client library: a directory in which the processes of one machine keep their metrics."""


@define(eq=False)
class PrometheusObserver(Measuring):
    """Keeps the measures in a registry.

    One may observe several applications, whose calls are then counted together.  Where the variable
    ``PROMETHEUS_MULTIPROC_DIR`` is set when the library is imported, those of several processes are, too.

    Args:
        registry: Where the metrics are registered; the process's own, which most hosts expose already.

    Raises:
        ValueError: The registry has such metrics: there is another observer.
    """

    _registry: CollectorRegistry = REGISTRY
    _metrics: Mapping[Measure, MetricWrapperBase] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._metrics = {measure: self._metric(measure) for measure in MEASURES}

    def add(self, measure: Measure, value: float, labels: Labels) -> None:
        """Take one value."""
        metric: Any = self._metrics[measure].labels(*(labels.get(name, "") for name in measure.labels))
        if measure.kind is Kind.SPREAD:
            metric.observe(value)
        else:
            metric.inc(value)

    def close(self) -> None:
        """Take the metrics out of the registry."""
        for metric in self._metrics.values():
            self._registry.unregister(metric)

    def _metric(self, measure: Measure) -> MetricWrapperBase:
        name, labels = measure.flat_name, [*map(flat, measure.labels)]
        match measure.kind:
            case Kind.COUNT:
                return Counter(name, measure.what, labels, registry=self._registry)
            case Kind.LEVEL:
                return Gauge(name, measure.what, labels, registry=self._registry, multiprocess_mode="livesum")
            case Kind.SPREAD:
                return Histogram(name, measure.what, labels, registry=self._registry, buckets=measure.buckets)


def registry_to_serve() -> CollectorRegistry:
    """The process's registry; where ``PROMETHEUS_MULTIPROC_DIR`` is set, one of all processes that share it."""
    if not os.environ.get(MULTIPROCESS_DIR):
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry


def forget_process(pid: int) -> None:
    """Take the calls that a dead process had under way out of the sums; those that it had ended stay in them."""
    if os.environ.get(MULTIPROCESS_DIR):
        mark_process_dead(pid)


def serve_metrics(host: str, port: int) -> int:
    """Serve ``/metrics`` on a listener of its own, from threads, until the process ends.

    To render them takes the longer the more series there are; in these threads, no answer has to wait for that.

    Returns:
        The port; the one that was free, where *port* is 0.

    Raises:
        OSError: The address cannot be bound.
    """
    server, _ = start_http_server(port, host, registry_to_serve())
    return int(server.server_port)
