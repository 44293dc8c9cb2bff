"""The verdict on caches uses several kinds of evidence, and is open without any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from data import synthetic
from iocurve.analysis import caches
from iocurve.analysis.cache_evidence import Resident, judged
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import DiskPlan, FileOpen, IoBurst, IoLimits, SyncEngine
from iocurve.measure import page_cache
from iocurve.result.document import CacheFacts, Interval, MachineUse, Point, TargetFacts
from iocurve.units import KIB, MIB
from plans import file_plan, plan_of, worker

DISK = DiskPlan(
    name="premium-ssd-p20",
    state_path="",
    limits=IoLimits(
        iops=2_300, bytes_per_s=150_000_000, burst=IoBurst(iops=3_500, bytes_per_s=170_000_000, duration_ns=1)
    ),
    io_bytes=256 * KIB,
    cache="read_only",
)
SAME = Interval(value=0.001, low=-0.004, high=0.006)
FASTER = Interval(value=0.5, low=0.4, high=0.6)
TARGET = TargetFacts(kind="emulated_disk", address="disk")


def on_disk(iops: int, hits: int | None) -> MeasuredLoad:
    """One second of 4 KiB reads on an emulated P20 with a host cache."""
    counters = {} if hits is None else {"reads": iops, "cache_read_hits": hits}
    outcome = synthetic.worker_outcome({"read": synthetic.kind({100_000: iops}, 4 * KIB)}).replace(counters=counters)
    plan = synthetic.plan([synthetic.worker_plan().replace(disk=DISK)])
    return MeasuredLoad(Point(name="p", family="f", axes={}, plan=plan, outcome=synthetic.outcome(outcome)), TARGET)


def on_files(moved: int | None, values: dict[int, int], *, direct: bool = False) -> MeasuredLoad:
    """4 KiB reads of files of this machine, for which storage moved a number of bytes."""
    how = FileOpen(direct=direct, durability="none", invalidate=False)
    plan = synthetic.plan([synthetic.worker_plan().replace(engine=SyncEngine(open=how))])
    outcome = synthetic.outcome(synthetic.worker_outcome({"read": synthetic.kind(values, 4 * KIB)}))
    machine = MachineUse(busy_share=0.2, cpus=2, own_share=0.1, device_read_bytes=moved)
    point = Point(name="p", family="f", axes={}, plan=plan, outcome=outcome, machine=machine)
    return MeasuredLoad(point, TargetFacts(kind="file", address="/data"))


def facts(gain: Interval | None) -> CacheFacts:
    return CacheFacts(policy="uncached", preparation="unrelated data were read before", gain=gain)


def test_a_warm_cache_that_answers_everything_is_recognised() -> None:
    """77,000 IOPS from a disk of 2,300: fresh offsets are as fast as repeated ones, since all are in the cache."""
    found = judged(facts(SAME), on_disk(77_000, 77_000))
    assert (found.verdict, found.is_fully_warm) == ("cached", True)
    assert [(one.source, one.says) for one in found.evidence] == [
        ("counters", "cached"),
        ("limit", "cached"),
        ("repeated", "nothing"),
    ]
    assert found.evidence[1].text == "77,000 reads a second, where the disk itself does at most 3,500"


def test_a_rate_above_the_device_s_limit_is_enough() -> None:
    found = judged(facts(SAME), on_disk(77_000, None))
    assert (found.verdict, found.is_fully_warm) == ("cached", True)


def test_counted_misses_are_not_cached() -> None:
    found = judged(facts(SAME), on_disk(2_300, 0))
    assert (found.verdict, found.is_fully_warm) == ("uncached", False)


def test_equal_rates_alone_do_not_tell() -> None:
    found = judged(facts(SAME), on_disk(2_300, None))
    assert found.verdict == "unclear"
    assert [one.says for one in found.evidence] == ["nothing"]


@pytest.mark.parametrize(
    ("gain", "hits", "verdict"), [(FASTER, None, "cached"), (FASTER, 0, "unclear"), (FASTER, 1_000, "cached")]
)
def test_repeated_offsets_that_are_faster_are_cached(gain: Interval, hits: int | None, verdict: str) -> None:
    assert judged(facts(gain), on_disk(2_300, hits)).verdict == verdict


@pytest.mark.parametrize(
    ("moved", "gain", "verdict", "warm"),
    [
        (0, SAME, "cached", True),
        (4 * KIB * 10, None, "cached", True),
        (4 * KIB * 1_000, SAME, "unclear", False),
        (4 * KIB * 1_000, FASTER, "cached", False),
        (None, SAME, "unclear", False),
    ],
)
def test_bytes_that_storage_moved_tell_of_the_page_cache(
    moved: int | None, gain: Interval | None, verdict: str, *, warm: bool
) -> None:
    found = judged(facts(gain), on_files(moved, {5_000: 1_000}))
    assert (found.verdict, found.is_fully_warm) == (verdict, warm)


@pytest.mark.parametrize(
    ("moved", "others", "says", "verdict"),
    [(0, 0, "cached", "cached"), (1_000, 0, "nothing", "unclear"), (0, 1_000, "nothing", "unclear")],
)
def test_bytes_that_the_devices_moved_are_evidence_only_where_they_are_few(
    moved: int, others: int, says: str, verdict: str
) -> None:
    load = on_files(None, {5_000: 1_000})
    assert load.point.machine
    machine = load.point.machine.replace(block_devices=("sda1", "sdb1"), block_read_bytes=4 * KIB * (moved + others))
    found = judged(facts(None), MeasuredLoad(load.point.replace(machine=machine), load.target))
    assert [(one.source, one.says) for one in found.evidence] == [("devices", says)]
    assert found.evidence[0].text.startswith("sda1, sdb1 read ")
    assert found.verdict == verdict


def test_the_page_cache_is_told_before_and_after_the_load() -> None:
    found = judged(facts(None), on_files(None, {5_000: 1_000}), Resident(0.02, 0.97))
    assert [(one.text, one.says) for one in found.evidence] == [
        ("the page cache held 2% of the files before the load and 97% after it", "nothing")
    ]
    assert judged(facts(None), on_files(None, {5_000: 1_000}), Resident(0.95)).verdict == "cached"


def test_two_modes_of_latency_are_evidence_of_a_part() -> None:
    found = judged(facts(None), on_files(None, {5_000: 400, 200_000: 600}))
    assert [(one.source, one.says) for one in found.evidence] == [("latency", "partly")]
    assert found.evidence[0].text.startswith("latencies have two modes: 40% below 30 µs, the rest about 200 µs")
    assert found.verdict == "unclear"


def test_writes_are_not_judged() -> None:
    outcome = synthetic.outcome(synthetic.worker_outcome({"write": synthetic.kind({100_000: 10}, 4 * KIB)}))
    point = Point(name="p", family="f", axes={}, plan=synthetic.plan([synthetic.worker_plan()]), outcome=outcome)
    assert judged(facts(None), MeasuredLoad(point, TARGET)) == facts(None)


def test_the_evidence_is_told_with_the_verdict() -> None:
    point = on_disk(77_000, 77_000).point.replace(cache=judged(facts(SAME), on_disk(77_000, 77_000)))
    (doubt,) = caches.cache_doubts(synthetic.result([point]))
    assert doubt == (
        "f: the same offsets again give +0.1% IOPS against fresh ones (95 %: -0.4% to +0.6%); the emulated disk "
        "counted 77,000 hits of its host cache in 77,000 reads (100%); 77,000 reads a second, where the disk itself "
        "does at most 3,500, so its figures look cached, although caches were to be left out"
    )


def test_a_file_that_was_just_written_is_in_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * MIB)
    how = FileOpen(direct=False, durability="none", invalidate=False)
    buffered = plan_of(worker(SyncEngine(open=how), "", files=(file_plan(path),)))
    share = page_cache.resident_share(buffered)
    # None where the kernel knows neither cachestat(2) nor, on this file system, RWF_NOWAIT.
    assert share in (None, 1.0)
    direct = plan_of(worker(SyncEngine(open=how.replace(direct=True)), "", files=(file_plan(path),)))
    assert page_cache.resident_share(direct) is None


@pytest.mark.parametrize("has_cachestat", [True, False])
def test_half_of_a_file_in_the_page_cache_is_counted_or_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_cachestat: bool
) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * MIB)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, MIB // 2, os.POSIX_FADV_DONTNEED)
    if not has_cachestat:
        monkeypatch.setattr(page_cache, "CACHESTAT", -1)
    how = FileOpen(direct=False, durability="none", invalidate=False)
    share = page_cache.resident_share(plan_of(worker(SyncEngine(open=how), "", files=(file_plan(path),))))
    # A file system in memory keeps all of it.
    assert share is None or share == 1.0 or share == pytest.approx(0.5, abs=0.0 if has_cachestat else 0.1)
