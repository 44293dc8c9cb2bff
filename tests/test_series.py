"""Series over time: every interval of a window has a value, and the values of a series add up to its operations."""

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import synthetic
from data.synthetic import interval, kind, outcome, plan, worker_outcome, worker_plan
from goldens import matches
from iocurve.engine.outcome import Outcome, WorkerOutcome
from iocurve.foundation.units import SECOND_NS
from iocurve.imports.formats import read_all
from iocurve.measure.search.loads import sample_of
from iocurve.result import turns
from iocurve.result.course import coarser, course, for_document, group_intervals, joined, series, with_others
from iocurve.result.summary import SeriesInterval

BLOCK = 4096
KINDS = ("fsync", "read", "write")
Counts = Sequence[dict[str, int]]
"""The operations of each interval, by kind; a kind is left out where it did nothing, as the engine does."""


def worker(counts: Counts, number: int = 0, group: int = 0, ramp: int = 0, rest: int = SECOND_NS) -> WorkerOutcome:
    """A worker with intervals of a second, the first ``ramp`` of them in its ramp; the last takes ``rest`` ns."""
    lengths = [SECOND_NS] * (len(counts) - 1) + [rest]
    intervals = [
        interval(at, at * SECOND_NS, at * SECOND_NS + length, done, BLOCK).replace(ramp=at < ramp)
        for at, (done, length) in enumerate(zip(counts, lengths, strict=True))
    ]
    totals = {name: kind({1000: max(1, sum(done.get(name, 0) for done in counts[ramp:]))}, BLOCK) for name in KINDS}
    window = (ramp * SECOND_NS, (len(counts) - 1) * SECOND_NS + rest)
    return worker_outcome(totals, number=number, group=group, intervals=intervals, window_ns=window)


class Series(NamedTuple):
    """An outcome, and what its workers did."""

    outcome: Outcome
    counts: dict[tuple[int, str], int]
    """By group and kind, ramps included."""


@st.composite
def drawn(draw: st.DrawFn) -> Series:
    """Groups of workers with stalls, with ramps and a last interval that is cut short, singly kept or joined."""
    workers, counts = [], dict[tuple[int, str], int]()
    for group in range(draw(st.integers(1, 2))):
        length = draw(st.integers(1, 24))
        ramp, rest = draw(st.integers(0, length - 1)), draw(st.integers(1, SECOND_NS))
        done = st.dictionaries(st.sampled_from(KINDS), st.integers(1, 5000))
        for number in range(draw(st.integers(1, 3))):
            each = draw(st.lists(done, min_size=length, max_size=length))
            workers.append(worker(each, number, group, ramp, rest))
            for name in KINDS:
                counts[group, name] = counts.get((group, name), 0) + sum(one.get(name, 0) for one in each)
    singly = draw(st.sampled_from([1, 4, 1024]))
    kept = [one.replace(intervals=joined(one.intervals, singly)) for one in workers]
    found = outcome(*workers)
    if draw(st.booleans()):
        # Two agents: the intervals of groups are merged from theirs.
        halves = [group_intervals(half) for half in (kept[::2], kept[1::2])]
        found = found.replace(intervals=with_others(*halves))
    return Series(found if draw(st.booleans()) else for_document(found), counts)


def operations(intervals: Sequence[SeriesInterval], rate: str = "iops") -> Fraction:
    """Σ value × length."""
    return sum((Fraction(getattr(one, rate)) * one.length_ns / SECOND_NS for one in intervals), Fraction())


def is_close(value: Fraction, count: int) -> bool:
    return abs(float(value - count)) <= max(1, count) * 1e-9


@settings(max_examples=40, deadline=None)
@given(drawn(), st.integers(1, 30))
def test_the_values_of_a_series_add_up_to_its_operations(found: Series, every: int) -> None:
    whole = series(found.outcome)
    for each in (whole, coarser(whole, every * SECOND_NS)):
        for (group, name), count in found.counts.items():
            mine = [one for one in each if (one.group, one.kind) == (group, name)]
            assert is_close(operations(mine), count)
            assert is_close(operations(mine, "bytes_per_s"), count * BLOCK)


@settings(max_examples=40, deadline=None)
@given(drawn())
def test_every_interval_has_a_value_of_every_kind(found: Series) -> None:
    places = {(one.group, one.index, one.ramp) for one in group_intervals(found.outcome.workers)}
    places = {(one.group, one.index, one.ramp) for one in found.outcome.intervals} or places
    assert {(one.group, one.index, one.ramp, one.kind) for one in series(found.outcome)} == {
        (*place, name) for place in places for name in KINDS
    }


@settings(max_examples=40, deadline=None)
@given(drawn())
def test_the_measured_series_has_what_was_done_in_its_intervals(found: Series) -> None:
    parts = [one for one in series(found.outcome) if not one.ramp]
    for name in (None, "read", "write"):
        measured = course(found.outcome, name)
        done = [one for one in parts if one.kind == name or (name is None and one.kind != "fsync")]
        within = [
            one
            for one in done
            for whole in measured
            if one.group == whole.group and whole.start_ns <= one.start_ns and one.end_ns <= whole.end_ns
        ]
        assert is_close(operations(measured), round(operations(within)))
        for group in {one.group for one in measured}:
            ends = [(one.start_ns, one.end_ns) for one in measured if one.group == group]
            assert all(end == start for (_, end), (start, _) in pairwise(ends))


def test_seconds_without_an_operation_count_in_the_mean_of_a_series() -> None:
    """One operation each 2.5 s for 10 s."""
    counts: Counts = [{"read": 1} if second % 5 in (0, 2) else {} for second in range(10)]
    point = synthetic.point(plan([worker_plan()]), worker(counts))
    rates = [one.iops for one in point.course()]
    assert rates == [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert [one.iops for one in point.course("read")] == rates
    stalled = point.course()[1]
    assert math.isnan(stalled.mean_ns)
    record = stalled.record()
    assert (record["iops"], record["mib_per_s"], record["mean_us"], record["max_us"]) == (0.0, 0.0, None, None)


def test_a_search_has_the_rate_and_the_latency_that_the_table_of_points_has() -> None:
    """The last 0.9 s are no whole interval: they are missing from the series, and not from the rate."""
    counts: Counts = [{"read": 100}, {"read": 80}, {}] * 4 + [{"read": 900}]
    point = synthetic.point(plan([worker_plan()]), worker(counts, rest=9 * SECOND_NS // 10))
    sample, summary = sample_of(16, point), point.summary()
    assert fmean([one.iops for one in point.course()]) == 60.0
    assert (sample.iops.mean, sample.latency_ns.mean) == (summary.iops, summary.service.mean_ns)
    interval_of_rate = point.rate_interval()
    assert interval_of_rate.low is not None
    assert max(0.0, sample.iops.low) == pytest.approx(interval_of_rate.low)


def test_turns_have_the_values_of_their_stalls() -> None:
    stalled: Counts = [{"read": 100}, {}, {"read": 100}]
    merged = turns.merged(outcome(worker(stalled)), outcome(worker(stalled)))
    assert [one.iops for one in course(merged)] == [100.0, 0.0, 100.0, 100.0, 0.0, 100.0]


def test_a_chart_over_time_shows_the_stall() -> None:
    from iocurve.report import chart_curves

    found = outcome(worker([{"read": 100}, {}, {"read": 100}]))
    rates, latencies = chart_curves.over_time(series(found))
    (rows,) = rates["datasets"].values()
    assert [row["iops"] for row in rows if row["kind"] == "read"] == [100.0, 0.0, 100.0]
    (rows,) = latencies["datasets"].values()
    means = [(row["latency"], row["latency_text"]) for row in rows if (row["kind"], row["which"]) == ("read", "mean")]
    assert means == [(0.45, "450 µs"), (None, "–"), (0.45, "450 µs")]


def test_windows_that_fio_logs_nothing_of_are_zeros(tmp_path: Path) -> None:
    """fio writes no line for a window in which nothing completed."""
    job = {"jobname": "a", "job options": {"write_iops_log": "l", "log_avg_msec": "1000", "rw": "randread"}}
    side = {"total_ios": 4, "io_bytes": 4 * BLOCK, "runtime": 4000, "iops": 1.0, "bw_bytes": BLOCK}
    idle = {"total_ios": 0, "io_bytes": 0, "runtime": 0, "iops": 0.0, "bw_bytes": 0}
    document = {"fio version": "fio-3.33", "jobs": [{**job, "read": side, "write": idle, "trim": idle}]}
    (tmp_path / "out.json").write_text(json.dumps(document))
    (tmp_path / "l_iops.1.log").write_text("1000, 2, 0, 0\n4000, 2, 0, 0\n")
    (measured,), _ = read_all([tmp_path / "out.json"])
    matches(
        "series/windows_that_fio_logs_nothing_of_are_zeros",
        [(one.start_ns // SECOND_NS, one.iops) for one in measured.intervals],
    )


@pytest.mark.parametrize("every", [2, 5])
def test_longer_intervals_keep_the_latencies_of_what_was_done(every: int) -> None:
    found = coarser(series(outcome(worker([{"read": 100}, {}, {"read": 300}, {}]))), every * SECOND_NS)
    reads = [one for one in found if one.kind == "read"]
    assert ({one.mean_ns for one in reads}, {one.max_ns for one in reads}) == ({450_000.0}, {2_800_000})
