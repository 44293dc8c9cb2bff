"""Verified trees: contents prove file and write, sizes and names are as operations left them, locally and over NFS."""

from pathlib import Path
from typing import Any

import pytest

from bench.faults.victims import volume_process
from goldens import data, matches
from iocurve.engine import plan
from iocurve.engine.outcome import Outcome
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.volume.spec import Setting
from plans import end, in_groups, nfs_engine, plan_of
from programs import iocurve, volume_here
from test_metadata import local_engine, nfs_metadata
from test_nfs_restarts import Killer
from test_tree_operations import FILES, place, walk
from test_verify_faults import records
from vdbench_runs import anchor, report

__all__ = ["anchor", "place"]

pytestmark = pytest.mark.slow

INTERVAL = 1024


def verified(worker: plan.Worker, directory: Path) -> plan.Worker:
    """The worker with verification, and a map in this directory."""
    if isinstance(worker.engine, plan.NfsMetadataEngine):
        kept_payload = worker.engine.mount.replace(keep_payload=True)
        worker = worker.replace(engine=worker.engine.replace(mount=kept_payload))
    kept = plan.VerifyMap(paths=(str(directory / "tree.map"),), before_write=False, after_write=False, take_over=False)
    verify = plan.Verify(method="crc32c", interval_bytes=INTERVAL, read_back=False, map=kept)
    return worker.replace(verify=verify)


def run(directory: Path, *workers: plan.Worker) -> Outcome:
    """Runs each worker, verified, in a separate group."""
    return local.run(in_groups(*((verified(one, directory),) for one in workers)))


def found(outcome: Outcome) -> list[tuple[str, str]]:
    """Kind and path of each difference, without the root."""
    return sorted(
        (one.kind, "/".join(one.path.split("/")[-2:])) for worker in outcome.workers for one in worker.differences
    )


def names(suffix: str = "file") -> list[str]:
    return [f"vdb.1_{1 + number // 4}.dir/vdb_f{number:04}.{suffix}" for number in range(FILES)]


MIX: dict[plan.OperationKind, int] = {
    **{"getattr": 20, "lookup": 5, "read_file": 25, "write_file": 20, "create": 5, "delete": 10},
    **{"link": 2, "symlink": 2, "readlink": 3, "rename": 10, "copy": 3, "readdir": 3},
}


def mix(engine: plan.EnginePlan, root: str, operations: int = 5000, **work: Any) -> plan.Worker:
    until = end(runtime_ns=60 * SECOND_NS, operations=operations)
    return walk(engine, root, "mix", shares=MIX, end=until, **work)


def test_a_mix_finds_no_difference_where_there_is_none(
    place: tuple[plan.EnginePlan, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    engine, root = place
    outcome = run(
        tmp_path_factory.mktemp("map"),
        walk(engine, root, "make_directories", "fill"),
        walk(engine, root, "transfer"),
        mix(engine, root),
        walk(engine, root, "read_file"),
        walk(engine, root, "remove"),
    )
    assert ([worker.error for worker in outcome.workers], found(outcome)) == ([None] * 5, [])
    assert outcome.workers[2].operations["rename"].operations > 100


def test_what_was_written_to_another_file_is_named(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine, root, maps = local_engine(keep_open=True), str(tmp_path), tmp_path_factory.mktemp("map")
    assert found(run(maps, walk(engine, root, "make_directories"), walk(engine, root, "write_file"))) == []
    first, second = (tmp_path / name for name in names()[:2])
    first.rename(tmp_path / "kept")
    second.rename(first)
    (tmp_path / "kept").rename(second)
    (ended,) = run(maps, walk(engine, root, "read_file")).workers
    texts = {one.path: one.text.split(";")[0] for one in ended.differences if one.offset == 0}
    assert texts == {
        str(first): f"it holds data of offset 0 of {second}",
        str(second): f"it holds data of offset 0 of {first}",
    }
    matches("trees#what was written", sorted({(one.kind, one.length) for one in ended.differences}))
    assert ended.state == "failed"


def test_files_that_another_program_removed_are_named(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine = local_engine(keep_open=True)
    maps = tmp_path_factory.mktemp("map")
    makes = verified(walk(engine, str(tmp_path), "make_directories", "fill"), maps)
    # Workers on two spellings of a root do not know of each other.
    removes = walk(engine, f"{tmp_path}/", "remove").replace(wait_for=("fill",))
    # The second worker lists before the first makes anything, so the tree is made once before.
    assert found(run(maps, walk(engine, str(tmp_path), "make_directories", "fill"))) == []
    outcome = local.run(plan_of(makes, removes))
    directories = [("missing", f"{tmp_path.name}/vdb.1_{number}.dir") for number in (1, 2, 3)]
    assert found(outcome) == sorted([*directories, *(("missing", name) for name in names())])
    assert outcome.workers[0].error == (
        f"verification of {tmp_path}/vdb.1_1.dir failed: the directory is not there; 15 names differ, this is the first"
    )


THEN: dict[str, tuple[plan.TreeTask, ...]] = {
    "lost-create": (),
    "misdirected-rename": ("rename",),
    "stale-attributes": ("getattr",),
    "lost-write": ("read_file",),
}
"""Faults, and what finds them."""


@pytest.mark.parametrize("store", ["memory", "directory"])
@pytest.mark.parametrize("version", ["3", "4.1"])
@pytest.mark.parametrize("fault", THEN)
def test_every_fault_of_names_attributes_and_contents_is_named(
    fault: str, version: str, store: str, tmp_path: Path
) -> None:
    (directory := tmp_path / "files").mkdir()
    kept: dict[str, Setting] = {"store": str(directory), "root_squash": False} if store == "directory" else {}
    faults: dict[str, Setting] = {"fault": [f"{fault}=0.5"], "fault_seed": 3, "fault_log": str(tmp_path / "log")}
    with volume_here(faults, **kept) as server:
        engine = nfs_metadata(server, version, keep_open=True)
        makes = walk(engine, "tree", "create" if fault == "lost-create" else "write_file")
        more = [walk(engine, "tree", task) for task in THEN[fault]]
        outcome = run(tmp_path, walk(engine, "tree", "make_directories"), makes, *more)
    injected = {record["file"].removeprefix("tree/") for record in records(tmp_path)}
    assert len(injected) > 1
    differences = found(outcome)
    assert outcome.workers[-1].error is not None
    if fault == "lost-create":
        assert differences == sorted(("missing", name) for name in injected)
    elif fault == "misdirected-rename":
        assert differences == sorted(("missing", name.replace(".file", ".renamed")) for name in injected)
    elif fault == "lost-write":
        assert ({name for _, name in differences}, {kind for kind, _ in differences}) == (injected, {"older_data"})
    else:
        assert {kind for kind, _ in differences} == {"wrong_size"}
        assert {name for _, name in differences} <= injected


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_verified_mix_over_two_kills_of_the_server_reports_nothing_falsely(version: str, tmp_path: Path) -> None:
    with volume_process(tmp_path) as server:
        url = f"{server.url()}?mountport={server.port}&vers={version}"
        mount = plan.NfsMetadataEngine(mount=nfs_engine(url).mount, keep_open=True)
        assert found(run(tmp_path, walk(mount, "tree", "make_directories"), walk(mount, "tree", "write_file"))) == []
        # Pauses are not made up for: the load lasts two seconds apart from the kills.
        pauses = plan.Think(pause_ns=MILLISECOND_NS)
        load = verified(mix(mount, "tree", 2000).replace(think=pauses), tmp_path)
        killer = Killer(server, times=2)
        outcome = local.run(plan_of(load), killer)
        read = run(tmp_path, walk(mount, "tree", "read_file"))
    assert ([one.error for one in (*outcome.workers, *read.workers)], killer.left) == ([None, None], 0)
    assert (found(outcome), found(read)) == ([], [])


PARAMETERS = data("vdbench/tree_loads.parm")


def vdbench(directory: Path, anchor: str) -> tuple[str, str]:
    """Returns the output and the error log of a run with -v."""
    (directory / "p").write_text(PARAMETERS.format(anchor=anchor))
    ended = iocurve("vdbench", "-v", "-f", "p", "-o", "output", cwd=directory)
    return ended.stdout, report(directory, "errorlog") if (directory / "output/errorlog.html").exists() else ""


def test_vdbench_verifies_file_systems_with_v(anchor: str, tmp_path: Path) -> None:
    printed, errors = vdbench(tmp_path, anchor)
    assert "Vdbench execution completed successfully" in printed
    assert "verification" not in errors


def test_vdbench_names_the_file_of_a_lost_write_and_of_a_lost_name(tmp_path: Path) -> None:
    with volume_here({"fault": ["lost-create=0.2"], "fault_log": str(tmp_path / "log")}) as server:
        printed, errors = vdbench(tmp_path, server.url.replace("?", "/tree?"))
    injected = {record["file"] for record in records(tmp_path)}
    assert injected
    assert all(f"missing: {name}: it was created, and is not there" in errors for name in injected)
    assert "rd2" not in printed
