"""Metrics in OpenMetrics text format, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from iocurve.foundation.errors import TargetError, option
from iocurve.foundation.serving import http_served

Samples = Iterable[tuple[Sequence[str], float | None]]
"""The values of the labels and the value of each sample; one that is not known (None) is left out."""
_UNITS = ("bytes_per_second", "bytes", "seconds")


def gauge(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    """A gauge. Its unit is at the end of its name."""
    return _filled(GaugeMetricFamily(name, about, labels=labels, unit=unit_of(name)), samples)


def counter(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    """A counter. Its unit is at the end of its name."""
    return _filled(CounterMetricFamily(name, about, labels=labels, unit=unit_of(name)), samples)


def unit_of(name: str) -> str:
    """The unit at the end of a name; empty without one."""
    return next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    return family


def text(metrics: Collector) -> bytes:
    """The metrics in OpenMetrics text format."""
    registry = CollectorRegistry()
    registry.register(metrics)
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library has no types here
    return written


# Not prometheus_client's server: it chooses the format by the Accept header, answers on every path, and a silent peer
# blocks its thread for ever.
@contextmanager
def metrics_server(metrics: Collector, address: str, port: int) -> Iterator[str]:
    """Answers ``GET /metrics`` while the context lasts; yields the URL. Raises ``TargetError``."""
    with ExitStack() as stack:
        try:
            served = http_served(lambda path: _answer(metrics, path), address, port)
            url = stack.enter_context(served)
        except OSError as error:
            raise TargetError(f"{option('metrics')} {port}: cannot listen on {address}: {error.strerror}") from None
        yield f"{url}metrics"


def _answer(metrics: Collector, path: str) -> tuple[str, list[bytes]] | None:
    return (CONTENT_TYPE_LATEST, [text(metrics)]) if path == "/metrics" else None
