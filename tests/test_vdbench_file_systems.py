"""File system workloads (FSD, FWD): values, trees, what runs override, errors, and their explanation."""

from decimal import Decimal
from pathlib import Path

from goldens import cases, data, matches
from iocurve.dialects.vdbench.explanation import explain
from iocurve.dialects.vdbench.file_systems import FileSystems, Tree
from iocurve.dialects.vdbench.read.file_values import FileIo, FileSelect, Shares
from vdbench_runs import read_text, refused

FSD = "fsd=fsd1,anchor=/d/a,depth=2,width=3,files=100,size=128k\n"
FWD = "fwd=fwd1,fsd=fsd1,operation=read\n"
RD = "rd=rd1,fwd=fwd1,fwdrate=max,elapsed=10,interval=1\n"


def found(directory: Path, text: str) -> FileSystems:
    file_systems = read_text(directory, text).file_systems
    assert file_systems
    return file_systems


def test_no_pattern_selects_the_workload_of_formats(tmp_path: Path) -> None:
    text = f"{FSD}fwd=format,threads=2,xfersize=64k\n{FWD}"
    made = read_text(tmp_path, f"{text}rd=rd1,fwd=f*,fwdrate=100,elapsed=10,interval=1,format=yes\n")
    assert made.file_systems
    assert [workload.name for workload in made.file_systems.of_run(made.runs[0])] == ["fwd1"]
    assert len(made.file_plans.formats(made.runs[0], already=False).plan.groups[0].workers) == 2
    # vdbench: "Could not find fwd=format".
    matches(
        "vdbench#no pattern selects", refused(tmp_path, f"{text}rd=rd1,fwd=format,fwdrate=100,elapsed=10,interval=1\n")
    )


def tree(directory: Path, parameters: str) -> Tree:
    return found(directory, f"fsd=fsd1,anchor=/d/a,{parameters}\n{FWD}{RD}").trees["fsd1"]


def explained(directory: Path, text: str) -> list[str]:
    return explain(read_text(directory, text)).splitlines()


@cases("vdbench/trees")
def test_a_tree_has_the_directories_and_files_of_vdbench(
    tmp_path: Path, parameters: str, directories: int, files: int, size: int, first: str
) -> None:
    made = tree(tmp_path, parameters)
    assert (made.directories, made.file_count, made.bytes, made.first_file()) == (directories, files, size, first)


def test_the_defaults_are_those_of_vdbench(tmp_path: Path) -> None:
    workload = found(tmp_path, f"{FSD}fwd=fwd1,fsd=fsd1\n{RD}").workloads["fwd1"]
    assert (workload.io, workload.select) == (FileIo("sequential"), FileSelect("sequential"))
    assert workload.transfers == Shares(((4096, Decimal(100)),))


def test_a_percentage_of_reads_replaces_the_operation(tmp_path: Path) -> None:
    lines = [
        explained(tmp_path, f"{FSD}{FWD.strip()},fileio=random,rdpct={percent}\n{RD}")[4] for percent in (0, 40, 100)
    ]
    matches("vdbench#percentage of reads", lines)


def test_workloads_are_explained_in_words(tmp_path: Path) -> None:
    matches(
        "vdbench_file_systems/workloads_are_explained_in_words",
        explained(tmp_path, data("vdbench/file_workloads.parm"))[:29],
    )


@cases("vdbench/file_system_errors")
def test_an_error_is_reported(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in [error.partition(" ")[2] if error[0].isdigit() else error for error in refused(tmp_path, text)]


def test_rates_of_file_systems_are_a_loop_where_they_are_written(tmp_path: Path) -> None:
    def loops(rd: str) -> list[str]:
        runs = read_text(tmp_path, f"{FSD}{FWD}rd=rd1,fwd=fwd1,el=10,in=1,{rd}\n").runs
        return [f"{run.rate.per_second}: {run.loops_text}" for run in runs]

    matches(
        "vdbench_file_systems/rates_of_file_systems_are_a_loop_where_they", loops("fwdrate=(50,100),forthreads=(1,2)")
    )
    assert loops("forthreads=(1,2),fwdrate=(50,100)")[:2] == ["50: threads=1 fwdrate=50", "100: threads=1 fwdrate=100"]


def test_a_stream_starts_within_its_part(tmp_path: Path) -> None:
    text = (
        "sd=sd1,lun=/dev/null,size=10m\nwd=wd1,sd=sd1,xfersize=4k,seekpct=seqnz,streams=4\n"
        "rd=rd1,wd=wd1,iorate=max,el=10,in=1\n"
    )
    made = read_text(tmp_path, text.replace("/dev/null", str(tmp_path / "f")))
    files = [worker.files[0] for worker in made.resolve(made.runs[0]).resolution.plan.groups[0].workers]
    assert len(files) == 4
    assert all(0 < file.start_bytes < file.bytes <= 10 << 18 for file in files)


def test_a_format_is_as_fast_as_it_can_whatever_the_rate(tmp_path: Path) -> None:
    made = read_text(tmp_path, f"{FSD}{FWD}rd=rd1,fwd=fwd1,fwdrate=10,elapsed=10,interval=1,format=yes\n")
    (run,) = made.runs
    # vdbench's Reqrate of format_for_rd1 and of rd1.
    assert made.file_plans.formats(run, already=False).constants["reqrate"] == 9_999_988
    assert made.file_plans.run(run, None).constants["reqrate"] == 10
