"""Command lines that DiskSpd refuses are refused with a hint; all errors come at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fio_machine import HeldMachine
from goldens import cases
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


@cases("diskspd/refused")
def test_what_diskspd_refuses_is_refused_by_name(line: str, argument: int, part: str) -> None:
    found = errors(line)
    assert any(part in str(error) for error in found), found
    error = next(error for error in found if part in str(error))
    assert error.where is not None
    assert (error.where.source, error.where.line) == (COMMAND_LINE, argument)


@cases("diskspd/mapped")
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


@cases("diskspd/taken")
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
