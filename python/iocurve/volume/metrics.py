"""A volume's figures in OpenMetrics text format, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from iocurve.errors import TargetError
from iocurve.units import SECOND_NS

_OPERATIONS = (("read", "reads", "read_bytes"), ("write", "writes", "write_bytes"))
_BY = (("export", "exports", "path"), ("client", "clients", "address"))


class VolumeMetrics(Collector):
    """What ``iocurve volume stats`` shows, by export and by client; connections come and go and are only counted."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """The metrics now."""
        stats = self._stats()
        for label, group, name in _BY:
            yield from _io(label, [(str(part[name] or "other"), part) for part in stats[group]])
        yield from _exports(stats["exports"])
        yield from _calls(stats)


def text(metrics: VolumeMetrics) -> bytes:
    """The metrics in OpenMetrics text format."""
    registry = CollectorRegistry()
    registry.register(metrics)
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library has no types here
    return written


@contextmanager
def served(metrics: VolumeMetrics, address: str, port: int) -> Iterator[str]:
    """Answers ``GET /metrics`` while the context lasts; gives the URL. Raises ``TargetError``."""
    try:
        server = ThreadingHTTPServer((address, port), _handler(metrics))
    except OSError as error:
        raise TargetError(f"--metrics {port}: cannot listen on {address}: {error.strerror}") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield f"http://{address}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def _io(label: str, parts: list[tuple[str, dict[str, Any]]]) -> Iterator[Metric]:
    prefix, labels = f"iocurve_volume_{label}", [label]
    operations = CounterMetricFamily(
        f"{prefix}_operations", f"READs and WRITEs answered, by {label}", labels=[*labels, "operation"]
    )
    data = CounterMetricFamily(
        f"{prefix}_data_bytes",
        f"Bytes of data read and written, by {label}",
        labels=[*labels, "operation"],
        unit="bytes",
    )
    throttled = CounterMetricFamily(
        f"{prefix}_throttled_operations",
        f"READs and WRITEs that waited for a limit or latency, by {label}",
        labels=labels,
    )
    waited = CounterMetricFamily(
        f"{prefix}_throttled_seconds", f"How long they waited, together, by {label}", labels=labels, unit="seconds"
    )
    for name, part in parts:
        for operation, count, size in _OPERATIONS:
            operations.add_metric([name, operation], part[count])
            data.add_metric([name, operation], part[size])
        throttled.add_metric([name], part["throttled_operations"])
        waited.add_metric([name], part["throttled_ns"] / SECOND_NS)
    yield from (operations, data, throttled, waited)


def _exports(exports: list[dict[str, Any]]) -> Iterator[Metric]:
    quota = GaugeMetricFamily("iocurve_volume_quota_bytes", "Size of the export", labels=["export"], unit="bytes")
    used = GaugeMetricFamily("iocurve_volume_used_bytes", "Used of the quota", labels=["export"], unit="bytes")
    limit = GaugeMetricFamily(
        "iocurve_volume_throughput_limit_bytes_per_second",
        "Most bytes read and written a second; absent without a limit",
        labels=["export"],
        unit="bytes_per_second",
    )
    credits = GaugeMetricFamily(
        "iocurve_volume_burst_credits", "Operations that can still be had beyond the baseline", labels=["export"]
    )
    level = GaugeMetricFamily(
        "iocurve_volume_bucket_level",
        "Bytes or operations that a limit's token bucket lets through at once; negative if owed",
        labels=["export", "limit"],
    )
    capacity = GaugeMetricFamily(
        "iocurve_volume_bucket_capacity", "The most that the token bucket saves up", labels=["export", "limit"]
    )
    for export in exports:
        quota.add_metric([export["path"]], export["quota_bytes"])
        used.add_metric([export["path"]], export["used_bytes"])
        if (most := export["limits"]["throughput_bytes_per_s"]) is not None:
            limit.add_metric([export["path"]], most)
        if (left := export["burst_credits"]) is not None:
            credits.add_metric([export["path"]], left)
        for bucket in export["buckets"]:
            # Clients and connections come and go, and are not told apart here.
            if bucket["client"] is None and bucket["connection"] is None:
                level.add_metric([export["path"], bucket["limit"]], bucket["level"])
                capacity.add_metric([export["path"], bucket["limit"]], bucket["capacity"])
    yield from (quota, used, limit, credits, level, capacity)


def _calls(stats: dict[str, Any]) -> Iterator[Metric]:
    for name, help_text in (
        ("commits", "COMMITs answered"),
        ("other_operations", "Other calls answered, of all programs"),
        ("connections_accepted", "Connections accepted"),
        ("protocol_errors", "Connections closed because the peer broke the protocol"),
    ):
        yield CounterMetricFamily(f"iocurve_volume_{name}", help_text, value=stats[name])
    yield GaugeMetricFamily("iocurve_volume_connections", "Open connections", value=len(stats["connections"]))
    in_flight = sum(connection["in_flight"] for connection in stats["connections"])
    yield GaugeMetricFamily(
        "iocurve_volume_requests_in_flight", "Requests that wait for a limit or latency", value=in_flight
    )


def _handler(metrics: VolumeMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "There is only /metrics")
                return
            body = text(metrics)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Who asks is nobody's news."""

    return Handler
