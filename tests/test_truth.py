"""The truth bench: its instruments, and iocurve's counts and latencies against their logs."""

import shutil
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from bench.truth import measured, table
from bench.truth.__main__ import SECTIONS
from bench.truth.instruments import Logged, Service, percentile, run_delayed, run_served
from goldens import present
from iocurve.engine import plan as planned
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.result.document import Point
from iocurve.targets.target import NfsTarget

pytestmark = pytest.mark.slow

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds the instruments; it is missing here")


def served(service: Service, operations: int, depth: int, **changes: object) -> tuple[Point, list[Logged]]:
    def plan(port: int) -> planned.Plan:
        mount = NfsTarget.of(f"nfs://127.0.0.1/stub?nfsport={port}&mountport={port}").mount(1)
        return measured.load(planned.NfsEngine(mount=mount), "data", operations, depth, **changes)

    return run_served(service, plan)


def delayed(tmp_path: Path, shape: str, operations: int, **changes: object) -> tuple[Point, list[Logged]]:
    path = tmp_path / "data"
    path.write_bytes(bytes(measured.FILE_BYTES))
    how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    plan = measured.load(planned.SyncEngine(open=how), str(path), operations, 1, **changes)
    return run_delayed(Service(shape), plan)


@needs_gcc
@pytest.mark.parametrize("is_write", [False, True])
def test_every_operation_of_the_nfs_client_is_in_the_servers_log(is_write: bool) -> None:
    point, log = served(Service("exponential:200"), 300, 4, is_write=is_write)
    summary = point.summary()
    assert summary.operations == len(log) == 300
    assert {one.is_write for one in log} == {is_write}
    # The client's time includes the time for which the server held the operation.
    assert summary.latency.mean_ns > fmean(one.time_ns for one in log)
    assert summary.latency.max_ns > max(one.time_ns for one in log)


@needs_gcc
def test_one_slot_serves_one_operation_after_the_other() -> None:
    _, log = served(Service("bimodal:100:900:0.5", slots=1), 100, 4)
    assert {one.service_ns for one in log} == {100_000, 900_000}
    ordered = sorted(log, key=lambda one: one.due_ns)
    assert all(late.due_ns - early.due_ns >= late.service_ns for early, late in pairwise(ordered))
    assert all(one.sent_ns >= one.due_ns for one in log)


@needs_gcc
def test_a_cap_holds_from_the_first_operation_on() -> None:
    _, log = served(Service("constant:0", cap=(2000, 10)), 200, 16)
    due = sorted(one.due_ns for one in log)
    # Ten at once, then one every 500 us.
    assert due[199] - due[0] >= 190 * 500_000 - 1000


@needs_gcc
@pytest.mark.parametrize("depth", [1, 64])
def test_operations_that_are_due_during_a_stall_wait_for_its_end(depth: int) -> None:
    rate = planned.Rate(unit="operations", count=1000, per_ns=10**9)
    service = Service("constant:100", slots=1, stalls_s=((0.1, 0.2),))
    point, _ = served(service, 500, depth, rate=rate)
    histogram = present(point.summary().latency.histogram)
    # 200 are due during the stall, 100 of them in its first half. Each bound may lose one to the edge of a bucket.
    assert histogram.count_between(100 * MILLISECOND_NS, 10**12) >= 98
    assert histogram.count_between(10 * MILLISECOND_NS, 10**12) >= 188


@needs_gcc
def test_every_pread_of_the_sync_engine_is_in_the_log(tmp_path: Path) -> None:
    point, log = delayed(tmp_path, "lognormal:200:1", 200)
    summary = point.summary()
    assert summary.operations == len(log) == 200
    assert not any(one.is_write for one in log)
    assert summary.latency.mean_ns > fmean(one.time_ns for one in log)
    assert all(one.sent_ns >= one.due_ns for one in log)


@needs_gcc
def test_every_pwrite_of_the_sync_engine_is_in_the_log(tmp_path: Path) -> None:
    point, log = delayed(tmp_path, "constant:50", 100, is_write=True)
    assert point.summary().operations == len(log) == sum(one.is_write for one in log) == 100


def test_a_schedule_is_found_by_the_operation_that_is_least_late() -> None:
    # Due at 0, 1, 2, 3 ms; the second is sent 0.5 ms late, the third as soon as the second is answered.
    at = [(0, 200_000), (1_500_000, 2_600_000), (2_600_000, 2_800_000), (3_000_000, 3_200_000)]
    log = [Logged(arrival, sent, sent, 0, False) for arrival, sent in at]
    expected = measured.due_evenly(log, 1000)
    assert expected.times.values[0] == fmean([200_000, 1_600_000, 800_000, 200_000])
    assert expected.times.values[-1] == 1_600_000
    assert expected.rate == pytest.approx(4 / 3.2e-3)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 5), (90, 9), (91, 10), (100, 10)])
def test_percentiles_are_by_nearest_rank(percent: float, value: int) -> None:
    assert percentile(range(1, 11), percent) == value


@pytest.mark.parametrize("shape", ["constant:1000", "exponential:1000", "lognormal:1000:1", "bimodal:500:5500:0.1"])
def test_means_of_service_times(shape: str) -> None:
    assert Service(shape).mean_us == 1000


def test_the_page_has_a_place_for_every_table() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    for name, section in SECTIONS.items():
        written = table.with_table(page, name, section.columns, [("x",) * len(section.columns)])
        assert written.count(f"<!-- table: {name} -->") == 1
