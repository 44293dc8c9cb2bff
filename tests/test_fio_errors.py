"""All errors of a fio job come at once, each with its position and a hint."""

import json
from pathlib import Path

import pytest

from fio_machine import HeldMachine
from goldens import Golden, cases, data, document, matches, picked
from iocurve.dialects.fio.command import DIALECT, parsed, read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.fio.read.options import OPTIONS
from iocurve.foundation.errors import DialectError, PlanError, TargetError
from iocurve.measure import jobs
from programs import status_of

MACHINE = HeldMachine(
    paths=json.loads(data("fio/paths.json")), mounted=frozenset({"/dev/sdx"}), directories=frozenset({"/d"})
)


def fio(*arguments: str, cwd: Path = Path("/d")) -> FioCommand:
    return read_command(arguments, cwd=cwd, environment={}, machine=MACHINE)


def null(*arguments: str) -> FioCommand:
    return fio("--name=a", "--size=1m", "--ioengine=null", *arguments)


@cases("fio/errors")
def test_all_errors_come_at_once(tmp_path: Path, files: dict[str, str], arguments: list[str], golden: Golden) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises((DialectError, PlanError)) as refusal:
        fio(*arguments, cwd=tmp_path)
    found = [str(error) for error in refusal.value.errors]
    assert str(refusal.value) == "\n".join(found)
    golden.check(found)


@cases("fio/grammar")
def test_grammar(tmp_path: Path, text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    (tmp_path / "job.fio").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DialectError) as refusal:
        fio("job.fio", cwd=tmp_path)
    assert expected in [str(error) for error in refusal.value.errors]


def test_a_job_file_is_shown_as_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(data("fio/shown.fio"), encoding="utf-8")
    words = ["--showcmd", "--runtime=3", "job.fio"]
    shown = read_command(words, cwd=tmp_path, environment={"SIZE": "1m"}, machine=MACHINE)
    assert shown.check_only
    matches("fio#job file shown", shown.command_lines)


@cases("fio/commands")
def test_a_command_line_means(
    tmp_path: Path, files: dict[str, str], arguments: str, paths: list[str], golden: Golden
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = fio(*(str(tmp_path / word) if word in files else word for word in arguments.split()))
    golden.check([document(picked(result, path)) for path in paths])


def test_only_workers_that_run_together_can_be_too_many() -> None:
    more = ["--name=b", "--stonewall", "--size=1m", "--numjobs=4000", "--ioengine=null"]
    assert len(null("--numjobs=4000", *more).plan.groups) == 2


@cases("fio/one_error")
def test_one_error(arguments: str, golden: Golden) -> None:
    with pytest.raises((DialectError, PlanError)) as refusal:
        fio(*arguments.split())
    [error] = refusal.value.errors
    golden.check(str(error))


@cases("fio/obstacles")
def test_obstacles_stop_a_run_but_not_an_explanation(arguments: list[str], expected: str) -> None:
    result = fio("--name=a", "--size=1m", *arguments)
    with pytest.raises(PlanError) as refusal:
        parsed(result).require_runnable()
    assert expected in str(refusal.value)


def test_directories_that_names_lead_into_are_made(tmp_path: Path) -> None:
    result = read_command(["--name=a", "--size=4k", "--filename=n/m/file"], cwd=tmp_path, environment={})
    parsed(result).require_runnable()
    parsed(result).needs.make_directories()
    assert result.directories == (str(tmp_path / "n" / "m"),)
    assert (tmp_path / "n" / "m").is_dir()


@cases("fio/traps")
def test_traps_are_named(arguments: list[str], code: str) -> None:
    assert code in [note.code for note in null(*arguments).notes]


def test_repeatable_seeds_differ_between_jobs_and_sections() -> None:
    plan = null("--numjobs=2", "--name=b", "--size=1m", "--ioengine=null").plan
    assert len({worker.seed for worker in plan.groups[0].workers}) == 3


def test_every_option_is_named_once() -> None:
    names = [name for option in OPTIONS for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))


def test_what_cannot_be_written_after_a_run_is_said_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for option, file in (("--output=no/o.json", "no/o.json"), ("--write_bw_log=no/l", "no/l_bw.1.log")):
        with pytest.raises(TargetError, match=f"^{file} cannot be written: there is no directory no$"):
            jobs.run(DIALECT, ["--name=a", "--size=64k", "--rw=write", option])
    assert not list(tmp_path.iterdir())


@cases("fio/engines_of_other_systems_run_as")
def test_engines_of_other_systems_run_as_the_nearest_with_a_note(engine: str, kind: str, runs: str) -> None:
    made = fio("--name=a", "--size=1m", f"--ioengine={engine}", "--iodepth=2")
    assert {worker.engine.kind for group in made.plan.groups for worker in group.workers} == {kind}
    assert f"ioengine={engine} runs as {runs}" in [note.text for note in made.notes]


def test_a_section_that_only_lays_out_files_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other sections that complete nothing still are."""
    words = (
        f"--rw=read --size=64k --bs=4k --filename={tmp_path}/f --eta=never --name=files --create_only=1 --name=reads"
    )
    status = status_of("fio", *words.split(), "--stonewall")
    said = capsys.readouterr()
    assert (status, "no operation completed" in said.err) == (0, False), said.err
    assert "io=64.0KiB" in said.out
