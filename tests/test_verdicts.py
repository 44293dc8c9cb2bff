"""The verdict on a point whose target, load or machine says what limits it, with confidence and evidence."""

from typing import Any, Literal

import pytest

from data import synthetic
from data.synthetic import capped, kind, plan, result, with_worker, worker_outcome, worker_plan
from goldens import Golden, cases, matches, present
from iocurve.analysis.fingerprints import Response, connection_verdict
from iocurve.analysis.level_changes import levels
from iocurve.analysis.limit_kinds import LIMIT_KINDS, limit, next_steps
from iocurve.analysis.limits import limit_of, verdict_of, verdicts_of, with_verdicts
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.outcome import ConnectionOutcome, CpuTime, IntervalOutcome
from iocurve.engine.plan import FileOpen, Flow, NfsEngine, Rate, SyncEngine, Think, Worker
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.result.caps import Burst, caps
from iocurve.result.document import Limit, MachineUse, Point, Result, TargetFacts
from iocurve.targets.target import VolumeTarget, facts_of

BLOCK = 64 * KIB
NFS = TargetFacts(kind="nfs", address="nfs://server/vol")
QUIET = MachineUse(busy_share=0.1, cpus=2, own_share=0.05, target_share=0.0, others_share=0.05, steal_share=0.0)


def rate_of(count: int, **more: Any) -> Rate:
    return Rate(unit="operations", count=count, per_ns=SECOND_NS, **more)


def known(**limits: int) -> TargetFacts:
    return capped(NFS, **limits)


def point(
    operations: int,
    *,
    kinds: tuple[str, ...] = ("read",),
    latency_ns: int = 1_000_000,
    depth: int = 1000,
    nconnect: int | None = None,
    machine: MachineUse | None = QUIET,
    intervals: list[IntervalOutcome] | None = None,
    **changes: Any,
) -> Point:
    """One second of a load, by the number of operations of each kind."""
    worker = worker_plan([(name, 1) for name in kinds], block_bytes=BLOCK, depth=depth, nconnect=nconnect)
    measured = worker_outcome(
        {name: kind({latency_ns: operations}, BLOCK) for name in kinds}, intervals=intervals or []
    )
    return synthetic.point(plan([worker.replace(**changes)]), measured, machine=machine)


# ---- the target


@cases("analysis/limits")
def test_each_limit_of_a_target_has_its_name(
    load: dict[str, Any], limits: dict[str, int], facts: dict[str, int], code: str, text: str
) -> None:
    target = known(**limits).replace(**facts)
    found = present(limit_of(point(**load), target))
    assert (found.code, found.confidence) == (code, "certain")
    assert text.split(" each")[0].removesuffix("2.000 ms") in found.text
    assert found.evidence
    assert found.next_step == next_steps(target, [found])[0]


@cases("analysis/verdicts")
def test_a_load_has_its_verdict(load: dict[str, Any], target: dict[str, Any], golden: Golden) -> None:
    """``machine`` is the state of the machine; ``limits`` are those of the target, all else its facts."""
    said = load | {"machine": QUIET.replace(**load["machine"]) if load.get("machine") else load.get("machine", QUIET)}
    if rate := said.pop("rate", None):
        said["rate"] = Rate(**rate, per_ns=SECOND_NS)
    if pause_ns := said.pop("think_ns", None):
        said["think"] = Think(pause_ns=pause_ns)
    facts = {name: value for name, value in target.items() if name != "limits"}
    golden.check(verdict_of(point(**said), known(**target.get("limits", {})).replace(**facts)))


def test_a_target_that_says_nothing_has_no_limit() -> None:
    assert limit_of(point(10), NFS) is None
    assert [found and found.code for found in verdicts_of(result([point(10)], target=NFS))] == ["unknown"]


def test_the_limit_of_an_unknown_export_may_be_that_of_a_burst() -> None:
    unknown = TargetFacts(kind="nfs", address="nfs://h/e")
    hints = [
        next_steps(one, [limit("volume_iops", "x", one)])[0].partition(" would tell. ")[0]
        for one in (unknown, NFS.replace(kind="directory"))
    ]
    first = "If the service bursts, its sustained rate is not known yet: points of 3,600 s (--runtime 1h)"
    assert hints == [first, "For more IOPS, raise the volume's IOPS limit."]


BURST = NFS.replace(caps=caps({"iops": 1000}, Burst(value=3000, credits=2000)))


@cases("analysis/credits")
def test_burst_credits_are_told_with_their_time(iops: int, rates: list[int], code: str, text: str) -> None:
    found = present(limit_of(point(iops, intervals=synthetic.intervals(rates, BLOCK)), BURST))
    assert (found.code, found.text) == (code, text)
    assert found.evidence[-1].startswith("a full bucket of credits sustains 3,000 IOPS for 1")


def test_two_levels_are_found_and_drifts_are_not() -> None:
    found = present(levels([3000, 3010, 2990, 3000, 1800, 1000, 1010, 990, 1000]))
    assert (found.index, found.before, found.after) == (4, 3000, 1000)
    assert levels([3000 - 100 * number for number in range(20)], 0.08) is None
    assert levels([1000, 990, 1010] * 5) is None
    assert levels([1000] * 5 + [3000] * 5) is None
    # A stall is no level.
    assert levels([1000, 1000, 1000, 200, 1000, 1000, 1000, 1000]) is None


def test_a_volume_tells_all_of_its_limits() -> None:
    facts = facts_of(VolumeTarget.of("volume:azure-files-v1?quota=1TiB"))
    assert [cap.burst for cap in facts.caps if cap.burst] == [Burst(value=10_000, credits=21_513_600)]
    assert facts.latency_mean_ns == 2 * MILLISECOND_NS


@cases("analysis/tebibyte")
def test_a_tebibyte_more_is_worth_what_the_formula_says(target: str, gain: int) -> None:
    assert facts_of(VolumeTarget.of(target)).next_tib_bytes_per_s == gain * MIB


def test_a_quota_that_gives_no_more_is_no_advice() -> None:
    target = facts_of(VolumeTarget.of("volume:anf-premium?quota=80TiB"))
    found = present(limit_of(point(4500 * 16), target))
    assert "(a larger quota gives no more at this level)" in found.next_step
    assert facts_of(VolumeTarget.of("volume:unlimited")).next_tib_bytes_per_s is None


# ---- the load


def test_a_rate_above_the_requested_one_is_a_backlog_and_no_limit() -> None:
    """Operations that were due in a ramp in which the target stalled complete in the window: 51,308 IOPS at 38,199."""
    cases: list[tuple[Literal["even", "poisson"], float]] = [("even", 1.03), ("poisson", 1.13)]
    for arrivals, above in cases:
        load: dict[str, Any] = {"kinds": ("read", "write"), "rate": rate_of(1600, arrivals=arrivals)}
        assert present(limit_of(point(810, **load), NFS)).code == "rate"
        found = present(limit_of(point(round(800 * above), **load), NFS))
        assert (found.code, found.label) == ("backlog", "backlog (certain)")
        assert found.text.startswith(f"catching up: {1600 * above:,.0f} IOPS at a requested rate of 1,600")
    few = present(limit_of(point(3, rate=rate_of(2)), NFS))
    assert few.code == "rate", "an operation at the edge of the window is no backlog"


def jobs(*workers: Worker, operations: tuple[int, ...]) -> Point:
    outcomes = [
        worker_outcome({"read": kind({1_000_000: count}, BLOCK)}, number=number, report_group=number)
        for number, count in enumerate(operations)
    ]
    return synthetic.point(plan(list(workers)), *outcomes, machine=QUIET)


def test_rates_of_several_jobs_are_one_limit() -> None:
    workers = [
        worker_plan(block_bytes=BLOCK, depth=100, rate=rate_of(count), report_group=number)
        for number, count in enumerate((300, 200))
    ]
    found = present(limit_of(jobs(*workers, operations=(300, 200)), NFS))
    assert (found.code, found.text) == ("group_rate", "at the rates asked of its jobs, 500 IOPS together")
    free = worker_plan(block_bytes=BLOCK, depth=100, report_group=1)
    assert limit_of(jobs(workers[0], free, operations=(300, 5000)), NFS) is None


def test_a_flow_bounds_all_of_its_workers_by_the_rate_of_one() -> None:
    workers = [
        worker_plan(block_bytes=BLOCK, depth=100, rate=rate_of(300)).replace(flow=Flow(id=1, weight=3)),
        worker_plan(block_bytes=BLOCK, depth=100, report_group=1).replace(flow=Flow(id=1, weight=1)),
    ]
    found = present(limit_of(jobs(*workers, operations=(300, 100)), NFS))
    assert (found.code, found.text) == ("group_rate", "at the rates asked of its jobs, 400 IOPS together")


# ---- this machine


def test_the_page_cache_is_named_where_storage_moved_nothing() -> None:
    def reads(moved: int, *, direct: bool) -> Limit | None:
        engine = SyncEngine(open=FileOpen(direct=direct, durability="none", invalidate=False))
        return limit_of(point(1000, engine=engine, machine=QUIET.replace(device_read_bytes=moved)), NFS)

    found = present(reads(0, direct=False))
    assert (found.code, found.evidence) == ("page_cache", ("62.5 MiB were read, 0 B came from storage",))
    others = (reads(1000 * BLOCK, direct=False), reads(0, direct=True))
    assert [one.code if one else None for one in others] == ["depth", "depth"]


def test_a_cap_that_stalls_keep_the_mean_below_is_likely() -> None:
    """Half of the operations take what the cap makes them take; the rest were held up with this machine."""
    worker = worker_plan(block_bytes=BLOCK, depth=16)
    reads = kind({10_000_000: 1000, 14_000_000: 340}, BLOCK)
    busy = QUIET.replace(busy_share=0.99, own_share=0.03, others_share=0.9, thread_delay_share=0.1)
    measured = synthetic.point(plan([worker]), worker_outcome({"read": reads}), machine=busy)
    target = known(throughput_bytes_per_s=100 * MIB)
    found = present(limit_of(measured, target))
    assert (found.code, found.confidence) == ("volume_throughput", "likely")
    assert found.evidence[-1] == "between stalls of this machine the rate was 19% higher than in the mean"
    assert limit_of(measured.replace(machine=QUIET), target) != found


def test_a_thread_that_is_busy_is_named_with_its_share() -> None:
    cpu = CpuTime(user_ns=970_000_000, system_ns=0, context_switches=0)
    found = present(limit_of(with_worker(point(10), cpu=cpu), NFS))
    assert (found.code, found.evidence[0]) == ("generator", "its thread used 97% of a processor")


# ---- results


def test_the_verdict_is_stored_with_its_point_and_read_again() -> None:
    envelope = with_verdicts(synthetic.envelope())
    assert all(one.limit for one in envelope.points)
    again = Result.from_json(envelope.to_json())
    assert verdicts_of(again) == [one.limit for one in envelope.points]
    assert verdicts_of(again) == verdicts_of(synthetic.envelope())
    record = again.to_records()[-1]
    assert (record["limited_by"], record["limited_by_confidence"]) == ("volume_throughput", "certain")
    assert str(record["limited_by_text"]).startswith("at the volume's limit of 512 MiB/s")


def test_connections_from_several_addresses_are_several_clients() -> None:
    mount = worker_plan(nconnect=1).engine
    assert isinstance(mount, NfsEngine)
    workers = [
        worker_plan(block_bytes=BLOCK, depth=1000).replace(
            engine=NfsEngine(mount=mount.mount.replace(source=f"127.0.1.{number}"))
        )
        for number in (1, 2)
    ]
    found = present(
        limit_of(jobs(*workers, operations=(1600, 100)), known(client_bandwidth_read_bytes_per_s=100 * MIB))
    )
    assert found.text == "1 of 2 clients at the limit of 100 MiB/s that a client has for reads"


def test_every_kind_has_a_name_and_its_step_can_be_told() -> None:
    for code, one in LIMIT_KINDS.items():
        assert one.short_name
        assert "{" not in "".join(next_steps(NFS, [Limit(code=code, short_name=one.short_name, text="")]))


# ---- the network


def connected(retransmits: int, window_ns: int) -> Point:
    """One second of writes over a connection of which the kernel tells."""
    state = ConnectionOutcome(
        rtt_ns=200_000,
        rtt_ns_min=100_000,
        congestion_window=10,
        segment_bytes=1448,
        retransmits=retransmits,
        busy_ns=SECOND_NS,
        receive_window_limited_ns=window_ns,
        send_buffer_limited_ns=0,
    )
    return with_worker(point(1000, kinds=("write",), nconnect=1), connections=(state,))


def test_what_the_kernel_says_of_connections_is_evidence() -> None:
    found = present(verdict_of(connected(30, 630_000_000), NFS))
    matches("analysis#what kernel says", found.evidence[-2:])


@pytest.mark.parametrize(("retransmits", "code"), [(30, "connection_throughput"), (3000, "tcp_congestion")])
def test_a_connection_that_loses_segments_is_congested(retransmits: int, code: str) -> None:
    base, more, half = (connected(retransmits, 0), point(1900, nconnect=2), point(1950, nconnect=1))
    connections, blocks = (
        Response("a change", MeasuredLoad(base, NFS), MeasuredLoad(changed, NFS)) for changed in (more, half)
    )
    assert connection_verdict(connections, blocks).code == code
