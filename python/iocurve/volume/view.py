"""Rates of a running volume, from two readings of its counters, as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import asdict
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from iocurve.foundation.units import MIB, SECOND_NS, format_bytes, format_count, format_duration
from iocurve.result.document_file import Json
from iocurve.volume.messages import BucketStats, ClientStats, ConnectionStats, IoStats, ServedExportStats, ServedStats

S = TypeVar("S", bound=IoStats)


class IoRates(msgspec.Struct, frozen=True):
    """The rates between two readings."""

    read_iops: float
    write_iops: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    throttled_mean_ns: int
    """The mean wait of the operations that were throttled."""


Rated = tuple[S, IoRates]
"""The newer counters of an export, a client or a connection, with the rates since the older ones."""


class VolumeRates(msgspec.Struct, frozen=True):
    """The newer counters of a volume, with the rates since the older ones."""

    interval_s: float
    starved_share: float
    """The time for which the most starved thread was ready to run and had no processor, of the interval."""
    stats: ServedStats
    total: IoRates
    exports: Sequence[Rated[ServedExportStats]]
    clients: Sequence[Rated[ClientStats]]
    connections: Sequence[Rated[ConnectionStats]]
    operations_per_s: dict[tuple[str, str], float]
    """NFS operations by version and name, those since the start."""

    def to_builtins(self) -> Json:
        """Counters and rates as one JSON object."""
        return {
            **self.stats.to_builtins(),
            "interval_s": self.interval_s,
            "starved_share": self.starved_share,
            **asdict(self.total),
            "nfs_operations_per_s": {
                f"NFSv{version} {name}": rate for (version, name), rate in self.operations_per_s.items()
            },
            "exports": [one.to_builtins() | asdict(rates) for one, rates in self.exports],
            "clients": [one.to_builtins() | asdict(rates) for one, rates in self.clients],
            "connections": [one.to_builtins() | asdict(rates) for one, rates in self.connections],
        }


def rates(before: ServedStats, after: ServedStats) -> VolumeRates:
    """The rates between two readings. Counters absent from the first reading count from 0."""
    seconds = max(after.uptime_ns - before.uptime_ns, 1) / SECOND_NS
    return VolumeRates(
        interval_s=seconds,
        starved_share=after.starved_share(before),
        stats=after,
        total=_rates(before, after, seconds),
        exports=_rated(before.exports, after.exports, seconds, lambda export: export.path),
        clients=_rated(before.clients, after.clients, seconds, lambda client: client.address),
        connections=_rated(before.connections, after.connections, seconds, lambda connection: connection.id),
        operations_per_s={
            names: (count - before.operations.get(names, 0)) / seconds for names, count in after.operations.items()
        },
    )


def show(read: Callable[[], ServedStats], pause: Callable[[], None], *, watch: bool, as_json: bool) -> None:
    """Prints the rates over a pause; with ``watch`` over one pause after another, until interrupted."""
    intervals = _intervals(read, pause)
    if as_json or not watch:
        for found in intervals:
            if as_json:
                print(json.dumps(found.to_builtins()), flush=True)
            else:
                Console().print(tables(found))
            if not watch:
                return
    with Live(auto_refresh=False) as live:
        for found in intervals:
            live.update(tables(found), refresh=True)


def tables(found: VolumeRates) -> RenderableType:
    """Exports, token buckets, clients and connections as tables."""
    exports = [(one.path, rates) for one, rates in found.exports]
    clients = [(one.address or "other", rates, str(one.connections)) for one, rates in found.clients]
    connections = [(one.peer, rates, str(one.in_flight)) for one, rates in found.connections]
    buckets = _buckets(found)
    by_rate = sorted(found.operations_per_s.items(), key=lambda item: (-item[1], item[0]))
    operations = [
        (name, version, format_count(rate), f"{found.stats.operations[version, name]:,}")
        for (version, name), rate in by_rate
    ]
    return Group(
        *_starved(found),
        _table(("export", "profile", "used", "quota", "limit", "burst credits"), _levels(found.exports)),
        _rates_table("export", exports),
        *([_table(("bucket of", "limit", "level", "capacity", "per second"), buckets)] if buckets else []),
        _rates_table("client", clients, "open"),
        _rates_table("connection", connections, "waiting"),
        *([_table(("NFS operation", "version", "per second", "since the start"), operations)] if operations else []),
    )


# ---- rates


def _intervals(read: Callable[[], ServedStats], pause: Callable[[], None]) -> Iterator[VolumeRates]:
    before = read()
    while True:
        pause()
        after = read()
        yield rates(before, after)
        before = after


_NO_IO = IoStats(reads=0, read_bytes=0, writes=0, write_bytes=0, throttled_operations=0, throttled_ns=0)


def _rated(before: Sequence[S], after: Sequence[S], seconds: float, key: Callable[[S], object]) -> list[Rated[S]]:
    old = {key(part): part for part in before}
    return [(part, _rates(old.get(key(part), _NO_IO), part, seconds)) for part in after]


def _rates(before: IoStats, after: IoStats, seconds: float) -> IoRates:
    throttled = after.throttled_operations - before.throttled_operations
    return IoRates(
        read_iops=(after.reads - before.reads) / seconds,
        write_iops=(after.writes - before.writes) / seconds,
        read_bytes_per_s=(after.read_bytes - before.read_bytes) / seconds,
        write_bytes_per_s=(after.write_bytes - before.write_bytes) / seconds,
        throttled_mean_ns=(after.throttled_ns - before.throttled_ns) // throttled if throttled else 0,
    )


# ---- tables

_RATES = ("read IOPS", "write IOPS", "read MiB/s", "write MiB/s", "mean wait")


STARVED = 0.01
"""Share of the time from which on waiting for processors changes rates that are shown with three digits."""


def _starved(found: VolumeRates) -> Iterator[str]:
    """Warns of a volume whose threads had no processor: its rates are then those of this machine."""
    share, ever = found.starved_share, found.stats.starved_share()
    if max(share, ever) >= STARVED:
        lately = f"{share:.1%} of {found.interval_s:.3g} s"
        yield f"The volume was CPU-starved for {lately}, {ever:.1%} since its start"


def _levels(exports: Sequence[Rated[ServedExportStats]]) -> Iterator[Sequence[str]]:
    for export, _ in exports:
        sizes = (format_bytes(export.used_bytes), format_bytes(export.quota_bytes), export.limits.throughput or "none")
        credits = "none" if export.burst_credits is None else f"{export.burst_credits:,}"
        yield (export.path, export.profile, *sizes, credits)


def _buckets(found: VolumeRates) -> list[Sequence[str]]:
    peers = {one.id: one.peer for one, _ in found.connections}
    return [
        (
            _holder(bucket, export, peers),
            bucket.limit,
            *(f"{amount:,}" for amount in (bucket.level, bucket.capacity, bucket.rate_per_s)),
        )
        for export, _ in found.exports
        for bucket in export.buckets
    ]


def _holder(bucket: BucketStats, export: ServedExportStats, peers: dict[int, str]) -> str:
    """The client, the connection or the export that a bucket belongs to."""
    if bucket.client is not None:
        return bucket.client
    return export.path if bucket.connection is None else peers.get(bucket.connection, "gone")


def _rates_table(name: str, rows: Iterable[tuple[str, IoRates, *tuple[str, ...]]], *more: str) -> Table:
    """A row of rates for each name, with further cells behind them."""
    return _table((name, *_RATES, *more), ((label, *_cells(rates), *others) for label, rates, *others in rows))


def _cells(rates: IoRates) -> tuple[str, ...]:
    return (
        format_count(rates.read_iops),
        format_count(rates.write_iops),
        f"{rates.read_bytes_per_s / MIB:,.1f}",
        f"{rates.write_bytes_per_s / MIB:,.1f}",
        format_duration(rates.throttled_mean_ns),
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
