"""Results that are incomplete, failed or empty say so in every form, and end with status 1."""

import csv
import json
import signal
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from data import synthetic
from goldens import cases, present
from iocurve.analysis import read
from iocurve.dialects.elbencho import command as elbencho
from iocurve.dialects.mdtest import command as mdtest
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.imports.formats import read_all
from iocurve.measure import local
from iocurve.measure.jobs import walk
from iocurve.report.figures import figures
from iocurve.report.table import result_table
from iocurve.result.document import Result
from iocurve.result.document_file import RESULT_NAME
from programs import iocurve, printed, started, status_of, stopped

REASON = "Ctrl-C after point 3 of 26"
PASSING = ("--fail-if", "p99 > 100s")
FAILING = ("--fail-if", "p99 > 1us")


def interrupted() -> Result:
    whole = synthetic.envelope()
    return whole.replace(points=whole.points[:3]).ended("interrupted", REASON)


def with_a_failed_point() -> Result:
    whole = synthetic.envelope()
    first, *others = whole.points
    return whole.replace(points=(first.replace(outcome=first.outcome.replace(state="failed")), *others))


# ---- results that were kept


@pytest.mark.parametrize("expressions", [PASSING, FAILING])
def test_a_check_of_an_incomplete_result_ends_with_1(expressions: tuple[str, str], tmp_path: Path) -> None:
    interrupted().write(tmp_path / RESULT_NAME)
    files = ("--junit", f"{tmp_path}/j.xml", "--markdown", f"{tmp_path}/m.md")
    out = printed("check", str(tmp_path), *expressions, *files, status=1)
    assert out.splitlines()[0] == f"INCOMPLETE  the run was interrupted: {REASON}"
    suites = ET.parse(tmp_path / "j.xml").getroot()
    assert sum(int(suite.get("errors", 0)) for suite in suites) >= 1
    assert REASON in str(next(suites.iter("error")).get("message"))
    assert f"**incomplete**: the run was interrupted: {REASON}" in (tmp_path / "m.md").read_text()


def test_a_check_of_a_result_with_a_failed_point_ends_with_1(tmp_path: Path) -> None:
    result = with_a_failed_point()
    result.write(tmp_path / RESULT_NAME)
    out = printed("check", str(tmp_path), *PASSING, status=1)
    assert out.splitlines()[0] == f"INCOMPLETE  {result.points[0].name}: failed"


def test_a_check_of_a_whole_result_tells_nothing_of_that(tmp_path: Path) -> None:
    synthetic.envelope().write(tmp_path / RESULT_NAME)
    assert "INCOMPLETE" not in printed("check", str(tmp_path), *PASSING)


def test_a_comparison_with_an_incomplete_result_ends_with_1_where_it_is_checked(tmp_path: Path) -> None:
    synthetic.envelope().write(tmp_path / "a.json")
    interrupted().write(tmp_path / "b.json")
    words = ("compare", f"{tmp_path}/a.json", f"{tmp_path}/b.json", "--fail-if", "p99 change > 1000%")
    assert f"INCOMPLETE  B: the run was interrupted: {REASON}" in printed(*words, status=1)


def test_a_history_leaves_incomplete_results_out(tmp_path: Path) -> None:
    for name, result in (("a", synthetic.envelope()), ("b", interrupted()), ("c", with_a_failed_point())):
        result.write(tmp_path / f"{name}.json")
    ran = iocurve("history", str(tmp_path), "--json")
    assert [run["source"] for run in json.loads(ran.stdout)["runs"]] == ["a.json"]
    assert f"left out: {tmp_path}/b.json: the run was interrupted: {REASON}" in ran.stderr
    assert f"left out: {tmp_path}/c.json" in ran.stderr


def test_the_row_of_a_failed_point_says_so() -> None:
    reading = read(with_a_failed_point())
    rows = [row[-1] for row in result_table(reading).rows if row]
    assert rows[0].endswith(", failed")
    assert not any(row.endswith("failed") for row in rows[1:])
    assert figures(reading)[0].table.rows[0][-1].endswith(", failed")


# ---- output of other tools


def cut(plan: Plan) -> Outcome:
    """The plan, as if its run had failed at its end."""
    return local.run(plan).replace(state="failed")


def test_the_row_of_an_aborted_phase_of_elbencho_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"-w -r -t 1 -s 64k -b 4k --csvfile {tmp_path}/r.csv --jsonfile {tmp_path}/r.json {tmp_path}/file"
    prepared = elbencho.prepare(words.split(), cwd=tmp_path)
    walk(prepared, lambda _step, plan, _: cut(plan))
    prepared.finish(synthetic.fio_run().ended("failed", "the disk is gone"))
    assert "WRITE [failed]" in capsys.readouterr().out
    with (tmp_path / "r.csv").open() as file:
        assert [row["operation"] for row in csv.DictReader(file)] == ["WRITE [failed]"]
    assert json.loads((tmp_path / "r.json").read_text())["phase_type"] == "WRITE [failed]"
    measured, _ = read_all([tmp_path / "r.csv"])
    assert [(one.state, [*one.kinds]) for one in measured] == [("failed", ["write"])]


def test_mdtests_table_has_no_values_of_iterations_that_did_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = mdtest.prepare(["-F", "-n", "3", "-i", "3", "-d", str(tmp_path)])
    runs = 0

    def run(_step: object, plan: Plan, _: object) -> Outcome:
        nonlocal runs
        runs += 1
        return cut(plan) if runs == 9 else local.run(plan)

    walk(prepared, run)
    prepared.finish(synthetic.fio_run().ended("failed", "the disk is gone"))
    table = capsys.readouterr().out
    assert table.splitlines()[-1] == "-- incomplete: the disk is gone --"
    rates = {line[3:25].strip(): list(map(float, line[25:].split())) for line in table.splitlines() if "File" in line}
    assert all(least > 0 for _, least, *_ in rates.values()), table


@pytest.mark.slow
@cases("measure/text_that_was_kept")
@pytest.mark.usefixtures("runtime")
def test_text_that_was_kept_of_a_run_that_ended_early_says_so(words: str, name: str, tmp_path: Path) -> None:
    with started(*words.split(), cwd=tmp_path) as process:
        assert any(", running" in line for line in present(process.stderr))
        # Something is measured.
        time.sleep(0.5)
        ran = stopped(process, signal.SIGTERM)
    assert ran.returncode == 128 + signal.SIGTERM, ran.stderr
    lines = ((tmp_path / name).read_text() if name else ran.stdout).splitlines()
    assert "incomplete: " in lines[0] + lines[-1]
    if name:
        return
    (tmp_path / "kept.txt").write_text(ran.stdout)
    measured, _ = read_all([tmp_path / "kept.txt"])
    assert {one.state for one in measured} == {"interrupted"}


# ---- nothing


@pytest.mark.slow
def test_a_run_that_ends_within_its_ramp_is_a_failure(tmp_path: Path) -> None:
    words = ["fio", "--name=a", "--rw=read", "--size=64k", "--ramp_time=5", "--ioengine=null", "--out=out"]
    ran = iocurve(*words, cwd=tmp_path)
    assert ran.returncode == 1
    assert "a: no operation completed in the measured time" in ran.stderr
    assert status_of("check", f"{tmp_path}/out", *PASSING) == 1
