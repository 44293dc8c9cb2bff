"""Options of fio and what becomes of them in the plan; where rules were in doubt, fio 3.33 itself was asked."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, present
from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.read.draft import Draft, Logs
from iocurve.dialects.fio.read.options import OPTIONS
from iocurve.dialects.fio.read.values import Context
from iocurve.engine import plan
from iocurve.foundation.errors import PlanError
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


@cases("fio/options")
def test_an_option_reaches_the_plan(arguments: str, path: str, golden: Golden) -> None:
    golden.check(part(worker(*arguments.split()), path))


@cases("fio/patterns")
def test_patterns(tmp_path: Path, text: str, hexadecimal: str) -> None:
    (tmp_path / "pattern.bin").write_bytes(b"\0\1\2")
    machine = HeldMachine(directories=frozenset({str(tmp_path)}))
    arguments = ["--name=a", "--size=1m", "--rw=write", f"--verify_pattern={text}"]
    verify = read_command(arguments, cwd=tmp_path, environment={}, machine=machine).plan.groups[0].workers[0].verify
    assert verify == plan.Verify(method="pattern", pattern=hexadecimal)


@cases("fio/surprises")
def test_what_may_surprise_is_said(arguments: str, code: str) -> None:
    assert code in [note.code for note in fio(*arguments.split()).notes]


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("-o f -F json", "--output=f --output-format=json"),
        ("-m", "--minimal"),
        ("-f -V 4 -e never", "--append-terse --terse-version=4 --eta=never"),
        ("--output-f=json --eta-i=9 -K d", "--output-format=json --aux-path=d"),
        ("-P -w", "--parse-only --warnings-fatal"),
    ],
)
def test_letters_and_beginnings_are_options_as_in_fio(short: str, full: str) -> None:
    found, expected = (fio(*words.split()) for words in (short, full))
    assert (found.output, found.check_only) == (expected.output, expected.check_only)


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
    log = present(fio("--rw=write", "--bs=8k", "--verify=md5", "--write_lat_log=x").plan.groups[0].workers[0].log)
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
