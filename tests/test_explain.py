"""Explanations of plans, for all dialects."""

from typing import Any

from fio_machine import GOLDEN_MACHINE
from goldens import cases
from iocurve.engine import plan
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.job.explain import explain
from plans import READ, file_plan, local_engine, nfs_engine, plan_of, worker


def explained(**changes: Any) -> list[str]:
    """The lines about a worker, with changes as in JSON; its operations are those of READ unless they say otherwise."""
    base = worker(local_engine("uring", direct=True), "/d/new").to_builtins() | changes
    base["operations"] = [READ.to_builtins() | one for one in base["operations"]]
    return shown(plan.Worker.from_builtins(base))


def shown(*workers: plan.Worker) -> list[str]:
    return [" ".join(line.split()) for line in explain(plan_of(*workers), (), (), GOLDEN_MACHINE).splitlines()]


@cases("job/trees_in_words")
def test_an_explained_tree_agrees_with_itself(
    engine: dict[str, Any], tasks: list[plan.TreeTask], depth: int, lines: list[str]
) -> None:
    sizes = (plan.SizeShare(bytes=KIB, weight=1),)
    tree = plan.Tree(depth=1, width=1, files=9, files_on_all_levels=True, sizes=sizes, creates_parents=True)
    work = plan.TreeWork(tree=tree, tasks=tuple(tasks), select=plan.SequentialSelect()).to_builtins()
    end: dict[str, None] = {"runtime_ns": None, "bytes": None, "operations": None}
    found = explained(engine=engine, tree=work, depth=depth, end=end)
    assert [line for line in lines if line not in found] == []
    assert f"in flight 1 job × depth {depth} = {depth}" in found


@cases("job/plans_in_words")
def test_a_part_of_a_plan_in_words(changes: dict[str, Any], line: str) -> None:
    assert any(said.startswith(line) for said in explained(**changes)), explained(**changes)


def test_a_rate_over_all_kinds_determines_the_duration() -> None:
    assert "Time: 4 s" in explained(rate={"unit": "operations", "count": 64, "per_ns": SECOND_NS})


def test_a_file_that_jobs_share_in_parts_is_counted_once() -> None:
    """Four jobs of one file of 11 MiB, each with 8 MiB from an offset: as of fio's offset_increment."""
    parts = [file_plan("/d/new", 8 * MIB).replace(offset_bytes=number * MIB) for number in range(4)]
    lines = shown(
        *(worker(local_engine("uring"), "/d", jobnum=number, files=(part,)) for number, part in enumerate(parts))
    )
    assert "files 1 file, 11 MiB used" in lines
    assert "/d/new: 11 MiB, will be created, in 4 parts of 8 MiB" in lines


def test_the_connections_of_all_workers_are_added_up() -> None:
    engine = nfs_engine("nfs://h/e")
    engine = engine.replace(mount=engine.mount.replace(nconnect=16))
    assert "Connections: 128 to nfs://h/e in all" in shown(*(worker(engine, "f", jobnum=number) for number in range(8)))
    assert not [line for line in shown(worker(engine, "f")) if line.startswith("Connections")]
