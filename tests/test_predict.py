"""The forward function on cases computed by hand, the command that uses it, and drawn jobs that are measured."""

import json
import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import iocurve as iocurve_api
from bench import predict as drawn_jobs
from bench.limits.simulated import simulated
from goldens import cases, has, present
from iocurve.advice import twin
from iocurve.engine import plan
from iocurve.engine.derived import block_bytes_mean
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.model.fit import Fit, LoadRate, fitted
from iocurve.model.forward import ModelledTarget, forward
from iocurve.result import host
from iocurve.result.caps import Burst, caps
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.volume import profile_limits
from iocurve.volume.limits import AddedLatency, Limits, Parallelism
from plans import READ, WRITE, file_plan, nfs_engine, plan_of, worker
from programs import iocurve

TEN_SECONDS = plan.End(runtime_ns=10 * SECOND_NS, bytes=None, operations=None)


def service(burst: Burst | None = None, latency_ms: int = 1, **values: int) -> ModelledTarget:
    named = {name.replace("__", "."): value for name, value in values.items()}
    latency = AddedLatency(base_ns=latency_ms * MILLISECOND_NS)
    return ModelledTarget(name="unlimited", limits=Limits(caps=caps(dict(named), burst), latency=latency))


def load(count: int = 1, nconnect: int = 1, **changes: Any) -> plan.Group:
    engine = nfs_engine("nfs://127.0.0.1/vol", nconnect)
    changes = {"end": TEN_SECONDS} | changes
    return plan.Group(workers=tuple(worker(engine, f"f{number}", **changes) for number in range(count)))


def near(value: float | None) -> Any:
    return pytest.approx(value)


@cases("model/forward")
def test_a_load_and_limits_make_a_rate(said: dict[str, Any], limits: dict[str, Any], expected: dict[str, Any]) -> None:
    changes = dict(said)
    if count := changes.pop("rate", None):
        changes["rate"] = plan.Rate(unit="operations", count=count, per_ns=SECOND_NS)
    if operations := changes.pop("operations_max", None):
        changes["end"] = TEN_SECONDS.replace(operations=operations)
    has(forward(load(**changes), service(**limits)), expected)


def test_in_a_mix_the_kind_whose_limit_divided_by_its_share_is_least_binds_for_both() -> None:
    mixed = (READ.replace(share=70), WRITE.replace(share=30))
    found = forward(load(depth=32, operations=mixed), service(iops_read=7000, iops_write=600))
    assert (found.iops, found.binds) == (near(2000), "volume's write IOPS")
    # Reads wait for no limit; 32 in flight are 1,400 × 1 ms of reads, and the writes.
    expected = {"read": near(MILLISECOND_NS), "write": near((32 - 1.4) / 600 * SECOND_NS)}
    assert {one.kind: one.latency_ns for one in found.kinds} == expected


def test_credits_end_a_burst() -> None:
    # 2,000 beyond 1,000 use up 8,000 credits in 4 s; 6 s follow at 1,000.
    found = forward(load(depth=32), service(Burst(value=3000, credits=8000), iops=1000))
    assert [(round(long, 6), round(rate, 6)) for long, rate in found.phases] == [(4, 3000), (6, 1000)]
    assert (found.iops, found.credits_s) == (near(1800), near(4))


def test_bytes_burst_and_reads_weigh_less() -> None:
    """100 MiB/s while 150 MiB of credits last, then 50; of reads three bytes count as one."""
    burst = Burst(value=100 * MIB, credits=150 * MIB)
    found = caps({"throughput_bytes_per_s": 50 * MIB}, throughput_burst=burst, reads_per_write=3)
    limited = ModelledTarget(name="unlimited", limits=Limits(caps=found, latency=AddedLatency(base_ns=MILLISECOND_NS)))
    large = plan.FixedBlocks(bytes=MIB)
    for kind, times in ((WRITE, 1), (READ, 3)):
        rates = forward(load(depth=8, operations=(kind.replace(share=100, blocks=large),)), limited).phases
        assert [(round(long, 6), round(rate, 3)) for long, rate in rates] == [(3, 100 * times), (7, 50 * times)]


def test_a_load_ends_by_its_size_and_the_rest_has_the_limit_alone() -> None:
    end = plan.End(runtime_ns=None, bytes=4 * MIB, operations=None)
    small, large = load(depth=32, end=end), load(depth=32, end=end.replace(bytes=8 * MIB))
    found = forward(small.replace(workers=small.workers + large.workers), service(iops=1024))
    # 512 each until the small one has its 1,024 operations after 2 s; then 1,024 left, in 1 s.
    assert (found.seconds, found.ends_by, found.iops) == (near(3), "size", near(1024))


CACHED = """title = "Hits count half"
iops = { base = 400 }
latency_us = { value = 1_000 }
server_cache = { mib = 1, read_iops = 0.5 }
"""


@pytest.mark.slow
@cases("model/server_cache")
def test_a_server_cache_answers_as_predicted(
    version: str, mib: int, access: dict[str, Any], random_percent: int, hits: float, tmp_path: Path
) -> None:
    profile = tmp_path / "cached.toml"
    profile.write_text(CACHED, encoding="utf-8")
    read = READ.replace(blocks=plan.FixedBlocks(bytes=64 * KIB), random_percent=random_percent)
    changes: dict[str, Any] = {"operations": (read,), "access": plan.Access(**access), "ramp_ns": SECOND_NS // 2}
    with iocurve_api.Volume(profile=str(profile), quota="1GiB") as volume:
        one = worker(
            nfs_engine(f"{volume.url}?vers={version}"), "data", files=(file_plan("data", mib * MIB),), **changes
        )
        load_plan = plan_of(one.replace(end=plan.End(runtime_ns=2 * SECOND_NS, bytes=None, operations=None)))
        target = ModelledTarget(name=str(profile), limits=profile_limits.resolve(str(profile), 1 << 30))
        predicted = forward(load_plan.groups[0], target)
        # A run that had to wait for processors is slower, and is repeated.
        expected = pytest.approx(predicted.iops, rel=0.05)
        assert any(iocurve_api.run(load_plan).points[0].figures.iops == expected for _ in range(5))
    assert predicted.iops == pytest.approx(400 / (1 - hits / 2), rel=1e-3)
    fresh = forward(load_plan.groups[0], target.replace(is_fresh=True))
    assert (fresh.iops, fresh.binds) == (near(400), "volume's IOPS")


def test_predict_says_how_much_a_server_cache_adds(tmp_path: Path) -> None:
    (tmp_path / "cached.toml").write_text(CACHED, encoding="utf-8")
    line = "fio --name=t --rw=randread --bs=64k --iodepth=8 --size=1m --runtime=60 --time_based --direct=1"
    line += f" --ioengine=libaio --directory=/nowhere --json --profile {tmp_path}/cached.toml"
    (run,) = json.loads(iocurve("predict", *line.split()).stdout)
    (trap,) = [trap for trap in run["traps"] if trap["code"] == "server_cache"]
    assert (run["figures"]["iops"], trap["times"], "400 IOPS" in trap["text"]) == (near(800), near(2), True)


def test_predict_prints_figures_and_traps() -> None:
    line = "fio --name=t --rw=randread --bs=8k --iodepth=64 --numjobs=4 --size=1g --runtime=60 --time_based"
    line += " --ioengine=libaio --direct=1 --directory=/nowhere"
    options = "--profile premium --quota 1TiB --latency 1ms --json"
    (run,) = json.loads(iocurve("predict", *line.split(), *options.split()).stdout)
    assert (run["figures"]["iops"], run["figures"]["binds"]) == (near(64 * MIB / (8 * KIB)), "volume's throughput")
    assert [trap["code"] for trap in run["traps"]] == ["offsets_repeat", "beyond_knee"]
    assert run["laid_out_bytes"] == 4096 * MIB


@pytest.mark.parametrize(("shared", "is_trap"), [("0", True), ("1", False)])
def test_only_workers_with_connections_of_their_own_have_more_than_a_mount(shared: str, is_trap: bool) -> None:
    load = ("--name=t", "--rw=randread", "--size=1g", "--numjobs=8", "--ioengine=nfs")
    url = f"--nfs_url=nfs://10.0.0.4/vol?nconnect=16&shared_mount={shared}"
    ran = iocurve("predict", "fio", *load, url, "--profile", "premium", "--quota", "1TiB", "--latency", "1ms")
    assert ("8 workers have 128 connections in all" in ran.stdout) == is_trap


@cases("advice/not_predicted")
def test_predict_refuses_what_it_cannot(line: str, named: str) -> None:
    ran = iocurve("predict", *line.split(), "--profile", "premium", "--quota", "1TiB", "--latency", "1ms")
    assert (ran.returncode, named in ran.stderr) == (2, True), ran.stderr


def test_explain_ends_with_the_line_that_predicts() -> None:
    line = ("fio", "--name=a b", "--size=1g", "--directory=/nowhere")
    ran = iocurve("explain", *line)
    (last,) = ran.stdout.splitlines()[-1:]
    assert last == f"Predict it: iocurve predict {shlex.join(line)} --profile PROFILE --quota SIZE"
    words = shlex.split(last.partition("iocurve ")[2].replace("PROFILE", "premium").replace("SIZE", "1TiB"))
    assert "at most" in iocurve(*words).stdout
    assert "Predict" not in iocurve("explain", "mdtest", "-n", "10", "-F", "-d", "/nowhere").stdout


@pytest.mark.slow
@cases("advice/predicted_before_a_run")
def test_a_prediction_is_printed_before_a_run(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ran = iocurve("fio", "--name=a", "--size=64k", "--rw=read", *options, cwd=tmp_path)
    assert said in ran.stderr


@pytest.mark.slow
def test_drawn_jobs_reach_what_is_predicted() -> None:
    found = [drawn_jobs.compared(one, drawn_jobs.in_simulation) for one in drawn_jobs.drawn(2, 20)]
    assert [one for one in found if one.error > 1 or one.is_named_right is False] == []


GRID = [(share, kib, depth) for share in (100, 50, 0) for kib in (4, 64) for depth in (1, 32)]


def measured_grid(limits: Limits, grid: Sequence[tuple[int, int, int]] = GRID, ramp_ns: int = SECOND_NS) -> list[Point]:
    """Points of mixes, block sizes and depths on a server in simulated time."""
    points = []
    for reads, kib, depth in grid:
        operations = [READ.replace(share=reads), WRITE.replace(share=100 - reads)]
        kept = tuple(one.replace(blocks=plan.FixedBlocks(bytes=kib * KIB)) for one in operations if one.share)
        group = load(depth=depth, operations=kept, end=TEN_SECONDS, ramp_ns=ramp_ns)
        load_plan = plan.Plan(name=f"{reads} {kib} {depth}", interval_ns=SECOND_NS // 10, groups=(group,))
        with simulated(drawn_jobs.case_of(limits), 1, beside_hogs=False) as server:
            points.append(server.run(load_plan))
    return points


BY_KIND = Limits(
    latency=AddedLatency(base_ns=4 * MILLISECOND_NS, per_kib_ns=40_000),
    write_latency=AddedLatency(base_ns=9 * MILLISECOND_NS, per_kib_ns=90_000),
)


def test_latency_and_service_follow_from_kind_and_size() -> None:
    grid = [(100, 64, 4), (50, 16, 8), (0, 64, 2)]
    for point in measured_grid(BY_KIND, grid):
        predicted = forward(point.plan.groups[0], ModelledTarget(name="unlimited", limits=BY_KIND))
        assert predicted.iops == pytest.approx(point.figures.iops, rel=0.03)
        for one in predicted.kinds:
            assert one.latency_ns == pytest.approx(point.summary().kinds[one.kind].service.mean_ns, rel=0.03)
    speed = Parallelism(servers=2, service_ns=MILLISECOND_NS, per_kib_ns=10_000, write_service_ns=4 * MILLISECOND_NS)
    found = forward(
        load(depth=32, operations=(WRITE,)), ModelledTarget(name="unlimited", limits=Limits(parallelism=speed))
    )
    assert found.iops == near(2000 / (4 + 0.01 * block_bytes_mean(WRITE.blocks) / KIB))


@pytest.mark.slow
@cases("advice/fitted")
def test_the_limits_of_a_target_are_fitted_to_its_points(values: dict[str, int]) -> None:
    limits = service(None, 2, **values).limits
    found = present(twin.fit_of(measured_grid(limits)))
    assert {cap.name: cap.value for cap in found.limits.caps} == {
        name: pytest.approx(value, rel=0.02) for name, value in values.items()
    }
    assert found.limits.latency.base_ns == pytest.approx(2 * MILLISECOND_NS, rel=0.05)


def measured_load(iops: float, kib: int, reads: float = 1, error: float = 0.003, **more: int) -> LoadRate:
    known: dict[str, Any] = {
        "order": "",
        "operations": 100_000,
        "name": f"{kib} KiB {reads:.0%}",
        "depth": 16,
        "connections": 1,
    } | more
    mix: dict[str, Any] = {"mix": reads, "read_share": reads, "iops": iops, "error": error}
    return LoadRate(block_bytes=kib * KIB, **mix, **known)


AT_THE_LIMIT = [
    *(measured_load(1000, 64, reads) for reads in (1, 0.5, 0)),
    *(measured_load(8000, 4, reads) for reads in (1, 0.5, 0)),
]


def test_a_busy_machine_leaves_the_target_open() -> None:
    (first, *_) = fitted([replace(row, is_held_up=True) for row in AT_THE_LIMIT]).open
    assert first.startswith("this machine was too busy")


def test_a_busy_machine_may_hold_up_a_mix_beyond_those_whose_latency_is_known() -> None:
    known = [measured_load(iops, kib, reads, depth=1) for kib in (4, 64) for reads, iops in ((0.5, 1000), (0.25, 250))]
    held_up = [replace(measured_load(iops, 4, 1, depth=1), is_held_up=True) for iops in (300, 2000)]
    assert fitted([*known, *held_up]).limits.caps == ()


def test_a_noisy_point_excludes_no_limit() -> None:
    noisy, sure = (fitted([*AT_THE_LIMIT, measured_load(1120, 64, 0, error=error)]) for error in (0.2, 0.003))
    assert [cap.name for cap in noisy.limits.caps] == ["throughput_bytes_per_s"]
    assert set(noisy.shown[0].points) == {"64 KiB 100%", "64 KiB 50%", "64 KiB 0%"}
    assert "throughput_bytes_per_s" not in [cap.name for cap in sure.limits.caps]


def test_a_limit_of_each_connection_shows_where_their_number_differs() -> None:
    few = [measured_load(500, kib, reads) for reads in (1, 0.5, 0) for kib in (4, 8)]
    few.append(measured_load(400, 4, depth=1))
    more = [measured_load(1000, kib, reads, connections=2) for reads in (1, 0) for kib in (4, 8)]
    assert [cap.name for cap in fitted([*few, *more]).limits.caps] == ["connection.iops"]
    assert [cap.name for cap in fitted(few).limits.caps] == ["iops"]
    assert any("each connection" in text for text in fitted(few).open)


@pytest.mark.slow
def test_a_burst_and_its_credits_are_fitted_to_a_load_from_its_start(tmp_path: Path) -> None:
    limits = service(Burst(value=2500, credits=3000), 2, iops=800).limits
    grid = [(50, 4, 32), (0, 8, 32), (100, 4, 1), (100, 16, 32)]
    assert present(twin.fit_of(measured_grid(limits, grid))).limits.burst is None
    found = present(twin.fit_of(measured_grid(limits, grid, ramp_ns=0)))
    burst = present(found.limits.burst)
    assert burst.value == pytest.approx(2500, rel=0.02)
    assert burst.credits == pytest.approx(3000, rel=0.05)
    path = tmp_path / "twin.toml"
    path.write_text(twin.profile_text("twin", found), encoding="utf-8")
    served = profile_limits.resolve(str(path), 1 << 40)
    assert (served.burst, served.value("iops")) == (found.limits.burst, found.limits.value("iops"))


WINDOWS = Limits(
    caps=caps({"iops": 1000}), latency=AddedLatency(base_ns=2 * MILLISECOND_NS), window_ns=100 * MILLISECOND_NS
)
SPEED = Parallelism(servers=1, service_ns=300_000, per_kib_ns=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [BY_KIND, WINDOWS, Limits(parallelism=SPEED)])
def test_times_by_kind_and_size_and_windows_are_fitted_and_served(limits: Limits, tmp_path: Path) -> None:
    found = twin.fit_of(
        measured_grid(
            limits, [*GRID, *((share, kib, 8) for share in (100, 0) for kib in (4, 64)), (100, 256, 32), (0, 256, 32)]
        )
    )
    assert found is not None
    path = tmp_path / "twin.toml"
    path.write_text(twin.profile_text("twin", found), encoding="utf-8")
    served = profile_limits.resolve(str(path), 1 << 40)
    assert served.window_ns == pytest.approx(limits.window_ns, rel=0.1)
    assert [cap.name for cap in served.caps] == [cap.name for cap in limits.caps]
    assert (served.parallelism is None) == (limits.parallelism is None)
    for kind, kib in product(("read", "write"), (4, 32, 64)):
        asked = limits.unloaded_ns(kind, kib * KIB)
        assert served.unloaded_ns(kind, kib * KIB) == pytest.approx(asked, rel=0.05, abs=100_000)
    if speed := served.parallelism:
        assert (speed.service_ns, speed.per_kib_ns) == pytest.approx((300_000, 20_000), rel=0.05)


@pytest.mark.slow
def test_a_mix_in_which_one_kind_waits_shows_no_windows() -> None:
    mixes = [(share, kib, 32) for share in (75, 25) for kib in (4, 64)]
    found = twin.fit_of(measured_grid(service(None, 2, iops_read=2584, iops_write=376).limits, [*GRID, *mixes]))
    assert found is not None
    assert not found.limits.window_ns


def grid_result(limits: Limits, directory: Path, grid: Sequence[tuple[int, int, int]] = GRID) -> Path:
    points = tuple(measured_grid(limits, grid))
    facts = TargetFacts(kind="nfs", address="nfs://127.0.0.1/stub")
    directory.mkdir()
    Result.start("run", "grid", host.collect(), facts, None).replace(points=points).write(directory / "result.json")
    return directory


def test_what_if_multiplies_limits() -> None:
    limits = Limits(caps=caps({"iops_read": 3000, "throughput_bytes_per_s": 40 * MIB}, None))
    fit = Fit(limits=limits.replace(latency=AddedLatency(base_ns=1000)), points=1, iops_max=1.0)
    found = twin.changed(fit, ["throughput x2", "read iops x0.5", "latency x3"]).limits
    assert found.caps == caps({"iops_read": 1500, "throughput_bytes_per_s": 80 * MIB}, None)
    assert found.latency.base_ns == 3000
    for text in ("throughput", "iops x0", "write iops x2"):
        with pytest.raises(DialectError, match="--what-if"):
            twin.changed(fit, [text])


@pytest.mark.slow
def test_a_result_predicts_other_loads_and_becomes_a_profile(tmp_path: Path) -> None:
    limits = service(None, 2, iops=3000, throughput_bytes_per_s=40 * MIB).limits
    known = grid_result(limits, tmp_path / "known")
    words = ("fio", "--name=t", "--rw=randread", "--bs=16k", "--iodepth=24", "--size=1g", "--direct=1")
    ran = iocurve("predict", *words, "--ioengine=libaio", "--runtime=9", "--time_based", "--from", str(known))
    assert "2,560 IOPS, 40 MiB/s" in ran.stdout, ran.stderr
    assert "volume's throughput: 40 MiB/s (measured, not promised)" in ran.stdout
    other = grid_result(limits, tmp_path / "other", [(70, 16, 12), (30, 8, 3), (20, 32, 40)])
    twin = tmp_path / "twin.toml"
    fit = iocurve("twin", str(known), f"--out={twin}", f"--against={other}")
    assert "rates within 5 %: 3 of 3 points" in fit.stdout
    found = profile_limits.resolve(str(twin), 1 << 40)
    assert (found.value("iops"), found.value("throughput_bytes_per_s")) == (near(3000), 40 * MIB)
    refused = iocurve("twin", str(known), f"--out={twin}")
    assert (refused.returncode, "exists" in refused.stderr) == (2, True)
    assert "base = 80" in iocurve("twin", str(known), "--what-if", "throughput x2").stdout
