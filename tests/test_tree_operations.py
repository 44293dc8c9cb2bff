"""Operations on directory trees: names, links, lists, whole files, copies and mixes, on local files and over NFS."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest

from bench.servers import volume as served
from goldens import matches
from iocurve.engine import plan
from iocurve.engine.outcome import Outcome
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.volume import control
from plans import end as until
from plans import file_plan, in_groups, plan_of, worker
from test_metadata import local_engine, nfs_metadata, place

__all__ = ["place"]

pytestmark = pytest.mark.slow

FILES = 12
DIRECTORIES = 3
KINDS: tuple[plan.OperationKind, ...] = (*plan.METADATA_KINDS, "read", "write")


def tree(files: int = FILES // DIRECTORIES, size: int = 3000) -> plan.Tree:
    return plan.Tree(
        depth=1,
        width=DIRECTORIES,
        files=files,
        files_on_all_levels=True,
        sizes=(plan.SizeShare(bytes=size, weight=1),),
        creates_parents=True,
    )


def walk(
    engine: plan.EnginePlan,
    root: str,
    *tasks: plan.TreeTask,
    block: int = 4096,
    shares: dict[plan.OperationKind, int] | None = None,
    end: plan.End | None = None,
    on: plan.Tree | None = None,
    **work: Any,
) -> plan.Worker:
    """A worker with these tasks on a tree."""
    blocks = plan.FixedBlocks(bytes=block)
    weights = shares or dict.fromkeys(KINDS, 1)
    operations = tuple(
        plan.OperationPlan(kind=kind, share=weights.get(kind, 0), blocks=blocks, random_percent=0, rate=None)
        for kind in KINDS
    )
    once = shares is None and not {"make_directories", "fill", "remove"} & set(tasks)
    of_tree = plan.TreeWork(tree=on or tree(), tasks=tasks, select=plan.SequentialSelect(), select_once=once).replace(
        **work
    )
    return worker(
        engine,
        "",
        job=tasks[-1],
        files=(file_plan(root, 1 << 20, layout="nothing", keep=True),),
        operations=operations,
        depth=8,
        end=end or until(),
        tree=of_tree,
    )


def run(*workers: plan.Worker) -> Outcome:
    """Runs each worker in a separate group; fails if one failed."""
    outcome = local.run(in_groups(*((one,) for one in workers)))
    assert [one.error for one in outcome.workers] == [None] * len(workers)
    return outcome


def done(outcome: Outcome) -> list[dict[str, tuple[int, int, int]]]:
    """By worker and kind: operations, bytes and entries."""
    return [
        {kind: (of.operations, of.bytes, of.entries) for kind, of in one.operations.items() if of.operations}
        for one in outcome.workers
    ]


def test_each_operation_is_done_once_for_each_file_and_counted(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    tasks: tuple[plan.TreeTask, ...] = (
        *("make_directories", "write_file", "lookup", "link", "symlink", "readlink", "copy", "read_file"),
        *("rename", "getattr", "readdir", "readdirplus"),
    )
    outcome = run(*(walk(engine, root, task) for task in tasks))
    # Each file has a link, a symlink and a copy, and another name.
    matches("trees#each operation", done(outcome))
    removed = run(walk(engine, root, "remove"), walk(engine, root, "readdir", on=tree()))
    assert done(removed) == [{"delete": (4 * FILES, 0, 0), "rmdir": (DIRECTORIES, 0, 0)}, {}]


@pytest.mark.parametrize("singly", [None, 2])
def test_intervals_count_the_entries_that_lists_have(place: tuple[plan.EnginePlan, str], singly: int | None) -> None:
    engine, root = place
    kind: Literal["readdirplus"] = "readdirplus"
    lists = walk(engine, root, kind, shares={kind: 1}, end=until(runtime_ns=350 * MILLISECOND_NS))
    lists = lists.replace(intervals_singly=singly)
    listed = run(walk(engine, root, "make_directories"), walk(engine, root, "write_file"), lists).workers[2]
    intervals = [interval.operations[kind] for interval in listed.intervals if kind in interval.operations]
    assert len(intervals) > 1
    assert all(one.operations > 0 and one.entries == one.operations * FILES // DIRECTORIES for one in intervals)
    assert sum(one.entries for one in intervals) == listed.operations[kind].entries
    run(walk(engine, root, "remove"))


def test_a_deleted_file_takes_its_links_along(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    tasks: tuple[plan.TreeTask, ...] = ("make_directories", "write_file", "link", "symlink", "delete", "rmdir")
    outcome = run(*(walk(engine, root, task) for task in tasks))
    assert done(outcome)[-2:] == [{"delete": (3 * FILES, 0, 0)}, {"rmdir": (DIRECTORIES, 0, 0)}]


def test_files_of_many_transfers_are_read_written_and_copied_whole(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    large = tree(files=1, size=300_000)
    tasks: tuple[plan.TreeTask, ...] = ("make_directories", "write_file", "copy", "read_file", "remove")
    outcome = run(*(walk(engine, root, task, block=65536, on=large) for task in tasks))
    whole = (DIRECTORIES, DIRECTORIES * 300_000, 0)
    assert done(outcome)[1:4] == [{"write_file": whole}, {"copy": whole}, {"read_file": whole}]
    assert done(outcome)[4]["delete"] == (2 * DIRECTORIES, 0, 0)


def test_files_are_copied_and_renamed_into_a_second_tree(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    first, second = f"{root}/first", f"{root}/second"
    outcome = run(
        walk(engine, first, "make_directories", "fill"),
        walk(engine, second, "make_directories"),
        walk(engine, first, "copy", target=second),
        walk(engine, second, "read_file"),
        walk(engine, second, "delete"),
        walk(engine, first, "rename", target=second),
        walk(engine, second, "getattr"),
        walk(engine, second, "remove"),
        walk(engine, first, "remove"),
    )
    matches("trees#second tree", done(outcome))


def test_a_mix_has_the_shares_of_the_plan_and_keeps_itself_going(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    shares: dict[plan.OperationKind, int] = {
        **{"getattr": 30, "lookup": 20, "read_file": 15, "write_file": 10, "create": 5, "delete": 5},
        **{"link": 2, "symlink": 2, "readlink": 3, "rename": 3, "readdir": 3, "readdirplus": 2},
    }
    mixed = walk(engine, root, "mix", shares=shares, end=until(runtime_ns=30 * SECOND_NS, operations=4000))
    before = (walk(engine, root, task) for task in ("make_directories", "write_file"))
    outcome = run(*before, mixed, walk(engine, root, "remove"))
    counted = outcome.workers[2].operations
    assert not outcome.workers[2].failures
    # Operations that come first for another kind are extra: more creates, deletes and symlinks than their shares.
    helpers = {"create", "delete", "symlink", "close", "open", "mkdir", "rmdir", "write_file"}
    total = sum(counted[kind].operations for kind in shares if kind not in helpers)
    share = sum(weight for kind, weight in shares.items() if kind not in helpers)
    for kind, weight in shares.items():
        if kind not in helpers:
            assert counted[kind].operations / total == pytest.approx(weight / share, abs=0.03), kind


def test_errors_are_counted_by_kind_and_named_by_path_and_the_walk_goes_on(place: tuple[plan.EnginePlan, str]) -> None:
    engine, root = place
    gone = (walk(engine, root, task) for task in ("make_directories", "write_file"))
    run(*gone)
    # Workers on two spellings of a root do not know of each other: one has listed the files that the other removes.
    remover = walk(engine, root, "remove")
    tolerates = (plan.Tolerance(kinds=("getattr",)),)
    stat = walk(engine, f"{root}/", "getattr").replace(wait_for=("remove",), tolerates=tolerates)
    outcome = local.run(plan_of(remover, stat))
    assert [one.error for one in outcome.workers] == [None, None]
    failed = outcome.workers[1]
    (row,) = failed.failures
    assert (row.kind, row.error, row.count) == ("getattr", "No such file or directory (os error 2)", FILES)
    # Several are in flight, so any file may be the first.
    assert re.fullmatch(r"vdb\.1_\d\.dir/vdb_f\d{4}\.file", row.path.removeprefix(f"{root}/").lstrip("/")), row.path
    assert failed.operations["getattr"].errors == FILES


def test_the_failure_beyond_those_that_are_counted_ends_the_worker(tmp_path: Path) -> None:
    engine = local_engine(keep_open=True)
    run(walk(engine, str(tmp_path), "make_directories"))
    (tmp_path / "vdb.1_2.dir").rmdir()
    (tmp_path / "vdb.1_2.dir").write_text("in the way")
    makes = walk(engine, str(tmp_path), "make_directories", "fill").replace(tolerates=(plan.Tolerance(errors_max=3),))
    (ended,) = local.run(plan_of(makes)).workers
    assert re.match(rf"create {tmp_path}/vdb\.1_2\.dir/vdb_f000.*Not a directory", ended.error or "")
    assert [(row.kind, row.count) for row in ended.failures] == [("mkdir", 1), ("create", 2)]


@pytest.mark.parametrize("task", ["transfer", "create", "write_file", "getattr", "readdir", "rmdir"])
@pytest.mark.parametrize("select", [plan.SequentialSelect(), plan.RandomSelect()])
def test_a_walk_that_finds_nothing_it_could_use_ends_at_once(
    tmp_path: Path, task: plan.TreeTask, select: plan.TreeSelect
) -> None:
    """Neither the files nor the directories that they would be in exist."""
    end = until(runtime_ns=600 * SECOND_NS)
    walks = walk(local_engine(keep_open=True), str(tmp_path), task, shares={"write": 1}, end=end, select=select)
    (ended,) = run(walks.replace(depth=2)).workers
    assert done(run(walks)) == [{}]
    assert ended.window_end_ns < 60 * SECOND_NS


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_each_nfs_operation_is_counted_by_name(version: str) -> None:
    with served("--profile=unlimited") as server:
        engine = nfs_metadata(server, version, keep_open=True)
        tasks: tuple[plan.TreeTask, ...] = ("make_directories", "create", "rename", "delete", "rmdir")
        run(*(walk(engine, "tree", task) for task in tasks))
        with control.Client(str(server.port)) as client:
            stats = client.stats()
    assert not (stats.nfs4_operations if version == "3" else stats.nfs3_procedures)
    done = stats.nfs3_procedures if version == "3" else stats.nfs4_operations
    # The tree has a root and three directories; version 4.1 creates files by OPEN, and removes directories by REMOVE.
    assert done["RENAME"] == FILES
    if version == "3":
        assert [done[name] for name in ("MKDIR", "CREATE", "REMOVE", "RMDIR")] == [4, FILES, FILES, 3]
    else:
        assert [done[name] for name in ("CREATE", "OPEN", "REMOVE")] == [4, FILES, FILES + 3]
        assert done["SEQUENCE"] >= 4 * FILES
