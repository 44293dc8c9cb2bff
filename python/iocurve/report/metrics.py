"""The metrics of a result and of a running measurement. ``docs/grafana-dashboard.json`` draws them.

A point has counters, rates, a histogram of latencies and its limit as soon as it has ended. A running point has the
rates and quantiles of its newest interval, and counters of what has completed so far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from iocurve._native import VERSION
from iocurve.engine.outcome import IntervalKind, Live, LiveTotals, WorkerOutcome
from iocurve.foundation.units import MICROSECOND_NS, SECOND_NS, numbered
from iocurve.report.progress import Progress, StartedPoint, View
from iocurve.result.document import Interval, Limit, Result
from iocurve.result.openmetrics import counter, gauge
from iocurve.result.stalls import longest_stall
from iocurve.result.summary import Latency, Summary

BOUNDS_US = tuple(digit * 10**power for power in range(8) for digit in (1, 2, 5))
"""Upper bounds of the buckets, in µs: 1, 2 and 5 of each power of ten, from 1 µs to 50 s."""
POINT = "iocurve_point"
RUNNING = "iocurve_running"
UNITS = {"IOPS": "operations_per_second", "µs": "seconds", "in flight": "operations_in_flight", "%": "ratio"}
"""The last part of the names of findings, by their units; none for dimensionless ones."""
SCALES = {"µs": 1e-6, "%": 0.01}


class ResultMetrics(Collector):
    """A finished measurement."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def collect(self) -> Iterable[Metric]:
        """The metrics of the result and of its points."""
        result = self._result
        facts = {
            "kind": result.kind,
            "name": result.name,
            "target": result.target.address,
            "state": result.state,
            "version": result.iocurve,
        }
        yield InfoMetricFamily("iocurve_result", "The measurement", value=facts)
        yield GaugeMetricFamily(
            "iocurve_result_timestamp_seconds", "Start of the measurement", result.created.timestamp(), unit="seconds"
        )
        # A metric has each point once.
        points = list(zip(numbered(point.name for point in result.points), result.points, strict=True))
        yield from _points([(name, point.summary()) for name, point in points])
        yield from _rate_bounds([(name, point.rate_interval()) for name, point in points])
        yield _stalls([(name, point.outcome.workers) for name, point in points if not point.imported])
        yield _limits([(name, point.limit) for name, point in points if point.limit])
        yield from _findings(result)


class RunMetrics(View, Collector):
    """A running measurement: a view that keeps the newest state, for the threads that answer scrapes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._progress = Progress()
        self._point: StartedPoint | None = None
        self._live: Live | None = None
        self._purpose: str | None = None
        self._index = 0
        self._finished: dict[int, Summary] = {}
        """By number of the point, which may run again."""
        self._before: Counter[tuple[str, str, str]] = Counter()
        """Totals of the runs before this one, by point, kind and figure."""
        self._now: Counter[tuple[str, str, str]] = Counter()

    def point_started(self, point: StartedPoint) -> None:
        """A point begins, or one of its turns."""
        with self._lock:
            self._progress.point_started(point)
            self._end_run()
            self._point, self._live, self._index = point, None, point.index

    def preparing(self, purpose: str | None) -> None:
        """A load that is not measured runs for the point, until None is given."""
        with self._lock:
            self._progress.preparing(purpose)
            self._end_run()
            self._purpose, self._live = purpose, None

    def update(self, live: Live) -> None:
        """Keeps the state of the engine."""
        with self._lock:
            self._live = live
            if self._point and self._purpose is None:
                self._now = Counter(
                    {
                        (self._point.name, kind, figure): getattr(total, figure)
                        for kind, total in live.totals.items()
                        for figure in LiveTotals.__struct_fields__
                    }
                )

    def _end_run(self) -> None:
        """Adds the totals of the run that has ended to those before it, so that counters only rise."""
        self._before.update(self._now)
        self._now = Counter()

    def turn_finished(self) -> None:
        """The turn that was started last has ended; its point has further turns."""
        with self._lock:
            self._progress.turn_finished()
            self._point = None

    def point_finished(self, summary: Summary, _: str | None = None) -> None:
        """The point that was started last has ended."""
        with self._lock:
            self._progress.end_point()
            self._point = None
            self._finished[self._index] = summary

    def collect(self) -> Iterable[Metric]:
        """The metrics of the running point and of those that have ended."""
        with self._lock:
            point, live, purpose = self._point, self._live, self._purpose
            finished, left_s = list(self._finished.values()), self._progress.seconds_left()
            totals = self._before + self._now
        yield InfoMetricFamily("iocurve", "The program", value={"version": VERSION})
        yield from _progress(point, live, purpose, len(finished), left_s)
        if point and live and purpose is None:
            yield from _newest_interval(point, live)
        yield from _totals(totals)
        yield from _points(list(zip(numbered(one.name for one in finished), finished, strict=True)))


def _progress(
    point: StartedPoint | None, live: Live | None, purpose: str | None, finished: int, left_s: float
) -> Iterator[Metric]:
    phase = [([point.name, purpose or (live.phase if live else "starting")], 1)] if point else []
    yield gauge(RUNNING, "1 for the running point in its phase", ["point", "phase"], phase)
    planned = point.count if point else None
    yield gauge(f"{RUNNING}_points", "Points of the run; absent where a search decides", [], [([], planned)])
    yield GaugeMetricFamily(f"{RUNNING}_finished_points", "Points that have ended", finished)
    yield gauge(f"{RUNNING}_left_seconds", "Estimate of the time left; 0 if unknown", [], [([], left_s)])


def _newest_interval(point: StartedPoint, live: Live) -> Iterator[Metric]:
    """Rates and latencies of the newest interval. Its percentiles are those of the interval."""
    seconds = point.interval_ns / SECOND_NS
    for name, about, count in (
        ("operations_per_second", "Operations", "operations"),
        ("data_bytes_per_second", "Bytes", "bytes"),
        ("errors_per_second", "Errors", "errors"),
    ):
        samples = [([point.name, kind], getattr(part, count) / seconds) for kind, part in live.operations.items()]
        yield gauge(f"{RUNNING}_{name}", f"{about} per second in the newest interval", OF_KIND, samples)
    yield gauge(
        f"{RUNNING}_latency_seconds",
        "Quantiles of the service latency in the newest interval; quantile 1 is the maximum",
        [*OF_KIND, "quantile"],
        [
            ([point.name, kind, quantile], latency_ns / SECOND_NS)
            for kind, part in live.operations.items()
            for quantile, latency_ns in _quantiles(part)
        ],
    )


def _totals(totals: Counter[tuple[str, str, str]]) -> Iterator[Metric]:
    """Counters of what has completed in all runs of each point so far, ramps included."""
    kinds = dict.fromkeys((point, kind) for point, kind, _ in totals)
    for figure, name, about in (
        ("operations", "operations", "Operations completed so far, ramps included"),
        ("bytes", "data_bytes", "Bytes that they moved"),
        ("errors", "errors", "Operations that failed"),
    ):
        samples = [([point, kind], totals[point, kind, figure]) for point, kind in kinds]
        yield counter(f"{RUNNING}_{name}", about, OF_KIND, samples)


def _quantiles(part: IntervalKind) -> list[tuple[str, int]]:
    """Without operations there are no latencies."""
    found = [("0.5", part.p50_ns), ("0.99", part.p99_ns), ("1", part.max_ns)] if part.operations else []
    return [(quantile, latency_ns) for quantile, latency_ns in found if latency_ns is not None]


# ---- points that have ended


OF_KIND = ("point", "operation")
COUNTERS = (
    ("operations", "operations", "Operations in the measured window"),
    ("bytes", "data_bytes", "Bytes that they moved"),
    ("errors", "errors", "Operations that failed"),
    ("drained", "drained_operations", "Operations that completed after the window"),
    ("unfinished", "unfinished_operations", "Operations that never completed"),
    ("missed", "missed_operations", "Due operations that were never sent"),
)
"""Counts of a kind, their names as metrics, and their meaning."""


def _points(summaries: Sequence[tuple[str, Summary]]) -> Iterator[Metric]:
    done = [([name, kind], totals) for name, summary in summaries for kind, totals in summary.kinds.items()]
    for count, metric, about in COUNTERS:
        yield counter(f"{POINT}_{metric}", about, OF_KIND, [(names, getattr(totals, count)) for names, totals in done])
    for rate, metric, about in (
        ("iops", "operations_per_second", "Operations per second"),
        ("bytes_per_s", "data_bytes_per_second", "Bytes per second"),
    ):
        # An imported result may not state a rate.
        rates = [(names, value) for names, totals in done if not math.isnan(value := getattr(totals, rate))]
        yield gauge(f"{POINT}_{metric}", about, OF_KIND, rates)
    for metric, about, latencies in (
        ("latency_seconds", "Service latency, submission to completion", [(one, of.service) for one, of in done]),
        (
            "response_latency_seconds",
            "Response latency under a rate, from due time to completion",
            [(names, totals.response) for names, totals in done if totals.response],
        ),
    ):
        family = HistogramMetricFamily(f"{POINT}_{metric}", about, labels=OF_KIND, unit="seconds")
        for names, latency in latencies:
            _add_histogram(family, names, latency)
        yield family
    windows = [([name], summary.window_ns / SECOND_NS) for name, summary in summaries]
    yield gauge(f"{POINT}_window_seconds", "Time that the rates are over", ["point"], windows)


def _stalls(points: Sequence[tuple[str, Sequence[WorkerOutcome]]]) -> Metric:
    """The longest stall of the target in each point, as ``stall`` in checks."""
    longest = [(name, longest_stall(workers)) for name, workers in points]
    samples = [([name], stall[1] / SECOND_NS if stall else 0.0) for name, stall in longest]
    return gauge(f"{POINT}_stall_seconds", "Longest stall of the target, 0 without one", ["point"], samples)


def _add_histogram(family: HistogramMetricFamily, labels: Sequence[str], latency: Latency) -> None:
    if latency.histogram is None:
        return
    counts = [
        (f"{bound_us / 1e6!r}", latency.histogram.count_between(0, bound_us * MICROSECOND_NS)) for bound_us in BOUNDS_US
    ]
    total = latency.mean_ns * latency.count / SECOND_NS
    family.add_metric(labels, [*counts, ("+Inf", latency.count)], None if math.isnan(total) else total)


def _rate_bounds(points: Sequence[tuple[str, Interval]]) -> Iterator[Metric]:
    """Bounds of the 95 % interval of all kinds together; absent where they are not known."""
    for which, word in (("low", "Lower"), ("high", "Upper")):
        samples = [([name], getattr(figure, which)) for name, figure in points]
        about = f"{word} bound of the 95 % interval of IOPS"
        yield gauge(f"{POINT}_{which}_operations_per_second", about, ["point"], samples)


def _limits(limits: Sequence[tuple[str, Limit]]) -> Metric:
    found = InfoMetricFamily(f"{POINT}_limit", "Verdict on what limited the point", labels=["point"])
    for name, limit in limits:
        found.add_metric([name], {"limited_by": limit.code, "confidence": limit.confidence})
    return found


def _findings(result: Result) -> Iterator[Metric]:
    """The findings of a search in base units; ``bound`` is value, low or high."""
    if result.search is None:
        return
    for unit in dict.fromkeys(finding.unit for finding in result.search.findings):
        name = "_".join(["iocurve_finding", *([UNITS[unit]] if unit in UNITS else [])])
        samples = [
            ([finding.name, bound], value * SCALES.get(unit, 1.0))
            for finding in result.search.findings
            if finding.unit == unit
            for bound in ("value", "low", "high")
            if (value := getattr(finding.figure, bound)) is not None
        ]
        yield gauge(name, "Value that a search found", ["finding", "bound"], samples)
