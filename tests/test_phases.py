"""Phases of a run, which start one after another, are points of its result in every form."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import iocurve
from goldens import data, matches, present
from iocurve.analysis import read
from iocurve.analysis.compare import compare
from iocurve.cli.commands import run
from iocurve.dialects import registry
from iocurve.engine.derived import stream_hash
from iocurve.foundation.errors import DialectError
from iocurve.measure import jobs
from iocurve.result.document import Result
from iocurve.result.turns import phase_names, phases_of, whole_run
from programs import status_of

JOB = data("fio/phases.fio")
OPERATIONS = {"a": 256, "b": 512, "c": 64}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "phases.fio"
    path.write_text(JOB, encoding="utf-8")
    return path


@pytest.fixture
def report(job: Path, tmp_path: Path) -> Path:
    out = tmp_path / "report"
    words = [str(job), "--output-format=json", f"--output={tmp_path / 'fio.json'}"]
    assert jobs.run(registry.load("fio"), words, out, quiet=True)
    return out


def operations(result: Result) -> dict[str, int]:
    return {point.name: point.summary().operations for point in result.points}


def test_each_phase_is_a_point_with_its_name_and_its_parameters(report: Path) -> None:
    result = Result.read(report)
    assert (operations(result), result.points_planned) == (OPERATIONS, 3)
    axes = [point.axes for point in result.points]
    assert axes[0] == {"kind": "read", "order": "random", "block_bytes": 4096, "depth": 1}
    assert axes[2] == {"kind": "write", "order": "sequential", "block_bytes": 65536, "depth": 4}
    rows = csv.DictReader((report / "points.csv").open(encoding="utf-8"))
    assert {row["name"]: int(row["operations"]) for row in rows} == OPERATIONS
    groups = [group for point in result.points for group in point.plan.groups]
    assert [group.workers[0].job for group in groups] == ["a", "b", "c"]


def test_each_phase_has_a_headline(report: Path) -> None:
    loads = [headline.what for headline in read(Result.read(report)).headlines]
    assert loads == ["a: 4 KiB random reads", "b: 4 KiB random reads", "c: 64 KiB sequential writes"]


def test_checks_see_each_phase(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, status in (("c", 0), ("b", 4)):
        assert status_of("check", str(report), "--fail-if", f"operations == 512 where name == '{name}'") == status
    assert "b" in capsys.readouterr().out


def test_fio_output_has_all_phases_of_one_run(report: Path, tmp_path: Path) -> None:
    written = json.loads((tmp_path / "fio.json").read_text(encoding="utf-8"))["jobs"]
    done = {one["jobname"]: one["read"]["total_ios"] + one["write"]["total_ios"] for one in written}
    assert (done, [one["groupid"] for one in written]) == (OPERATIONS, [0, 1, 2])
    assert report.is_dir()


def test_phases_compare_with_an_import_of_fios_own_json(report: Path, tmp_path: Path) -> None:
    comparison = compare(Result.read(report), iocurve.import_results(tmp_path / "fio.json"))
    assert not comparison.unmatched
    assert {(one.point, one.other_point) for one in comparison.differences} == {("a", "a"), ("b", "b"), ("c", "c")}


def test_a_program_has_the_same_points(job: Path) -> None:
    result = iocurve.run(job)
    assert (operations(result), result.points_planned) == (OPERATIONS, 3)


def test_a_program_checks_the_result_at_a_path(report: Path) -> None:
    assert iocurve.check(str(report), "operations == 512 where name == 'b'").verdict == "failed"
    assert iocurve.check(report, "operations == 512 where name == 'c'").verdict == "passed"


def test_phases_of_the_same_jobs_are_numbered(tmp_path: Path) -> None:
    lines = ["fio", "--ioengine=null", "--size=1m", "--name=a", "--name=a", "--stonewall"]
    (step,) = registry.load("fio").prepare(lines[1:], cwd=tmp_path).steps
    assert step.phases == ("a", "a (2)")


def test_joined_phases_are_the_run(job: Path) -> None:
    (step,) = registry.load("fio").prepare([str(job)]).steps
    plan = present(step.plan({}))
    result = iocurve.run(job)
    (whole,) = whole_run(result.points, plan.name)
    assert stream_hash(whole.plan) == stream_hash(plan)
    assert [(one.group, one.job) for one in whole.outcome.workers] == [(0, "a"), (1, "b"), (2, "c")]
    assert whole.outcome.state == "finished"
    again = phases_of(whole, phase_names(plan))
    assert [point.outcome for point in again] == [point.outcome for point in result.points]


def test_a_run_that_was_stopped_has_the_phases_that_started(job: Path) -> None:
    (whole,) = whole_run(iocurve.run(job).points, "p")
    first, second = whole.outcome.workers[:2]

    def states(**changes: Any) -> list[tuple[str, str]]:
        cut = whole.replace(outcome=whole.outcome.replace(**changes))
        return [(one.name, one.outcome.state) for one in phases_of(cut, phase_names(whole.plan))]

    matches("phases#run was stopped", states(state="interrupted", workers=(first, second)))
    failed = states(state="failed", workers=(first.replace(state="failed"), second))
    assert [state for _, state in failed] == ["failed", "finished"]


def test_points_of_vdbench_loops_have_names_and_axes(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(data("vdbench/loops.parm").format(path=tmp_path), encoding="utf-8")
    steps = registry.load("vdbench").prepare(["-f", str(tmp_path / "p"), "-o", str(tmp_path / "out")]).steps
    assert [step.title for step in steps][:3] == ["rd1 threads=1", "rd1 threads=4", "rd2 hitarea=1m iorate=10"]
    assert (steps[0].axes, steps[2].axes) == ({}, {"forhitarea": "1m", "iorate": 10})


def test_a_series_is_joined_by_multiples_of_its_intervals(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Intervals of a second that are joined by 1.5 s would be of 1 s and 2 s."""
    with pytest.raises(DialectError, match="intervals of a are 1 s; choose a multiple, as 2 s"):
        run(["result", "series", str(report), "--every", "1500ms"])
    assert run(["result", "series", str(report), "--every", "2s"]) == 0
    assert capsys.readouterr().out.startswith("point,")


def test_a_report_of_all_kinds_together_is_imported(tmp_path: Path) -> None:
    """unified_rw_reporting=1 states no reads and writes, but all kinds in one entry."""
    words = ["--name=a", "--ioengine=null", "--size=1m", "--rw=randrw", "--unified_rw_reporting=1"]
    out = tmp_path / "fio.json"
    assert jobs.run(registry.load("fio"), [*words, "--output-format=json", f"--output={out}"], quiet=True)
    (point,) = iocurve.import_results(out).points
    assert (point.axes["kind"], point.axes["block_bytes"], point.summary().operations) == ("mixed", 4096, 256)
    assert point.figures.p99_us is not None
