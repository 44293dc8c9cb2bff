"""The limit of a point is named only if its figures show it."""

from __future__ import annotations

from data import synthetic
from data.synthetic import capped, kind, outcome, plan, result, worker_outcome, worker_plan
from goldens import cases, matches, present
from iocurve.analysis import read
from iocurve.analysis.limit_groups import LimitGroup
from iocurve.analysis.limit_kinds import LIMIT_KINDS, next_steps
from iocurve.analysis.limits import knee, limit_of, limits_of
from iocurve.engine.outcome import CpuTime
from iocurve.engine.plan import NfsEngine, Rate
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.result.document import MachineUse, Point, TargetFacts

BLOCK = 64 * 1024
FREE = TargetFacts(kind="nfs", address="nfs://server/vol")


def at(
    operations: int, *, rate: Rate | None = None, cpu: CpuTime | None = None, machine: MachineUse | None = None
) -> Point:
    """One second of 64 KiB reads of 1 ms each, with a depth far from exhausted."""
    worker = worker_plan(block_bytes=BLOCK, depth=1000, rate=rate)
    measured = worker_outcome({"read": kind({1_000_000: operations}, BLOCK)}, cpu=cpu)
    return Point(name="p", family="f", axes={}, plan=plan([worker]), outcome=outcome(measured), machine=machine)


@cases("result/throughput")
def test_the_volume_s_throughput_is_named_within_two_percent(operations: int, expected: str | None) -> None:
    limit = limit_of(at(operations), synthetic.VOLUME)
    assert (limit.text if limit else None) == expected


def test_the_volume_s_iops_are_named_without_a_level_where_none_is_known() -> None:
    limit = present(limit_of(at(990), capped(FREE, iops=1000)))
    assert (limit.code, limit.text) == ("volume_iops", "at the volume's limit of 1,000 IOPS")


def written(*clients: tuple[str, int]) -> Point:
    """Each worker writes blocks for a second from its address; the same number of reads stays far below any limit."""
    mount = synthetic.worker_plan(nconnect=1).engine
    assert isinstance(mount, NfsEngine)
    workers = [
        worker_plan([("write", 1), ("read", 1)], block_bytes=BLOCK, depth=1000).replace(
            engine=NfsEngine(mount=mount.mount.replace(source=address))
        )
        for address, _ in clients
    ]
    outcomes = [
        worker_outcome({kind_name: kind({1_000_000: blocks}, BLOCK) for kind_name in ("read", "write")}, number=number)
        for number, (_, blocks) in enumerate(clients)
    ]
    return Point(name="p", family="f", axes={}, plan=plan(workers), outcome=outcome(*outcomes))


@cases("result/egress")
def test_clients_at_their_egress_are_counted_by_their_addresses(
    clients: list[tuple[str, int]], expected: str | None
) -> None:
    limit = limit_of(written(*clients), capped(FREE, client_bandwidth_write_bytes_per_s=10 * MIB))
    assert (limit.text if limit else None) == expected
    if limit:
        assert limit.code in LIMIT_KINDS
        assert next_steps(result([]).target, [limit]) == [
            "Clients at their egress write more only together: use more of them, or larger machines."
        ]
    assert limit_of(written(*clients), FREE) is None


def test_a_rate_that_is_reached_is_the_limit() -> None:
    rate = Rate(unit="bytes", count=100 * MIB, per_ns=SECOND_NS)
    limit = present(limit_of(at(1600, rate=rate), FREE))
    assert limit.text == "at the requested rate, 1,600 IOPS"
    assert limit_of(at(1500, rate=rate), FREE) is None


def test_a_busy_machine_and_a_busy_worker_are_told_apart() -> None:
    machine = present(limit_of(at(10, machine=MachineUse(busy_share=0.97, cpus=2)), FREE))
    assert machine.text == "all 2 processors of this machine more than 95% busy"
    worker = present(limit_of(at(10, cpu=CpuTime(user_ns=960_000_000, system_ns=0, context_switches=0)), FREE))
    assert worker.code == "generator"


def test_the_depth_is_the_limit_when_all_of_it_is_in_flight() -> None:
    limit = present(limit_of(at(950_000), FREE))
    assert limit.text == "at the requested depth, 950 of 1000 in flight on average; more may give more"
    assert limit_of(at(890_000), FREE) is None


def test_nothing_measured_has_no_limit() -> None:
    assert limit_of(at(0), synthetic.VOLUME) is None


def test_a_depth_series_tells_where_it_saturates() -> None:
    envelope = synthetic.envelope()
    named = {
        (point.axes["nconnect"], point.axes["depth"]): limit.code if limit else None
        for point, limit in zip(envelope.points, limits_of(envelope), strict=True)
        if point.family == "depth"
    }
    assert [named[1, depth] for depth in (1, 2, 4, 8, 128)] == ["depth", "depth", "saturated", "saturated", "saturated"]
    matches("result_limits/a_depth_series_tells_where_it_saturates", [named[8, depth] for depth in (4, 8, 16, 128)])


def test_a_series_that_grows_to_its_end_has_no_knee() -> None:
    series = [point for point in synthetic.envelope().points if point.family == "depth" and point.axes["nconnect"] == 8]
    assert knee(series[:4]) is None
    assert knee(series) is series[3]


def test_the_next_step_names_what_a_tebibyte_gives() -> None:
    envelope = synthetic.envelope()
    steps = next_steps(envelope.target, [limit for limit in limits_of(envelope) if limit])
    assert (
        "For more throughput, raise the quota (each TiB more gives 128 MiB/s at this level) or the service level. "
        "--unlimited shows what this machine itself carries."
    ) in steps
    assert next_steps(result([]).target, []) == []


def test_points_are_grouped_by_their_limit_and_possible_ones_go_last() -> None:
    groups = read(synthetic.envelope()).limit_groups
    assert [(group.code, group.confidence, group.name, group.count) for group in groups] == [
        ("saturated", "likely", "saturation", 7),
        ("volume_throughput", "certain", "MiB/s limit", 5),
        ("depth", "possible", "depth", 14),
    ]
    assert groups[1] == LimitGroup(
        code="volume_throughput",
        confidence="certain",
        name="MiB/s limit",
        text="at the volume's limit of 512 MiB/s (ultra, 4 TiB)",
        count=5,
        points=("64 KiB sequential: mix 100:0", "4 KiB random read: nconnect 8 at depth 16, 32, 64, 128"),
        next_step=(
            "For more throughput, raise the quota (each TiB more gives 128 MiB/s at this level) or the service "
            "level. --unlimited shows what this machine itself carries."
        ),
    )
    assert groups[2].next_step.startswith("iocurve why --confirm")


def test_the_steps_of_the_groups_are_the_next_steps() -> None:
    reading = read(synthetic.envelope())
    assert reading.next_steps == tuple(filter(None, (group.next_step for group in reading.limit_groups)))


def test_points_with_several_texts_of_a_limit_are_in_one_group() -> None:
    points = [
        at(count, rate=Rate(unit="operations", count=count, per_ns=SECOND_NS)).replace(name=f"{count}/s")
        for count in (1600, 1600, 800)
    ]
    (group,) = read(result(points, target=FREE)).limit_groups
    assert (group.text, group.count, group.next_step) == ("rate asked", 3, "")
    assert group.points == (
        "1600/s (× 2): at the requested rate, 1,600 IOPS",
        "800/s: at the requested rate, 800 IOPS",
    )


def test_points_without_a_known_limit_are_a_group_too() -> None:
    (group,) = read(result([at(10)], target=FREE)).limit_groups
    assert (group.text, group.confidence, group.count) == ("the limit is not known", "none", 1)
    assert group.next_step.startswith("iocurve why --confirm")


def test_every_limit_has_a_short_name() -> None:
    assert {limit.code for limit in limits_of(synthetic.envelope()) if limit} <= LIMIT_KINDS.keys()
