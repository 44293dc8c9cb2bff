"""Measures loads on a target for a search: so much in flight, or so many operations due a second.

A point ends as soon as its mean is sure enough (``iocurve.stats``), at the latest after ``Effort.longest_ns``.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field

from iocurve import _native
from iocurve.analysis.axes import axes_of
from iocurve.engine.outcome import Live
from iocurve.engine.plan import FLUSH_KINDS, Plan
from iocurve.errors import RunError
from iocurve.job.model import Job, Section
from iocurve.job.resolve import plan_here
from iocurve.measure import campaign as series
from iocurve.measure import local
from iocurve.measure.search.ceiling import Trial
from iocurve.measure.search.knee import Sample
from iocurve.report.console import LiveView
from iocurve.result.document import Axis, Point
from iocurve.result.stats import BATCHES_MIN, batch_means
from iocurve.result.summary import course
from iocurve.targets.opened_target import Place
from iocurve.units import MIB, MILLISECOND_NS, SECOND_NS

DEPTH_OPEN = 256
"""Most in flight of each worker of an open loop; it holds nothing back where the limit holds."""


@dataclass(frozen=True)
class Effort:
    """How long and how sure."""

    precision: float = 0.02
    """Half of the confidence interval of a point's rate, relative to the rate."""
    ramp_ns: int = 300 * MILLISECOND_NS
    interval_ns: int = 50 * MILLISECOND_NS
    shortest_ns: int = SECOND_NS // 2
    longest_ns: int = 10 * SECOND_NS
    trial_ns: int = SECOND_NS
    """Length of one run at a rate."""


@dataclass
class Loads:
    """One workload on one place."""

    place: Place
    workload: Section
    """What one worker does; how much is in flight, where and how long is decided here."""
    defaults: Section
    size_bytes: int
    effort: Effort
    view: LiveView
    family: str
    points: list[Point] = field(default_factory=list)
    """All that was measured, in this order."""
    _tag: str = field(default_factory=lambda: secrets.token_hex(4))

    def closed(self, in_flight: int) -> Sample:
        """So much in flight all the time. Raises ``RunError`` where that cannot be measured."""
        workers = min(in_flight, self._workers())
        depths = [in_flight // workers + (worker < in_flight % workers) for worker in range(workers)]
        sections = [Section(depth=depth) for depth in depths]
        point = self._measured(f"{in_flight} in flight", {"depth": in_flight}, sections, self.effort.longest_ns)
        steady = [interval for interval in course(point.outcome.workers) if interval.iops > 0]
        return Sample(
            in_flight,
            batch_means([interval.iops for interval in steady]),
            batch_means([interval.mean_ns for interval in steady]),
        )

    def open(self, rate: float, percent: float) -> Trial:
        """So many operations due a second. Raises ``RunError`` where that cannot be measured."""
        workers = self._workers()
        paced = Section(depth=DEPTH_OPEN, rate_total_operations=rate / workers, arrivals="poisson")
        point = self._measured(f"{rate:,.0f} IOPS due", {"rate": round(rate, 1)}, [paced] * workers, None)
        summary = point.summary()
        return Trial(summary.iops, summary.latency.percentile(percent))

    def remove_files(self) -> None:
        """Removes what was made; what a person named stays as it is."""
        if self.place.path is None and self.points:
            _native.remove_files(self._plan("files", [Section()] * self._workers(), SECOND_NS).to_json())

    def _measured(self, name: str, axes: dict[str, Axis], sections: list[Section], longest_ns: int | None) -> Point:
        plan = self._plan(name, sections, longest_ns or self.effort.trial_ns)
        watcher = _Precise(self.effort, self.view) if longest_ns else None
        self.view.point_started(len(self.points), len(self.points) + 1, name, 0.0, plan.interval_ns)
        watch = watcher.update if watcher else self.view.update
        point = local.measure(plan, watch, self.effort.interval_ns / 2e9).point(self.family, self._axes() | axes)
        self.view.point_finished(point.summary())
        self.points.append(point)
        if point.outcome.state == "interrupted":
            raise KeyboardInterrupt
        if point.outcome.state != "finished":
            raise RunError(f"{name}: {series.reason(point.outcome)}")
        return point

    def _plan(self, name: str, sections: list[Section], runtime_ns: int) -> Plan:
        cpus = sorted(os.sched_getaffinity(0))
        common = Section(
            name=self.family,
            clones=1,
            ramp_ns=self.effort.ramp_ns,
            runtime_ns=runtime_ns,
            time_based=True,
            overwrite=True,
            repeatable=False,
            report_as_group=True,
        )
        workers = [
            section.over(self._where(number, cpus[number % len(cpus)])).over(common).over(self.workload)
            for number, section in enumerate(sections)
        ]
        job = Job(name=name, dialect="iocurve", sections=tuple(workers), defaults=self.defaults)
        return plan_here(job, self.effort.interval_ns)

    def _where(self, worker: int, cpu: int) -> Section:
        """Each worker has a part of the data set to itself."""
        workers = self._workers()
        room = self.size_bytes if self.place.bytes is None else min(self.size_bytes, self.place.bytes)
        size = room // workers // MIB * MIB
        there = self.place.section.replace(size=size)
        if self.place.section.engine == "nfs":
            there = there.replace(cpus=(cpu,))
        if self.place.path is not None:
            return there.replace(paths=(self.place.path,), offset=worker * size)
        return there.replace(paths=(f"iocurve-search-{self._tag}.{worker}",))

    def _workers(self) -> int:
        return min(len(os.sched_getaffinity(0)), 8)

    def _axes(self) -> dict[str, Axis]:
        axes = axes_of(self.workload.over(self.defaults))
        if self.place.section.nconnect:
            axes["nconnect"] = self.place.section.nconnect
        return axes


class _Precise:
    """Says when a point is sure enough."""

    def __init__(self, effort: Effort, view: LiveView) -> None:
        self._effort, self._view = effort, view
        self._seen = 0
        self._rates: list[float] = []

    def update(self, live: Live) -> bool | None:
        self._view.update(live)
        if live.phase != "run" or live.intervals <= self._seen:
            return None
        self._seen = live.intervals
        self._rates.append(
            float(sum(kind.operations for name, kind in live.operations.items() if name not in FLUSH_KINDS))
        )
        # The first interval may be a part of one.
        rates = self._rates[1:]
        if len(rates) < max(BATCHES_MIN, self._effort.shortest_ns // self._effort.interval_ns):
            return None
        return batch_means(rates).precision <= self._effort.precision
