"""The envelope: its points, and guarantees about existing files."""

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.servers import Server
from data import synthetic
from goldens import cases, matches
from iocurve.engine.outcome import Live, LiveTotals
from iocurve.engine.plan import NfsEngine, Plan
from iocurve.foundation.errors import DialectError, IocurveError, TargetError
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.resolve import plan_here
from iocurve.measure import local
from iocurve.measure.scenario import command
from iocurve.measure.scenario.cases import Case, Cases
from iocurve.measure.scenario.runner import OPERATIONS, Request, enough_operations
from iocurve.result.document import Result
from iocurve.result.document_file import RESULT_NAME
from iocurve.targets import opened_target
from iocurve.targets import target as targets
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import NfsTarget
from plans import nfs_engine, plan_of, worker

pytestmark = pytest.mark.slow


def envelope(target: str | Path, **options: Any) -> Request:
    """Runs with points of 60 ms, small files and few depths."""
    asked = command.envelope(str(target), quick=True, size_bytes=4 * MIB, **options)
    how = {"ramp_ns": 0, "runtime_ns": 60 * MILLISECOND_NS}
    families = {
        name: replace(family, axes=family.axes | ({"depth": (1, 4)} if "depth" in family.axes else {}), **how)
        for name, family in asked.form.families.items()
    }
    form = replace(asked.form, families=families, interval_ns=10 * MILLISECOND_NS)
    return replace(asked, form=form, probe=False, repeats_max=0)


def measured(tmp_path: Path, subject: Request) -> Result:
    return command.run(subject, tmp_path / "out")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty directory as a target."""
    (directory := tmp_path / "target").mkdir()
    return directory


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of another user."""
    (path := tmp_path / "precious").write_bytes(b"x" * 8 * MIB)
    return path


def cases_of(target: str, *, quick: bool = True, timeout_ns: int | None = None) -> list[Case]:
    asked = command.envelope(target, quick=quick, nfs_timeout_ns=timeout_ns)
    named = asked.targets["target"]
    assert isinstance(named, NfsTarget)
    opened = {"target": OpenedTarget(named, targets.facts_of(named))}
    return Cases(asked.scenario, asked.form, opened, "tag", asked.nfs_timeout_ns).all()


def plan_of_case(case: Case) -> Plan:
    return plan_here(case.job, SECOND_NS)


def test_an_export_is_measured_in_mixes_and_in_depth_with_one_and_several_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    cases = cases_of("nfs://host/vol")
    matches("envelope#export measured mixes", [case.name for case in cases])
    chosen = [cases[0], cases[5], cases[-1]]
    assert [(case.axes["depth"], len(case.job.sections)) for case in chosen] == [(64, 2), (16, 2), (64, 1)]


def test_connections_of_the_url_are_compared() -> None:
    cases = cases_of("nfs://host/vol?nconnect=4")
    assert {case.axes["nconnect"] for case in cases if case.family.name == "random-4k-depth"} == {1, 4}


def test_the_expected_length_is_within_its_limit() -> None:
    """Full form under 90 s, short form under 20 s, on an export, which has the most points; others within a second."""
    for quick, limit_s in ((False, 80), (True, 15)):
        asked = command.envelope("nfs://host/vol", quick=quick)
        cases = cases_of("nfs://host/vol", quick=quick)
        assert sum(asked.form.families[case.family.name].length_ns for case in cases) / SECOND_NS < limit_s


def test_a_directory_is_measured_and_left_as_it_was(tmp_path: Path, directory: Path) -> None:
    (directory / "mine").write_text("stays")
    result = measured(tmp_path, envelope(directory))
    assert (result.state, result.incomplete_reason) == ("finished", None)
    assert [path.name for path in directory.iterdir()] == ["mine"]
    assert all(point.summary().operations for point in result.points)
    mixes = {point.axes["read_percent"] for point in result.points if point.family == "random-4k-mix"}
    matches("envelope#directory measured", sorted(mixes))
    assert Result.read(tmp_path / "out" / RESULT_NAME) == result
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"report.html", "result.json", "points.csv"}


def test_an_export_is_measured_and_left_as_it_was(tmp_path: Path, slow_volume: Server) -> None:
    result = measured(tmp_path, envelope(slow_volume.url))
    assert (result.state, result.incomplete_reason) == ("finished", None)
    assert all(point.summary().operations for point in result.points)
    assert {point.axes["nconnect"] for point in result.points if point.family == "random-4k-depth"} == {1, 8}
    bulk = next(point for point in result.points if point.name == "sequential-64k-mix 100:0")
    assert bulk.summary().labels == ("payload_discarded",)
    left = plan_of(worker(nfs_engine(slow_volume.url), result.points[0].plan.groups[0].workers[0].files[0].path))
    missing = left.groups[0].workers[0].files[0].replace(layout="existing")
    with pytest.raises(TargetError, match="does not exist"):
        local.run(plan_of(left.groups[0].workers[0].replace(files=(missing,))))


def test_points_that_do_not_fit_the_time_are_left_out_and_named(tmp_path: Path) -> None:
    found = command.run(replace(envelope(tmp_path), patience_ns=1), tmp_path / "report", quiet=True)
    assert (len(found.points), found.state) == (1, "finished")
    (note,) = [one.text for one in found.notes if one.code == "left_out"]
    assert note.startswith("--search-time left out ")


def test_pure_reads_and_pure_writes_have_one_kind(tmp_path: Path, directory: Path) -> None:
    result = measured(tmp_path, envelope(directory))
    kinds = {str(point.axes["read_percent"]): sorted(point.summary().kinds) for point in result.points[:5]}
    matches("envelope/pure_reads_and_pure_writes_have_one_kind", kinds)


def test_an_existing_file_is_not_written_to(tmp_path: Path, precious: Path) -> None:
    with pytest.raises(TargetError, match="use --read-only to measure reads alone, add --overwrite to allow"):
        measured(tmp_path, envelope(precious))
    assert precious.read_bytes() == b"x" * 8 * MIB


def test_an_existing_file_can_be_read(tmp_path: Path, precious: Path) -> None:
    result = measured(tmp_path, envelope(precious, read_only=True))
    assert (result.state, {kind for point in result.points for kind in point.summary().kinds}) == ("finished", {"read"})
    assert precious.read_bytes() == b"x" * 8 * MIB


def test_an_existing_file_is_written_to_if_allowed_and_stays(tmp_path: Path, precious: Path) -> None:
    assert measured(tmp_path, envelope(precious, overwrite=True)).state == "finished"
    assert precious.stat().st_size == 8 * MIB


def test_an_empty_file_is_refused_and_stays(tmp_path: Path) -> None:
    (path := tmp_path / "empty").touch()
    with pytest.raises(TargetError, match="too small; a target needs at least 1 MiB"):
        measured(tmp_path, envelope(path, overwrite=True))
    assert path.exists()


def test_a_directory_that_vanishes_while_a_run_starts_is_named(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = envelope(directory)
    monkeypatch.setattr(opened_target, "check_overwrites", lambda *_, **__: directory.rmdir())
    with pytest.raises(TargetError, match=r"target can no longer be used: No such file or directory"):
        measured(tmp_path, subject)


def test_a_file_that_appears_after_the_check_is_neither_used_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "late"
    subject = envelope(path, create=True)
    monkeypatch.setattr(opened_target, "check_overwrites", lambda *_, **__: path.write_text("another user's"))
    with pytest.raises(TargetError, match="another program created this file just now; nothing was written to it"):
        measured(tmp_path, subject)
    assert path.read_text() == "another user's"


def test_a_created_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "fresh"
    assert measured(tmp_path, envelope(path, create=True)).state == "finished"
    assert not path.exists()


@cases("measure/envelope_targets")
def test_an_invalid_target_is_refused_with_a_reason(target: str, text: str) -> None:
    with pytest.raises(IocurveError, match=text) as told:
        targets.parse(target)
    assert isinstance(told.value, TargetError if target.startswith("/") else DialectError)


def test_a_read_only_report_directory_is_an_error_before_the_run(tmp_path: Path, directory: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(TargetError, match="--out"):
        measured(tmp_path, envelope(directory))
    assert not list(directory.iterdir())


@cases("measure/silent_servers")
def test_a_silent_server_is_waited_for_as_its_url_says(url: str, said_s: int | None, waited_s: int) -> None:
    first = cases_of(url, timeout_ns=None if said_s is None else said_s * SECOND_NS)[0]
    engine = plan_of_case(first).groups[0].workers[0].engine
    assert isinstance(engine, NfsEngine)
    assert engine.mount.timeout_ns == waited_s * SECOND_NS


def test_every_worker_of_an_export_has_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    plans = [plan_of_case(case) for case in cases_of("nfs://host/vol?nconnect=4")]
    engines = [[w.engine for w in plan.groups[0].workers if isinstance(w.engine, NfsEngine)] for plan in plans]
    assert [sum(engine.mount.nconnect for engine in workers) for workers in engines] == [8] * 10 + [1] * 3 + [4] * 3


def test_a_slow_point_of_the_short_form_gets_the_operations_that_a_check_of_its_p99_needs() -> None:
    def live(phase: str, elapsed_ms: int, operations: int) -> Live:
        totals = {"read": LiveTotals(operations=operations, bytes=0, errors=0)}
        return synthetic.live(phase=phase, elapsed_ns=elapsed_ms * MILLISECOND_NS, intervals=1, totals=totals)

    enough = enough_operations(500 * MILLISECOND_NS)
    steps = [("ramp", 90, 50), ("run", 110, 60), ("run", 490, 5_000), ("run", 510, 5_100)]
    assert [enough(live(*step)) for step in steps] == [False, False, False, True], "a fast point has its time"
    steps = [("ramp", 90, 10), ("run", 110, 10), ("run", 510, 100), ("run", 1_500, 377), ("run", 1_550, 378)]
    assert [enough(live(*step)) for step in steps] == [False, False, False, False, True], "a slow one has more"
    assert math.ceil(math.log(0.025) / math.log(0.99)) == OPERATIONS
