"""Vdbench's parameter files: what people write, what it means, and what is said about errors."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, matches
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.parameter_file import ParameterFile, check
from iocurve.dialects.vdbench.read.keywords import TABLE
from iocurve.dialects.vdbench.region import hotband
from iocurve.dialects.vdbench.runs import curve_target
from iocurve.engine.plan import BlockSplit
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Section, ZonesSaid
from iocurve.job.resolve import PathKind

MACHINE = HeldMachine(paths={"/dev/sdx": ("block", 1 << 30)}, directories=frozenset({"/d"}))
SDS = "sd=sd1,lun=/d/a,size=1g\nsd=sd2,lun=/d/b,size=1g\n"
WD = "wd=wd1,sd=*,xf=4k\n"
RD = "rd=rd1,wd=wd1,iorate=max,el=10,in=1\n"


def read(directory: Path, text: str, *arguments: str) -> ParameterFile:
    (directory / "p").write_text(text, encoding="utf-8")
    return read_command(["-f", str(directory / "p"), *arguments], cwd=Path("/d"), machine=MACHINE)


def sections(directory: Path, text: str, *arguments: str, number: int = 0) -> tuple[Section, ...]:
    prepared = read(directory, text, *arguments)
    return prepared.resolve(prepared.runs[number]).built.job.sections


def field(section: Section, path: str) -> Any:
    """A field of a section; None below a part that is not there."""
    found: Any = section
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


@cases("vdbench/sections")
def test_what_a_file_means(tmp_path: Path, text: str, arguments: list[str], fields: list[str], golden: Golden) -> None:
    found = sections(tmp_path, text, *arguments)
    golden.check([[field(section, path) for path in fields] for section in found])


def refused(directory: Path, text: str, *arguments: str) -> list[str]:
    """Line, column and text of every error."""
    with pytest.raises(DialectError) as caught:
        read(directory, text, *arguments)
    positions = [(error.where, error.text) for error in caught.value.errors]
    return [f"{where.line}:{where.column} {text}" if where else text for where, text in positions]


# -- lines -------------------------------------------------------------------------------------------------------------


def test_comments_blanks_and_eof_end_what_counts(tmp_path: Path) -> None:
    text = f"* a\n/ b\n# c\n{SDS}{WD}rd=rd1,wd=wd1,iorate=max,el=10 elapsed=20\neof and\nnonsense\n"
    assert read(tmp_path, text).runs[0].timing.elapsed_ns == 10 * SECOND_NS


def test_an_include_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "first").write_text("include=second\n")
    (tmp_path / "sub" / "second").write_text(SDS)
    assert len(sections(tmp_path, f"include=sub/first\n{WD}{RD}")) == 2


def test_files_that_include_one_another_end(tmp_path: Path) -> None:
    assert "files include each other in a loop" in refused(tmp_path, "include=p\n")[0]


def test_variables_come_from_the_command_line(tmp_path: Path) -> None:
    text = f"sd=sd1,lun=$lun,size=!size\n{WD}{RD}"
    assert sections(tmp_path, text, "lun=/d/x", "size=2g")[0].files.paths == ("/d/x",)
    matches("vdbench#variables come", refused(tmp_path, text, "lun=/d/x", "other=1"))


# -- storage -----------------------------------------------------------------------------------------------------------


def test_names_are_ranges_wildcards_and_themselves(tmp_path: Path) -> None:
    sds = "".join(f"sd=sd{number},lun=/d/{number},size=1g\n" for number in range(1, 13)) + "sd=a-1,lun=/d/x,size=1g\n"
    for names, count in (("(sd1-sd9)", 9), ("sd1*", 4), ("(sd1,sd3-sd4,a-1)", 4), ("a-1", 1), ("*", 13)):
        assert len(sections(tmp_path, f"{sds}wd=wd1,sd={names},xf=4k\n{RD}")) == count


def test_block_0_of_a_device_is_never_touched(tmp_path: Path) -> None:
    text = f"sd=sd1,lun=/dev/sdx\nwd=wd1,sd=sd1,xf=(4k,50,64k,50)\n{RD}"
    prepared = read(tmp_path, text)
    file = prepared.resolve(prepared.runs[0]).resolution.plan.groups[0].workers[0].files[0]
    assert (file.offset_bytes, file.offset_bytes + file.bytes, file.layout) == (65536, 1 << 30, "existing")


def test_no_file_is_made_under_dev(tmp_path: Path) -> None:
    _, obstacles = check(read(tmp_path, f"sd=sd1,lun=/dev/none,size=1g\n{WD}{RD}"))
    assert any("there is no device /dev/none" in obstacle.text for obstacle in obstacles)


def test_directories_are_not_made(tmp_path: Path) -> None:
    _, obstacles = check(read(tmp_path, f"sd=sd1,lun=/nowhere/a,size=1g\n{WD}{RD}"))
    assert [obstacle.text for obstacle in obstacles] == ["directory /nowhere does not exist"]


def test_hosts_and_luns_are_mapped(tmp_path: Path) -> None:
    text = f"hd=h1,system=s1\nhd=h2,system=s2\nsd=sd1,lun=/mnt/a\nsd=sd2,lun=/dev/rdsk/c0t0,host=h2\n{WD}{RD}"
    arguments = ("--map-host", "s*=localhost", "--map-lun=/mnt=/d", "--map-lun", "h2:/dev/rdsk/*=/d/{sd}-{host}")
    matches("vdbench#hosts luns mapped", [section.files.paths for section in sections(tmp_path, text, *arguments)])
    (error,) = refused(tmp_path, text, "--map-lun", "/x=/y")
    assert error.endswith("--map-lun /x=… matches nothing in the parameter files")


@pytest.mark.parametrize(("format_", "is_noted"), [("no", False), ("(no,complete)", True), ("yes", True)])
def test_format_is_for_file_systems(tmp_path: Path, format_: str, *, is_noted: bool) -> None:
    notes, _ = check(read(tmp_path, f"{SDS}{WD}{RD.strip()},format={format_}\n"))
    text = "format= has no effect: it applies to file systems; missing files of SDs are created"
    assert (text in [note.text for note in notes]) == is_noted


def test_durations_that_are_no_whole_intervals_are_noted(tmp_path: Path) -> None:
    prepared = read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=max,el=10,in=3,warmup=4\nrd=rd2,wd=wd1,io=max,el=9,in=3\n")
    matches("vdbench#durations no", [note.text for note in prepared.notes if note.code == "partial_interval"])


# -- runs --------------------------------------------------------------------------------------------------------------


def loops(directory: Path, rd: str) -> list[str]:
    return [run.loops_text for run in read(directory, f"{SDS}{WD}rd=rd1,wd=wd1,el=10,in=1,{rd}\n").runs]


def test_loops_run_in_the_order_in_which_they_are_written(tmp_path: Path) -> None:
    matches(
        "vdbench_files/loops_run_in_the_order_in_which_they",
        loops(tmp_path, "iorate=max,forthreads=(1,2),forxf=(4k,8k)"),
    )
    assert loops(tmp_path, "xf=(4k-8k,4k),th=(1,2),io=max")[:2] == ["xfersize=4k threads=1", "xfersize=4k threads=2"]


@cases("vdbench/series")
def test_series_of_numbers(tmp_path: Path, series: str, values: list[int]) -> None:
    assert loops(tmp_path, f"io=max,th={series}") == [f"threads={value}" for value in values]


def test_a_curve_is_a_maximum_and_its_percentages(tmp_path: Path) -> None:
    runs = read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=curve,el=10,in=1\n").runs
    names = ["rd1", "rd1_(10%)", "rd1_(50%)", "rd1_(70%)", "rd1_(80%)", "rd1_(90%)", "rd1_(100%)"]
    assert [run.name for run in runs] == names
    runs = read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=curve,curve=(10-120,50),el=10,in=1\n").runs
    assert [run.curve_percent for run in runs] == [None, 10, 60, 110]


@cases("vdbench/targets_of_a_curve_are_rounded")
def test_targets_of_a_curve_are_rounded_up(most: float, percent: int, target: int) -> None:
    assert curve_target(most, percent) == target


def test_a_curve_keeps_the_skew_that_was_seen_at_the_maximum(tmp_path: Path) -> None:
    prepared = read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=curve,el=10,in=1\n")
    resolved = prepared.resolve(prepared.runs[1], [0.75, 0.25], 400)
    assert [section.pace.rate_total_operations for section in resolved.built.job.sections] == [300, 100]


def test_several_rates_are_several_runs(tmp_path: Path) -> None:
    assert loops(tmp_path, "io=(100-300,100)") == ["iorate=100", "iorate=200", "iorate=300"]


def test_a_variable_rate_is_one_run_in_groups_that_repeat(tmp_path: Path) -> None:
    text = f"{SDS}wd=wd1,sd=sd1\nrd=rd1,wd=wd1,io=(100,4,1000,3),dist=(d,variable),el=10,in=1\n"
    prepared = read(tmp_path, text)
    assert len(prepared.runs) == 1
    groups = prepared.resolve(prepared.runs[0]).resolution.plan.groups
    ends = [(worker.ramp_ns, worker.end.runtime_ns, worker.rate) for group in groups for worker in group.workers]
    seconds = [(ramp // SECOND_NS, (runtime or 0) // SECOND_NS, rate and rate.count) for ramp, runtime, rate in ends]
    assert seconds == [(1, 3, 100), (0, 3, 1000), (0, 3, 100)]


@cases("vdbench/warm_up")
def test_the_first_interval_or_the_warm_up_does_not_count(
    tmp_path: Path, said: str, ramp_s: int, runtime_s: int, interval_s: int
) -> None:
    prepared = read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=max,{said}\n")
    plan = prepared.resolve(prepared.runs[0]).resolution.plan
    worker = plan.groups[0].workers[0]
    times = worker.ramp_ns, worker.end.runtime_ns, plan.interval_ns
    assert times == (ramp_s * SECOND_NS, runtime_s * SECOND_NS, interval_s * SECOND_NS)


def test_the_command_line_overrides_times(tmp_path: Path) -> None:
    timing = read(tmp_path, f"{SDS}{WD}{RD}", "-e", "2m", "-i", "2", "-w10").runs[0].timing
    assert (timing.elapsed_ns, timing.interval_ns, timing.warmup_ns) == (120 * SECOND_NS, 2 * SECOND_NS, 10 * SECOND_NS)


def test_sds_of_a_run_take_the_place_of_those_of_the_workload(tmp_path: Path) -> None:
    rd = "rd=rd1,sd=%s,io=max,el=10,in=1,rdpct=0,xf=8k\n"
    assert [run.storage for run in read(tmp_path, SDS + rd % "single").runs] == [("sd1",), ("sd2",)]
    assert [run.storage for run in read(tmp_path, SDS + rd % "range").runs] == [("sd1",), ("sd1", "sd2")]
    assert [len(run.storage or ()) for run in read(tmp_path, SDS + rd % "setsof2").runs] == [2]


def test_defaults_hold_for_what_follows(tmp_path: Path) -> None:
    text = (
        "sd=sd0,lun=/d/0,size=1g\nsd=default,threads=3,size=2g\nsd=sd1,lun=/d/a\n"
        f"{WD}rd=default,io=max,el=10,in=1\nrd=rd1,wd=wd1\n"
    )
    assert [section.pace.depth for section in sections(tmp_path, text)] == [8, 3]


@pytest.mark.slow
def test_five_thousand_definitions_are_looked_at_by_their_differences(tmp_path: Path) -> None:
    lines = "".join(f"rd=rd{number},wd=wd1,io={number + 1},el=10,in=1\n" for number in range(5000))
    prepared = read(tmp_path, f"{SDS}{WD}{lines}")
    looked_at: list[str] = []

    class Counted(HeldMachine):
        def fresh_seed(self) -> int:
            looked_at.append("")
            return 1

    msgspec.structs.force_setattr(prepared, "machine", Counted(directories=frozenset({"/d"})))
    check(prepared)
    assert len(prepared.runs) == 5000
    # One plan: its builder's chance, and a seed for each of two workers.
    assert len(looked_at) == 3


# -- workloads ---------------------------------------------------------------------------------------------------------


@cases("vdbench/seekpct")
def test_seekpct(tmp_path: Path, said: str, random: bool, percent: int, at_end: str) -> None:
    (section,) = sections(tmp_path, f"{SDS}wd=wd1,sd=sd1,xf=4k{',' if said else ''}{said}\n{RD}")
    assert section.load.random_percent is not None
    assert (section.load.random, section.load.random_percent.read, section.load.at_end) == (random, percent, at_end)


def test_files_that_will_be_overwritten_are_listed_together_and_a_device_by_its_name(tmp_path: Path) -> None:
    files: dict[str, tuple[PathKind, int]] = {f"/d/f{number}": ("file", 1 << 20) for number in range(1, 5)}
    machine = HeldMachine(paths={**files, "/dev/sdx": ("block", 1 << 30)}, directories=frozenset({"/d"}))
    sds = "sd=f,lun=/d/f,count=(1,4),size=1m\nsd=raw,lun=/dev/sdx\n"
    (tmp_path / "p").write_text(f"{sds}wd=wd1,sd=*,rdpct=0,xf=4k\n{RD}")
    notes, _ = check(read_command(["-f", str(tmp_path / "p")], cwd=Path("/d"), machine=machine))
    matches("vdbench#files will be", [note.text for note in notes if note.code == "overwrites"])


def test_a_file_that_may_not_be_made_is_reported_in_vdbenchs_words(tmp_path: Path) -> None:
    _, obstacles = check(read(tmp_path, f"formatsds=no\nsd=sd1,lun=/d/a,size=1g\n{WD}{RD}"))
    assert [obstacle.text for obstacle in obstacles] == ["/d/a does not exist, and formatsds=no forbids creating it"]


@cases("vdbench/what_does_not_count_is_noted")
def test_what_does_not_count_is_noted(tmp_path: Path, warmup: str, note: str) -> None:
    notes, _ = check(read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=max,el=10,in=1{warmup}\n"))
    assert [one.text for one in notes if one.code in ("ramp_added", "first_interval")] == [note]


def test_concatenated_sds_may_have_different_sizes(tmp_path: Path) -> None:
    sds = "sd=sd1,lun=/d/a,size=3g\nsd=sd2,lun=/d/b,size=1g\n"
    prepared = read(tmp_path, f"concat=yes\n{sds}wd=wd1,sd=*\nwd=wd2,sd=*,seekpct=0\nrd=rd1,wd=*,io=max,el=10,in=1\n")
    workers = prepared.resolve(prepared.runs[0]).resolution.plan.groups[0].workers
    matches(
        "vdbench#concatenated sds",
        [(worker.file_select, [file.bytes >> 30 for file in worker.files]) for worker in workers],
    )


@cases("vdbench/openflags")
def test_openflags(tmp_path: Path, flags: str, direct: bool, durability: str, flushed: bool) -> None:
    (section,) = sections(tmp_path, f"sd=sd1,lun=/d/a,size=1g,openflags={flags}\n{WD}{RD}")
    assert (section.target.direct, section.target.durability, section.pace.sync_at_end) == (direct, durability, flushed)


def test_what_differs_from_vdbench_is_noted(tmp_path: Path) -> None:
    text = (
        "formatsds=yes\nsd=sd1,lun=/dev/sdx\nwd=wd1,sd=sd1,seekpct=eof\nwd=wd2,sd=sd1,seekpct=.5\nrd=rd1,wd=*,io=max\n"
    )
    notes, _ = check(read(tmp_path, text))
    codes = {note.code for note in notes if note.level == "warning"}
    assert {"no_format", "seekpct_rounded"} <= codes


# -- errors ----------------------------------------------------------------------------------------------------------


def test_every_error_of_a_file_is_reported_with_its_position(tmp_path: Path) -> None:
    text = (
        "sd=sd1,lun=/d/a,size=10q,colour=red\nwd=wd1,sd=sd9,xfersize=(4k,10,8k,80)\n"
        "wd=wd2,sd=sd1,rdpct=101\nrd=rd1,wd=wd1,el=3,in=2\nrd=rd2,wd=wd7,io=fast\n"
    )
    matches("vdbench_files/every_error_of_a_file_is_reported", refused(tmp_path, text))


@pytest.mark.slow
@cases("vdbench/errors")
def test_errors(tmp_path: Path, text: str, error: str) -> None:
    assert any(error in found for found in refused(tmp_path, text))


def test_every_keyword_is_honoured_noted_or_refused(tmp_path: Path) -> None:
    for kind, keywords in TABLE.items():
        for keyword in keywords:
            if keyword.refused and kind not in ("rg",):
                line = f"{keyword.name}=1\n" if kind == "general" else f"{kind}=x1,{keyword.name}=1\n"
                assert any(keyword.refused in found for found in refused(tmp_path, line))
            elif keyword.note:
                line = f"{keyword.name}=1\n" if kind == "general" else f"{kind}=x1,{keyword.name}=1\n"
                with pytest.raises(DialectError):
                    # The file is not complete, but what is noted is no error.
                    read(tmp_path, line)
                assert not any(keyword.name in found for found in refused(tmp_path, line))


@pytest.mark.parametrize("writes", [False, True])
def test_a_hot_band_is_drawn_as_vdbench_draws_it(writes: bool) -> None:
    """20 of 100 MB, by the first two steps of the curve: 8.7217 % within 16,000 bytes, 10.101 % within 32,000."""
    zones = hotband(20_000_000, 8000, writes=writes)
    assert isinstance(zones, ZonesSaid)
    assert sum(int(str(zone.size)) for zone in zones.zones) == 20_000_000
    assert round(sum(zone.access_percent for zone in zones.zones), 6) == 100
    shift = 2500 // 100 * 8000 if writes else 0
    ends = list(accumulate(int(str(zone.size)) for zone in zones.zones))
    first = ends.index(shift + 16_000)
    # Distances beyond the band wrap: a part of the other 60 % is everywhere.
    assert 8.7217 < zones.zones[first].access_percent < 8.9
    assert 10.101 - 8.7217 < zones.zones[first + 1].access_percent < 1.5


def test_hosts_may_be_defined_by_host_and_an_sd_is_used_where_it_is(tmp_path: Path) -> None:
    """Both as a public test suite writes them."""
    text = (
        "host=h0,system=a,shell=ssh\nhost=(b,h1)\n"
        "sd=sd0,lun=/d/a,size=1g,host=h0\nsd=sd1,lun=/d/b,size=1g,host=h1\n"
        "wd=default,sd=sd*,xf=4k\nwd=wd0,host=h0\nwd=wd1,host=h1\nrd=rd1,wd=*,io=max,el=4,in=1\n"
    )
    made = read(tmp_path, text)
    placements = made.resolve(made.runs[0]).built.placements
    matches(
        "vdbench#hosts may be",
        [(placement.workload.name, placement.storage[0].name, placement.host) for placement in placements],
    )


def test_shares_of_sizes_that_were_measured_are_kept(tmp_path: Path) -> None:
    made = read(tmp_path, f"{SDS}wd=wd1,sd=sd1,xf=(4k,25.68,8k,59.62,16k,14.67)\n{RD}")
    (worker, *_) = made.resolve(made.runs[0]).resolution.plan.groups[0].workers
    (operation,) = worker.operations
    assert isinstance(operation.blocks, BlockSplit)
    shares = [(part.bytes, part.weight) for part in operation.blocks.parts]
    assert shares == [(4096, 256_800), (8192, 596_200), (16384, 146_700)]


def test_what_follows_from_an_include_that_is_missing_is_not_reported(tmp_path: Path) -> None:
    with pytest.raises(DialectError) as error:
        read(tmp_path, f"include=luns\n{WD}{RD}")
    assert [error.text for error in error.value.errors] == [
        f"{tmp_path / 'luns'} cannot be read: No such file or directory"
    ]


def test_a_variable_without_a_value_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(DialectError) as error:
        read(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=max,el=4,in=1,threads=$threads\n")
    assert [error.text for error in error.value.errors] == ["variable $threads has no value"]


@pytest.mark.parametrize("option", ["-vc", "-jri", "-cx", "--nonsense", "compare"])
def test_options_that_cannot_be_honoured_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(DialectError, match=r"not supported|not there|not one of|unknown option"):
        read_command([option], cwd=tmp_path, machine=MACHINE)


def test_a_text_without_end_is_refused_quickly(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(f"sd=a,lun=/x,{'unknown=1,' * 5_000}\n")
    with pytest.raises(DialectError) as caught:
        read_command(["-f", "p"], cwd=tmp_path)
    assert len(caught.value.errors) == 1_000
    (tmp_path / "p").write_text("unknown=1\n" * 250_000)
    with pytest.raises(DialectError, match="cannot be read: it is larger than 2 MiB"):
        read_command(["-f", "p"], cwd=tmp_path)


def test_a_typographic_dash_is_named(tmp_path: Path) -> None:
    with pytest.raises(DialectError, match="this begins with the dash '\u2013'; options begin with '-'"):
        read_command(["\u2013f", "p"], cwd=tmp_path)


def test_a_variable_follows_an_equals_sign(tmp_path: Path) -> None:
    """As in vdbench, which takes the others as they are."""
    text = f"sd=sd1,lun=/d/!dir/$x,size=1g\n{WD}rd=rd1,wd=wd1,iorate=max\n"
    assert "1:23 variable !size has no value" in refused(
        tmp_path, text.replace("1g", "!size").replace("/!dir/$x", "/f1")
    )


def test_the_default_of_sds_takes_no_lun(tmp_path: Path) -> None:
    text = f"sd=default,lun=/d/f1,size=1g\nsd=sd1\n{WD}rd=rd1,wd=wd1,iorate=max\n"
    assert "1:12 sd=default takes no lun=, as in vdbench" in refused(tmp_path, text)
