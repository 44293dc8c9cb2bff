"""Measurements of other tools: the figures that a tool states, and nothing else.

A point that was imported has neither plan nor outcome. A figure that the tool does not state is None here, and NaN in
the summary that reports are made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import asdict

from iocurve._native import Histogram
from iocurve.engine.outcome import State
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import SECOND_NS
from iocurve.result.summary import UNKNOWN, Latency, SeriesInterval, Summary, Totals, merge_histograms, moments


class ImportedLatency(Struct):
    """A latency distribution as a tool states it."""

    count: int | None = None
    min_ns: float | None = None
    mean_ns: float | None = None
    stddev_ns: float | None = None
    max_ns: float | None = None
    percentiles: dict[str, float] = {}
    """Nanoseconds by percent: ``{"99.9": 1200.0}``."""
    histogram: str | None = None
    """Made from the tool's bins, whose width it keeps; in the form of ``LatencyOutcome.histogram``."""


class ImportedKind(Struct):
    """One kind of operation, or all kinds that move data together."""

    operations: int | None = None
    bytes: int | None = None
    errors: int | None = None
    iops: float | None = None
    bytes_per_s: float | None = None
    latency: ImportedLatency = ImportedLatency()


class ImportedJob(Struct):
    """A job, a workload or a thread of the point, as far as the tool reports it apart."""

    name: str
    kinds: dict[str, ImportedKind]


class ImportedInterval(Struct):
    """One interval of the time series of one kind."""

    start_ns: int
    end_ns: int
    kind: str
    iops: float | None = None
    bytes_per_s: float | None = None
    mean_ns: float | None = None
    max_ns: float | None = None


class ImportFacts(Struct):
    """A measurement of another tool."""

    tool: str
    """Name and version as the file tells them: ``fio 3.33``."""
    source: str
    """The file or directory."""
    load: str
    """The load in words: ``4 KiB random reads``."""
    in_bytes: bool = False
    """The load is counted in MiB/s, as sequential loads and those of large blocks are."""
    state: State = "finished"
    errors_text: tuple[str, ...] = ()
    """Errors that the tool reports."""
    window_ns: int | None = None
    """Time that rates are over."""
    depth: float | None = None
    """Operations in flight that the load requests, all jobs together."""
    workers: int | None = None
    """Threads, processes or workers of the load."""
    cpu_ns_per_operation: float | None = None
    total: ImportedKind
    """All kinds that move data together."""
    kinds: dict[str, ImportedKind]
    jobs: tuple[ImportedJob, ...] = ()
    """The jobs where there are several."""
    command: str | None = None
    """A command line of the tool with the same load; None where the file does not state all options."""
    intervals: tuple[ImportedInterval, ...] = ()
    """The time series, if the tool wrote one."""

    def summary(self, name: str) -> Summary:
        """The figures as a summary, in which an unknown latency, depth or rate is NaN."""
        return self._summary(name, self.total, self.kinds)

    def job_summaries(self, name: str) -> list[Summary]:
        """The summary of each job; that of the whole point where the jobs are not reported apart."""
        found = [self._summary(job.name, together(list(job.kinds.values())), job.kinds) for job in self.jobs]
        return [*found] or [self.summary(name)]

    def _summary(self, name: str, total: ImportedKind, kinds: Mapping[str, ImportedKind]) -> Summary:
        return Summary(
            **asdict(_totals(total)),
            name=name,
            workers=self.workers or 0,
            state=self.state,
            errors_text=self.errors_text,
            kinds={kind: _totals(kinds[kind]) for kind in sorted(kinds)},
            window_ns=self.window_ns or 0,
            overlap_ns=self.window_ns or 0,
            depth_requested=_known(self.depth),
            cpu_us_per_operation=None if self.cpu_ns_per_operation is None else self.cpu_ns_per_operation / 1000,
        )

    def series(self) -> list[SeriesInterval]:
        """The time series, one entry for each interval and kind."""
        starts = sorted({interval.start_ns for interval in self.intervals})
        return [
            SeriesInterval(
                group=0,
                index=starts.index(interval.start_ns),
                ramp=False,
                start_ns=interval.start_ns,
                end_ns=interval.end_ns,
                kind=interval.kind,
                iops=_known(interval.iops),
                bytes_per_s=_known(interval.bytes_per_s),
                mean_ns=_known(interval.mean_ns),
                max_ns=_known(interval.max_ns),
            )
            for interval in sorted(self.intervals, key=lambda one: (one.start_ns, one.kind))
        ]


def _known(value: float | None) -> float:
    return UNKNOWN if value is None else value


def _totals(kind: ImportedKind) -> Totals:
    return Totals(
        operations=kind.operations or 0,
        bytes=kind.bytes or 0,
        errors=kind.errors or 0,
        iops=_known(kind.iops),
        bytes_per_s=_known(kind.bytes_per_s),
        overlap_iops=UNKNOWN,
        overlap_bytes_per_s=UNKNOWN,
        service=_latency(kind.latency),
    )


def _latency(stated: ImportedLatency) -> Latency:
    return Latency(
        count=stated.count or 0,
        min_ns=_known(stated.min_ns),
        max_ns=_known(stated.max_ns),
        mean_ns=_known(stated.mean_ns),
        stddev_ns=_known(stated.stddev_ns),
        histogram=Histogram.decode(stated.histogram) if stated.histogram else None,
        stated={float(percent): value for percent, value in stated.percentiles.items()},
    )


def unstated(kind: ImportedKind) -> dict[str, None]:
    """The counts that the tool does not state, by their names in ``figures``; imports state none but these."""
    stated = {"operations": kind.operations, "bytes": kind.bytes, "errors": kind.errors}
    never: dict[str, None] = dict.fromkeys(("short", "drained", "unfinished", "missed"))
    return never | {name: None for name, value in stated.items() if value is None}


# ---- merging what a tool states apart


def together(parts: Sequence[ImportedKind]) -> ImportedKind:
    """Merges kinds, or jobs of a kind. A figure is known where each part states it.

    Percentiles cannot be merged: those of several parts come from their histograms, and are unknown without them.
    """
    ran = [part for part in parts if part.operations != 0]
    if len(ran) == 1:
        return ran[0]
    return ImportedKind(
        operations=_sum(part.operations for part in parts),
        bytes=_sum(part.bytes for part in parts),
        errors=_sum(part.errors for part in parts),
        iops=_sum(part.iops for part in parts),
        bytes_per_s=_sum(part.bytes_per_s for part in parts),
        latency=_latencies_together([part.latency for part in ran]),
    )


def total_of(kinds: Mapping[str, ImportedKind]) -> ImportedKind:
    """All kinds but flushes, which move no data."""
    return together([kind for name, kind in kinds.items() if name not in FLUSH_KINDS])


def _latencies_together(parts: Sequence[ImportedLatency]) -> ImportedLatency:
    counts, means = _all_known(part.count for part in parts), _all_known(part.mean_ns for part in parts)
    deviations = _all_known(part.stddev_ns for part in parts)
    mean_ns = stddev_ns = None
    if sum(counts) and means:
        mean_ns, stddev_ns = moments(list(zip(counts, means, deviations or [0.0] * len(means), strict=True)))
    histograms = _all_known(part.histogram for part in parts)
    return ImportedLatency(
        count=_sum(part.count for part in parts),
        min_ns=min(_all_known(part.min_ns for part in parts), default=None),
        mean_ns=mean_ns,
        stddev_ns=stddev_ns if deviations else None,
        max_ns=max(_all_known(part.max_ns for part in parts), default=None),
        histogram=merge_histograms(histograms).encode() if histograms else None,
    )


Known = TypeVar("Known")
Number = TypeVar("Number", int, float)


def _all_known(values: Iterable[Known | None]) -> list[Known]:
    """The values, if all are known."""
    several = list(values)
    found = [value for value in several if value is not None]
    return found if len(found) == len(several) else []


def _sum(values: Iterable[Number | None]) -> Number | None:
    found = _all_known(values)
    return sum(found) if found else None


_COUNT_MAX = 1 << 53
_LATENCY_MAX_NS = 3600 * SECOND_NS


def histogram_of(counts: Mapping[int, int]) -> str | None:
    """A histogram with ``counts`` operations at each latency in ns; None without operations.

    Latencies count as those that a histogram holds: from 1 ns to one hour.
    """
    counts = {latency_ns: count for latency_ns, count in counts.items() if 0 < count <= _COUNT_MAX}
    if not counts:
        return None
    made = Histogram()
    # Horner's rule over the bits of the counts: doubling the histogram costs the same however many operations it has.
    for bit in reversed(range(max(counts.values()).bit_length())):
        made.add(Histogram.decode(made.encode()))
        for latency_ns, count in counts.items():
            if count >> bit & 1:
                made.record(min(max(1, latency_ns), _LATENCY_MAX_NS))
    return made.encode()
