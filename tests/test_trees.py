"""Loads on trees of files: as scenarios write them, as plans, laid out and removed, and in reports."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.servers import Server
from data import synthetic
from goldens import cases, data, matches, present
from iocurve.analysis import read
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.measure import jobs
from iocurve.measure.scenario import runner
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.document import Scenario, load
from iocurve.report.figures import figures
from iocurve.report.progress import NoView
from iocurve.result.document import Point
from iocurve.targets.opened_target import UNOPENED
from iocurve.targets.places import LocalPlace
from test_scenario import requested

TREE = data("native/tree.toml")


def scenario(directory: Path, text: str = TREE) -> Scenario:
    (path := directory / "tiny.toml").write_text(text, encoding="utf-8")
    return load(str(path))


def test_a_tree_has_the_width_of_the_form_and_the_files_of_the_axis(tmp_path: Path) -> None:
    made = scenario(tmp_path)
    cases = Cases(made, made.full, {"volume": UNOPENED}, "00000000").all()
    assert [case.name for case in cases] == ["names files 2", "names files 4"]
    tree = present(cases[1].job.sections[0].load.tree)
    assert (tree.depth, tree.width, tree.files, tree.file_count, tree.bytes) == (2, 2, 4, 16, 49_152)
    assert cases[1].axes == {"files": 4, "depth": 4, "nconnect": 1}


@cases("trees/a_tree_that_says_nothing_useful")
def test_a_tree_that_says_nothing_useful_is_an_error_with_its_line(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    with pytest.raises(DialectError, match=re.escape(told)):
        scenario(tmp_path, TREE.replace(before, after))


def test_a_file_or_device_has_no_trees(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"\0" * (1 << 20))
    request = requested(scenario(tmp_path), [str(file)], full=True, overwrite=True)
    with pytest.raises(PlanError, match="works on many files, and needs a directory or an NFS export"):
        runner.carry_out(request, NoView(), lambda _: None)


@pytest.mark.parametrize("where", ["directory", "export"])
def test_a_tree_is_laid_out_before_each_point_and_removed_at_the_end(
    tmp_path: Path, volume: Server, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PROBE_LONG_S", 2.5)
    (directory := tmp_path / "data").mkdir()
    (directory / "other").write_text("stays", encoding="utf-8")
    target = str(directory) if where == "directory" else volume.url
    # Probes lay trees out in the same way: in a directory they follow the points.
    made = scenario(tmp_path, TREE if where == "directory" else f"probe = false\n{TREE}")
    result = runner.carry_out(replace(requested(made, [target], full=True), repeats_max=0), NoView(), lambda _: None)
    assert [point.outcome.state for point in result.points] == ["finished", "finished"], result.notes
    kinds = result.points[0].summary().kinds
    assert {"getattr", "create", "readdir", "write_file"} <= kinds.keys()
    assert kinds["readdir"].entries > 0
    assert [path.name for path in directory.iterdir()] == ["other"]
    assert LocalPlace(directory).names(".manifest.json") == []


def point(files: int, scale: float) -> Point:
    counts = {"getattr": 600, "lookup": 300, "readdir": 100}
    latency_ns = round(200_000 * scale)
    done = {name: synthetic.kind(synthetic.spread(latency_ns, count), 0) for name, count in counts.items()}
    done["readdir"] = done["readdir"].replace(entries=5_000)
    planned = synthetic.plan([synthetic.worker_plan(list(counts.items()))])
    named: dict[str, Any] = {"name": f"names files {files}", "family": "names", "axes": {"files": files}}
    return synthetic.point(planned, synthetic.worker_outcome(done), **named)


def test_a_report_has_the_rate_and_the_latency_of_each_kind() -> None:
    result = synthetic.result([point(100, 1.0), point(1000, 2.0)], kind="scenario")
    drawn = {figure.title: figure for figure in figures(read(result))}
    by_files, by_kind = drawn["names: IOPS by files in each directory"], drawn["names: by kind of operation"]
    assert [row[:2] for row in by_files.table.rows] == [("100", "1,000"), ("1,000", "1,000")]
    assert by_kind.table.columns[:6] == ("point", "kind", "share %", "ops/s", "MiB/s", "entries/s")
    matches("trees#report rate", [row[:6] for row in by_kind.table.rows[:3]])
    assert len(by_kind.charts) == 2


JOB = data("native/tree_job.toml")


@pytest.mark.parametrize("version", ["local", "3", "4.1"])
def test_a_job_makes_its_tree_and_verifies_it(tmp_path: Path, volume: Server, version: str) -> None:
    root = tmp_path / "tree"
    place = f'paths = ["{root}"]'
    if version != "local":
        place = f'engine = "nfs"\nnfs_url = "{volume.url_of(version)}"\npaths = ["tree"]'
    (file := tmp_path / "names.toml").write_text(JOB % {"map": tmp_path / "tree.map", "place": place})
    for made in ({"mkdir": 2, "create": 8, "write": 8, "close": 8}, {}):
        result = present(jobs.run(NATIVE, [str(file)]))
        layout, load = result.points
        assert (layout.name, load.name, operations(layout)) == ("names: layout", "names", made)
        assert sum(operations(load).values()) == 40
    if version != "local":
        return
    other = root / "vdb.1_2.dir/vdb_f0004.file"
    (root / "vdb.1_1.dir/vdb_f0000.file").write_bytes(other.read_bytes())
    result = present(jobs.run(NATIVE, [str(file)]))
    [worker] = result.points[-1].outcome.workers
    assert worker.state == "failed"
    found = {(one.kind, Path(one.path).name, "vdb_f0004.file" in one.text) for one in worker.differences}
    assert found == {("misdirected_write", "vdb_f0000.file", True)}


def operations(point: Point) -> dict[str, int]:
    done: dict[str, int] = {}
    for worker in point.outcome.workers:
        done |= {name: kind.operations for name, kind in worker.operations.items() if kind.operations}
    return done


def test_a_verified_tree_needs_a_map_and_one_root(tmp_path: Path) -> None:
    text = JOB.replace(JOB[JOB.index("map =") : JOB.index("[job.tree]")], "")
    (file := tmp_path / "names.toml").write_text(text % {"place": 'paths = ["a", "b"]'})
    with pytest.raises(PlanError) as caught:
        NATIVE.prepare([str(file)])
    matches("trees#verified tree", [error.text for error in caught.value.errors])
