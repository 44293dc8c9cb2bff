"""Measures loads on a target for a search: a queue depth (closed loop) or a rate (open loop).

A point ends as soon as its mean is sure enough (``Stopping``), at the latest after ``Effort.longest_ns``.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import msgspec
from msgspec.structs import replace

from iocurve.dialects.native.kinds import WORDS
from iocurve.engine.derived import with_workers
from iocurve.engine.outcome import Live
from iocurve.engine.plan import FLUSH_KINDS, Plan
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.model import Job, Said, Section
from iocurve.job.resolve import plan_here
from iocurve.measure import local
from iocurve.measure.campaign import Campaign, Measurement
from iocurve.measure.data_set import DataSet, axes_of, pinned, processors
from iocurve.measure.deployment import assigned
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.measure.run_files import RunFiles
from iocurve.measure.search.ceiling import RAMP_SHARE, IsDecided, Trial
from iocurve.measure.search.knee import Sample
from iocurve.measure.search.late_share import Counts
from iocurve.result.course import of_outcome, records
from iocurve.result.document import Axis, Point
from iocurve.result.stats import CONFIDENCE, judged_mean, mean_interval
from iocurve.result.summary import Latency
from iocurve.targets.opened_target import OpenedTarget

WORKERS_MAX = 8
LOOK_BYTES = 256 * MIB
"""Most memory for a look at a depth far beyond the knee."""
SEARCH_INTERVALS = 600
"""Most intervals of all runs at rates together."""
FREE_DEPTH = ">=64"
"""Operations that were submitted with fewer in flight than this level waited for this machine alone."""
DEPTH_OPEN = 256
"""Most in flight of each worker of an open loop; it holds nothing back where the limit holds."""
PATIENCE_NS = 120 * SECOND_NS


class Effort(msgspec.Struct, frozen=True):
    """Length and precision of the measurements."""

    precision: float = 0.02
    """Half of the confidence interval of a point's rate, relative to the rate."""
    ramp_ns: int = 300 * MILLISECOND_NS
    interval_ns: int = 50 * MILLISECOND_NS
    shortest_ns: int = SECOND_NS // 2
    longest_ns: int = 10 * SECOND_NS
    rate_ns: int = SECOND_NS
    """Shortest run at a rate; low rates get as long as their percentile needs."""
    patience_ns: int = PATIENCE_NS
    """Most time that the search for a rate takes, the search for the capacity included."""
    workers: int | None = None
    """Threads that share the load of a machine; None: one for each processor, at most ``WORKERS_MAX``."""
    repeats_max: int = 1
    """Times that a run is measured again while others disturb it; patience is short."""

    @property
    def rate_interval_ns(self) -> int:
        """Reporting interval of runs at a rate."""
        return max(self.interval_ns, self.patience_ns // SEARCH_INTERVALS)

    def hurried(self, parts: int) -> Effort:
        """No point takes longer than a part of the patience."""
        longest_ns = max(self.shortest_ns, min(self.longest_ns, self.patience_ns // parts))
        return replace(self, longest_ns=longest_ns)


def sample_of(in_flight: int, point: Point) -> Sample:
    """Rate and mean latency of a point, as its tables have them, with the relative errors of its intervals."""
    summary, intervals = point.summary(), point.course()
    chosen_by = records(intervals, point.length_chosen_by)
    rate = judged_mean([interval.iops for interval in intervals], chosen_by)
    # In a closed loop a lucky rate is a lucky latency.
    latency = judged_mean([interval.mean_ns for interval in intervals if interval.iops > 0], chosen_by)
    return Sample(in_flight, rate.moved(summary.iops), latency.moved(summary.service.mean_ns))


@dataclass
class Loads:
    """One workload on one target; every load is a point of a campaign."""

    opened: OpenedTarget
    workload: Said
    """The load of one worker; depth, files and run time are set here."""
    defaults: Said
    size_bytes: int
    effort: Effort
    campaign: Campaign
    family: str
    machines: Machines = THIS_MACHINE
    label: str = ""
    """Start of the names of points, where one campaign measures several workloads."""
    _data: DataSet = field(init=False)
    files: RunFiles = field(init=False)
    _rates: dict[float, Point] = field(default_factory=dict)
    """Points of an open loop, by their rates."""

    def __post_init__(self) -> None:
        stem = f"iocurve-search-{secrets.token_hex(4)}"
        self._data = DataSet.of(self.opened, stem, self._workers(), self.size_bytes)
        self.files = RunFiles(stem, [self.opened], self.machines)

    @property
    def look_max(self) -> int:
        """The queue depth whose buffers take ``LOOK_BYTES``."""
        return max(1, LOOK_BYTES // Section.of(self.workload, self.defaults).load.largest_block())

    def closed(self, in_flight: int) -> Sample:
        """Measures a queue depth. Raises what ``Campaign.measure`` raises."""
        return sample_of(in_flight, self.closed_point(in_flight))

    def closed_point(self, in_flight: int) -> Point:
        """The point of a queue depth. Raises what ``Campaign.measure`` raises."""
        precise = _Precise(self.effort)
        plan = self._closed_plan(in_flight, None)
        measurement = self._measurement(plan, {"depth": in_flight}, precise.enough)
        return self._announced(replace(measurement, before=precise.restart, after=precise.noted))

    def for_time(self, in_flight: int, seconds: float) -> Point:
        """The point of a queue depth for a fixed time with its ramp. Raises what ``Campaign.measure`` raises."""
        plan = self._closed_plan(in_flight, seconds)
        measurement = self._measurement(plan, {"depth": in_flight}, local.run_to_the_end)
        return self._announced(replace(measurement, repeats_max=0))

    def aside(self, in_flight: int, seconds: float, purpose: str) -> Point:
        """A queue depth that is no point of the result. Raises what ``Campaign.repeat`` raises."""
        plan = self._closed_plan(in_flight, seconds)
        self.files.announce(plan)
        return self.campaign.repeat(plan, purpose)

    def _announced(self, measurement: Measurement) -> Point:
        self.files.announce(measurement.plan)
        point = self.campaign.measure(measurement)
        self.files.identify()
        return point

    def _closed_plan(self, in_flight: int, seconds: float | None) -> Plan:
        workers = min(in_flight, self._workers())
        depths = [in_flight // workers + (worker < in_flight % workers) for worker in range(workers)]
        runtime_ns = None if seconds is None else round(seconds / (1 + RAMP_SHARE) * SECOND_NS)
        name = f"{self.label}{in_flight} in flight"
        return self._plan(name, [Said.of(depth=depth) for depth in depths], runtime_ns)

    def open(self, rate: float, seconds: float, limit_ns: int | None, is_decided: IsDecided) -> Trial:
        """Measures a rate (operations per second) for some seconds after a ramp; raises as ``Campaign.measure``.

        All runs at a rate are one point.
        """
        began = time.monotonic()
        workers = self._workers()
        paced = Said.of(depth=DEPTH_OPEN, rate_total_operations=rate / workers, arrivals="poisson")
        plan = self._plan(f"{rate:,.0f} IOPS due", [paced] * workers, round(seconds * SECOND_NS))
        plan = limited(plan, limit_ns)
        axes: dict[str, Axis] = {"rate": round(rate, 1)}
        measurement = self._measurement(plan, axes, _until(is_decided))
        self.files.announce(plan)
        self._rates[rate], run = self.campaign.add_run(measurement, self._rates.get(rate))
        self.files.identify()
        summary = run.summary()
        return Trial(
            summary.window_ns / SECOND_NS,
            time.monotonic() - began,
            _late_counts(run),
            summary.latency,
            _late_by_machine(run, limit_ns) if limit_ns else 0,
        )

    def _measurement(self, plan: Plan, axes: dict[str, Axis], enough: local.Enough) -> Measurement:
        return Measurement(
            plan,
            self.family,
            self._axes() | axes,
            seconds_expected=0.0,
            enough=enough,
            poll_s=self.effort.interval_ns / 2 / SECOND_NS,
            repeats_max=self.effort.repeats_max,
        )

    def _plan(self, name: str, sections: list[Said], runtime_ns: int | None) -> Plan:
        """The runtime of a trial is given; a point of a closed loop ends by its precision, at the latest then."""
        effort = self.effort
        common = Said.of(
            name=self.family,
            numjobs=1,
            ramp_ns=max(effort.ramp_ns, round(RAMP_SHARE * (runtime_ns or 0))),
            runtime_ns=runtime_ns or effort.longest_ns,
            time_based=True,
            overwrite=True,
            repeatable=False,
            report_as_group=True,
        )
        workers = [
            section.over(self._data.share(number, self._workers()))
            .over(pinned(self.opened, number) if self.machines.count == 1 else Said())
            .over(common)
            .over(self.workload)
            for number, section in enumerate(sections)
        ]
        job = Job.of(name, WORDS, workers, self.defaults)
        plan = plan_here(job, effort.rate_interval_ns if runtime_ns else effort.interval_ns)
        # Clients take turns, so that a low depth is spread over as many clients as possible.
        return assigned(plan, [number % self.machines.count for number in range(len(sections))])

    def _workers(self) -> int:
        """Workers of all clients together."""
        return (self.effort.workers or min(len(processors()), WORKERS_MAX)) * self.machines.count

    def _axes(self) -> dict[str, Axis]:
        axes = axes_of(Section.of(self.workload, self.defaults).load)
        if self.opened.nconnect is not None:
            axes["nconnect"] = self.opened.nconnect
        if self.machines.count > 1:
            axes["clients"] = self.machines.count
        return axes


def limited(plan: Plan, limit_ns: int | None) -> Plan:
    """The plan with a response limit, beyond which operations count as late."""
    return with_workers(plan, lambda _, worker: worker.replace(response_limit_ns=limit_ns))


def _late_counts(run: Point) -> tuple[Counts, ...]:
    """Operations and late operations of all workers, by interval of the measured window."""
    counts: dict[int, Counts] = {}
    for interval in of_outcome(run.outcome):
        if not interval.ramp:
            operations, late = counts.get(interval.index, (0, 0))
            kinds = interval.operations.values()
            counts[interval.index] = (
                operations + sum(kind.operations for kind in kinds),
                late + sum(kind.late for kind in kinds),
            )
    return tuple(counts[index] for index in sorted(counts))


def _late_by_machine(run: Point, limit_ns: int) -> int:
    """Late operations that took no longer than the limit from their submission on, and that no full queue held back.

    The generator submitted them late: its thread had no processor, or woke up late.
    """
    summary = run.summary()
    late, served_late = (_over(latency, limit_ns) for latency in (summary.latency, summary.service))
    held_back = sum(worker.depth_levels.get(FREE_DEPTH, 0) for worker in run.outcome.workers)
    return max(0, late - served_late - held_back)


def _over(latency: Latency, limit_ns: int) -> int:
    histogram, longest = latency.histogram, latency.max_ns
    if histogram is None or longest <= limit_ns:
        return 0
    return histogram.count_between(limit_ns + 1, round(longest))


def _until(is_decided: IsDecided) -> local.Enough:
    """Ends a run at a rate once its late operations decide."""
    seen = operations = late = 0

    def enough(live: Live) -> bool:
        nonlocal seen, operations, late
        if live.phase != "run":
            # A repeated run replaces the one before.
            seen = operations = late = 0
        if live.phase != "run" or live.intervals <= seen:
            return False
        seen = live.intervals
        operations += sum(kind.operations for kind in live.operations.values())
        late += sum(kind.late for kind in live.operations.values())
        return is_decided(operations, late)

    return enough


class _Precise:
    """Ends a point once its mean rate is precise enough."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self.restart()

    def restart(self) -> None:
        """The point is measured again from its start."""
        effort = self._effort
        self.stopping = Stopping(effort.precision, max(FIRST_STOP, effort.shortest_ns // effort.interval_ns))
        self._seen = 0
        self._rates: list[float] = []

    def enough(self, live: Live) -> bool:
        """True once the mean rate is known to the precision that is wanted."""
        if live.phase != "run" or live.intervals <= self._seen:
            return False
        self._seen = live.intervals
        self._rates.append(
            float(sum(kind.operations for name, kind in live.operations.items() if name not in FLUSH_KINDS))
        )
        # The first interval may be a part of one.
        return self.stopping.enough(self._rates[1:])

    def noted(self, point: Point) -> Point:
        """The point with the number of intervals that chose its length."""
        return point.replace(length_chosen_by=self.stopping.first)


FIRST_STOP = 40
"""Values of the shortest series. Levels, dips and stalls that are rarer than a few times in it go unseen."""
REACH = 4
"""A first part decides the length of a series up to this many times its own."""
EFFECTIVE_QUIET = 3
"""Independent values that the second part should tell at least as much as."""
EFFECTIVE = 6
"""The same where the interval will be wider than half of what is wanted: luck could decide there."""
WIDTH_MAX = 2.0
"""The interval of the second part may be wider than wanted by this factor; beyond it the first part was luck."""
LENGTH_STEP = 10
"""Lengths are multiples of this, so that series share tables of models."""


class Stopping(msgspec.Struct):
    """Decides when the mean of a series is precise enough to stop measuring, in two parts.

    A rule that stops where the interval is narrow stops at flukes: given that it stopped, the interval holds the mean
    far less often than it says (Y. S. Chow and H. Robbins, "On the asymptotic theory of fixed-width sequential
    confidence intervals", Annals of Mathematical Statistics 36, 1965; P. W. Glynn and W. Whitt, "The asymptotic
    validity of sequential stopping rules", Annals of Applied Probability 2, 1992). So the part of the series that
    chooses the length does not judge it (C. Stein, "A two-sample test for a linear hypothesis whose power is
    independent of the variance", Annals of Mathematical Statistics 16, 1945): the first part says how long the series
    must be, at least twice as long as itself and long against its correlation; the mean is that of all values, and its
    error comes from the values after the first part. Luck in the first part cannot narrow the interval. An interval
    that turns out more than ``WIDTH_MAX`` times as wide as wanted refutes the first part: then the series so far is the
    first part of a longer one. ``docs/evidence/accuracy.md`` has the coverage, and the targets for which
    nothing is promised.
    """

    precision: float
    """Half of the interval, relative to the mean."""
    first_stop: int = FIRST_STOP
    _first: int = 0
    """Values of the first part; 0 if no part has decided yet."""
    _next: int = 0
    _stopped: bool = False

    def enough(self, values: Sequence[float]) -> bool:
        """True once the mean of the series so far is precise enough."""
        if not self._stopped and len(values) >= (self._next or self.first_stop // 2):
            self._stopped = self._first > 0 and judged_mean(values, self._first).precision <= WIDTH_MAX * self.precision
            if not self._stopped:
                self._decide(values)
        return self._stopped

    @property
    def first(self) -> int:
        """Values that chose the length of a series that was stopped; 0 if it was not."""
        return self._first if self._stopped else 0

    def _decide(self, values: Sequence[float]) -> None:
        """Makes the series so far a first part; one that cannot decide grows to twice its length."""
        length, count = self._length(values), len(values)
        is_near = length <= REACH * count
        self._first = count if is_near else 0
        self._next = round(length) if is_near else 2 * count

    def _length(self, values: Sequence[float]) -> float:
        """Number of values that the whole series seems to need."""
        count, wanted = len(values), self.precision * abs(fmean(values))
        interval = mean_interval(values, 1 - CONFIDENCE)
        if not wanted or math.isinf(interval.half_width):
            return math.inf
        dependent = count / interval.effective
        needed = count * (interval.half_width / wanted) ** 2
        length = max(self.first_stop, 2 * count, needed, count + EFFECTIVE_QUIET * dependent)
        if needed > length / 4:
            length = max(length, count + EFFECTIVE * dependent)
        return math.ceil(length / LENGTH_STEP) * LENGTH_STEP
