"""The limit of a point, and those that the points of a run show together, are named only if their figures show them."""

import dataclasses
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import asdict, replace

from bench.truth import drawn_runs
from bench.truth.drawn_runs import SILENT, Bound, Drawn, Load, observed
from data import synthetic
from data.synthetic import capped, kind, plan, result, worker_outcome, worker_plan
from goldens import cases, matches, present
from iocurve.analysis import read
from iocurve.analysis.limit_kinds import LIMIT_KINDS, next_steps
from iocurve.analysis.limits import knee, limit_of, verdict_of, verdicts_of, with_verdicts
from iocurve.analysis.observations import observations
from iocurve.analysis.run_limits import limits_shown
from iocurve.engine.plan import NfsEngine, Plan, Rate
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.measure.why import diagnose
from iocurve.result.document import ClientOutcome, Limit, MachineUse, Point, Result, TargetFacts

BLOCK = 64 * 1024
FREE = TargetFacts(kind="nfs", address="nfs://server/vol")


def at(operations: int, rate: Rate | None = None) -> Point:
    """One second of 64 KiB reads of 1 ms each, with a depth far from exhausted."""
    worker = worker_plan(block_bytes=BLOCK, depth=1000, rate=rate)
    measured = worker_outcome({"read": kind({1_000_000: operations}, BLOCK)})
    return synthetic.point(plan([worker]), measured)


@cases("result/throughput")
def test_the_volume_s_throughput_is_named_within_two_percent(operations: int, expected: str | None) -> None:
    limit = limit_of(at(operations), synthetic.VOLUME)
    assert (limit.text if limit else None) == expected


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
    return synthetic.point(plan(workers), *outcomes)


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


def test_a_depth_series_tells_where_it_saturates() -> None:
    envelope = synthetic.envelope()
    named = {
        (point.axes["nconnect"], point.axes["depth"]): limit.code if limit else None
        for point, limit in zip(envelope.points, verdicts_of(envelope), strict=True)
        if point.family == "depth"
    }
    assert [named[1, depth] for depth in (1, 2, 4, 8, 128)] == ["depth", "depth", "saturated", "saturated", "saturated"]
    matches("result_limits/a_depth_series_tells_where_it_saturates", [named[8, depth] for depth in (4, 8, 16, 128)])


def test_a_series_that_grows_to_its_end_has_no_knee() -> None:
    series = [point for point in synthetic.envelope().points if point.family == "depth" and point.axes["nconnect"] == 8]
    assert knee(series[:4]) is None
    assert knee(series) is series[3]


def test_every_limit_has_a_name_and_the_next_step_says_what_a_tebibyte_gives() -> None:
    envelope = synthetic.envelope()
    limits = [limit for limit in verdicts_of(envelope) if limit]
    assert {limit.code for limit in limits} <= LIMIT_KINDS.keys()
    assert any("each TiB more gives 128 MiB/s at this level" in step for step in next_steps(envelope.target, limits))
    assert next_steps(result([]).target, []) == []


def test_points_are_grouped_by_their_limit_and_possible_ones_go_last() -> None:
    groups = read(synthetic.envelope()).limit_groups
    matches("analysis#points grouped", [(group.code, group.confidence, group.name, group.count) for group in groups])
    matches("analysis#points grouped their", asdict(groups[1]))
    assert groups[2].next_step.startswith("iocurve why --confirm")


def test_points_with_several_texts_of_a_limit_are_in_one_group() -> None:
    points = [
        at(count, Rate(unit="operations", count=count, per_ns=SECOND_NS)).replace(name=f"{count}/s")
        for count in (1600, 1600, 800)
    ]
    (group,) = read(result(points, target=FREE)).limit_groups
    assert (group.text, group.count, group.next_step) == ("rate asked", 3, "")
    assert group.points == ("1600/s (× 2): at the requested rate, 1,600 IOPS", "800/s: at the requested rate, 800 IOPS")


def test_points_without_a_known_limit_are_a_group_too() -> None:
    (group,) = read(result([at(10)], target=FREE)).limit_groups
    assert (group.text, group.confidence, group.count) == ("the limit is not known", "none", 1)
    assert group.next_step.startswith("iocurve why --confirm")


# ---- of a run


MIXES = (1.0, 0.75, 0.5, 0.25, 0.0)
LOADS = [
    *(Load(4 * KIB, mix, 64, 2, 2) for mix in MIXES),
    *(Load(64 * KIB, mix, 16, 2, 2) for mix in MIXES),
    *(Load(4 * KIB, 1.0, depth, 1, connections, in_turns=True) for connections in (1, 8) for depth in (1, 8, 64)),
]
MILLISECOND = 1e-3


def target(**bounds: Callable[[Load], float]) -> Drawn:
    """A target with a latency of 1 ms and hard limits; rates vary by 0.1 %."""
    depth = Bound("depth", lambda load: load.depth / MILLISECOND)
    return Drawn((depth, *(Bound(name, bound) for name, bound in bounds.items())), math.inf, 0.001, 0.0, 0.0)


def told(measured: Drawn, loads: list[Load] = LOADS) -> dict[Load, Limit | None]:
    points = observed(measured, loads, random.Random(1))
    found = limits_shown([one for _, one in points], SILENT)
    return {load: found.get(id(one.point)) for load, one in points}


def _code(limit: Limit | None) -> tuple[str, str] | None:
    return (limit.code, limit.confidence) if limit else None


def pairs_at(depth: Callable[[int], int]) -> list[Load]:
    """Reads and writes of two sizes, with one connection and four, at a depth by the size."""
    return [Load(size * KIB, mix, depth(size), 1, n) for size in (4, 64) for mix in (1.0, 0.0) for n in (1, 4)]


def bytes_per_s(mib: Callable[[Load], float]) -> Callable[[Load], float]:
    """The operations that a limit in MiB/s allows."""
    return lambda load: mib(load) * MIB / load.block_bytes


ON_READS = bytes_per_s(lambda load: 64 / load.read_share if load.read_share else math.inf)
ONE_ABOVE = bytes_per_s(lambda load: 64 if load.connections < 8 else 70)
SLOW = dataclasses.replace(target(volume_iops=lambda _: 12_000), noise=0.01)
EACH_SIZE = target(volume_iops=lambda _: 9000, volume_throughput=bytes_per_s(lambda _: 128))
DRAWN: dict[str, tuple[Drawn, list[Load]]] = {
    "a limit on bytes": (target(volume_throughput=bytes_per_s(lambda _: 64)), LOADS),
    "a limit on reads, of which mixes have more operations": (target(volume_read_throughput=ON_READS), LOADS),
    "equal IOPS do not tell a limit from the server's own speed": (target(volume_iops=lambda _: 5000), LOADS),
    "one load that more depth does not speed up": (SLOW, [Load(4 * KIB, 1.0, 4**power, 1, 1) for power in range(6)]),
    "equal IOPS at equal depths may be the depth": (target(), pairs_at(lambda _: 16)),
    "equal bytes in flight may be the depth": (target(), pairs_at(lambda size: 256 // size)),
    "the throughput of each connection": (
        target(connection_throughput=bytes_per_s(lambda load: load.connections * 20)),
        LOADS,
    ),
    "the requests of each connection": (
        target(connection_requests=lambda load: 4 * load.connections / MILLISECOND),
        LOADS,
    ),
    "each block size has its own limit, which is not taken for one of all": (EACH_SIZE, LOADS),
    "one point above shows that there is no ceiling": (target(volume_throughput=ONE_ABOVE), LOADS),
    "a server that does one operation of a file at a time is no limit of a connection": (
        target(server_parallelism=lambda load: 1500 * load.workers),
        LOADS,
    ),
    "mixes of which nothing waits are at their depth": (target(), LOADS),
}


@pytest.mark.parametrize("name", DRAWN)
def test_limits_are_named_where_the_points_of_a_run_show_them(name: str) -> None:
    """Each verdict with its loads, and the text and evidence of its first."""
    found: dict[str, list[object]] = {}
    for load, limit in told(*DRAWN[name]).items():
        code, _ = _code(limit) or ("none", "")
        first: list[object] = [limit.confidence, limit.text, *limit.evidence] if limit else []
        size, reads = load.block_bytes // KIB, f"{load.read_share:.0%}"
        found.setdefault(code, first).append([size, reads, load.depth, load.connections])
    matches(f"drawn_limits#{name}", found)


def shared_by(clients: int, block_bytes: int, read_percent: int) -> Point:
    """Three workers, of one machine or one on each, that share 64 MiB/s for ten seconds."""
    mix = [(name, share) for name, share in (("read", read_percent), ("write", 100 - read_percent)) if share]
    plans = [
        worker_plan(mix, block_bytes=block_bytes, depth=16, nconnect=4 if read_percent % 50 else 1) for _ in range(3)
    ]
    each = 64 * MIB // block_bytes // 3
    took = {16 * SECOND_NS // each: 0}
    outcomes = []
    for number in range(3):
        rates = [round(each * (1 + 0.001 * ((7 * second + number) % 5 - 2))) for second in range(10)]
        parts = [{name: rate * share // 100 for name, share in mix} for rate in rates]
        intervals = synthetic.intervals(parts, block_bytes)
        kinds = {name: kind(dict.fromkeys(took, sum(part[name] for part in parts)), block_bytes) for name, _ in mix}
        window = (0, 10 * SECOND_NS)
        outcomes.append(worker_outcome(kinds, number=number, window_ns=window, intervals=intervals))
    workers = [one.replace(client=number % clients) for number, one in enumerate(plans)]
    host = present(synthetic.envelope().host)
    names = range(clients) if clients > 1 else ()
    members = tuple(ClientOutcome(client=one, name=f"vm{one}", host=host, state="finished") for one in names)
    return synthetic.point(plan(workers), *outcomes, name=f"{block_bytes} {read_percent}", clients=members)


def test_the_points_of_several_clients_show_a_limit_as_those_of_one_machine_do() -> None:
    loads = [(size, share) for size in (4 * KIB, 64 * KIB) for share in (100, 75, 50, 25, 0)]
    alone, together = (
        with_verdicts(result([shared_by(clients, *load) for load in loads], target=FREE)) for clients in (1, 3)
    )
    limits = [[present(point.limit) for point in run.points] for run in (alone, together)]
    found = [[(limit.code, limit.confidence, limit.text) for limit in run] for run in limits]
    assert (found[0], {code for code, _, _ in found[1]}) == (found[1], {"volume_throughput"})
    assert "all from 3 clients: a limit of each client looks the same" in limits[1][0].evidence
    shown = {present(client.limit).text for point in together.points for client in point.clients}
    assert shown == {f"{limit.text}, which 3 clients share" for limit in limits[1]}


def test_points_of_a_starved_load_prove_nothing() -> None:
    points = observed(target(volume_throughput=bytes_per_s(lambda _: 64)), LOADS, random.Random(1))
    starved = [replace(one, is_held_up=True, is_starved=True) for _, one in points]
    assert limits_shown(starved, SILENT) == {}
    # Next to others, they are at the limit that those prove.
    held_up = [*starved[:3], *(one for _, one in points[3:])]
    found = limits_shown(held_up, SILENT)
    assert {found[id(one.point)].code for one in held_up[:3]} == {"volume_throughput"}


def test_equal_rates_show_a_limit_also_where_others_hold_the_processors() -> None:
    points = observed(target(volume_throughput=bytes_per_s(lambda _: 64)), LOADS, random.Random(1))
    quiet, held_up = (
        {key for key, found in limits_shown(rows, SILENT).items() if found.code == "volume_throughput"}
        for rows in ([one for _, one in points], [replace(one, is_held_up=True) for _, one in points])
    )
    assert held_up == quiet != set()


@pytest.mark.parametrize(("depth_of_large", "confidence"), [(32, "possible"), (8, "likely")])
def test_equal_rates_of_one_kind_at_one_depth_may_come_of_its_latency(depth_of_large: int, confidence: str) -> None:
    """All in flight are writes, in each mix, if reads take next to no time."""
    limited = target(volume_write_iops=lambda load: 5000 / max(0.01, 1 - load.read_share))
    sizes = ((4, 32), (64, depth_of_large))
    loads = [Load(size * KIB, mix, depth, 1, 1) for size, depth in sizes for mix in (1.0, 0.5, 0.25, 0.0)]
    assert _code(told(limited, loads)[loads[-1]]) == ("volume_write_iops", confidence)


@pytest.mark.parametrize(("mixes", "confidence"), [((1.0, 0.75, 0.5, 0.25, 0.0), "likely"), ((1.0, 0.0), "possible")])
def test_many_loads_are_equal_within_a_few_per_cent(mixes: tuple[float, ...], confidence: str) -> None:
    limited = target(volume_throughput=lambda load: 64 * MIB / load.block_bytes)
    sizes = ((4, 64, 2), (64, 16, 4))
    loads = [Load(size * KIB, mix, depth, 2, nconnect) for size, depth, nconnect in sizes for mix in mixes]
    assert _code(told(dataclasses.replace(limited, noise=0.08), loads)[loads[-1]]) == ("volume_throughput", confidence)


@cases("analysis/dispersions")
def test_a_limit_lets_operations_through_evenly_and_a_server_does_not(
    dispersion: float | None, delay: float, code: str, confidence: str
) -> None:
    """``delay`` is the share of the time for which a thread of the target waited for a processor."""
    points = observed(target(volume_iops=lambda _: 5000), LOADS, random.Random(1))
    machine = MachineUse(busy_share=0.5, cpus=2, target_delay_share=delay)
    varied = [
        replace(one, latency_variation=1.0, dispersion=dispersion, point=one.point.replace(machine=machine))
        for _, one in points
    ]
    found = limits_shown(varied, SILENT)
    assert {_code(found.get(id(one.point))) for one in varied if one.iops > 4900} == {(code, confidence)}


def test_equal_operations_in_each_window_are_a_limit() -> None:
    points = observed(target(volume_iops=lambda _: 5000), LOADS, random.Random(1))
    found = limits_shown([replace(one, is_in_windows=one.iops > 4900) for _, one in points], SILENT)
    assert ("volume_iops", "likely") in {_code(limit) for limit in found.values()}


def series(counts: Sequence[int]) -> Point:
    """Half a second of reads at depth 16, in intervals of 50 ms."""
    length = SECOND_NS // 20
    intervals = synthetic.intervals(counts, length_ns=length)
    took = 16 * length * len(counts) // sum(counts)
    done = worker_outcome(
        {"read": kind({took: sum(counts)}, 4 * KIB)}, intervals=intervals, window_ns=(0, length * len(counts))
    )
    load = plan([worker_plan([("read", 1)], block_bytes=4 * KIB, depth=16)]).replace(interval_ns=length)
    return synthetic.point(load, done, name=str(counts))


@cases("analysis/windows")
def test_a_rate_is_that_of_the_last_level_or_of_whole_windows(
    counts: list[int], iops: float, is_in_windows: bool
) -> None:
    found = observations([series(counts)], SILENT)
    assert [one.is_in_windows for one in found] == [is_in_windows] * len(found)
    assert [one.iops for one in found] == [pytest.approx(iops, rel=0.005)] * len(found)
    assert found or not is_in_windows


@pytest.mark.parametrize("counts", [[265] * 4 + [240] + [219, 221] * 4, [219, 221] * 4 + [240] + [265] * 4])
def test_the_dispersion_is_that_of_the_last_level(counts: list[int]) -> None:
    (found,) = observations([series(counts)], SILENT)
    last = 220 if counts[0] == 265 else 265
    assert found.iops == pytest.approx(20 * last)
    assert found.dispersion == pytest.approx(0.75 / 220 if last == 220 else 0.0)


# ---- error rates


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("limits", [0, 1, 2, 3])
def test_few_verdicts_are_wrong(limits: int, form: Literal["hard", "soft"]) -> None:
    """Targets and loads drawn at random: the first 240 of the 1,040 runs that ``python -m bench.truth.drawn_runs`` has.

    At 1 % of wrong runs, more than two of thirty have a probability of 0.3 % (binomial).
    """
    found = drawn_runs.counts(limits, form, range(30))
    assert found["right"] >= 110
    assert found["wrong runs"] <= 2
    assert found["wrong"] <= 0.01 * (found["right"] + found["wrong"]) or found["wrong runs"] <= 1


# ---- whole results


def measured(iops: int, block_bytes: int, name: str, depth: int, delay: float) -> Point:
    """One second of reads or writes at a level rate, in ten intervals."""
    worker = worker_plan([(name, 1)], block_bytes=block_bytes, depth=depth, nconnect=2)
    intervals = synthetic.intervals([iops // 10] * 10, block_bytes, name=name, length_ns=SECOND_NS // 10)
    done = worker_outcome({name: kind({depth * SECOND_NS // iops: iops}, block_bytes)}, intervals=intervals)
    machine = MachineUse(busy_share=0.3, cpus=2, own_share=0.1, target_share=0.0, others_share=0.2)
    machine, family = machine.replace(thread_delay_share=delay), f"{block_bytes} {name}"
    named = {"name": f"{family} {depth}", "family": family}
    return synthetic.point(plan([worker]), done, axes={"depth": depth}, machine=machine, **named)


def run(delay: float = 0.0) -> Result:
    return synthetic.result(
        [
            measured(iops, size, name, depth, delay)
            for size, iops, depth in ((4 * KIB, 16_000, 64), (64 * KIB, 1_000, 16), (4 * KIB, 1_000, 1))
            for name in ("read", "write")
        ],
        target=FREE,
    )


def test_the_verdicts_of_a_result_use_its_points_together() -> None:
    verdicts = verdicts_of(run())
    assert [_code(limit) for limit in verdicts] == [
        *[("volume_throughput", "possible")] * 4,
        *[("depth", "likely")] * 2,
    ]
    assert "all with as many connections: each may have the limit" in present(verdicts[0]).evidence


def test_points_of_a_load_without_a_processor_stay_open() -> None:
    # Four have as many bytes per second, at two block sizes.
    starved = [("cpu_contention", "possible")] * 4 + [("cpu_contention", "likely")] * 2
    assert list(map(_code, verdicts_of(run(delay=0.96)))) == starved
    sleeps = set(map(_code, verdicts_of(run(delay=0.4))))
    assert sleeps == {("volume_throughput", "possible"), ("cpu_contention", "possible")}


def test_a_target_that_tells_its_limits_is_judged_by_them() -> None:
    verdicts = verdicts_of(run().replace(target=capped(FREE, iops=10**6)))
    assert {limit and limit.confidence for limit in verdicts} == {"possible"}


# ---- recorded runs


RECORDS = sorted((Path(__file__).parent / "data" / "limits").glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_limit_of_a_recorded_run_is_named(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    target = TargetFacts.from_builtins(document["target"])
    points = [Point.from_builtins(point) for point in document["points"]]
    if path.stem.startswith("known"):
        verdict = verdict_of(points[0], target)
    else:
        replayed = iter(points)

        def run(_: Plan) -> Point:
            return next(replayed)

        verdict, _ = diagnose(points[0].plan, target, run)
    assert verdict is not None
    assert verdict.code in document["right"]
    assert verdict.evidence
