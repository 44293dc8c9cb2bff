"""Options of fio and what becomes of them in the plan; where rules were in doubt, fio 3.33 itself was asked."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from fio_machine import HeldMachine
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.read.draft import Draft, Logs
from iocurve.dialects.fio.read.options import OPTIONS
from iocurve.dialects.fio.read.values import Context
from iocurve.engine import plan
from iocurve.foundation.errors import PlanError
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.model import PARTS

MACHINE = HeldMachine(directories=frozenset({"/d"}))


def fio(*arguments: str, cwd: Path = Path("/d")) -> FioCommand:
    return read_command(
        ["--name=a", "--size=1m", "--ioengine=null", *arguments], cwd=cwd, environment={}, machine=MACHINE
    )


def worker(*arguments: str) -> plan.Worker:
    return fio(*arguments).plan.groups[0].workers[0]


def part(value: Any, path: str) -> Any:
    """``operations.0.blocks``."""
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


def split(*shares: tuple[int, int]) -> plan.BlockSplit:
    return plan.BlockSplit(parts=tuple(plan.BlockShare(bytes=size, weight=weight) for size, weight in shares))


@pytest.mark.parametrize(
    ("arguments", "path", "expected"),
    [
        # Block sizes
        ("--bssplit=4k/10:64k/50:32k/40", "operations.0.blocks", split((4096, 10), (65536, 50), (32768, 40))),
        ("--bssplit=4k/50:8k/:16k", "operations.0.blocks", split((4096, 50), (8192, 25), (16384, 25))),
        ("--bssplit=4k:8k:16k", "operations.0.blocks", split((4096, 33), (8192, 33), (16384, 34))),
        ("--bssplit=4k/50:8k/60", "operations.0.blocks", split((4096, 50), (8192, 50))),
        ("--bssplit=4k/20:8k/30", "operations.0.blocks", split((4096, 20), (8192, 80))),
        ("--bssplit=8k", "operations.0.blocks", plan.FixedBlocks(bytes=8192)),
        ("--bssplit=4k/50:8k/50,16k --rw=rw", "operations.0.blocks", split((4096, 50), (8192, 50))),
        ("--bssplit=4k/50:8k/50,16k --rw=rw", "operations.1.blocks", plan.FixedBlocks(bytes=16384)),
        ("--bssplit=,16k --rw=rw", "operations.0.blocks", plan.FixedBlocks(bytes=4096)),
        ("--bsrange=4k-16k", "operations.0.blocks", plan.BlockRange(low=4096, high=16384, step=4096)),
        ("--bsrange=16k-16k --bs=64k", "operations.0.blocks", plan.FixedBlocks(bytes=16384)),
        ("--bssplit=32k/100 --bsrange=16k-16k", "operations.0.blocks", plan.FixedBlocks(bytes=16384)),
        ("--bsrange=16k-16k --bssplit=32k/100", "operations.0.blocks", plan.FixedBlocks(bytes=32768)),
        ("--bsrange=4k-8k,1k-2k --rw=write", "operations.0.blocks", plan.BlockRange(low=1024, high=2048, step=1024)),
        ("--bsrange=4k-8k --bs_unaligned", "operations.0.blocks", plan.BlockRange(low=4096, high=8192, step=1)),
        ("--bs=4k,8k,64k --rw=trim", "operations.0.blocks", plan.FixedBlocks(bytes=65536)),
        # Places
        ("--rw=randread --blockalign=512", "operations.0.align_bytes", 512),
        ("--rw=randread --blockalign=512", "access.cover", "independent"),
        ("--rw=randread --ba=4k", "access.cover", "once"),
        ("--rw=randwrite --ba=,512", "operations.0.align_bytes", 512),
        ("--rw=read --ba=512", "operations.0.align_bytes", 0),
        ("--rw=randrw --percentage_random=70,30", "operations.1.random_percent", 30),
        ("--rw=read --percentage_random=70", "operations.0.random_percent", 0),
        ("--rw=randread --random_distribution=zipf:1.2", "operations.0.distribution", plan.Zipf(theta=1.2)),
        ("--rw=randread --random_distribution=zipf", "access.cover", "independent"),
        (
            "--rw=randread --random_distribution=pareto:0.2:0.5",
            "operations.0.distribution",
            plan.Pareto(h=0.2, center=0.5),
        ),
        (
            "--rw=randread --random_distribution=normal:20",
            "operations.0.distribution",
            plan.Normal(deviation_percent=20),
        ),
        (
            "--rw=randread --random_distribution=zoned:60/10:40",
            "operations.0.distribution.zones.1",
            plan.Zone(access_percent=40, offset_bytes=MIB // 10, bytes=MIB * 90 // 100),
        ),
        (
            "--rw=randrw --random_distribution=zoned_abs:60/256k:40/256k,100/128k",
            "operations.1.distribution.zones.0",
            plan.Zone(access_percent=100, offset_bytes=0, bytes=128 * KIB),
        ),
        ("--rw=read --random_distribution=zipf", "operations.0.distribution", plan.Uniform()),
        ("--rw=randread:8", "access.run_length", 8),
        ("--rw=read:-8k", "access.gap_bytes", -8192),
        ("--rw=read:3M", "access.gap_bytes", 3 * MIB),
        ("--rw=randread:8 --rw=read", "access.run_length", 1),
        ("--rw=trimwrite", "access.position", "identical"),
        ("--rw=trimwrite", "end.bytes", 2 * MIB),
        ("--rw=write --fill_device=1 --ioengine=psync", "end.when_full", True),
        ("--rw=write --fill_fs=1 --ioengine=psync", "files.0.layout", "create"),
        ("--rw=trimwrite --rate_iops=9,5,7", "operations.0.rate.count", 5),
        ("--rw=trimwrite --rate_iops=9,5,7", "operations.1.rate", None),
        ("--rw=randtrimwrite:8", "access.run_length", 4),
        ("--rw=randrw:8 --rw_sequencer=identical", "access.position", "repeated"),
        ("--rw=rw:8 --rw_sequencer=identical", "access.position", "kind"),
        ("--rw=randtrim", "operations.0.kind", "trim"),
        (
            "--zonemode=strided --zonesize=64k --zonerange=128k --zoneskip=256k",
            "access.strided",
            plan.Strided(range_bytes=128 * KIB, zone_bytes=64 * KIB, skip_bytes=256 * KIB),
        ),
        ("--zonemode=strided --zonesize=64k --nrfiles=2", "access.strided", None),
        ("--nrfiles=2 --file_service_type=random:4", "file_run", 4),
        # Pace
        (
            "--iodepth=8 --iodepth_batch=4 --iodepth_batch_complete_min=2 --iodepth_low=3",
            "batch",
            plan.Batch(submit=4, complete_min=2, complete_max=2, low=3),
        ),
        ("--iodepth=8 --iodepth_batch_complete=0 --ioengine=libaio", "depth", 1),
        ("--iodepth=8 --iodepth_batch_complete=0", "batch", plan.Batch()),
        (
            "--iodepth=8 --iodepth_batch_complete_min=0 --iodepth_batch_complete_max=4",
            "batch",
            plan.Batch(complete_min=1, complete_max=4),
        ),
        ("--iodepth=8 --iodepth_batch=8 --iodepth_low=8", "batch", plan.Batch()),
        ("--iodepth=4 --iodepth_batch_complete_min=9", "batch", plan.Batch(complete_min=4, complete_max=4)),
        (
            "--rate=1m,2m --rw=rw --rate_process=poisson",
            "operations.1.rate",
            plan.Rate(unit="bytes", count=2 * MIB, per_ns=SECOND_NS, arrivals="poisson"),
        ),
        ("--rate_iops=0,100 --rw=rw", "operations.0.rate", None),
        ("--thinktime=50 --thinktime_blocks=4", "think", plan.Think(pause_ns=50_000, every=4)),
        (
            "--thinktime=5ms --thinktime_spin=9ms --thinktime_blocks_type=issue --thinktime_iotime=2",
            "think",
            plan.Think(pause_ns=5_000_000, spin_ns=5_000_000, counts="issued", every=0, every_ns=2 * SECOND_NS),
        ),
        ("--thinktime=5 --rate_ignore_thinktime=1", "think.moves_schedule", True),
        ("--ioengine=libaio --iodepth=4", "submission_latency", True),
        ("--ioengine=io_uring --disable_slat=1", "submission_latency", False),
        ("--ioengine=libaio --gtod_reduce=1", "submission_latency", False),
        ("--ioengine=psync", "submission_latency", False),
        ("--ioengine=null --iodepth=4", "submission_latency", False),
        ("--rw=write --fsync=16", "syncs", (plan.SyncPlan(kind="fsync", every=16),)),
        ("--rw=write --fdatasync=16", "syncs", (plan.SyncPlan(kind="fdatasync", every=16),)),
        (
            "--rw=write --fdatasync=2 --fsync=3",
            "syncs",
            (plan.SyncPlan(kind="fsync", every=3), plan.SyncPlan(kind="fdatasync", every=2)),
        ),
        ("--rw=write --sync_file_range=write,wait_after:8", "syncs", (plan.SyncPlan(kind="sync_file_range", every=8),)),
        ("--fsync=16", "syncs", ()),
        ("--rw=write --end_fsync=1", "sync_at_end", True),
        ("--rw=write --end_syncfs=1", "sync_at_end", True),
        ("--rw=write --fallocate=none", "files.0.layout", "create"),
        ("--rw=write --fallocate=native", "files.0.layout", "reserve"),
        ("--rw=read --fallocate=none", "files.0.layout", "fill"),
        ("--rw=read --create_only=1 --ramp_time=1", "end.operations", 0),
        ("--rw=read --bssplit=5k/50:9k/50", "operations.0.blocks.bytes", 5120),
        ("--rw=write --fsync_on_close=1", "sync_at_end", True),
        # Endings
        ("--exitall", "ends_others", "always"),
        ("--exitall_on_error", "ends_others", "on_error"),
        (
            "--latency_target=2ms --latency_window=5s --latency_percentile=99 --latency_run=1",
            "latency_target",
            plan.LatencyTarget(target_ns=2_000_000, window_ns=5 * SECOND_NS, percentile=99, run_on=True),
        ),
        ("--latency_target=250", "latency_target.target_ns", 250_000),
        (
            "--ss=bw_slope:0.5% --ss_dur=30 --ss_ramp=5 --ss_interval=2",
            "steady_state",
            plan.SteadyState(
                figure="bandwidth",
                criterion="slope",
                limit=0.5,
                limit_is_percent=True,
                duration_ns=30 * SECOND_NS,
                ramp_ns=5 * SECOND_NS,
                check_ns=2 * SECOND_NS,
            ),
        ),
        ("--ss_dur=30", "steady_state.limit", 0.01),
        ("--ss=bw:4k --ss_dur=30", "steady_state.limit", 4096),
        ("--ss=iops:0.3%", "steady_state", None),
        # The part that is written
        ("--rw=write --buffer_pattern=0xdeadbeef", "payload.content", plan.PatternContent(bytes="deadbeef")),
        ("--rw=write --buffer_pattern=0xdeadbeef", "payload.renew", "keep"),
        ("--rw=write --zero_buffers --buffer_pattern=12", "payload.content", plan.PatternContent(bytes="0c")),
        (
            "--rw=write --buffer_compress_percentage=50",
            "payload",
            plan.Payload(content=plan.RandomContent(), renew="refill", compress_percent=50, compress_chunk_bytes=512),
        ),
        ("--rw=write --buffer_compress_percentage=50 --refill_buffers=0", "payload.renew", "keep"),
        ("--rw=write --buffer_pattern=12 --zero_buffers", "payload.content", plan.PatternContent(bytes="0c")),
        ("--rw=write --zero_buffers", "payload", plan.Payload(content=plan.ZeroContent(), renew="keep")),
        ("--rw=write --zero_buffers --scramble_buffers=1", "payload.renew", "scramble"),
        ("--rw=write --buffer_compress_percentage=50 --zero_buffers", "payload.content", plan.RandomContent()),
        ("--rw=write --buffer_pattern=1 --dedupe_percentage=9", "payload.content", plan.RandomContent()),
        ("--rw=write --buffer_pattern=1 --dedupe_percentage=9", "payload.renew", "refill"),
        ("--rw=write --dedupe_percentage=9 --buffer_pattern=1", "payload.renew", "keep"),
        ("--rw=write --dedupe_percentage=9 --refill_buffers=0", "payload.renew", "keep"),
        ("--rw=write --zero_buffers --verify=crc32c", "payload.content", plan.RandomContent()),
        ("--rw=write --buffer_compress_percentage=100", "payload.content", plan.ZeroContent()),
        ("--rw=write --dedupe_percentage=40", "payload.dedupe_percent", 40),
        ("--rw=write --dedupe_percentage=40 --dedupe_mode=working_set", "payload.dedupe_set_blocks", 12),
        # The part that is compared
        ("--rw=write --verify=crc32c", "verify", plan.Verify(method="crc32c")),
        ("--rw=write --verify=crc32c", "payload.renew", "refill"),
        ("--rw=write --verify=meta --do_verify=0", "verify", plan.Verify(method="header", read_back=False)),
        (
            "--rw=write --verify_pattern=0xff%o --verify_fatal=1 --verify_dump=1",
            "verify",
            plan.Verify(method="pattern", pattern="ff" + "o" * 16, fatal=True, dump=True),
        ),
        (
            '--rw=write --verify=pattern_hdr --verify_pattern="ab"',
            "verify",
            plan.Verify(method="pattern_header", pattern="6162"),
        ),
        ("--rw=write --bs=8k --verify=sha3-256 --verify_interval=512", "verify.interval_bytes", 512),
        ("--rw=write --bs=8k --verify=md5 --verify_interval=3000", "verify.interval_bytes", 0),
        ("--rw=write --bssplit=6k/50:16k/50 --bs_unaligned --verify=md5", "verify.interval_bytes", 2048),
        ("--rw=write --bsrange=4k-16k --verify=md5", "verify.interval_bytes", 4096),
        (
            "--rw=write --verify=md5 --verify_backlog=16 --verify_backlog_batch=4",
            "verify",
            plan.Verify(method="md5", backlog=16, backlog_batch=4),
        ),
        ("--rw=write --verify=md5 --verify_only", "verify.only", True),
        ("--rw=write --verify=0 --verify_pattern=1", "verify", None),
        # Engines
        ("--ioengine=posixaio", "engine.kind", "uring"),
        ("--ioengine=mmap", "engine.kind", "mmap"),
        # A switch takes any number
        ("--time_based=60 --runtime=5", "end.bytes", None),
        ("--rw=randread --norandommap=2", "access.cover", "independent"),
        ("--rw=randread --norandommap=0", "access.cover", "once"),
        # Logs
        (
            "--write_bw_log --log_avg_msec=500 --runtime=10",
            "log",
            plan.LogPlan(window_ns=500 * MILLISECOND_NS, histograms=False, records=22),
        ),
        ("--write_lat_log=x --bs=8k", "log", plan.LogPlan(window_ns=None, histograms=False, records=128 + 1024)),
        (
            "--write_hist_log=x --log_hist_msec=1000 --write_lat_log=x --log_avg_msec=400 --runtime=1",
            "log",
            plan.LogPlan(window_ns=200 * MILLISECOND_NS, histograms=True, records=7),
        ),
    ],
)
def test_an_option_reaches_the_plan(arguments: str, path: str, expected: object) -> None:
    assert part(worker(*arguments.split()), path) == expected


@pytest.mark.parametrize(
    ("text", "hexadecimal"),
    [
        ('"abcd"', "61626364"),
        ("-1024", "00fcffff"),
        ("66", "42"),
        ("0", "00"),
        ("0xFF0X1", "ff01"),
        ("0xFEE", "0fee"),
        ('"123"0xFFeeCC', "313233ffeecc"),
        ('-100xab"1"%o"2"', "f6ffffffab31" + "o" * 16 + "32"),
        ("%o0xdeadbeef%o", "o" * 16 + "deadbeef" + "o" * 16),
        ("'pattern.bin'", "000102"),
    ],
)
def test_patterns(tmp_path: Path, text: str, hexadecimal: str) -> None:
    (tmp_path / "pattern.bin").write_bytes(b"\0\1\2")
    machine = HeldMachine(directories=frozenset({str(tmp_path)}))
    arguments = ["--name=a", "--size=1m", "--rw=write", f"--verify_pattern={text}"]
    verify = read_command(arguments, cwd=tmp_path, environment={}, machine=machine).plan.groups[0].workers[0].verify
    assert verify == plan.Verify(method="pattern", pattern=hexadecimal)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--rw=write --bssplit=4k/50:8k/60", "shares_odd"),
        ("--rw=randread --ba=512", "map_off"),
        ("--iodepth=4 --iodepth_batch_complete_min=9", "batch_capped"),
        ("--thinktime_blocks=4", "no_effect"),
        ("--fsync=4", "no_effect"),
        ("--rw=trimwrite --rate=1m", "rate_of_pairs"),
        ("--rw=write --trim_percentage=10", "no_effect"),
        ("--rw=write --verify=md5 --dedupe_percentage=10", "no_effect"),
        ("--rw=write --file_append=1 --loops=2", "one_loop"),
        ("--iodepth=8 --iodepth_batch_complete_min=0", "depth_capped"),
        ("--zoneskip=4k", "no_effect"),
        ("--verify_fatal=1", "no_effect"),
        ("--latency_run=1", "no_effect"),
        ("--latency_target=1ms", "latency_window"),
        ("--ss=iops:1%", "no_effect"),
        ("--log_avg_msec=100", "no_effect"),
        ("--rw=write --verify=md5 --time_based --runtime=5", "verify_never"),
        ("--rw=randwrite --verify=md5 --norandommap --iodepth=4 --ioengine=io_uring", "verify_overlaps"),
        ("--rw=write --verify=md5 --numjobs=2 --filename=x", "verify_shared"),
        ("--ioengine=io_uring --hipri=1", "no_effect"),
        ("--serialize_overlap=1", "no_effect"),
    ],
)
def test_what_may_surprise_is_said(arguments: str, code: str) -> None:
    assert code in [note.code for note in fio(*arguments.split()).notes]


def test_files_are_named_after_the_section_and_not_after_its_name(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[{job1}]\nname=reads\nsize=1m\nfilename_format={$jobname}.$jobnum\nrw=write\n")
    prepared = read_command(
        ["job.fio"], cwd=tmp_path, environment={}, machine=HeldMachine(directories=frozenset({str(tmp_path)}))
    )
    assert [file.path for file in prepared.plan.groups[0].workers[0].files] == [f"{tmp_path}/{{{{job1}}}}.0"]
    assert [report.name for report in prepared.sections] == ["reads"]


def test_a_name_for_all_sections_is_none(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[global]\nname=all\nsize=1m\nioengine=null\n[a]\n[b]\nname=own\n")
    prepared = read_command(["job.fio"], cwd=tmp_path, environment={}, machine=HeldMachine())
    assert [report.name for report in prepared.sections] == ["a", "own"]
    assert [str(note.where) for note in prepared.notes if "name has no effect" in note.text] == ["job.fio:2:1"]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", [(0, True, False), (1, True, False)]),
        ("--exit_what=group", [(0, True, False), (1, True, False)]),
        ("--exit_what=stonewall", [(0, False, False), (0, False, False)]),
        ("--exit_what=all", [(0, False, True), (0, False, True)]),
    ],
)
def test_exit_what_selects_the_jobs_that_end(scope: str, expected: list[tuple[int, bool, bool]]) -> None:
    own = ["--exitall", scope, "--name=b", "--size=1m", "--new_group", "--ioengine=null", scope]
    (group,) = fio(*filter(None, own)).plan.groups
    ends = [(worker.exit_group, worker.ends_exit_group_only, worker.ends_run) for worker in group.workers]
    assert ends == expected


def test_jobs_of_a_flow_keep_their_weights() -> None:
    other = ["--name=b", "--size=1m", "--ioengine=null", "--flow=8", "--flow_id=3"]
    (group,) = fio("--flow=1", "--flow_id=3", *other).plan.groups
    assert [worker.flow for worker in group.workers] == [plan.Flow(id=3, weight=1), plan.Flow(id=3, weight=8)]
    assert worker("--flow_id=3").flow is None


def test_logs_have_room_for_the_reads_of_verification() -> None:
    log = fio("--rw=write", "--bs=8k", "--verify=md5", "--write_lat_log=x").plan.groups[0].workers[0].log
    assert log is not None
    assert log.records == 2 * (128 + 1024)


def test_exitall_holds_for_all_jobs() -> None:
    group = fio("--name=b", "--size=1m", "--ioengine=null", "--exitall").plan.groups[0]
    assert [worker.ends_others for worker in group.workers] == ["always", "always"]


def test_exitall_can_reach_beyond_its_group() -> None:
    small = ("--size=1m", "--ioengine=null", "--stonewall")
    plan = fio("--exitall", "--name=b", *small, "--exit_what=all", "--name=c", *small).plan
    assert [group.workers[0].ends_run for group in plan.groups] == [False, True, False]
    assert {group.workers[0].ends_others for group in plan.groups} == {"always"}


def test_what_output_needs_of_logs() -> None:
    arguments = (
        "--write_bw_log --write_lat_log=run --log_avg_msec=100 --per_job_logs=0 --log_offset=1 --log_max_value=1"
    )
    reporting = fio(*arguments.split(), "--log_unix_epoch=1", "--unified_rw_reporting=mixed").sections[0].reporting
    assert reporting.mixed == "mixed"
    assert reporting.logs == Logs(
        bandwidth="a", latency="run", window_ms=100, per_job=False, offsets=True, window_value="max", unix_epoch=True
    )


def test_what_output_needs_of_the_steady_state() -> None:
    assert fio("--ss=iops:0.3%", "--ss_dur=5").sections[0].reporting.steady_state == "iops:0.300000%"


SAMPLES = (
    *("0", "1", "2", "50%", "4k", "4k,8k", "1-5", "500ms", "randread:8", "trimwrite", "dsync", "zipf:1.2", "poisson"),
    *("4k/50:8k", "zoned:50/10:50/90", "iops:0.3%", "crc32c", "none", "0xff", "strided", "working_set", "issue"),
    *("identical", "group", "both", "max", "99:50", "split", "psync", "filestat", "falloc", "nfs://h/x", "a:b", "sync"),
)


def test_options_set_values_of_the_declared_types() -> None:
    """The table of options names fields as text: mypy does not see that an option's reader fits its field."""
    seen = set()
    for option, text in product(OPTIONS, SAMPLES):
        draft = Draft()
        try:
            option.effect(draft, text, Context(option=option.name))
        except ValueError:
            continue
        before, section = Draft(), draft.finished()
        parts = [(getattr(section, name), getattr(before, name)) for name in PARTS]
        parts += [(section, before.section), (draft.reporting, before.reporting), (draft.deferred, before.deferred)]
        for part, unset in parts:
            hints = get_type_hints(type(part), include_extras=True)
            for name in hints.keys() - {*PARTS, "given", "positions", "read_iolog"}:
                value = getattr(part, name)
                if value != getattr(unset, name):
                    seen.add(name)
                    assert msgspec.convert(msgspec.to_builtins(value), hints[name]) == value, (option.name, text)
    assert len(seen) > 100


@pytest.mark.parametrize(
    ("options", "is_accepted"),
    [
        ("--rw=randread --size=256k --bssplit=4k/50:1m/50", True),
        ("--rw=randwrite --size=256k --bsrange=4k-512k", True),
        ("--rw=read --size=256k --bs=512k", False),
        ("--rw=rw --size=256k --bs=4k,1m", False),
    ],
)
def test_a_region_needs_room_for_the_smallest_block_of_each_kind(options: str, *, is_accepted: bool) -> None:
    if is_accepted:
        assert fio(*options.split()).plan.groups
    else:
        with pytest.raises(PlanError, match="than one block"):
            fio(*options.split())
