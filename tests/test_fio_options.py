"""Options of fio, their values and what they become in the plan; where rules were in doubt, fio 3.33 itself was run."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, picked, rows
from iocurve.dialects.fio.command import DIALECT, read_command
from iocurve.dialects.fio.information import information
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.fio.read import values
from iocurve.dialects.fio.read.draft import Draft
from iocurve.dialects.fio.read.options import OPTIONS
from iocurve.dialects.fio.read.values import Context
from iocurve.engine import plan
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.plan import Worker
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.job.model import PARTS, Percent, PerKind
from iocurve.measure import jobs
from programs import FIO, completed, fio_jobs

MACHINE = HeldMachine(directories=frozenset({"/d"}))


def fio(*arguments: str, cwd: Path = Path("/d")) -> FioCommand:
    return read_command(
        ["--name=a", "--size=1m", "--ioengine=null", *arguments], cwd=cwd, environment={}, machine=MACHINE
    )


def worker(*arguments: str) -> plan.Worker:
    return fio(*arguments).plan.groups[0].workers[0]


@cases("fio/options")
def test_an_option_reaches_the_plan(arguments: str, path: str, golden: Golden) -> None:
    golden.check(picked(worker(*arguments.split()), path))


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


@cases("fio/letters_and_beginnings_are_options_as")
def test_letters_and_beginnings_are_options_as_in_fio(short: str, full: str) -> None:
    found, expected = (fio(*words.split()) for words in (short, full))
    assert (found.output, found.check_only) == (expected.output, expected.check_only)


@cases("fio/exit_what_selects_the_jobs")
def test_exit_what_selects_the_jobs_that_end(scope: str, expected: list[list[object]]) -> None:
    own = ["--exitall", scope, "--name=b", "--size=1m", "--new_group", "--ioengine=null", scope]
    (group,) = fio(*filter(None, own)).plan.groups
    ends = [[worker.exit_group, worker.ends_exit_group_only, worker.ends_run] for worker in group.workers]
    assert ends == expected


def test_options_set_values_of_the_declared_types() -> None:
    """The table of options names fields as text: mypy does not see that an option's reader fits its field."""
    hints_of: Callable[[type], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))
    seen = set()
    for option, (text,) in product(OPTIONS, rows("fio/samples_of_values")):
        draft = Draft()
        try:
            option.effect(draft, text, Context(option=option.name))
        except ValueError:
            continue
        before, section = Draft(), draft.finished()
        parts = [(getattr(section, name), getattr(before, name)) for name in PARTS]
        parts += [(section, before.section), (draft.reporting, before.reporting), (draft.deferred, before.deferred)]
        for part, unset in parts:
            hints = hints_of(type(part))
            for name in hints.keys() - {*PARTS, "given", "positions", "read_iolog"}:
                value = getattr(part, name)
                if value != getattr(unset, name):
                    seen.add(name)
                    assert msgspec.convert(msgspec.to_builtins(value), hints[name]) == value, (option.name, text)
    assert len(seen) > 100


@cases("fio/a_region_needs_room")
def test_a_region_needs_room_for_the_smallest_block_of_each_kind(options: str, *, is_accepted: bool) -> None:
    if is_accepted:
        assert fio(*options.split()).plan.groups
    else:
        with pytest.raises(PlanError, match="than one block"):
            fio(*options.split())


# ---- values


def context(kb_base: int = 1024) -> Context:
    return Context(kb_base=kb_base, option="option")


@cases("fio/sizes")
def test_sizes(text: str, kb_base: int, size: int) -> None:
    assert values.size(text, context(kb_base)) == size


@cases("fio/what_fio_reads_in_part")
def test_what_fio_reads_in_part_is_read_so_and_said(text: str, size: int) -> None:
    asked = context()
    assert values.size(text, asked) == size
    assert [note.code for note in asked.notes] == ["odd_value"]


def test_whole_values_need_no_note() -> None:
    asked = context()
    for text in ("4k", "4096", "4kb", "4ki", "4b", " 4"):
        values.size(text, asked)
    assert asked.notes == []


def test_inverted_units_are_said() -> None:
    asked = context()
    values.size("4kib", asked)
    assert asked.notes[0].text == "fio reads 4kib as 4000 bytes: with kb_base=1024, 'ib' suffixes are powers of 1000"


def test_percentages() -> None:
    assert values.amount_or_percent("50%", context()) == Percent(percent=50)
    with pytest.raises(ValueError, match="takes a size such as 64k"):
        values.size("50%", context())


@cases("fio/times")
def test_times(text: str, microseconds: int) -> None:
    assert values.time_ns(text, context()) == microseconds * 1000


@pytest.mark.parametrize("text", ["", "k", "abc", "-1", "9" * 30, "1z"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|zoned"):
        values.size(text, context())


@cases("fio/per_kind")
def test_one_value_for_reads_one_for_writes_one_for_trims(text: str, read: int, write: int, trim: int) -> None:
    before: PerKind[Any] = PerKind(read=512, write=1024, trim=2048)
    assert values.per_kind(text, context(), before) == PerKind(read=read, write=write, trim=trim)


def reader_of(name: str, arguments: list[Any]) -> values.Reader[Any]:
    """A reader of values, or what makes one of these arguments."""
    found = getattr(values, name)
    reader: values.Reader[Any] = found(*arguments) if arguments else found
    return reader


@cases("fio/other_values")
def test_other_values(reader: str, arguments: list[Any], text: str, golden: Golden) -> None:
    golden.check(reader_of(reader, arguments)(text, context()))


@cases("fio/errors_of_values")
def test_errors_say_what_would_be_right(reader: str, arguments: list[Any], text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the whole text is compared below)
        reader_of(reader, arguments)(text, context())
    assert str(refusal.value) == message


# ---- traps


pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")]


@dataclass(frozen=True)
class Case:
    """The arguments and the environment; job files are in the directory of the test."""

    arguments: str
    environment: dict[str, str]


@pytest.fixture
def case(files: dict[str, str], arguments: str, environment: dict[str, str], tmp_path: Path) -> Case:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Case(arguments, environment)


def prepared(case: Case, directory: Path) -> FioCommand:
    return read_command(case.arguments.split(), cwd=directory, environment=case.environment)


def amount(worker: Worker) -> tuple[int, int]:
    """Operations and bytes of a worker whose blocks have one size."""
    block = block_bytes_min(worker.operations[0].blocks)
    ends = [worker.end.bytes // block] if worker.end.bytes else []
    ends += [worker.end.operations] if worker.end.operations else []
    return min(ends), min(ends) * block


@cases("fio/same_jobs")
def test_fio_and_the_plan_have_the_same_jobs(case: Case, tmp_path: Path) -> None:
    result = prepared(case, tmp_path)
    workers = [worker for group in result.plan.groups for worker in group.workers]
    said = []
    for number, group in enumerate(result.report_groups):
        amounts = [amount(worker) for worker in workers if worker.report_group == number]
        name = result.sections[group.section].name
        said.append((name, group.number, sum(count for count, _ in amounts), sum(size for _, size in amounts)))
    done = called(case, tmp_path, "--output-format=json")
    assert done.returncode == 0, done.stderr
    assert said == [
        (entry["jobname"], entry["groupid"], total(entry, "total_ios"), total(entry, "io_bytes"))
        for entry in fio_jobs(done.stdout)
    ]


@cases("fio/shown")
def test_showcmd_shows_what_fio_shows(case: Case, tmp_path: Path) -> None:
    lines = prepared(case, tmp_path).command_lines
    assert "".join(f"{line}\n" for line in lines) == called(case, tmp_path).stdout


@cases("fio/refused_by_both")
def test_both_refuse(case: Case, tmp_path: Path) -> None:
    with pytest.raises((DialectError, PlanError)):
        prepared(case, tmp_path)
    assert called(case, tmp_path).returncode != 0


def total(entry: dict[str, Any], figure: str) -> int:
    return int(sum(entry[kind][figure] for kind in ("read", "write", "trim")))


def called(case: Case, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*(FIO if more else FIO[:1]), *case.arguments.split(), *more]
    environment = os.environ | case.environment
    return completed(command, cwd=directory, env=environment)


# ---- information for scripts


@cases("fio/questions")
def test_a_question_is_answered(arguments: str, expected: str | None) -> None:
    assert information(arguments.split()) == expected


def test_engines_and_options_stand_one_a_line_for_grep(capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.run(DIALECT, ["--enghelp"]) is None
    assert capsys.readouterr().out.splitlines()[:3] == ["Available IO engines:", "\tpsync", "\tsync"]
    assert "rwmixread               : supported" in (information(["--cmdhelp"]) or "").splitlines()


@cases("fio/a_name_that_is_not_known")
def test_a_name_that_is_not_known_is_an_error(argument: str, expected: str) -> None:
    with pytest.raises(DialectError) as refusal:
        information([argument])
    assert str(refusal.value).startswith(f"command line, argument 1 ({argument}): {expected}")
