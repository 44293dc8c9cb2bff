"""Intervals over time: of one worker, of all workers of a group, and joined so that a long run stays small.

Interval ``i`` is kept singly up to a power of two ``singly``; the next as many are joined in pairs, twice as many in
fours, and so on (``crates/engine/src/record/course.rs``). A record starts at a multiple of its length, so that longer
ones consist of whole shorter ones. Joined intervals have exact sums, means, minima and maxima.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec.structs import asdict, replace

from iocurve.engine.outcome import GroupInterval, IntervalKind, IntervalOutcome, Outcome, WorkerOutcome
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.units import SECOND_NS
from iocurve.result.summary import NOTHING, SeriesInterval, together

WHOLE = 0.9
"""An interval counts as whole above this fraction of the longest interval's length."""
RUN_RECORDS = 8192
"""Intervals that a run keeps singly, of all workers of a plan together, where no output needs all: with 64 workers the
first 128 of each, 5 MiB in an hour."""
DOCUMENT_RECORDS = 256
"""Intervals that a document keeps singly, of all workers of a point together: they serve only to count what workers did
in the time in which all ran."""
SINGLY_MIN = 4
Record = TypeVar("Record", GroupInterval, IntervalOutcome)


def length(index: int, singly: int) -> int:
    """Number of intervals in the record that has interval ``index``."""
    return 1 << (index // singly).bit_length()


def singly(workers: int, records: int = RUN_RECORDS) -> int:
    """Number of intervals of each of ``workers`` workers that are kept singly: a power of two."""
    share = records // max(1, workers)
    return max(SINGLY_MIN, 1 << max(0, share.bit_length() - 1))


def for_document(outcome: Outcome) -> Outcome:
    """The outcome with the intervals of its workers as ``result.json`` keeps them; those of groups stay."""
    if not outcome.intervals:
        return outcome
    kept = singly(len(outcome.workers), DOCUMENT_RECORDS)
    if all(len(worker.intervals) <= kept for worker in outcome.workers):
        return outcome
    workers = (worker.replace(intervals=joined(worker.intervals, kept)) for worker in outcome.workers)
    return outcome.replace(workers=tuple(workers))


def joined(intervals: Sequence[IntervalOutcome], singly: int) -> tuple[IntervalOutcome, ...]:
    """The intervals of one worker, joined beyond ``singly``."""
    return tuple(_joined(intervals, lambda index: length(index, singly)))


def group_intervals(workers: Iterable[WorkerOutcome]) -> tuple[GroupInterval, ...]:
    """The intervals of groups, from those of their workers. Of several workers they have no percentiles."""
    return with_others(
        GroupInterval(group=worker.group, **asdict(interval)) for worker in workers for interval in worker.intervals
    )


def measured_intervals(workers: Iterable[WorkerOutcome]) -> list[GroupInterval]:
    """The intervals of groups without those of the ramp."""
    return [interval for interval in group_intervals(workers) if not interval.ramp]


def with_others(*several: Iterable[GroupInterval]) -> tuple[GroupInterval, ...]:
    """The intervals of groups, from those of parts of them; of several parts they have no percentiles."""
    cells: dict[tuple[int, int, bool], list[GroupInterval]] = {}
    for each in chain.from_iterable(several):
        cells.setdefault((each.group, each.index, not each.ramp), []).append(each)
    return tuple(_together(parts, key[1]) for key, parts in sorted(cells.items()))


def work(interval: GroupInterval, kinds: Iterable[str]) -> IntervalKind:
    """The operations of some kinds in an interval."""
    return together(interval.operations[kind] for kind in kinds if kind in interval.operations)


def of_outcome(outcome: Outcome) -> tuple[GroupInterval, ...]:
    """The intervals of groups; computed for outcomes that have none, as in documents before version 4."""
    return outcome.intervals or group_intervals(outcome.workers)


def series(outcome: Outcome) -> list[SeriesInterval]:
    """The time series: one entry per group, interval and kind, in this order.

    Each interval has an entry for every kind of its group. Where nothing completed its rates are 0 and its latencies
    NaN, so that the rates of a series, each times its length, add up to the operations.
    """
    return _series(of_outcome(outcome), _kinds_of_groups(outcome))


def _kinds_of_groups(outcome: Outcome) -> dict[int, set[str]]:
    kinds: dict[int, set[str]] = {}
    for worker in outcome.workers:
        kinds.setdefault(worker.group, set()).update(worker.operations)
    for interval in of_outcome(outcome):
        kinds.setdefault(interval.group, set()).update(interval.operations)
    return kinds


def coarser(intervals: Iterable[SeriesInterval], every_ns: int) -> list[SeriesInterval]:
    """The time series with the intervals that start in the same ``every_ns`` as one; no interval is split."""
    cells: dict[tuple[int, int, bool, str], list[SeriesInterval]] = {}
    for each in intervals:
        cells.setdefault((each.group, each.start_ns // every_ns, not each.ramp, each.kind), []).append(each)
    return [_longer(parts) for _, parts in sorted(cells.items())]


def _longer(parts: Sequence[SeriesInterval]) -> SeriesInterval:
    if len(parts) == 1:
        return parts[0]
    end_ns = max(part.end_ns for part in parts)
    whole_ns = max(1, end_ns - parts[0].start_ns)
    return replace(_added(parts, [part.length_ns for part in parts], whole_ns), end_ns=end_ns)


def _added(parts: Sequence[SeriesInterval], weights: Sequence[int], whole: int) -> SeriesInterval:
    """Several entries as one, without percentiles; a rate counts as its weight in ``whole``."""
    rates = [weight * part.iops for weight, part in zip(weights, parts, strict=True)]
    counted = [(rate, part) for rate, part in zip(rates, parts, strict=True) if rate]
    completed = math.fsum(rates)
    return replace(
        parts[0],
        iops=completed / whole,
        bytes_per_s=math.fsum(weight * part.bytes_per_s for weight, part in zip(weights, parts, strict=True)) / whole,
        mean_ns=math.fsum(rate * part.mean_ns for rate, part in counted) / completed if counted else math.nan,
        max_ns=max((part.max_ns for _, part in counted), default=math.nan),
        errors=sum(part.errors for part in parts),
        p50_ns=None,
        p99_ns=None,
    )


def course(outcome: Outcome, kind: str | None = None) -> list[SeriesInterval]:
    """The time series of the measured window, in intervals of one length; as ``course_of``."""
    found = [each for each in of_outcome(outcome) if not each.ramp]
    joined = max((each.joined for each in found), default=1)
    return course_of(_series(_even(found, joined), _kinds_of_groups(outcome)), kind, joined)


def course_of(intervals: Iterable[SeriesInterval], kind: str | None = None, joined: int = 1) -> list[SeriesInterval]:
    """The intervals of the measured window, without partial ones at either end and without flushes.

    ``kind`` selects one kind of operation.
    """
    parts = [part for part in intervals if not part.ramp and part.kind not in FLUSH_KINDS]
    parts = [part for part in parts if kind in (None, part.kind) and not math.isnan(part.iops)]
    longest = max((part.end_ns - part.start_ns for part in parts), default=0)
    cells: dict[tuple[int, int], list[SeriesInterval]] = {}
    for part in parts:
        if part.end_ns - part.start_ns > WHOLE * longest:
            cells.setdefault((part.group, part.index), []).append(part)
    return [_all_kinds(cells[place], joined) for place in sorted(cells)]


def records(intervals: Sequence[SeriesInterval], first: int) -> int:
    """Number of these intervals that hold the first intervals of the run, ``first`` in number."""
    return -(-first // intervals[0].joined) if intervals else 0


def _even(intervals: Sequence[GroupInterval], length: int) -> list[GroupInterval]:
    """Intervals of one length."""
    if length == 1:
        return list(intervals)
    groups: dict[int, list[GroupInterval]] = {}
    for each in intervals:
        groups.setdefault(each.group, []).append(each)
    return [record for group in groups.values() for record in _joined(group, lambda _: length)]


def _series(intervals: Iterable[GroupInterval], kinds: Mapping[int, set[str]]) -> list[SeriesInterval]:
    parts = [
        _of_kind(each, kind, each.operations.get(kind, NOTHING)) for each in intervals for kind in kinds[each.group]
    ]
    return sorted(parts, key=lambda part: (part.group, part.index, not part.ramp, part.kind))


def _of_kind(interval: GroupInterval, kind: str, done: IntervalKind) -> SeriesInterval:
    length_ns = max(1, interval.end_ns - interval.start_ns)
    return SeriesInterval(
        group=interval.group,
        index=interval.index,
        ramp=interval.ramp,
        start_ns=interval.start_ns,
        end_ns=interval.end_ns,
        kind=kind,
        iops=done.operations * SECOND_NS / length_ns,
        bytes_per_s=done.bytes * SECOND_NS / length_ns,
        mean_ns=done.mean_ns if done.operations else math.nan,
        max_ns=done.max_ns if done.operations else math.nan,
        errors=done.errors,
        p50_ns=done.p50_ns if done.operations else None,
        p99_ns=done.p99_ns if done.operations else None,
    )


def _all_kinds(kinds: Sequence[SeriesInterval], joined: int) -> SeriesInterval:
    return replace(_added(kinds, [1] * len(kinds), 1), kind="", joined=joined)


def _joined(intervals: Iterable[Record], length_at: Callable[[int], int]) -> list[Record]:
    cells: dict[tuple[int, bool], list[Record]] = {}
    for interval in intervals:
        first = interval.index - interval.index % max(interval.joined, length_at(interval.index))
        cells.setdefault((first, interval.ramp), []).append(interval)
    return [_together(parts, first) for (first, _), parts in cells.items()]


def _together(parts: Sequence[Record], first: int) -> Record:
    last = max(part.index + part.joined for part in parts)
    return parts[0].replace(
        index=first,
        joined=last - first,
        start_ns=min(part.start_ns for part in parts),
        end_ns=max(part.end_ns for part in parts),
        operations=_kinds(parts),
    )


def _kinds(parts: Sequence[GroupInterval] | Sequence[IntervalOutcome]) -> dict[str, IntervalKind]:
    kinds: dict[str, list[IntervalKind]] = {}
    for part in parts:
        for kind, values in part.operations.items():
            kinds.setdefault(kind, []).append(values)
    return {kind: together(several) for kind, several in kinds.items()}
