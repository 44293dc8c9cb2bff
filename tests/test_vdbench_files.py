"""Vdbench's parameter files: what people write, what it means, and what is said about errors."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, document, matches, picked, present
from iocurve.dialects.vdbench.command import read_command
from iocurve.dialects.vdbench.parameter_file import ParameterFile, check
from iocurve.dialects.vdbench.read.keywords import TABLE
from iocurve.dialects.vdbench.region import hotband
from iocurve.dialects.vdbench.runs import curve_target
from iocurve.foundation.errors import DialectError
from iocurve.job.model import Section, ZonesSaid
from iocurve.job.resolve import PathKind
from vdbench_runs import MACHINE, read_text, refused

SDS = "sd=sd1,lun=/d/a,size=1g\nsd=sd2,lun=/d/b,size=1g\n"
WD = "wd=wd1,sd=*,xf=4k\n"
RD = "rd=rd1,wd=wd1,iorate=max,el=10,in=1\n"


def sections(directory: Path, text: str, *arguments: str, number: int = 0) -> tuple[Section, ...]:
    prepared = read_text(directory, text, *arguments)
    return prepared.resolve(prepared.runs[number]).built.job.sections


def view(made: ParameterFile, part: str) -> Any:
    """One part of a file that was read: its runs, what is said before them, or the plan of the first one."""
    match part:
        case "notes" | "obstacles":
            return dict(zip(("notes", "obstacles"), check(made), strict=True))[part]
        case "plan":
            return made.resolve(made.runs[0]).resolution.plan
        case "sections":
            return made.resolve(made.runs[0]).built.job.sections
        case "placements":
            return made.resolve(made.runs[0]).built.placements
        case "workloads":
            return present(made.file_systems).of_run(made.runs[-1])
        case "file_notes":
            return made.notes
    return getattr(made, part)


@cases("vdbench/files")
def test_what_a_file_means(tmp_path: Path, text: str, arguments: list[str], paths: list[str], golden: Golden) -> None:
    made = read_text(tmp_path, text, *arguments)
    parts = [path.partition(".") for path in paths]
    golden.check([document(picked(view(made, part), rest)) for part, _, rest in parts])


# -- lines -------------------------------------------------------------------------------------------------------------


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
    numbers = [*(f"sd{number}" for number in range(1, 13)), "a-1"]
    sds = "".join(f"sd={name},lun=/d/{name},size=1g\n" for name in numbers)
    for names, count in (("(sd1-sd9)", 9), ("sd1*", 4), ("(sd1,sd3-sd4,a-1)", 4), ("a-1", 1), ("*", 13)):
        assert len(sections(tmp_path, f"{sds}wd=wd1,sd={names},xf=4k\n{RD}")) == count


def test_hosts_and_luns_are_mapped(tmp_path: Path) -> None:
    text = f"hd=h1,system=s1\nhd=h2,system=s2\nsd=sd1,lun=/mnt/a\nsd=sd2,lun=/dev/rdsk/c0t0,host=h2\n{WD}{RD}"
    arguments = ("--map-host", "s*=localhost", "--map-lun=/mnt=/d", "--map-lun", "h2:/dev/rdsk/*=/d/{sd}-{host}")
    matches("vdbench#hosts luns mapped", [section.files.paths for section in sections(tmp_path, text, *arguments)])
    (error,) = refused(tmp_path, text, "--map-lun", "/x=/y")
    assert error.endswith("--map-lun /x=… matches nothing in the parameter files")


# -- runs --------------------------------------------------------------------------------------------------------------


def loops(directory: Path, rd: str) -> list[str]:
    return [run.loops_text for run in read_text(directory, f"{SDS}{WD}rd=rd1,wd=wd1,el=10,in=1,{rd}\n").runs]


@cases("vdbench/series")
def test_series_of_numbers(tmp_path: Path, series: str, values: list[int]) -> None:
    assert loops(tmp_path, f"io=max,th={series}") == [f"threads={value}" for value in values]


@cases("vdbench/targets_of_a_curve_are_rounded")
def test_targets_of_a_curve_are_rounded_up(most: float, percent: int, target: int) -> None:
    assert curve_target(most, percent) == target


def test_a_curve_keeps_the_skew_that_was_seen_at_the_maximum(tmp_path: Path) -> None:
    prepared = read_text(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=curve,el=10,in=1\n")
    resolved = prepared.resolve(prepared.runs[1], [0.75, 0.25], 400)
    assert [section.pace.rate_total_operations for section in resolved.built.job.sections] == [300, 100]


@pytest.mark.slow
def test_five_thousand_definitions_are_looked_at_by_their_differences(tmp_path: Path) -> None:
    lines = "".join(f"rd=rd{number},wd=wd1,io={number + 1},el=10,in=1\n" for number in range(5000))
    prepared = read_text(tmp_path, f"{SDS}{WD}{lines}")
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


def test_files_that_will_be_overwritten_are_listed_together_and_a_device_by_its_name(tmp_path: Path) -> None:
    files: dict[str, tuple[PathKind, int]] = {f"/d/f{number}": ("file", 1 << 20) for number in range(1, 5)}
    machine = HeldMachine(paths={**files, "/dev/sdx": ("block", 1 << 30)}, directories=frozenset({"/d"}))
    sds = "sd=f,lun=/d/f,count=(1,4),size=1m\nsd=raw,lun=/dev/sdx\n"
    notes, _ = check(read_text(tmp_path, f"{sds}wd=wd1,sd=*,rdpct=0,xf=4k\n{RD}", machine=machine))
    matches("vdbench#files will be", [note.text for note in notes if note.code == "overwrites"])


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
    for kind, keyword in ((kind, keyword) for kind, keywords in TABLE.items() for keyword in keywords):
        line = f"{keyword.name}=1\n" if kind == "general" else f"{kind}=x1,{keyword.name}=1\n"
        if keyword.refused and kind != "rg":
            assert any(keyword.refused in found for found in refused(tmp_path, line))
        elif keyword.note:
            # The file is not complete, but what is noted is no error.
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


def test_what_follows_from_an_include_that_is_missing_is_not_reported(tmp_path: Path) -> None:
    (error,) = refused(tmp_path, f"include=luns\n{WD}{RD}")
    assert error.endswith(f"{tmp_path / 'luns'} cannot be read: No such file or directory")


def test_a_variable_without_a_value_is_reported_once(tmp_path: Path) -> None:
    (error,) = refused(tmp_path, f"{SDS}{WD}rd=rd1,wd=wd1,io=max,el=4,in=1,threads=$threads\n")
    assert error.endswith("variable $threads has no value")


@pytest.mark.parametrize("option", ["-vc", "-jri", "-cx", "--nonsense", "compare", "\u2013f p"])
def test_options_that_cannot_be_honoured_are_refused(tmp_path: Path, option: str) -> None:
    told = r"not supported|not there|not one of|unknown option|begins with the dash '\u2013'; options begin with '-'"
    with pytest.raises(DialectError, match=told):
        read_command(option.split(), cwd=tmp_path, machine=MACHINE)


def test_a_text_without_end_is_refused_quickly(tmp_path: Path) -> None:
    assert len(refused(tmp_path, f"sd=a,lun=/x,{'unknown=1,' * 5_000}\n")) == 1_000
    assert "cannot be read: it is larger than 2 MiB" in refused(tmp_path, "unknown=1\n" * 250_000)[0]
