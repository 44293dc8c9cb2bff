"""Emulated disks: published figures, parsing, jobs on disks, and state kept between runs."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from data.synthetic import kind, outcome, plan, worker_outcome, worker_plan
from fio_machine import HeldMachine
from goldens import Golden, cases, data, matches, present
from iocurve.analysis.doubts import LABELS
from iocurve.analysis.limit_kinds import LIMIT_KINDS
from iocurve.analysis.limits import limit_of
from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.fio import command as fio
from iocurve.dialects.native import command as native
from iocurve.engine.plan import AioEngine, DiskPlan, End, FileOpen, IoBurst, IoLimits, Plan, UringEngine, VmPlan, Worker
from iocurve.foundation.errors import DialectError, PlanError, TargetError
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.measure import local
from iocurve.measure.data_set import target_fields
from iocurve.result.document import Point
from iocurve.targets import disk
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, facts_of, parse
from plans import WRITE, file_plan, local_engine, plan_of, worker

MB = 1_000_000
MINUTE_NS = 60 * SECOND_NS
NO_CACHE = "disk:premium-ssd-p30?stripe=3&cache=none&vm=Standard_D8ds_v4&path=/disks/writes"
CACHED = "disk:premium-ssd-p30?cache=ReadOnly&vm=d8ds_v4&path=/disks/reads"
D8DS_V4 = VmPlan.from_json(data("volume/d8ds_v4.json"))


# -- figures -----------------------------------------------------------------------------------------------------------


@cases("targets/disk_limits")
def test_disks_have_the_published_limits(name: str, iops: int, mb_per_s: int, bursts: bool) -> None:
    described = f"disk:{name}{'&' if '?' in name else '?'}path=d"
    burst = IoBurst(iops=3_500, bytes_per_s=170 * MB, duration_ns=30 * MINUTE_NS) if bursts else None
    assert disk.parse_disk(described).described.limits == IoLimits(iops=iops, bytes_per_s=mb_per_s * MB, burst=burst)


def test_every_figure_has_a_source_with_a_date() -> None:
    rows = [row for name in disk.disk_names() for row in disk.describe_disk(name)]
    rows += [row for name in disk.vms() for row in disk.describe_vm(name)]
    assert len(rows) > 60
    assert all(", 20" in source for _, _, source in rows)


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_striped_disk_of_a_machine_is_described(tmp_path: Path) -> None:
    matches("targets#striped disk machine", disk.parse_disk(NO_CACHE).plan(tmp_path))


def test_settings_may_be_written_as_in_the_portal_and_the_cli(tmp_path: Path) -> None:
    for cache in ("read-only", "ReadOnly", "read_only", "READONLY"):
        spec = disk.parse_disk(f"disk:premium-ssd-p30?cache={cache}&vm=d8ds_v4&path=d")
        assert (spec.described.cache, spec.described.vm) == ("read_only", D8DS_V4)
    assert spec.plan(tmp_path).state_path == str(tmp_path / "d" / ".iocurve-disk.json")


def test_the_burst_duration_can_be_set() -> None:
    def bursts(query: str) -> list[IoBurst | None]:
        plan = disk.parse_disk(f"disk:premium-ssd-p20?path=d{query}").described
        uncached = plan.vm.uncached if plan.vm else None
        return [plan.limits.burst, uncached.burst if uncached else None]

    of_disk = IoBurst(iops=3_500, bytes_per_s=170 * MB, duration_ns=30 * MINUTE_NS)
    of_vm = IoBurst(iops=16_000, bytes_per_s=400 * MB, duration_ns=10 * SECOND_NS)
    assert bursts("") == [of_disk, None]
    assert bursts("&burst=0") == [None, None]
    assert bursts("&burst=2s&vm=d8ds_v4&vm-burst=10s") == [of_disk.replace(duration_ns=2 * SECOND_NS), of_vm]


@cases("targets/disk_errors")
def test_all_errors_are_reported_at_once(text: str, errors: str) -> None:
    with pytest.raises(DialectError) as told:
        parse(text)
    assert str(told.value) == f"{text}: {errors}"


def test_a_target_has_facts_and_fields_for_a_load(tmp_path: Path) -> None:
    text = f"disk:premium-ssd-p30?stripe=3&vm=d8ds_v4&path={tmp_path}"
    target = parse(text)
    assert isinstance(target, DiskTarget)
    facts = facts_of(target)
    assert (facts.kind, facts.address, facts.iops) == ("emulated_disk", str(tmp_path), 12_800)
    opened = OpenedTarget(target, facts)
    assert (facts.throughput_bytes_per_s, target_fields(opened).get("disk")) == (192 * MB, text)
    cached = facts_of(parse(text.replace("vm=", "cache=read-only&vm=")))
    assert (cached.iops, cached.throughput_bytes_per_s) == (77_000, 485 * MB)
    with pytest.raises(TargetError, match=r"there is no directory .*/missing; create it"):
        parse(f"{text}/missing")


# -- jobs --------------------------------------------------------------------------------------------------------------

HELD = HeldMachine(directories=frozenset({"/disks/writes", "/disks/reads"}))
READ_WRITE = data("fio/read_write.fio")


def fio_workers(tmp_path: Path, *arguments: str, text: str = READ_WRITE) -> list[Worker]:
    (tmp_path / "job.ini").write_text(text)
    prepared = fio.read_command([*arguments, "job.ini"], cwd=tmp_path, machine=HELD)
    assert prepared.obstacles == ()
    return list(prepared.plan.groups[0].workers)


def test_fio_s_unchanged_jobs_run_on_disks(tmp_path: Path) -> None:
    mounts = (f"--disk=/mnt/nocache={NO_CACHE}", f"--disk=/mnt/readcache={CACHED}")
    workers = fio_workers(tmp_path, *mounts)
    assert [worker.files[0].path for worker in workers] == [
        *(f"/disks/reads/reader1.{jobnum}.0" for jobnum in range(4)),
        *(f"/disks/writes/writer1.{jobnum}.0" for jobnum in range(4)),
    ]
    assert {worker.disk and worker.disk.vm for worker in workers} == {D8DS_V4}
    assert [worker.disk.cache for worker in workers if worker.disk] == ["read_only"] * 4 + ["none"] * 4
    # The page cache acts as the device, whatever the job says.
    assert {worker.engine.open.direct for worker in workers if isinstance(worker.engine, AioEngine)} == {False}


@cases("targets/disk_jobs_refused")
def test_files_that_cannot_be_on_a_disk_are_refused(tmp_path: Path, mapping: str, text: str, golden: Golden) -> None:
    with pytest.raises((DialectError, PlanError)) as told:
        fio_workers(tmp_path, f"--disk={mapping.replace('DISK', NO_CACHE)}", text=text or READ_WRITE)
    golden.check([error.text for error in told.value.errors])


def test_diskspd_s_unchanged_command_lines_run_on_disks(tmp_path: Path) -> None:
    arguments = ["-c200G", "-w100", "-b8K", "-F4", "-r", "-o128", "-W30", "-d30", "-Sh", "/mnt/nocache/testfile.dat"]
    prepared = diskspd.read_command([f"--disk=/mnt/nocache={NO_CACHE}", *arguments], cwd=tmp_path, machine=HELD)
    workers = prepared.spans[0].plan.groups[0].workers
    assert {worker.files[0].path for worker in workers} == {"/disks/writes/testfile.dat"}
    assert {worker.disk for worker in workers} == {disk.parse_disk(NO_CACHE).plan(tmp_path)}
    there = HeldMachine(directories=HELD.directories, paths={"/disks/writes/testfile.dat": ("file", MIB)})
    existing = [f"--disk=/mnt/nocache={NO_CACHE}", "-b8K", "/mnt/nocache/testfile.dat"]
    (span,) = diskspd.read_command(existing, cwd=tmp_path, machine=there).spans
    assert span.plan.groups[0].workers[0].files[0].bytes == MIB
    with pytest.raises(DialectError, match="no job has files below /mnt/elsewhere"):
        diskspd.prepare([f"--disk=/mnt/elsewhere={NO_CACHE}", *arguments], cwd=tmp_path, machine=HELD)


def native_plan(tmp_path: Path, **keys: str) -> Plan:
    lines = {"disk": NO_CACHE, "size": "1MiB"} | keys
    (tmp_path / "job.toml").write_text(
        "[[job]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    )
    return next(native.prepare([str(tmp_path / "job.toml")], cwd=tmp_path, machine=HELD).plans())


def test_a_job_file_names_a_disk(tmp_path: Path) -> None:
    (only,) = native_plan(tmp_path, paths="data").groups[0].workers
    assert only.disk == disk.parse_disk(NO_CACHE).plan(tmp_path)
    assert only.files[0].path == "/disks/writes/data"
    assert isinstance(only.engine, UringEngine)
    assert only.engine.open == FileOpen(direct=False, durability="none", invalidate=False)


def test_file_names_do_not_lead_out_of_a_disk(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"'\.\./data' leads out of the emulated disk"):
        native_plan(tmp_path, paths="../data")
    with pytest.raises(PlanError, match=r"'premium-ssd-p30' is not a disk such as disk:premium-ssd-p30\?path=DIR"):
        native_plan(tmp_path, disk="premium-ssd-p30")
    with pytest.raises(PlanError, match="disk: an emulated disk is for local files, not for NFS"):
        native_plan(tmp_path, engine="nfs", nfs_url="nfs://server/vol")


# -- runs --------------------------------------------------------------------------------------------------------------


def fast(directory: Path, **changes: Any) -> DiskPlan:
    """Limits so high that no operation waits."""
    limits = IoLimits(iops=10**9, bytes_per_s=10**12)
    vm = VmPlan(name="vm", uncached=None, cached=limits, cache_bytes=MIB)
    state = str(directory / disk.STATE_NAME)
    base = DiskPlan(name="fast", state_path=state, limits=limits, io_bytes=256 * KIB, cache="read_only", vm=vm)
    return base.replace(**changes)


@pytest.mark.parametrize("engine", ["sync", "aio", "uring", "mmap"])
def test_every_engine_runs_on_a_disk_and_the_result_says_so(engine: str, tmp_path: Path) -> None:
    on_disk = worker(local_engine(engine), str(tmp_path / "data"), disk=fast(tmp_path))
    outcome = local.run(plan_of(on_disk))
    (only,) = outcome.workers
    assert (outcome.state, only.operations["read"].operations) == ("finished", 256)
    assert only.labels == ("emulated_disk",)
    assert only.engine.endswith(", on an emulated fast")
    assert set(only.labels) <= set(LABELS)


def test_blocks_that_were_read_are_cached_until_a_restart(tmp_path: Path) -> None:
    file = file_plan(tmp_path / "data", keep=True)
    reader = worker(local_engine("sync"), "", files=(file,), disk=fast(tmp_path))
    local.run(plan_of(reader))
    assert disk.restart(tmp_path) == MIB
    assert disk.restart(tmp_path) == 0
    assert (tmp_path / "data").stat().st_size == MIB


def test_blocks_beyond_the_size_of_the_cache_are_evicted(tmp_path: Path) -> None:
    files = (file_plan(tmp_path / "data", 4 * MIB, keep=True),)
    end = End(runtime_ns=None, bytes=4 * MIB, operations=None)
    reader = worker(local_engine("sync"), "", files=files, disk=fast(tmp_path), end=end)
    local.run(plan_of(reader))
    assert disk.restart(tmp_path) == MIB


def test_a_disk_in_use_is_neither_run_on_nor_restarted(tmp_path: Path) -> None:
    writer = worker(local_engine("sync"), str(tmp_path / "data"), operations=(WRITE,), disk=fast(tmp_path))
    local.run(plan_of(writer))
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(TargetError, match="the emulated disk is in use by another run; wait until that run has ended"):
        local.run(plan_of(writer))
    with pytest.raises(TargetError, match="the emulated disk is in use by a run; wait until the run has ended"):
        disk.restart(tmp_path)
    os.close(lock)
    assert local.run(plan_of(writer)).state == "finished"


def test_a_restart_of_a_directory_without_a_disk_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no emulated disk has been used in this directory"):
        disk.restart(tmp_path)
    with pytest.raises(TargetError, match="No such file or directory"):
        disk.restart(tmp_path / "missing")
    (tmp_path / disk.STATE_NAME).write_text("[]")
    with pytest.raises(TargetError, match="is not the state of an emulated disk; remove it"):
        disk.restart(tmp_path)
    assert (tmp_path / disk.STATE_NAME).read_text() == "[]"


# -- limits ------------------------------------------------------------------------------------------------------------


def held_down(*labels: str, described: str = NO_CACHE) -> Point:
    described_disk = disk.parse_disk(described).described
    planned = worker_plan(block_bytes=4 * KIB, depth=10).replace(disk=described_disk)
    measured = worker_outcome({"read": kind({1_000_000: 12_800}, 4 * KIB)}, labels=("emulated_disk", *labels))
    return Point(name="p", family="f", axes={}, plan=plan([planned]), outcome=outcome(measured))


@cases("targets/disk_waits")
def test_the_limit_that_operations_waited_for_is_named(label: str, described: str, text: str, tmp_path: Path) -> None:
    point = held_down(label, described=described)
    target = parse(f"disk:premium-ssd-p30?path={tmp_path}")
    limit = present(limit_of(point, facts_of(target)))
    assert limit.text == f"at {text}"
    assert limit.code == label.removeprefix("limited_by_")


def test_a_disk_that_delayed_no_operation_is_not_the_limit(tmp_path: Path) -> None:
    # Its figure equals the disk's own by chance; the depth was exhausted.
    limit = present(limit_of(held_down(), facts_of(parse(f"disk:premium-ssd-p30?stripe=3&vm=d8ds_v4&path={tmp_path}"))))
    assert limit.code == "depth"


def test_each_limit_has_advice(tmp_path: Path) -> None:
    codes = [code for code in LIMIT_KINDS if code.startswith(("disk_", "vm_"))]
    assert len(codes) == 6
    for code in codes:
        point = held_down(f"limited_by_{code}", described=CACHED)
        limit = present(limit_of(point, facts_of(parse(f"disk:premium-ssd-p30?path={tmp_path}"))))
        assert limit.code == code
        assert LIMIT_KINDS[code].next_step
