"""The points of a run that can be compared to find the limits of a target that says nothing of itself.

Each is a closed loop with all of its depth in flight, of reads and writes of one block size, whose rate is known well
enough. A point that was held up by this machine is marked: it proves nothing, but it can turn out to be at a limit that
others prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby
from statistics import fmean, pvariance

from iocurve.analysis.bursts import SLOW
from iocurve.analysis.level_changes import LevelStep, level_change, levels
from iocurve.analysis.load_limits import BUSY, sleeps
from iocurve.analysis.measured_load import IN_FLIGHT, MeasuredLoad
from iocurve.engine.plan import FixedBlocks
from iocurve.foundation.units import SECOND_NS
from iocurve.model.fit import DISTANCE_MAX, ERROR_MIN, LoadRate
from iocurve.result.document import Point, TargetFacts
from iocurve.result.stalls import STARVED, STEAL_SHARE, waited_for_others
from iocurve.result.stats import judged_mean, sample_mean
from iocurve.result.summary import Latency

ERROR_MAX = 0.15
"""A rate that is known less well is compared with none."""
NORMAL = 1.96
"""Half widths of 95 % intervals are this many standard errors of a normal distribution."""
REPEATS_MIN = 3
SERIES_MIN = 8
ROUNDED = 0.25
"""Variance of a whole number of operations."""
HELD_UP = 1.02
"""A rate that is higher by this factor between stalls of this machine was held up."""
KNOWN_KINDS = ("nfs", "directory", "file", "device", "unknown")


class ObservedPoint(LoadRate, frozen=True, kw_only=True, dict=True):
    """A point with what bears on its limit. Points are compared with those of the same order of offsets."""

    point: Point
    latency_ns: float
    """Mean."""
    latency_variation: float = 0.0
    """Squared coefficient of variation of the latencies."""
    dispersion: float | None = None
    """Variance of the operations of an interval to their mean; None where there are too few intervals."""
    fall: LevelStep | None = None
    """The rate fell from one level to another."""
    is_in_windows: bool = False
    """The rate is that of whole windows of a limit: operations, then none until the next window."""


def tells_nothing(target: TargetFacts) -> bool:
    """True of a target whose limits are not known: a server, a file system or a device, and no emulation."""
    told = (target.servers, target.service_ns, target.latency_ns, target.latency_mean_ns)
    return target.kind in KNOWN_KINDS and not target.caps and not any(told)


def observations(points: Iterable[Point], target: TargetFacts) -> list[ObservedPoint]:
    """The points that can be compared."""
    return observed([load for point in points if _is_comparable(load := MeasuredLoad(point, target))])


def observed(loads: Sequence[MeasuredLoad], error_unknown: float | None = None) -> list[ObservedPoint]:
    """Loads of reads and writes whose rate is known well enough.

    With ``error_unknown``, which stands for an error that is not known, none is left out.
    """
    window_s = _window_s(loads)
    # Points of several runs were measured in turns.
    in_order = not any(load.point.runs for load in loads)
    places = (number if in_order else 0 for number in range(len(loads)))
    return [
        found
        for load, at in zip(loads, places, strict=True)
        if (found := _observation(load, window_s, at, error_unknown))
    ]


def _is_comparable(load: MeasuredLoad) -> bool:
    """True of a closed loop with all of its depth in flight, of reads and writes of one block size."""
    summary, point = load.summary, load.point
    if len(point.plan.groups) > 1 or not summary.operations or summary.errors or summary.paced:
        return False
    if any(client.state not in ("finished", "merged") for client in point.clients):
        return False
    if any(worker.plan.think for worker in load.workers) or len(load.clients) > max(1, len(point.clients)):
        return False
    operations = [operation for worker in load.workers for operation in worker.plan.operations]
    # Operations that wait for the next window at the end are in flight, too.
    is_full = summary.concurrency_achieved >= IN_FLIGHT * summary.depth_requested or _in_window(load) > 0
    has_size = all(isinstance(one.blocks, FixedBlocks) for one in operations)
    return is_full and has_size and len({one.blocks for one in operations}) == 1 and _kinds(load) <= {"read", "write"}


def _kinds(load: MeasuredLoad) -> set[str]:
    return {operation.kind for worker in load.workers for operation in worker.plan.operations}


def _observation(load: MeasuredLoad, window_s: float, at: int, error_unknown: float | None) -> ObservedPoint | None:
    operations = [operation for worker in load.workers for operation in worker.plan.operations]
    rates = [interval.iops for interval in load.course]
    fall, in_window = levels(rates), _in_window(load)
    step = fall or levels(rates[::-1])
    # Credits ran out, or a limit changed: the last level is what it is now.
    last = rates[step.index + 1 if fall else -step.index :] if step else rates
    error_max = ERROR_MAX if error_unknown is None else math.inf
    iops, error = load.iops(), _error(load, rates, error_max)
    if in_window and window_s:
        iops, error = in_window / window_s, ERROR_MIN
    elif step and not load.point.runs:
        iops, error = fmean(last), relative_error([], last, error_max=error_max)
    error = error_unknown if error is None else error
    if error is None:
        return None
    summary = load.summary
    return ObservedPoint(
        name=load.point.name,
        point=load.point,
        block_bytes=round(summary.bytes_per_s / summary.iops),
        mix=_mix(load),
        read_share=load.iops("read") / load.iops(),
        order=" ".join(sorted({str(one.random_percent) for one in operations})),
        depth=summary.depth_requested,
        workers=len(load.workers),
        files=len({file.path for worker in load.workers for file in worker.plan.files}),
        connections=load.connections,
        iops=iops,
        error=error,
        operations=summary.operations,
        latency_ns=summary.service.mean_ns if iops == load.iops() else summary.depth_requested / iops * SECOND_NS,
        latency_variation=_variation(summary.service),
        dispersion=_dispersion(load, last),
        is_held_up=is_held_up(load),
        is_starved=is_held_up(load) and not sleeps(load),
        clients=max(1, len(load.clients), len(load.point.clients)),
        is_in_windows=in_window > 0,
        at=at,
        fall=fall,
        has_changed=step is not None or isinstance(level_change(rates), LevelStep),
    )


SLOW_PERCENT = 96
"""Slow latencies are those of a target from this percentile on."""
SILENT_MIN, WINDOW_OPERATIONS, WINDOWS_ALIKE = 0.5, 20, 0.03
"""A series of windows has at least this share of intervals without an operation, at least this many operations in a
window, and windows whose operations differ by no more than this share, or by two."""


def _in_window(load: MeasuredLoad) -> float:
    """Operations of a whole window: between intervals in which nothing was done. 0 where the rate has no windows."""
    counts = [interval.iops * interval.length_ns / SECOND_NS for interval in load.course]
    if sum(not count for count in counts) < SILENT_MIN * len(counts):
        return 0.0
    groups = [(is_busy, list(group)) for is_busy, group in groupby(counts, key=bool)]
    whole = [math.fsum(group) for is_busy, group in groups[1:-1] if is_busy]
    if not whole or max(whole) - min(whole) > max(2, WINDOWS_ALIKE * max(whole)) or min(whole) < WINDOW_OPERATIONS:
        return 0.0
    return fmean(whole)


def _window_s(loads: Iterable[MeasuredLoad]) -> float:
    """The length of the windows, by the operations of all points that show them; 0 where none does."""
    found = [(load.summary, count) for load in loads if (count := _in_window(load))]
    windows = math.fsum(summary.operations / count for summary, count in found)
    return math.fsum(summary.window_ns for summary, _ in found) / SECOND_NS / windows if windows else 0.0


def _variation(latency: Latency) -> float:
    """Squared coefficient of variation; of the usual latencies alone, where few are slow: a pause held them up."""
    low, middle, high, slow = (latency.percentile(percent) for percent in (16, 50, 84, SLOW_PERCENT))
    if not latency.mean_ns or not middle:
        return 0.0
    variation = (latency.stddev_ns / latency.mean_ns) ** 2
    return variation if slow >= SLOW * middle else min(variation, ((high - low) / 2 / middle) ** 2)


def _dispersion(load: MeasuredLoad, rates: Sequence[float]) -> float | None:
    """The dispersion of the operations of whole intervals."""
    if len(rates) < REPEATS_MIN:
        return None
    counts = [rate * load.point.plan.interval_ns / SECOND_NS for rate in rates]
    # The ends of an interval cut an even series to one operation more or less.
    return max(0.0, pvariance(counts) - ROUNDED) / fmean(counts) if any(counts) else None


def _mix(load: MeasuredLoad) -> float:
    operations = [operation for worker in load.workers for operation in worker.plan.operations]
    shares = math.fsum(one.share for one in operations)
    return math.fsum(one.share for one in operations if one.kind == "read") / shares if shares else 1.0


def _error(load: MeasuredLoad, rates: Sequence[float], error_max: float) -> float | None:
    turns = [turn.iops for turn in load.point.runs if turn.state == "finished"]
    return relative_error(turns, rates, load.point.length_chosen_by, error_max)


def relative_error(
    turns: Sequence[float], rates: Sequence[float], chosen_by: int = 0, error_max: float = ERROR_MAX
) -> float | None:
    """Relative standard error of a rate, from its turns or else its intervals; None where it is not known well enough.

    A short series of intervals does not show how they depend on one another: they are taken as independent, with
    Student's wide interval. The error of a search's point is from the intervals after the ``chosen_by`` ones that chose
    its length.
    """
    of_turns = len(turns) >= REPEATS_MIN
    estimate = (
        judged_mean(rates, chosen_by)
        if len(rates) >= SERIES_MIN and not of_turns
        else sample_mean(turns if of_turns else rates)
    )
    if not estimate.mean or not math.isfinite(estimate.half_width) or not (of_turns or len(rates) >= REPEATS_MIN):
        return None
    error = math.hypot(estimate.precision / NORMAL, ERROR_MIN)
    return error if error <= error_max else None


def is_held_up(load: MeasuredLoad) -> bool:
    """True if the load had too little of this machine. Shorter delays show in the intervals, and so in the error."""
    machine = load.point.machine
    if machine is None:
        return False
    return (
        load.summary.cpu_share_max >= BUSY
        or waited_for_others(machine) >= STARVED
        or (machine.steal_share or 0.0) >= STEAL_SHARE
        or load.held_up > HELD_UP
    )


GROWS = 1.4
"""Smallest gain from twice of a thing where that thing is the limit."""
SAME = 1.2
"""Greatest gain from twice the depth, or more, where the depth is not the limit."""
WAITS = 3.0
"""A latency of this many times that of an idle target shows that the depth is not the limit: then twice the depth gives
at most 1.2 times the rate in a network of balanced stations, and less in any other (J. Zahorjan, K. C. Sevcik, D. L.
Eager and B. Galler, "Balanced job bound analysis of queueing networks", CACM 25, 1982)."""
UNLOADED = 0.9
"""The share of the time in flight that the latency of an idle target explains where the depth is the limit."""


# ---- what the depth and the connections do


def ratio_bounds(one: ObservedPoint, other: ObservedPoint) -> tuple[float, float]:
    """The bounds of the ratio of two rates."""
    return _bounds(one.iops / other.iops, one, other)


def same_but_depth(found: Iterable[ObservedPoint]) -> Iterator[tuple[ObservedPoint, ObservedPoint]]:
    """Pairs that differ in their depth alone, by at least a factor of two, the smaller depth first."""
    quiet = [one for one in found if not one.is_held_up]
    for one, other in combinations(quiet, 2):
        low, high = sorted((one, other), key=lambda each: each.depth)
        is_same = (low.load, low.workers, low.connections) == (high.load, high.workers, high.connections)
        if is_same and high.depth >= 2 * low.depth:
            yield low, high


def waiting(low: ObservedPoint, high: ObservedPoint) -> tuple[float, float]:
    """Bounds of the latency at the greater depth relative to that at the smaller."""
    return _bounds(high.latency_ns / low.latency_ns, high, low)


def _bounds(ratio: float, one: ObservedPoint, other: ObservedPoint) -> tuple[float, float]:
    error = DISTANCE_MAX * math.hypot(one.error, other.error)
    return ratio * math.exp(-error), ratio * math.exp(error)


def connections_pay(few: ObservedPoint, found: Iterable[ObservedPoint]) -> ObservedPoint | None:
    """A point with more connections and else the same load, which has a higher rate: a limit of each connection."""
    for one in found:
        is_same = (one.load, one.workers, one.depth) == (few.load, few.workers, few.depth) and not one.is_held_up
        if is_same and one.connections >= 2 * few.connections > 0 and ratio_bounds(one, few)[0] >= GROWS:
            return one
    return None
