"""The counters of a volume as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from iocurve.foundation.units import SECOND_NS
from iocurve.result.openmetrics import Samples, counter, gauge
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
        yield from _exports(stats.exports)
        for name, about, labels, samples in _whole(stats):
            yield counter(f"iocurve_volume_{name}", about, labels, samples)
        yield GaugeMetricFamily(
            "iocurve_volume_connection_memory_bytes",
            "Memory for records in part, replies not taken and calls that wait",
            value=stats.connection_memory_bytes,
        )
        yield gauge(
            "iocurve_volume_nfs4_state",
            "State of NFSv4.1 clients: clients, slots of sessions, opens and lock owners (states), locked ranges",
            ["kind"],
            [([kind], amount) for kind, amount in stats.nfs4.items()],
        )
        yield gauge("iocurve_volume_connections", "Open connections", [], [([], len(stats.connections))])
        in_flight = sum(connection.in_flight for connection in stats.connections)
        about = "Requests that wait for a limit or latency"
        yield gauge("iocurve_volume_requests_in_flight", about, [], [([], in_flight)])


def _io(label: str, parts: Sequence[tuple[str, IoStats]]) -> Iterator[Metric]:
    done = [
        ([name, operation], count, size)
        for name, part in parts
        for operation, count, size in (("read", part.reads, part.read_bytes), ("write", part.writes, part.write_bytes))
    ]
    waits = [([name], part.throttled_operations, part.throttled_ns / SECOND_NS) for name, part in parts]
    by_kind, total = [label, "operation"], [label]
    rows: list[tuple[str, str, list[str], Samples]] = [
        ("operations", "READs and WRITEs answered", by_kind, [(of, count) for of, count, _ in done]),
        ("data_bytes", "Bytes of data read and written", by_kind, [(of, size) for of, _, size in done]),
        (
            "throttled_operations",
            "READs and WRITEs that waited for a limit or latency",
            total,
            [(of, count) for of, count, _ in waits],
        ),
        ("throttled_seconds", "Total wait of throttled READs and WRITEs", total, [(of, time) for of, _, time in waits]),
    ]
    for name, about, labels, samples in rows:
        yield counter(f"iocurve_volume_{label}_{name}", f"{about}, by {label}", labels, samples)


def _exports(exports: Sequence[ExportStats]) -> Iterator[Metric]:
    """Sizes, limits and buckets of exports. The buckets of clients and connections come and go with them."""
    buckets = [
        ([export.path, bucket.limit], bucket)
        for export in exports
        for bucket in export.buckets
        if bucket.client is None and bucket.connection is None
    ]
    rows: list[tuple[str, str, Samples]] = [
        ("quota_bytes", "Size of the export", [([one.path], one.quota_bytes) for one in exports]),
        ("used_bytes", "Space used", [([one.path], one.used_bytes) for one in exports]),
        (
            "throughput_limit_bytes_per_second",
            "Limit on the bytes read and written per second; absent without a limit",
            [([one.path], one.limits.value("throughput_bytes_per_s")) for one in exports],
        ),
        (
            "burst_credits",
            "Burst credits left; each pays for one operation above the baseline",
            [([one.path], one.burst_credits) for one in exports],
        ),
        (
            "bucket_level",
            "Tokens in the bucket of a limit, in bytes or operations; negative while in debt",
            [(labels, bucket.level) for labels, bucket in buckets],
        ),
        (
            "bucket_capacity",
            "Most tokens that the bucket of a limit holds",
            [(labels, bucket.capacity) for labels, bucket in buckets],
        ),
        (
            "bucket_catch_up_seconds",
            "Time for which buckets keep what they gain on top of their capacities, because a thread was starved",
            [([one.path], one.catch_up_ns / SECOND_NS) for one in exports],
        ),
    ]
    for name, about, samples in rows:
        labels = ["export", "limit"] if name in ("bucket_level", "bucket_capacity") else ["export"]
        yield gauge(f"iocurve_volume_{name}", about, labels, samples)


def _whole(stats: VolumeStats) -> Iterator[tuple[str, str, list[str], Samples]]:
    """The counters of the volume: name, meaning, labels and samples."""
    yield (
        "thread_starved_seconds",
        "Time for which a thread was ready to run and had no processor, for more than 1/64 s at a time",
        ["thread"],
        [([str(number)], starved_ns / SECOND_NS) for number, starved_ns in enumerate(stats.threads_starved_ns)],
    )
    for name, about, value in (
        ("commits", "COMMITs answered", stats.commits),
        ("other_operations", "Other calls answered, of all programs", stats.other_operations),
        ("connections_accepted", "Connections accepted", stats.connections_accepted),
        ("protocol_errors", "Connections closed because the peer broke the protocol", stats.protocol_errors),
        ("connections_refused", "Connections closed at once", stats.connections_refused),
        ("connections_timed_out", "Connections closed for a record not in time", stats.connections_timed_out),
    ):
        yield name, about, [], [([], value)]
    yield (
        "nfs_operations",
        "NFSv3 calls by procedure, and operations of NFSv4.1 COMPOUNDs",
        ["version", "operation"],
        list(stats.operations.items()),
    )
