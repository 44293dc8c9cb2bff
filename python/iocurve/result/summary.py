"""Merges workers into groups and whole points; no other module does.

Rates are over the time in which at least one of the workers ran, which is fio's run time where they start together;
those over the time in which all ran are called ``overlap_iops``. Percentiles come from merged histograms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from iocurve._native import Histogram
from iocurve.engine import plan as planned
from iocurve.engine.derived import cpu_share, measured_ns
from iocurve.engine.outcome import (
    CpuTime,
    IntervalKind,
    IntervalOutcome,
    KindOutcome,
    LatencyOutcome,
    State,
    WorkerOutcome,
)
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB, SECOND_NS

UNKNOWN = math.nan
"""A value that an imported result does not state."""
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""Percentiles in tables and records; ``Latency.percentile`` computes any other."""


class Latency(msgspec.Struct, frozen=True):
    """Merged latencies. Percentiles come from the merged histogram, never from other percentiles.

    A value that an imported result does not state is NaN.
    """

    count: int
    min_ns: float
    max_ns: float
    mean_ns: float
    stddev_ns: float
    histogram: Histogram | None
    """None if nothing was recorded."""
    stated: Mapping[float, float] | None = None
    """The percentiles that a tool states, in ns; None of latencies that iocurve measured."""

    def percentile(self, percent: float) -> float:
        """Latency in ns that ``percent`` of all operations did not exceed; 0 if nothing was recorded."""
        if self.stated and percent in self.stated:
            return self.stated[percent]
        if self.histogram is None:
            return 0 if self.stated is None else UNKNOWN
        return min(max(self.histogram.percentile(percent), self.min_ns), self.max_ns)

    @property
    def percentiles(self) -> dict[float, float]:
        """The percentiles of ``PERCENTILES``, in nanoseconds."""
        return {percent: self.percentile(percent) for percent in PERCENTILES}

    @property
    def variation(self) -> float:
        """Squared coefficient of variation."""
        return (self.stddev_ns / self.mean_ns) ** 2 if self.mean_ns else 0.0

    def merged(self, other: Latency) -> Latency:
        """Both together, of measured latencies."""
        both = (self, other)
        mean, stddev = moments([(one.count, one.mean_ns, one.stddev_ns) for one in both])
        merged = Histogram()
        for one in both:
            if one.histogram:
                merged.add(one.histogram)
        smallest, largest = min(one.min_ns for one in both), max(one.max_ns for one in both)
        return Latency(self.count + other.count, smallest, largest, mean, stddev, merged)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of one kind, or of all kinds together."""

    operations: int
    """Operations in the measured windows of all workers."""
    bytes: int
    entries: int = 0
    """Entries of the directories that were listed."""
    errors: int
    short: int = 0
    drained: int = 0
    """Operations that were submitted in a window and completed after it: in the latencies, not in ``operations``."""
    unfinished: int = 0
    """Operations that never completed: in the latencies with the age that they reached, a lower bound."""
    missed: int = 0
    """Operations that were due in a window and never submitted: in the response latency with their age, likewise."""
    iops: float
    """Rate over the time in which at least one of the workers that do these operations ran."""
    bytes_per_s: float
    overlap_iops: float
    """Rate over the time in which all workers ran; 0 where they never did."""
    overlap_bytes_per_s: float
    service: Latency
    """From submission to completion."""
    response: Latency | None = None
    """From due time to completion, under a rate; None in a closed loop, where it equals the service latency."""

    @property
    def mib_per_s(self) -> float:
        """Throughput over the time of ``iops``."""
        return self.bytes_per_s / MIB

    @property
    def entries_per_s(self) -> float:
        """Entries that were listed per second, over the time of ``iops``."""
        return self.iops * self.entries / self.operations if self.operations else 0.0

    @property
    def latency(self) -> Latency:
        """The latency that a user of the volume sees: response latency under a rate, otherwise service latency."""
        return self.response or self.service


class Summary(Totals, frozen=True, kw_only=True):
    """Several workers, merged; its ``Totals`` are of all kinds except flushes, which move no data."""

    name: str
    workers: int
    state: State
    errors_text: tuple[str, ...]
    """The errors of failed workers, each once."""
    kinds: dict[str, Totals]
    """Totals by kind, in alphabetical order."""
    window_ns: int
    """Time in which at least one worker ran, which rates are over. With several groups, the sum of theirs."""
    overlap_ns: int
    """Time in which all workers of a group ran; likewise."""
    depth_requested: float
    """Operations in flight that the plan requests of the workers that run: the mean over ``window_ns``."""
    paced: bool = False
    """A rate limits the load, so that the depth is a maximum and not a target."""
    cpu_us_per_operation: float | None
    """User and system time of the workers' threads per operation; None without operations, or if not known."""
    cpu_share_max: float = 0.0
    """Share of one processor used by the busiest worker."""
    reconnects: int = 0
    labels: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    """Descriptions of the engines."""

    @property
    def skew_ns(self) -> int:
        """Time in which some workers ran but not all."""
        return self.window_ns - self.overlap_ns

    @property
    def concurrency_achieved(self) -> float:
        """Operations in flight on average: IOPS x mean latency (Little's law).

        Operations that were submitted before the window count with their whole latency, which takes the product a
        little above the depth; the depth is a bound.
        """
        return min(self.iops * self.service.mean_ns / SECOND_NS, self.depth_requested)


def summarise(name: str, plan: planned.Plan, workers: Sequence[WorkerOutcome]) -> Summary:
    """Merges workers of one plan."""
    phases = _phases(workers)
    names = sorted({kind for worker in workers for kind in worker.operations})
    plans = [plan.groups[worker.group].workers[worker.worker] for worker in workers]
    totals = _totals([kind for kind in names if kind not in planned.FLUSH_KINDS], phases)
    cpu_ns = sum(worker.cpu.user_ns + worker.cpu.system_ns for worker in workers)
    return Summary(
        **asdict(totals),
        name=name,
        workers=len(workers),
        state=worst(worker.state for worker in workers),
        errors_text=tuple(dict.fromkeys(worker.error for worker in workers if worker.error)),
        kinds={kind: _totals([kind], phases) for kind in names},
        window_ns=sum(busy_ns(phase.workers) for phase in phases),
        overlap_ns=sum(phase.overlap_ns for phase in phases),
        depth_requested=_depth_requested(plan, phases),
        paced=any(worker.rate or any(operation.rate for operation in worker.operations) for worker in plans),
        cpu_us_per_operation=cpu_ns / 1000 / totals.operations if totals.operations else None,
        cpu_share_max=max((cpu_share(worker) for worker in workers), default=0.0),
        reconnects=sum(worker.reconnects for worker in workers),
        labels=tuple(sorted({label for worker in workers for label in worker.labels})),
        engines=tuple(dict.fromkeys(worker.engine for worker in workers)),
    )


INTERVAL_COUNTS = ("operations", "bytes", "errors", "late", "entries")
"""Counts of ``IntervalKind``; ..."""
TOTAL_COUNTS = ("operations", "bytes", "entries", "errors", "short", "drained", "unfinished", "missed")
"""... of ``Totals``; ..."""
KIND_COUNTS = (*TOTAL_COUNTS, "drained_bytes", "late")
"""... of ``KindOutcome``."""


def added(parts: Iterable[Struct], names: Iterable[str]) -> dict[str, int]:
    """The sum over several records of each of their counts that is named."""
    several = list(parts)
    return {name: sum(getattr(part, name) for part in several) for name in names}


def together(several: Iterable[IntervalKind]) -> IntervalKind:
    """Adds the operations of kinds, workers or intervals: exact, but those of several parts have no percentiles."""
    parts = list(several)
    if len(parts) == 1:
        return parts[0]
    mean, stddev = moments([(part.operations, part.mean_ns, part.stddev_ns) for part in parts])
    return IntervalKind(
        **added(parts, INTERVAL_COUNTS),
        mean_ns=mean,
        stddev_ns=stddev,
        p50_ns=None,
        p99_ns=None,
        min_ns=min((part.min_ns for part in parts if part.operations), default=0),
        max_ns=max((part.max_ns for part in parts), default=0),
    )


class Spread(msgspec.Struct, frozen=True):
    """Statistics of the values of a series."""

    smallest: float = 0.0
    largest: float = 0.0
    mean: float = 0.0
    stddev: float = 0.0
    """Standard deviation of the population."""
    count: int = 0

    @classmethod
    def of(cls, values: Sequence[float], weights: Sequence[float] | None = None) -> Spread:
        """Statistics of ``values``; all 0 if there are none. ``weights`` says how much each counts."""
        if not values:
            return cls()
        times = weights or [1] * len(values)
        mean, stddev = moments([(number, value, 0.0) for number, value in zip(times, values, strict=True)])
        return cls(min(values), max(values), mean, stddev, len(values))

    def __add__(self, other: Spread) -> Spread:
        """Statistics of the sum of two independent series."""
        return Spread(
            self.smallest + other.smallest,
            self.largest + other.largest,
            self.mean + other.mean,
            math.hypot(self.stddev, other.stddev),
            self.count + other.count,
        )

    def scaled(self, factor: float) -> Spread:
        """Statistics of the values in another unit."""
        return Spread(
            self.smallest * factor, self.largest * factor, self.mean * factor, self.stddev * factor, self.count
        )


class MergedOperations(msgspec.Struct, frozen=True, dict=True):
    """Operations of some kinds of some workers, merged; each value is computed when it is first read.

    Every output of a dialect is made from views, with the dialect's own rules for rates.
    """

    workers: Sequence[WorkerOutcome]
    kinds: Sequence[str]

    @property
    def users(self) -> list[WorkerOutcome]:
        """The workers that do operations of these kinds."""
        return _users(self.workers, self.kinds)

    @cached_property
    def parts(self) -> Sequence[KindOutcome]:
        """Each kind of each worker."""
        return [worker.operations[kind] for worker in self.workers for kind in self.kinds if kind in worker.operations]

    @property
    def operations(self) -> int:
        """Operations in the measured windows."""
        return sum(part.operations for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes moved in the measured windows."""
        return sum(part.bytes for part in self.parts)

    @property
    def short(self) -> int:
        """Operations that moved fewer bytes than requested."""
        return sum(part.short for part in self.parts)

    @cached_property
    def service(self) -> Latency:
        """From submission to completion."""
        return merge_latencies(part.service for part in self.parts)

    @cached_property
    def submission(self) -> Latency:
        """From submission to sending; empty unless it was measured."""
        return merge_latencies(part.submission for part in self.parts if part.submission)

    @cached_property
    def completion(self) -> Latency:
        """From sending to completion; the service latency where submission latency was not measured."""
        return merge_latencies(part.completion or part.service for part in self.parts)

    @cached_property
    def response(self) -> Latency | None:
        """From due time to completion, of the paced operations; None if none is paced."""
        paced = [part.response for part in self.parts if part.response]
        return merge_latencies(paced) if paced else None

    def spread(self, quantity: Literal["operations", "bytes"], interval_ns: int) -> Spread:
        """Statistics of a rate per second over the intervals of each worker, summed over the workers.

        Joined intervals count by their time, and each of them as a value.
        """
        return sum((self._rates(worker, quantity, interval_ns) for worker in self.users), Spread())

    def _rates(self, worker: WorkerOutcome, quantity: str, interval_ns: int) -> Spread:
        counted = [each for each in worker.intervals if not each.ramp and each.end_ns > each.start_ns]
        # The end cuts the last interval short. Less than half an interval is too noisy to count.
        whole = [each for each in counted if each.end_ns - each.start_ns >= interval_ns // 2] or counted
        rates = [
            math.fsum(
                getattr(each.operations[kind], quantity) * SECOND_NS / (each.end_ns - each.start_ns)
                for kind in self.kinds
                if kind in each.operations
            )
            for each in whole
        ]
        weights = [1.0 if each.joined == 1 else (each.end_ns - each.start_ns) / interval_ns for each in whole]
        return replace(Spread.of(rates, weights), count=sum(each.joined for each in whole))

    @property
    def cpu(self) -> CpuTime:
        """CPU time, context switches and page faults of the workers."""
        return merge_cpu([worker.cpu for worker in self.workers])

    def levels(self, name: Literal["depth_levels", "submit_levels", "complete_levels"]) -> dict[str, int]:
        """A field of the workers that counts by level."""
        return add_counts([getattr(worker, name) for worker in self.workers])


def unwritten_reads(workers: Iterable[WorkerOutcome]) -> tuple[float, float, int]:
    """Merges the counts of reads of what was never written; shares are 0 where nothing was found or examined.

    The share of the bytes of the files that holds no data (holes, and space that is only allocated), the share of the
    sampled reads that were blocks of zeros, and the number of sampled reads.
    """
    counters = add_counts([worker.counters for worker in workers if "read" in worker.operations])
    unwritten, sampled = counters.get("unwritten_bytes", 0), counters.get("sampled_reads", 0)
    return (
        unwritten / max(unwritten, counters["file_bytes"]) if unwritten else 0.0,
        counters.get("zero_reads", 0) / sampled if sampled else 0.0,
        sampled,
    )


class SeriesInterval(msgspec.Struct, frozen=True):
    """One kind of operation in one interval of the time series, workers merged; no kind: all together."""

    group: int
    index: int
    ramp: bool
    start_ns: int
    """Since the group's start."""
    end_ns: int
    kind: str
    iops: float
    bytes_per_s: float
    mean_ns: float
    """NaN where nothing completed; an imported result may not state it either."""
    max_ns: float
    errors: int = 0
    p50_ns: float | None = None
    """Median service latency; None where it is not known, as of intervals that were joined without their histograms."""
    p99_ns: float | None = None
    """99th percentile, likewise."""
    joined: int = 1
    """Number of intervals of the run that it covers."""

    @property
    def length_ns(self) -> int:
        """From the first start to the last end among the workers."""
        return self.end_ns - self.start_ns

    def record(self) -> dict[str, int | float | str | None]:
        """The interval under the names of figures; times are seconds since the start of its group."""
        return {
            "group": self.group,
            "kind": self.kind,
            "ramp": self.ramp,
            "start_s": self.start_ns / SECOND_NS,
            "end_s": self.end_ns / SECOND_NS,
            "iops": _known(self.iops),
            "mib_per_s": _known(self.bytes_per_s, MIB),
            "errors": self.errors,
            "mean_us": _known(self.mean_ns, 1000),
            "p50_us": _known(self.p50_ns, 1000),
            "p99_us": _known(self.p99_ns, 1000),
            "max_us": _known(self.max_ns, 1000),
        }


def _known(value: float | None, unit: int = 1) -> float | None:
    """None for what an imported result does not state."""
    return None if value is None or math.isnan(value) else value / unit


class _Phase(msgspec.Struct, frozen=True):
    """The workers of a group, which start together, and the window in which all ran."""

    workers: tuple[WorkerOutcome, ...]
    start_ns: int
    end_ns: int

    @property
    def overlap_ns(self) -> int:
        return self.end_ns - self.start_ns


def _phases(workers: Iterable[WorkerOutcome]) -> list[_Phase]:
    groups: dict[int, list[WorkerOutcome]] = {}
    for worker in workers:
        groups.setdefault(worker.group, []).append(worker)
    return [_phase(group) for group in groups.values()]


def _phase(workers: Sequence[WorkerOutcome]) -> _Phase:
    # A worker that failed before its window opened does not shorten the window of the others.
    ran = [worker for worker in workers if measured_ns(worker)]
    start_ns = max((worker.window_start_ns for worker in ran), default=0)
    end_ns = min((worker.window_end_ns for worker in ran), default=0)
    return _Phase(tuple(workers), start_ns, max(start_ns, end_ns))


def busy_ns(workers: Iterable[WorkerOutcome]) -> int:
    """Time in which at least one worker of a group was in its measured window."""
    total_ns = end_ns = 0
    for start_ns, last_ns in sorted((worker.window_start_ns, worker.window_end_ns) for worker in workers):
        total_ns += max(0, last_ns - max(start_ns, end_ns))
        end_ns = max(end_ns, last_ns)
    return total_ns


def _totals(kinds: Sequence[str], phases: Sequence[_Phase]) -> Totals:
    seen = MergedOperations([worker for phase in phases for worker in phase.workers], kinds)
    within = [_counted(worker, kind, phase) for phase in phases for worker in phase.workers for kind in kinds]
    seconds = sum(busy_ns(_users(phase.workers, kinds)) for phase in phases) / SECOND_NS
    overlap_s = sum(phase.overlap_ns for phase in phases if _users(phase.workers, kinds)) / SECOND_NS
    paced = any(part.response for part in seen.parts)
    return Totals(
        **added(seen.parts, TOTAL_COUNTS),
        iops=seen.operations / seconds if seconds else 0.0,
        bytes_per_s=seen.bytes / seconds if seconds else 0.0,
        overlap_iops=sum(operations for operations, _ in within) / overlap_s if overlap_s else 0.0,
        overlap_bytes_per_s=sum(size for _, size in within) / overlap_s if overlap_s else 0.0,
        service=seen.service,
        # Next to paced operations, operations without a rate count as due when they are submitted.
        response=merge_latencies(part.response or part.service for part in seen.parts) if paced else None,
    )


def _users(workers: Iterable[WorkerOutcome], kinds: Sequence[str]) -> list[WorkerOutcome]:
    return [worker for worker in workers if any(kind in worker.operations for kind in kinds)]


def _counted(worker: WorkerOutcome, kind: str, phase: _Phase) -> tuple[float, float]:
    """Operations and bytes while all ran; an interval that is partly inside counts in proportion."""
    if kind not in worker.operations:
        return 0.0, 0.0
    if phase.start_ns <= worker.window_start_ns and worker.window_end_ns <= phase.end_ns:
        return float(worker.operations[kind].operations), float(worker.operations[kind].bytes)
    inside = [
        (_share_inside(interval, phase), interval.operations[kind])
        for interval in worker.intervals
        if kind in interval.operations and not interval.ramp
    ]
    return sum(share * part.operations for share, part in inside), sum(share * part.bytes for share, part in inside)


def _share_inside(interval: IntervalOutcome, phase: _Phase) -> float:
    inside = min(interval.end_ns, phase.end_ns) - max(interval.start_ns, phase.start_ns)
    return max(0, inside) / max(1, interval.end_ns - interval.start_ns)


def merge_latencies(outcomes: Iterable[LatencyOutcome]) -> Latency:
    """Merges distributions: count, minimum, maximum and mean stay exact, percentiles come from the histograms."""
    parts = [outcome for outcome in outcomes if outcome.count]
    if not parts:
        return Latency(0, 0, 0, 0.0, 0.0, None)
    mean, stddev = moments([(part.count, part.mean_ns, part.stddev_ns) for part in parts])
    histogram = merge_histograms([part.histogram for part in parts])
    smallest, largest = min(part.min_ns for part in parts), max(part.max_ns for part in parts)
    return Latency(sum(part.count for part in parts), smallest, largest, mean, stddev, histogram)


def merge_histograms(encoded: Sequence[str]) -> Histogram:
    """Adds histograms, of which there is at least one."""
    merged = Histogram.decode(encoded[0])
    for text in encoded[1:]:
        merged.add(Histogram.decode(text))
    return merged


def moments(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Mean and standard deviation of a population, from count, mean and standard deviation of its parts."""
    count = sum(number for number, _, _ in parts)
    if not count:
        return 0.0, 0.0
    mean = math.fsum(number * each for number, each, _ in parts) / count
    squares = math.fsum(number * (stddev**2 + (each - mean) ** 2) for number, each, stddev in parts)
    return mean, math.sqrt(squares / count)


NOTHING = together(())
"""The operations of a kind that did nothing in an interval."""


def merge_kinds(parts: Sequence[KindOutcome]) -> KindOutcome:
    """Merges one kind of operation over workers, clients or intervals; histograms are added."""
    return KindOutcome(
        **added(parts, KIND_COUNTS),
        service=_encoded(merge_latencies(part.service for part in parts)),
        response=_measured([part.response for part in parts]),
        submission=_measured([part.submission for part in parts]),
        completion=_measured([part.completion for part in parts]),
    )


def _measured(several: Sequence[LatencyOutcome | None]) -> LatencyOutcome | None:
    found = [latency for latency in several if latency]
    return _encoded(merge_latencies(found)) if found else None


def merge_cpu(times: Sequence[CpuTime]) -> CpuTime:
    """Adds CPU times, context switches and page faults."""
    return CpuTime(**added(times, CpuTime.__struct_fields__))


def add_counts(several: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Adds counts by name."""
    names = dict.fromkeys(name for counts in several for name in counts)
    return {name: sum(counts.get(name, 0) for counts in several) for name in names}


def live_kind(parts: Sequence[KindOutcome]) -> IntervalKind:
    """The figures of an interval of several clients."""
    latency = merge_latencies(part.service for part in parts)
    return IntervalKind(
        **added(parts, INTERVAL_COUNTS),
        mean_ns=latency.mean_ns,
        stddev_ns=latency.stddev_ns,
        p50_ns=round(latency.percentile(50)),
        p99_ns=round(latency.percentile(99)),
        min_ns=round(latency.min_ns),
        max_ns=round(latency.max_ns),
    )


def _encoded(latency: Latency) -> LatencyOutcome:
    return LatencyOutcome(
        count=latency.count,
        min_ns=round(latency.min_ns),
        max_ns=round(latency.max_ns),
        mean_ns=latency.mean_ns,
        stddev_ns=latency.stddev_ns,
        histogram=(latency.histogram or Histogram()).encode(),
    )


def jain_index(rates: Sequence[float]) -> float | None:
    """Fairness of shares: 1 where all are equal, 1/n where one has everything; None where all are 0.

    R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
    Shared Computer Systems", DEC TR-301, 1984.
    """
    squares = math.fsum(rate * rate for rate in rates)
    return math.fsum(rates) ** 2 / (len(rates) * squares) if squares else None


def _depth_requested(plan: planned.Plan, phases: Sequence[_Phase]) -> float:
    window_ns = sum(busy_ns(phase.workers) for phase in phases)
    if not window_ns:
        depths = (sum(_worker_depth(plan, worker) for worker in phase.workers) for phase in phases)
        return float(max(depths, default=0))
    workers = (worker for phase in phases for worker in phase.workers)
    return sum(_worker_depth(plan, worker) * measured_ns(worker) for worker in workers) / window_ns


def _worker_depth(plan: planned.Plan, outcome: WorkerOutcome) -> int:
    worker = plan.groups[outcome.group].workers[outcome.worker]
    return 1 if worker.engine.kind == "sync" else worker.depth


def worst(states: Iterable[State]) -> State:
    """The state of several workers or phases together."""
    order: tuple[State, ...] = ("finished", "interrupted", "failed")
    return max(states, key=order.index, default="finished")
