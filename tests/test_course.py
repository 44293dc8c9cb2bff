"""The course of a long run: joined intervals have the sums of all, and an hour of many workers is a small document."""

import csv
import io
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from data import synthetic
from data.synthetic import interval, kind, outcome, plan, result, worker_outcome, worker_plan
from goldens import matches
from iocurve.cli.commands import run
from iocurve.engine.outcome import GroupInterval, IntervalOutcome, KindOutcome, Outcome, WorkerOutcome
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.result import turns
from iocurve.result.course import (
    course,
    for_document,
    group_intervals,
    joined,
    length,
    records,
    series,
    singly,
    with_others,
)
from iocurve.result.document import Result
from iocurve.result.summary import MergedOperations, SeriesInterval
from programs import iocurve, printed

BLOCK = 4096
HOUR = 3600


def seconds(count: int, per_second: int = 10) -> list[IntervalOutcome]:
    return synthetic.intervals([per_second] * count, BLOCK)


def grouped(intervals: Sequence[IntervalOutcome], single: int = 1024) -> tuple[GroupInterval, ...]:
    """The intervals of one worker as the engine keeps them of a group."""
    return group_intervals([worker_outcome({}, intervals=joined(intervals, single))])


def hour_of(workers: int) -> Outcome:
    """An hour of a mix, as the engine gives it: histograms with the many different values of a real run."""
    draw = random.Random(1)
    values = {round(200_000 * draw.lognormvariate(0, 0.6)): draw.randrange(1, 50) for _ in range(4000)}
    totals = {"read": kind(values, BLOCK), "write": kind(values, BLOCK)}
    intervals = synthetic.intervals([{"read": 700, "write": 300}] * HOUR, BLOCK)
    short = joined(intervals, singly(workers))
    window_ns = (0, HOUR * SECOND_NS)
    found = [worker_outcome(totals, number=number, intervals=short, window_ns=window_ns) for number in range(workers)]
    return outcome(*found).replace(intervals=grouped(intervals))


def operations(intervals: Sequence[GroupInterval] | Sequence[IntervalOutcome]) -> int:
    return sum(each.operations["read"].operations for each in intervals)


@pytest.mark.parametrize(("index", "expected"), [(0, 1), (7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8), (64, 16)])
def test_records_become_longer(index: int, expected: int) -> None:
    assert length(index, 8) == expected


def test_joined_intervals_have_the_sums_of_all_and_no_percentiles() -> None:
    found = joined(seconds(13), 4)
    in_seconds = [(one.index, one.joined, one.start_ns // SECOND_NS, one.end_ns // SECOND_NS) for one in found]
    matches("result#joined intervals sums", in_seconds)
    assert operations(found) == 130
    matches("result#joined intervals sums 2", found[6].operations["read"])
    assert joined(found, 4) == found


def test_the_ramp_is_not_joined_with_what_is_measured() -> None:
    found = joined([one.replace(ramp=one.index < 5) for one in seconds(6)], 2)
    matches("course/the_ramp_is_not_joined", [(one.index, one.joined, one.ramp) for one in found])


def test_the_statistics_of_a_long_run_are_over_intervals_of_one_length() -> None:
    found = outcome(worker_outcome({}, intervals=seconds(20))).replace(intervals=grouped(seconds(20), 4))
    assert [one.joined for one in found.intervals] == [1, 1, 1, 1, 2, 2, 4, 4, 4]
    measured = course(found)
    assert [(one.start_ns // SECOND_NS, one.iops, one.joined) for one in measured] == [
        (start, 10.0, 4) for start in (0, 4, 8, 12, 16)
    ]
    assert [records(measured, number) for number in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert len(series(found)) == 9


def test_an_hour_of_64_workers_is_a_small_document() -> None:
    found = hour_of(64)
    workers = [worker_plan([("read", 70), ("write", 30)], nconnect=8, depth=8, runtime_ns=HOUR * SECOND_NS)] * 64
    point = synthetic.point(plan(workers), *found.workers, name="hour").replace(outcome=found)
    written = result([point])
    assert len(written.document()) < 5 * MIB
    kept = for_document(found)
    assert {len(worker.intervals) for worker in kept.workers} == {4 + 2 * 9 + 2}
    assert {operations(worker.intervals) for worker in kept.workers} == {700 * HOUR}
    assert len(kept.intervals) == 1024 + 512 + 388
    again = Result.from_builtins(written.replace(points=(point.replace(outcome=kept),)).to_builtins())
    assert (again.points[0].figures, again.points[0].series()) == (point.figures, point.series())


@pytest.mark.parametrize(("workers", "expected"), [(1, 8192), (3, 2048), (64, 128), (100_000, 4), (0, 8192)])
def test_the_more_workers_the_sooner_intervals_are_joined(workers: int, expected: int) -> None:
    assert singly(workers) == expected


def test_the_spread_of_rates_counts_joined_intervals_as_often_as_they_are_joined() -> None:
    rates = [10] * 4 + [20, 40]
    whole = joined(synthetic.intervals(rates, 1), 4)
    worker = worker_outcome({"read": kind({1000: sum(rates)}, 1)}, intervals=whole)
    spread = MergedOperations([worker], ("read",)).spread("operations", SECOND_NS)
    assert (spread.count, spread.mean, spread.smallest, spread.largest) == (6, sum(rates) / 6, 10.0, 30.0)


def test_the_spread_of_rates_weights_what_is_joined_by_its_time() -> None:
    """The last record has an interval of 20 operations and half of one with 5."""
    whole = synthetic.intervals([10] * 4 + [20] * 2, BLOCK)
    whole[5] = interval(5, 5 * SECOND_NS, 11 * SECOND_NS // 2, {"read": 5}, 1)
    worker = worker_outcome({"read": kind({1000: 65}, 1)}, intervals=joined(whole, 4))
    spread = MergedOperations([worker], ("read",)).spread("operations", SECOND_NS)
    assert spread.count == 6
    assert spread.mean * 5.5 == pytest.approx(65)


def test_a_short_run_is_kept_as_it_is() -> None:
    found = outcome(worker_outcome({}, intervals=seconds(256)))
    assert for_document(found) == found
    with_groups = found.replace(intervals=group_intervals(found.workers))
    assert for_document(with_groups) == with_groups


def test_workers_that_are_added_later_count_in_the_intervals_of_their_group() -> None:
    added = grouped(seconds(12, 5), 4)
    found = with_others(grouped(seconds(10), 4), added)
    assert [one.index for one in found] == [one.index for one in added]
    assert operations(found) == 160


def test_further_turns_follow_in_the_intervals_of_the_group() -> None:
    def turn(per_second: int) -> WorkerOutcome:
        totals: dict[str, KindOutcome] = {"read": kind({1000: 10 * per_second}, BLOCK)}
        intervals = joined(seconds(10, per_second), 4)
        return worker_outcome(totals, intervals=intervals, window_ns=(0, 10 * SECOND_NS))

    found = turns.merged(outcome(turn(10)), outcome(turn(20)))
    assert [one.index for one in found.intervals] == [0, 1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 16, 18]
    assert [one.start_ns // SECOND_NS for one in found.intervals][7:9] == [10, 11]
    assert operations(found.intervals) == operations(found.workers[0].intervals) == 300


def test_documents_without_group_intervals_have_a_course() -> None:
    envelope = synthetic.fio_run().points[0]
    assert envelope.outcome.intervals == ()
    assert envelope.outcome.replace(intervals=group_intervals(envelope.outcome.workers)).intervals
    again = envelope.replace(outcome=envelope.outcome.replace(intervals=group_intervals(envelope.outcome.workers)))
    assert (again.series(), again.figures) == (envelope.series(), envelope.figures)


# ---- the time series


def written(directory: Path) -> Path:
    """Two points of 20 s: one of 100 reads a second, and one of which nothing is known over time."""
    done = worker_outcome({"read": kind({450_000: 2000}, BLOCK)}, window_ns=(0, 20 * SECOND_NS))
    unknown = synthetic.point(plan([worker_plan()]), done, name="b")
    over_time = group_intervals([worker_outcome({}, intervals=seconds(20, 100))])
    known = unknown.replace(name="a", outcome=unknown.outcome.replace(intervals=over_time))
    result([known, unknown]).write(directory / "result.json")
    return directory


def test_a_series_is_csv_with_the_names_of_figures(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(printed("result", "series", str(written(tmp_path))))))
    assert len(rows) == 20
    matches("result#series csv names", rows[3])


def test_a_series_at_longer_intervals_has_their_means_and_extremes(tmp_path: Path) -> None:
    ran = iocurve("result", "series", str(written(tmp_path) / "result.json"), "--every", "6s", "--jsonl")
    assert ran.stderr.startswith("info: 4 lines without percentiles: a result keeps those of each of its intervals")
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    matches("course/a_series_at_longer_intervals", [(row["start_s"], row["end_s"], row["iops"]) for row in rows])
    assert (rows[0]["mean_us"], rows[0]["max_us"], rows[0]["p99_us"]) == (450.0, 2800.0, None)


def test_a_series_of_a_result_without_intervals_is_an_error(tmp_path: Path) -> None:
    result([]).write(tmp_path / "result.json")
    with pytest.raises(ResultError, match=r"result\.json has no intervals"):
        run(["result", "series", str(tmp_path)])


def test_unknown_values_of_a_series_are_null() -> None:
    read = SeriesInterval(0, 0, False, 0, SECOND_NS, "read", 10.0, math.nan, math.nan, math.nan)
    record = read.record()
    assert (record["iops"], record["mib_per_s"], record["mean_us"], record["max_us"]) == (10.0, None, None, None)
