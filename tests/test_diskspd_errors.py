"""Command lines that DiskSpd refuses are refused with a hint; all errors come at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fio_machine import HeldMachine
from iocurve.dialects.diskspd.command import ReadProfile, read_command
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, DialectError, PlanError

MACHINE = HeldMachine(
    paths={"/d/f": ("file", 1 << 20), "/d/empty": ("file", 0), "/dev/sdx": ("block", 1 << 30)},
    directories=frozenset({"/d", "/d/directory"}),
)


def attempt(line: str) -> ReadProfile:
    return read_command(shlex.split(line), cwd=Path("/d"), machine=MACHINE)


def errors(line: str) -> list[Diagnostic]:
    with pytest.raises((DialectError, PlanError)) as caught:
        attempt(line)
    return list(caught.value.errors)


@pytest.mark.parametrize(
    ("line", "argument", "part"),
    [
        ("-b4K f -d5", 3, "-d5: flags must come before the first target (f)"),
        ("-b4K f /d5", 3, "/d5: flags must come before the first target (f)"),
        ("-i10 f", 1, "-i (burst) and -j (think time) need each other"),
        ("-j10 f", 1, "-i (burst) and -j (think time) need each other"),
        ("-Su -h f", 2, "-h: conflicts with the caching (-S)"),
        ("-h -Sw f", 2, "-Sw: conflicts with the write-through"),
        ("-Sub f", 1, "-Sub: conflicts with the cache mode"),
        ("-S -Sb f", 2, "-Sb: conflicts with the cache mode"),
        ("-Sq f", 1, "-S does not take 'q'; it takes b, h, m, r, u and w"),
        ("-F2 -t2 f", 2, "-F and -t exclude each other"),
        ("-F2 -O4 -g100 f", 3, "-g cannot be combined with -O"),
        ("-F2 -O4 -i1 -j1 f", 4, "-j cannot be combined with -O"),
        ("-F2 -O4 -f2M f /dev/sdx", 5, "parts of targets of different sizes"),
        ("-F2 -O4 -r -rdpct90/10 f /dev/sdx", 6, "parts of targets of different sizes"),
        ("-F2 -O4 -c1M new /dev/sdx", 5, "parts of targets of different sizes"),
        ("-F2 -O4 -p f", 3, "-p cannot be combined with -O"),
        ("-r -si f", 2, "-si: conflicts with random I/O"),
        ("-si -r f", 2, "-r: conflicts with sequential I/O"),
        ("-si -T1M -t2 f", 2, "-si and -T exclude each other"),
        ("-si -p f", 2, "-si and -p exclude each other"),
        ("-r -T1M -t2 f", 2, "-T conflicts with random I/O"),
        ("-r -p f", 2, "-p conflicts with random I/O"),
        ("-T1M f", 1, "-T has no effect on one thread"),
        ("-s8b -rs20 f", 2, "-rs20: conflicts with -s"),
        ("-rs20 -s f", 2, "-s: conflicts with -rs: give the alignment with -r"),
        ("-rs0 f", 1, "1 to 100"),
        ("-rs20 -rs30 f", 2, "only once"),
        ("-r -r f", 2, "random I/O (-r) can be given only once"),
        ("-s -s f", 2, "sequential I/O (-s) can be given only once"),
        ("-r0 f", 1, "alignment above 0"),
        ("-rdpct10/50 f", 1, "-rd needs random I/O"),
        ("-r -rdpct90/90:20/10 f", 2, "the shares of the operations add up to 110 %"),
        ("-r -rdpct100/50 f", 2, "only 50 % of the target"),
        ("-r -rdpct50/100 f", 2, "the parts cover 100 % of the target with 50 %"),
        ("-r -rdabs50/1K f", 2, "smaller than a block"),
        ("-r -rdfoo f", 2, "is not a distribution"),
        ("-x -g100 f", 2, "-g cannot be combined with -x"),
        ("-x -Sm f", 1, "-x cannot be combined with memory-mapped"),
        ("-Sm -Su f", 2, "conflicts with the cache mode"),
        ("-Nv f", 1, "-N is for memory-mapped I/O"),
        ("-B1M -f512K f", 2, "must be above its base offset"),
        ("-B1K:1K -f4K f", 2, "the largest offset can be given only once"),
        ("-B1K -B2K f", 2, "the base offset can be given only once"),
        ("-b1000 -Sh f", 1, "-b (1000 bytes) is not a multiple of 512"),
        ("-Z1K -w100 f", 1, "smaller than a block"),
        ("-n -a0 f", 2, "-n and -a exclude each other"),
        ("-ag1,0 f", 1, "there is no processor group 1"),
        ("-a0,,1 f", 1, "neither a processor nor a group"),
        ("-a9 f", 1, "processor 9 does not exist, or this process may not use it"),
        ("-w f", 1, "needs the percentage of writes"),
        ("-w101 f", 1, "0 to 100"),
        ("-t0 f", 1, "above 0 (threads per target)"),
        ("-tfour f", 1, "above 0 (threads per target)"),
        ("-b4X f", 1, "'4X' is not a size"),
        ("-b0 f", 1, "a block has 1 to"),
        ("-c99999999999999999999 f", 1, "too large"),
        ("-g f", 1, "bytes per millisecond"),
        ("-d0 f", 1, "-d0 leaves no measured time"),
        ("-I4 f", 1, "1 (very low), 2 (low) or 3 (normal)"),
        ("-Rjson f", 1, "needs text or xml"),
        ("-zx f", 1, "is not a random seed"),
        ("-eFOO f", 1, "unknown event; -e takes PROCESS"),
        ("-ysstart f", 1, "named events exist only on Windows"),
        ("-yq f", 1, "needs one of -ys"),
        ("-q f", 1, "there is no flag -q"),
        ("-D500 -Q f", 2, "there is no flag -Q"),
        ("--bs=4k f", 1, "a flag is a single letter followed by its value"),
        ("-Xp.xml -b4K", 2, "cannot be combined with an XML profile"),
        ("-Xp.xml -Xq.xml", 2, "only one XML profile"),
        ("-t2147483647 f", 1, "2147483647 workers are too many; 4096 can run at once"),
        ("-r -F4097 f", 2, "4097 workers are too many"),
        ("-F2000000000 -O8 f", 1, "2000000000 workers are too many"),
        ("-t64 -o65 -p f", 1, "4160 workers are too many"),
        ("-f/d/f", 1, "files come after all flags"),
        ("–b4K f", 1, "this begins with the dash '–'; flags begin with '-'"),
        ("-b 4K f", 1, "write the value without a space: -b4K"),
        ("--out", 1, "needs a directory name"),
        ("#0", 1, "#0 is a Windows drive"),
        ("-d5 E:", 2, "E: is a Windows drive"),
        (r"-d5 'C:\io\f.dat'", 2, r"C:\io\f.dat is a Windows path"),
        ("-d5 missing", 2, "/d/missing does not exist (-c creates it"),
        ("-d5 empty", 2, "/d/empty is empty"),
        ("-d5 directory", 2, "/d/directory is a directory"),
        ("-t3 -T512K -b64K f", 2, "f is too small"),
        ("-b4K nfs://host/vol/f", 2, "the size of nfs://host/vol/f is not given"),
        ("-c1M nfs://host/f", 2, "names no file in an NFS export"),
        ("-c1G -Z1M,nothing f", 2, "/d/nothing is not a regular file, so it cannot fill the write buffer"),
    ],
)
def test_what_diskspd_refuses_is_refused_by_name(line: str, argument: int, part: str) -> None:
    found = errors(line)
    assert any(part in str(error) for error in found), found
    error = next(error for error in found if part in str(error))
    assert error.where is not None
    assert (error.where.source, error.where.line) == (COMMAND_LINE, argument)


@pytest.mark.parametrize(
    ("options", "targets", "expected"),
    [
        (r"'--map-target=H:\*=/d'", r"'h:\io\f.dat'", ["/d/io/f.dat"]),
        (r"--map-target 'H:\*=/d'", r"'H:\a\f' 'H:/b/f'", ["/d/a/f", "/d/b/f"]),
        (r"--map-target 'C:\io=/d/'", r"'C:\io\f' 'C:\io\g'", ["/d/f", "/d/g"]),
        (r"--map-target '?:\*=/d'", r"'H:\a\f' 'C:/g'", ["/d/a/f", "/d/g"]),
        ("--map-target '#0=/d/x' --map-target E:=/d/y", "'#0' E:", ["/d/x", "/d/y"]),
        (r"--map-target '\\.\PhysicalDrive?=/d/x'", r"'\\.\PHYSICALDRIVE1'", ["/d/x"]),
    ],
)
def test_targets_are_mapped(options: str, targets: str, expected: list[str]) -> None:
    spans = attempt(f"{options} -c1M -w100 -d1 {targets}").spans
    assert [path for section in spans[0].job.sections for path in section.files.paths] == expected


def test_a_mapping_that_matches_nothing_is_an_error() -> None:
    (error,) = errors("--map-target G:=/d/x f")
    assert str(error) == "command line, argument 1: --map-target G:=… matches no target"
    (error,) = errors(r"-d5 'C:\io\f.dat'")
    assert error.hint == r"map it to a Linux path: --map-target 'C:\*=/data'"


@pytest.mark.parametrize(("line", "same"), [("-Sds f", "-Suw f"), ("-Zz -w50 f", "-Z -w50 f"), ("-Zs f", "f")])
def test_flags_of_diskspd_for_linux_are_read_as_diskspds(line: str, same: str) -> None:
    ours, theirs = attempt(line), attempt(same)
    assert [span.plan for span in ours.spans] == [span.plan for span in theirs.spans]
    assert "for_linux" in [note.code for note in ours.notes]


def test_all_errors_come_at_once_in_the_order_of_the_arguments() -> None:
    assert [error.where.line for error in errors("-t0 -b4X -w200 -q -i5 f") if error.where] == [1, 2, 3, 4, 5]


def test_values_behind_a_space_are_the_only_errors_of_their_line() -> None:
    # As many write it who know other tools.
    assert [error.where.line for error in errors("-c 1G -b 4K -t 2 -w 30 -L f") if error.where] == [1, 3, 5, 7]


def test_without_a_target_there_is_nothing_to_do() -> None:
    (error,) = errors("-b4K -d5")
    assert error.text == "there is no target"


@pytest.mark.parametrize(
    "line",
    [
        "-F2 -t1 f",
        "-rs100 -r4K f",
        "-Sbw f",
        "-Swu f",
        "-b4k -B4b:8b f",
        "/b4K /r /d5 /d/f",
        "-c1M /d/new.dat",
        "-Zr -w100 f",
        "-O4 f",
        "-b4K -c1M nfs://host:2049/vol/f",
        "-w100 -d5 /dev/sdx",
    ],
)
def test_what_diskspd_takes_is_taken(line: str) -> None:
    assert attempt(line).spans


def test_a_size_in_blocks_counts_blocks_of_b_wherever_that_stands() -> None:
    plan = attempt("-B2b -b8K f").spans[0].plan
    assert plan.groups[0].workers[0].files[0].offset_bytes == 16384


def test_a_seed_of_no_number_is_another_in_every_run_and_is_told() -> None:
    prepared = attempt("-z -r f")
    assert prepared.profile.time_spans[0].seed == MACHINE.seed


def test_a_new_seed_in_every_run_repeats_no_offsets(tmp_path: Path) -> None:
    def codes(*words: str) -> list[str]:
        return [note.code for note in read_command([*words, "-r", "-c1m", "f.dat"], cwd=tmp_path).notes]

    assert "offsets_repeat" in codes()
    assert "offsets_repeat" in codes("-z7")
    assert "offsets_repeat" not in codes("-z")
