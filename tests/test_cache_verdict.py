"""The verdict on caches uses several kinds of evidence, and is open without any."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.truth.simulated import SHAPES, cache_verdicts
from data import synthetic
from goldens import Golden, cases, data, matches, present
from iocurve.analysis import cache_evidence
from iocurve.analysis.cache_evidence import compared, judged
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import DiskPlan, Plan
from iocurve.foundation.units import KIB, MIB
from iocurve.job.model import Job
from iocurve.measure.scenario import caches
from iocurve.measure.scenario.caches import CHECK_PAIRS, Caches, resident_share
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.document import load
from iocurve.result.document import CacheFacts, Interval, MachineUse, TargetFacts
from iocurve.targets.opened_target import UNOPENED
from plans import file_plan, local_engine, plan_of, worker

DISK = DiskPlan.from_json(data("analysis/disk_with_a_host_cache.json"))
SAME = Interval(value=0.001, low=-0.004, high=0.006)
FASTER = Interval(value=0.5, low=0.4, high=0.6)
TARGET = TargetFacts(kind="emulated_disk", address="disk")


def on_disk(iops: int, hits: int | None) -> MeasuredLoad:
    """One second of 4 KiB reads on an emulated P20 with a host cache."""
    counters = {} if hits is None else {"reads": iops, "cache_read_hits": hits}
    outcome = synthetic.worker_outcome({"read": synthetic.kind({100_000: iops}, 4 * KIB)}).replace(counters=counters)
    return MeasuredLoad(synthetic.point(synthetic.plan([synthetic.worker_plan().replace(disk=DISK)]), outcome), TARGET)


def on_files(moved: int | None, values: dict[int, int], *, direct: bool = False) -> MeasuredLoad:
    """4 KiB reads of files of this machine, for which storage moved a number of bytes."""
    plan = synthetic.plan([synthetic.worker_plan().replace(engine=local_engine("sync", direct=direct))])
    outcome = synthetic.worker_outcome({"read": synthetic.kind(values, 4 * KIB)})
    machine = MachineUse(busy_share=0.2, cpus=2, own_share=0.1, device_read_bytes=moved)
    point = synthetic.point(plan, outcome, machine=machine)
    return MeasuredLoad(point, TargetFacts(kind="file", address="/data"))


def facts(gain: Interval | None) -> CacheFacts:
    return CacheFacts(policy="uncached", preparation="unrelated data were read before", speedup=gain)


def test_a_warm_cache_that_answers_everything_is_recognised() -> None:
    """77,000 IOPS from a disk of 2,300: fresh offsets are as fast as repeated ones, since all are in the cache."""
    found = judged(facts(SAME), on_disk(77_000, 77_000))
    assert (found.verdict, found.is_fully_warm) == ("cached", True)
    matches("analysis#warm cache answers", [(one.source, one.says) for one in found.evidence])
    assert found.evidence[1].text == "77,000 reads a second, where the disk itself does at most 3,500"


@cases("analysis/cache_verdicts")
def test_rates_and_counters_make_a_verdict(speedup: str, load: dict[str, int], golden: Golden) -> None:
    measured = on_files(load["moved"], {5_000: 1_000}) if "moved" in load else on_disk(**load)
    found = judged(facts({"same": SAME, "faster": FASTER}.get(speedup)), measured)
    golden.check([found.verdict, found.is_fully_warm, [one.says for one in found.evidence]])


@cases("analysis/bytes_that_the_devices_moved")
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
    found = judged(facts(None), on_files(None, {5_000: 1_000}), (0.02, 0.97))
    matches("analysis#page cache told", [(one.text, one.says) for one in found.evidence])
    assert judged(facts(None), on_files(None, {5_000: 1_000}), (0.95, None)).verdict == "cached"


def test_two_modes_of_latency_are_evidence_of_a_part() -> None:
    found = judged(facts(None), on_files(None, {5_000: 400, 200_000: 600}))
    assert [(one.source, one.says) for one in found.evidence] == [("latency", "partly")]
    assert found.evidence[0].text.startswith("latencies have two modes: 40% below 30 µs, the rest about 200 µs")
    assert found.verdict == "unclear"


def test_writes_are_not_judged() -> None:
    outcome = synthetic.worker_outcome({"write": synthetic.kind({100_000: 10}, 4 * KIB)})
    point = synthetic.point(synthetic.plan([synthetic.worker_plan()]), outcome)
    assert judged(facts(None), MeasuredLoad(point, TARGET)) == facts(None)


def test_the_evidence_is_told_with_the_verdict() -> None:
    point = on_disk(77_000, 77_000).point.replace(cache=judged(facts(SAME), on_disk(77_000, 77_000)))
    (doubt,) = cache_evidence.cache_doubts(synthetic.result([point]))
    matches("analysis#evidence told", doubt)


# ---- turns at repeated and at fresh offsets


def of_turns(repeated: Sequence[float], fresh: Sequence[float]) -> CacheFacts:
    found = compared(CacheFacts(policy="uncached"), repeated, fresh)
    return judged(found, on_disk(2_300, None))


def test_a_cache_of_a_server_is_found_by_its_turns() -> None:
    """Rates of a volume whose first reads take 4 ms and whose repeated ones take 0.2 ms."""
    repeated = [2016.7, 2241.3, 2094.6, 3814.8, 3804.2, 1216.7, 2943.8, 1651.3]
    found = of_turns(repeated, [192.0, 192.0, 192.0, 192.0, 190.0, 222.0, 192.0, 190.0])
    assert found.verdict == "cached"
    (evidence,) = found.evidence
    assert evidence.text == "repeated offsets are faster than fresh ones, in 8 of 8 runs"
    again, fresh = present(found.repeated_iops), present(found.fresh_iops)
    assert (again.low, again.high) == (1216.7, 3814.8)
    assert (fresh.low, fresh.value, fresh.high) == (190, 192, 222)
    assert present(present(found.speedup).low) > 4


@cases("analysis/turns_of_caches")
def test_turns_at_repeated_offsets_make_a_verdict(repeated: list[float], fresh: list[float], golden: Golden) -> None:
    found = of_turns(repeated, fresh)
    golden.check([found.verdict, [(one.says, one.text) for one in found.evidence]])


@pytest.mark.parametrize("shape", SHAPES)
def test_caches_are_found_and_not_invented(shape: str) -> None:
    """Under drawn noise, correlation and drift; docs/evidence/accuracy.md has more runs."""
    assert cache_verdicts(shape, 400, has_cache=False) <= 0.01 * 400
    assert cache_verdicts(shape, 200, has_cache=True) >= 0.88 * 200


class Server:
    """A server whose first read of a block takes 4 ms and whose repeated reads take 0.2 ms, in place of a run."""

    def __init__(self) -> None:
        self.read: dict[int, int] = {}
        """By seed: the reads at its offsets so far."""
        self.repeats: list[int | None] = []

    def run(self, plan: Plan, _what: str, _enough: object) -> Outcome:
        (group,) = plan.groups
        (one,) = group.workers
        assert one.end.runtime_ns
        assert one.ramp_ns == 0
        known = self.read.get(one.seed, 0)
        self.repeats.append(one.end.operations)
        hits = min(known, one.end.runtime_ns // 200_000, one.end.operations or known)
        left = max(0, one.end.runtime_ns - 200_000 * hits)
        misses = min(left // 4_000_000, (one.end.operations or 10**9) - hits)
        self.read[one.seed] = max(known, hits + misses)
        elapsed = 200_000 * hits + 4_000_000 * misses
        kind = synthetic.kind({200_000: hits, 4_000_000: misses}, 4 * KIB)
        return synthetic.outcome(synthetic.worker_outcome({"read": kind}, window_ns=(0, elapsed)))


def test_turns_repeat_the_offsets_that_were_read_and_no_others() -> None:
    """A turn at repeated offsets that went on to fresh ones would hide the cache."""
    scenario = load("anf-regular-iops")
    cases = Cases(scenario, scenario.short, {need.name: UNOPENED for need in scenario.targets}, "")
    case = next(one for one in cases.all() if one.family.cache == "uncached")
    seeds = iter(range(100, 200))

    def planned(_job: Job) -> Plan:
        return synthetic.plan([synthetic.worker_plan().replace(seed=next(seeds), ramp_ns=10**9)])

    server = Server()
    plan = planned(case.job)
    found = Caches(cases, planned, server.run).facts(case, plan, "", synthetic.envelope().points[0])
    assert found
    assert found.verdict == "cached"
    assert found.repeated_runs == pytest.approx([5_000] * CHECK_PAIRS)
    assert found.fresh_runs == pytest.approx([250] * CHECK_PAIRS)
    assert server.repeats.count(None) == CHECK_PAIRS + 1


def test_a_file_that_was_just_written_is_in_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * MIB)
    buffered, direct = (
        plan_of(worker(local_engine("sync", direct=direct), "", files=(file_plan(path),))) for direct in (False, True)
    )
    # None where the kernel knows neither cachestat(2) nor, on this file system, RWF_NOWAIT.
    assert resident_share(buffered) in (None, 1.0)
    assert resident_share(direct) is None


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
        monkeypatch.setattr(caches, "CACHESTAT", -1)
    share = resident_share(plan_of(worker(local_engine("sync"), "", files=(file_plan(path),))))
    # A file system in memory keeps all of it.
    assert share is None or share == 1.0 or share == pytest.approx(0.5, abs=0.0 if has_cachestat else 0.1)
