"""The steps of command lines: numbers known before anything runs, turns of two commands, programs, what is refused."""

from pathlib import Path

import pytest

import iocurve
from bench.servers import Server
from goldens import cases, data, matches, present
from iocurve.dialects import registry
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.measure import ab, jobs
from iocurve.measure.campaign import into_directory
from iocurve.measure.programs import as_written
from iocurve.report.progress import NoView
from iocurve.result.document import Result
from programs import status_of

CURVE = data("vdbench/curve.parm")
TWO_RUNS = CURVE.replace("iorate=curve,curve=(50,100)", "iorate=(50,100)")


def parameters(directory: Path, text: str) -> str:
    (directory / "p").write_text(text.format(path=directory), encoding="utf-8")
    return f"vdbench -f {directory / 'p'} -o {directory / 'output'}"


def mdtest(directory: Path, more: str = "") -> str:
    return f"mdtest -F -n 4 -d {directory}/tree{more}"


@pytest.fixture
def curve(tmp_path: Path, slow_volume: Server) -> str:
    """The command line of a curve on a volume."""
    return parameters(tmp_path, CURVE.replace("{path}/data", slow_volume.url.replace("?", "/data?")))


def ran(line: str, directory: Path) -> Result:
    dialect, *words = line.split()
    return present(jobs.run(registry.load(dialect), words, directory / "report", quiet=True))


@cases("cli/steps")
def test_the_number_of_steps_is_known_before_the_run(line: str, names: int, tmp_path: Path) -> None:
    dialect, *words = line.split()
    assert registry.load(dialect).prepare(words, cwd=tmp_path).count == names


def test_steps_of_a_curve_have_names_before_it_is_measured(tmp_path: Path) -> None:
    _, *words = parameters(tmp_path, CURVE).split()
    command = registry.load("vdbench").prepare(words)
    assert [step.name for step in command.steps] == ["rd1", "rd1_(50%)", "rd1_(100%)"]
    assert [plan.name for plan in command.plans()] == ["rd1", "rd1_(50%)", "rd1_(100%)"]
    assert registry.load("vdbench").prepare([*words, "-l"]).count is None
    repeated = registry.load("vdbench").prepare(["-f", str(tmp_path / "p"), "-o", "o"])
    assert repeated.count == 3


@pytest.mark.slow
def test_all_points_of_a_command_are_planned(tmp_path: Path) -> None:
    result = ran(mdtest(tmp_path), tmp_path)
    assert len(result.points) == result.points_planned == 8
    assert result.state == "finished"
    assert (result.target.kind, result.target.address) == ("directory", str(tmp_path / "tree"))
    again = ran(f"{mdtest(tmp_path)} -C", tmp_path / "one")
    assert len(again.points) == again.points_planned == 3


def test_all_points_of_a_parameter_file_are_planned(tmp_path: Path, curve: str) -> None:
    (tmp_path / "p").write_text((tmp_path / "p").read_text().replace("curve=", "stopcurve=0.0000001,curve="))
    result = ran(curve, tmp_path)
    assert ([point.name for point in result.points], result.points_planned) == (["rd1", "rd1_(50%)"], 2)


@pytest.mark.slow
def test_steps_of_two_commands_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    lines = [mdtest(tmp_path / name) for name in "ab"]
    found = into_directory(tmp_path / "out", ab.of_commands(lines, 2, 0.1, 0), quiet=True)
    names = {point.name.removeprefix("A ") for point in found.points if point.name.startswith("A ")}
    assert {point.name for point in found.points} == {f"{label} {name}" for label in "AB" for name in names}
    assert (len(names), {tuple(turn.repetition for turn in point.runs) for point in found.points}) == (8, {(1, 2)})
    assert found.state == "finished"
    assert {point.plan.name for point in found.points if point.name.endswith(" File creation")} == {"File creation"}
    assert capsys.readouterr().out == "", "the tools' own output is not written"


@pytest.mark.slow
def test_runs_of_two_parameter_files_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = parameters(tmp_path, TWO_RUNS)
    found = into_directory(tmp_path / "out", ab.of_commands([line, line], 1, 0.1, 0), quiet=True)
    assert {point.name for point in found.points} == {
        f"{label} rd1 iorate={rate}" for label in ("A", "B") for rate in (50, 100)
    }
    assert not (tmp_path / "output").exists()
    assert capsys.readouterr().out == ""


def test_points_of_turns_have_the_names_of_their_steps(tmp_path: Path) -> None:
    def titles(text: str) -> list[str]:
        return ab._titles(ab.parsed(text), "A")

    matches("measure#points turns", titles(f"elbencho -d -w -F -D -t 1 -n 1 -N 1 -s 4k {tmp_path}"))
    assert titles(f"elbencho -w -t 1 -s 4k -i 2 {tmp_path}/f") == ["A WRITE", "A WRITE (2)"]
    assert titles("fio --ioengine=null --size=1m --name=a --name=b --stonewall") == ["A a", "A b"]
    assert titles("fio --ioengine=null --size=1m --name=a") == ["A"]


def test_phases_of_two_jobs_take_turns(tmp_path: Path) -> None:
    line = "fio --ioengine=null --size=256k --name=a --name=b --stonewall --bs=64k"
    found = into_directory(tmp_path / "out", ab.of_commands([line, line], 2, 0.1, 0), quiet=True)
    done = {point.name: [turn.operations for turn in point.runs] for point in found.points}
    assert done == {f"{label} {name}": [count] * 2 for label in "AB" for name, count in (("a", 64), ("b", 4))}
    assert {point.compared_with for point in found.points} == {("A a", "B a"), ("A b", "B b")}
    assert found.state == "finished"


def test_what_cannot_take_turns_is_refused_by_name(tmp_path: Path) -> None:
    line = parameters(tmp_path, CURVE.replace("curve=", "stopcurve=1,curve="))
    with pytest.raises(DialectError, match=r"whether rd1_\(100%\) runs depends on what the runs before it measure"):
        ab.parsed(line)
    with pytest.raises(DialectError, match="without an end"):
        ab.parsed(f"{parameters(tmp_path, TWO_RUNS)} -l")
    with pytest.raises(DialectError, match=r"has 8 and .* has 16"):
        ab.of_commands([mdtest(tmp_path), mdtest(tmp_path, " -i 2")], 1, 0.1, 0)


@pytest.mark.slow
def test_a_program_measures_all_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = iocurve.run(mdtest(tmp_path).partition(" ")[2], dialect="mdtest")
    names = [point.name for point in result.points]
    assert (names[-3:], len(names)) == (["File removal", "Tree removal", "Test directory removal"], 8)
    assert not list(tmp_path.iterdir()), "the directory is removed, as it was made for the run"
    elbencho = iocurve.run(f"-w -r -F -t 1 -s 8k -b 4k {tmp_path}/f", dialect="elbencho")
    assert ([point.name for point in elbencho.points], capsys.readouterr().out) == (["WRITE", "READ", "RMFILES"], "")


def test_a_program_measures_curves(tmp_path: Path, curve: str) -> None:
    _, *words = curve.split()
    result = as_written("vdbench", registry.load("vdbench").prepare(words))(NoView(), lambda _: None)
    rates = [point.plan.groups[0].workers[0].rate for point in result.points]
    assert [point.name for point in result.points] == ["rd1", "rd1_(50%)", "rd1_(100%)"]
    assert rates[0] is None
    assert present(rates[1]).count < present(rates[2]).count
    assert not (tmp_path / "output").exists()


def test_a_path_of_a_dialect_without_job_files_is_refused() -> None:
    with pytest.raises(DialectError, match="mdtest has no job files"):
        iocurve.run(Path("x"), dialect="mdtest")


def test_convert_lists_what_it_converts(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("convert", "--help") == 0
    usage = capsys.readouterr().out.partition("\n")[0]
    assert usage == "Usage: iocurve convert [-o FILE] fio|vdbench|diskspd [the tool's own options]"
    for line in ("mdtest -n 4", "elbencho -w -t 1 -s 4k f"):
        dialect, *words = line.split()
        with pytest.raises(PlanError, match=f"phases of {dialect} cannot be written as a job file"):
            registry.load(dialect).prepare(words).jobs()
