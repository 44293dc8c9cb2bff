"""The counters of a volume as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from iocurve.foundation.units import SECOND_NS
from iocurve.volume.messages import ExportStats, IoStats, VolumeStats


class VolumeMetrics(Collector):
    """The counters by export and by client. Connections come and go, so they are only counted."""

    def __init__(self, stats: Callable[[], VolumeStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """The metrics now."""
        stats = self._stats()
        yield from _io("export", [(export.path, export) for export in stats.exports])
        yield from _io("client", [(client.address or "other", client) for client in stats.clients])
        yield from _sizes(stats.exports)
        yield from _limits(stats.exports)
        yield from _buckets(stats.exports)
        yield _starved(stats)
        yield from _calls(stats)


def _io(label: str, parts: Iterable[tuple[str, IoStats]]) -> Iterator[Metric]:
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
        f"{prefix}_throttled_seconds",
        f"Total wait of throttled READs and WRITEs, by {label}",
        labels=labels,
        unit="seconds",
    )
    for name, part in parts:
        for operation, count, size in (
            ("read", part.reads, part.read_bytes),
            ("write", part.writes, part.write_bytes),
        ):
            operations.add_metric([name, operation], count)
            data.add_metric([name, operation], size)
        throttled.add_metric([name], part.throttled_operations)
        waited.add_metric([name], part.throttled_ns / SECOND_NS)
    yield from (operations, data, throttled, waited)


def _sizes(exports: Iterable[ExportStats]) -> Iterator[Metric]:
    quota = GaugeMetricFamily("iocurve_volume_quota_bytes", "Size of the export", labels=["export"], unit="bytes")
    used = GaugeMetricFamily("iocurve_volume_used_bytes", "Space used", labels=["export"], unit="bytes")
    for export in exports:
        quota.add_metric([export.path], export.quota_bytes)
        used.add_metric([export.path], export.used_bytes)
    yield from (quota, used)


def _limits(exports: Iterable[ExportStats]) -> Iterator[Metric]:
    limit = GaugeMetricFamily(
        "iocurve_volume_throughput_limit_bytes_per_second",
        "Limit on the bytes read and written per second; absent without a limit",
        labels=["export"],
        unit="bytes_per_second",
    )
    credits = GaugeMetricFamily(
        "iocurve_volume_burst_credits",
        "Burst credits left; each pays for one operation above the baseline",
        labels=["export"],
    )
    for export in exports:
        if (throughput := export.limits.value("throughput_bytes_per_s")) is not None:
            limit.add_metric([export.path], throughput)
        if export.burst_credits is not None:
            credits.add_metric([export.path], export.burst_credits)
    yield from (limit, credits)


def _buckets(exports: Iterable[ExportStats]) -> Iterator[Metric]:
    """The buckets of exports. Those of clients and connections come and go with them."""
    level = GaugeMetricFamily(
        "iocurve_volume_bucket_level",
        "Tokens in the bucket of a limit, in bytes or operations; negative while in debt",
        labels=["export", "limit"],
    )
    capacity = GaugeMetricFamily(
        "iocurve_volume_bucket_capacity", "Most tokens that the bucket of a limit holds", labels=["export", "limit"]
    )
    catch_up = GaugeMetricFamily(
        "iocurve_volume_bucket_catch_up_seconds",
        "Time for which buckets keep what they gain on top of their capacities, because a thread was starved",
        labels=["export"],
        unit="seconds",
    )
    for export in exports:
        for bucket in export.buckets:
            if bucket.client is None and bucket.connection is None:
                level.add_metric([export.path, bucket.limit], bucket.level)
                capacity.add_metric([export.path, bucket.limit], bucket.capacity)
        catch_up.add_metric([export.path], export.catch_up_ns / SECOND_NS)
    yield from (level, capacity, catch_up)


def _starved(stats: VolumeStats) -> Metric:
    starved = CounterMetricFamily(
        "iocurve_volume_thread_starved_seconds",
        "Time for which a thread was ready to run and had no processor, for more than 1/64 s at a time",
        labels=["thread"],
        unit="seconds",
    )
    for number, starved_ns in enumerate(stats.threads_starved_ns):
        starved.add_metric([str(number)], starved_ns / SECOND_NS)
    return starved


def _calls(stats: VolumeStats) -> Iterator[Metric]:
    for name, help_text, value in (
        ("commits", "COMMITs answered", stats.commits),
        ("other_operations", "Other calls answered, of all programs", stats.other_operations),
        ("connections_accepted", "Connections accepted", stats.connections_accepted),
        ("protocol_errors", "Connections closed because the peer broke the protocol", stats.protocol_errors),
        ("connections_refused", "Connections closed at once", stats.connections_refused),
        ("connections_timed_out", "Connections closed for a record not in time", stats.connections_timed_out),
    ):
        yield CounterMetricFamily(f"iocurve_volume_{name}", help_text, value=value)
    operations = CounterMetricFamily(
        "iocurve_volume_nfs_operations",
        "NFSv3 calls by procedure, and operations of NFSv4.1 COMPOUNDs",
        labels=["version", "operation"],
    )
    for names, count in stats.operations.items():
        operations.add_metric(names, count)
    yield operations
    yield GaugeMetricFamily(
        "iocurve_volume_connection_memory_bytes",
        "Memory for records in part, replies not taken and calls that wait",
        value=stats.connection_memory_bytes,
    )
    state = GaugeMetricFamily(
        "iocurve_volume_nfs4_state",
        "State of NFSv4.1 clients: clients, slots of sessions, opens and lock owners (states), locked ranges",
        labels=["kind"],
    )
    for kind, amount in stats.nfs4.to_builtins().items():
        state.add_metric([kind], amount)
    yield state
    yield GaugeMetricFamily("iocurve_volume_connections", "Open connections", value=len(stats.connections))
    in_flight = sum(connection.in_flight for connection in stats.connections)
    yield GaugeMetricFamily(
        "iocurve_volume_requests_in_flight", "Requests that wait for a limit or latency", value=in_flight
    )
