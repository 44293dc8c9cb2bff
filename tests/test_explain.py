"""Explanations of plans, for all dialects."""

from __future__ import annotations

from typing import Any

import pytest

from fio_machine import HeldMachine
from iocurve.engine import plan
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.job.explain import explain
from plans import READ, WRITE, file_plan, local_engine, nfs_engine, plan_of, worker

MACHINE = HeldMachine(paths={"/d/there": ("file", MIB)}, directories=frozenset({"/d"}))


def explained(**changes: Any) -> list[str]:
    text = explain(plan_of(worker(local_engine("uring", direct=True), "/d/new", **changes)), (), (), MACHINE)
    return [" ".join(line.split()) for line in text.splitlines()]


MOUNT = nfs_engine("nfs://h/e").mount
METADATA = plan.MetadataEngine(open=plan.FileOpen(direct=False, durability="none", invalidate=False), keep_open=True)


@pytest.mark.parametrize(
    ("engine", "tasks", "depth", "lines"),
    [
        (
            METADATA,
            ("create",),
            32,
            (
                "engine metadata operations on local files, up to 32 operations at a time",
                "ends when nothing is left to do",
                "Time: until nothing is left to do",
            ),
        ),
        (
            METADATA,
            ("mix",),
            1,
            (
                "engine metadata operations on local files, one operation at a time",
                "ends when it is stopped",
                "Time: until it is stopped",
            ),
        ),
        (
            plan.NfsMetadataEngine(mount=MOUNT, keep_open=True),
            ("create", "mix"),
            8,
            (
                "engine metadata operations over NFSv3, up to 8 calls at a time, on nfs://h/e",
                "ends when it is stopped",
                "Time: until it is stopped",
            ),
        ),
    ],
)
def test_an_explained_tree_agrees_with_itself(
    engine: plan.EnginePlan, tasks: tuple[plan.TreeTask, ...], depth: int, lines: tuple[str, ...]
) -> None:
    sizes = (plan.SizeShare(bytes=KIB, weight=1),)
    tree = plan.Tree(depth=1, width=1, files=9, files_on_all_levels=True, sizes=sizes, creates_parents=True)
    work = plan.TreeWork(tree=tree, tasks=tasks, select=plan.SequentialSelect())
    walk = worker(
        engine,
        "/d",
        operations=(READ,),
        tree=work,
        depth=depth,
        end=plan.End(runtime_ns=None, bytes=None, operations=None),
    )
    shown = [" ".join(line.split()) for line in explain(plan_of(walk), (), (), MACHINE).splitlines()]
    assert [line for line in lines if line not in shown] == []
    assert f"in flight 1 job × depth {depth} = {depth}" in shown


TRIM = READ.replace(kind="trim")
SEQUENTIAL = READ.replace(random_percent=0)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rate": plan.Rate(unit="operations", count=1, per_ns=2 * SECOND_NS)}, "rate 0.5 operations/s per job, 0.5/s"),
        (
            {"rate": plan.Rate(unit="bytes", count=MIB, per_ns=SECOND_NS, arrivals="poisson")},
            "rate operations 1 MiB/s per job, 1 MiB/s in all, Poisson arrivals",
        ),
        ({"operations": (READ, WRITE)}, "job: 50 % 4 KiB random reads and 50 % 4 KiB random writes"),
        ({"operations": (READ.replace(random_percent=30),)}, "job: 4 KiB reads (30 % random)"),
        (
            {"operations": (TRIM, WRITE), "access": plan.Access(position="identical")},
            "job: 4 KiB random trims, each followed by a write of the same block",
        ),
        (
            {"operations": (SEQUENTIAL,), "access": plan.Access(gap_bytes=4 * KIB, gap_spread_bytes=4 * KIB)},
            "offsets skips 4 KiB to 8 KiB after each operation",
        ),
        (
            {"operations": (SEQUENTIAL,), "access": plan.Access(position="job", at_end="stop")},
            "offsets all workers of the job share one position; stops at the end of the region",
        ),
        (
            {"operations": (READ, WRITE), "access": plan.Access(position="worker")},
            "offsets all kinds share one position",
        ),
        (
            {
                "operations": (WRITE,),
                "payload": plan.Payload(content=plan.PoolContent(bytes=MIB, path="/p"), renew="keep"),
            },
            "writes random parts of a pool of 1 MiB from /p",
        ),
        ({"files": (file_plan("/d/there", layout="recreate"),)}, "/d/there: 1 MiB, exists and will be recreated"),
        ({"files": (file_plan("/d/there", layout="recreate"),)}, "Layout before the run: 1 MiB to write"),
        (
            {"operations": (WRITE,), "end": plan.End(runtime_ns=None, bytes=None, operations=None, when_full=True)},
            "ends when no space is left",
        ),
        (
            {"operations": (WRITE,), "end": plan.End(runtime_ns=None, bytes=None, operations=None, when_full=True)},
            "Time: until no space is left",
        ),
        (
            {"operations": (WRITE,), "access": plan.Access(run_length=4, position="repeated")},
            "offsets runs of 4 operations at the same offset",
        ),
        ({"files": (file_plan("/d/new", layout="create"),)}, "Layout before the run: nothing to do"),
        ({"batch": plan.Batch(complete_min=0)}, "batches polls for completions without waiting"),
        ({"think": plan.Think(pause_ns=1000)}, "pauses 1 µs after every operation completed"),
        ({"operations": (WRITE,), "syncs": (plan.SyncPlan(kind="fsync", every=1),)}, "flushes fsync after every write"),
        (
            {"verify": plan.Verify(method="crc32c", only=True)},
            "compares crc32c; writes nothing: compares what an earlier run",
        ),
        ({"ends_others": "always"}, "ends after 1 MiB transferred; then the other workers of its group end too"),
        (
            {"ends_others": "on_error", "ends_run": True},
            "ends after 1 MiB transferred; an error ends the other workers of its group and of later groups",
        ),
    ],
)
def test_a_part_of_a_plan_in_words(changes: dict[str, Any], line: str) -> None:
    assert any(said.startswith(line) for said in explained(**changes)), explained(**changes)


def test_a_rate_over_all_kinds_determines_the_duration() -> None:
    rate = plan.Rate(unit="operations", count=64, per_ns=SECOND_NS)
    assert "Time: 4 s" in explained(rate=rate)


def shown(*workers: plan.Worker) -> list[str]:
    return [" ".join(line.split()) for line in explain(plan_of(*workers), (), (), MACHINE).splitlines()]


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
    text = (
        "Connections: 128 to nfs://h/e, because each job has its own; on a kernel mount with nconnect=16 all share 16"
    )
    assert text in shown(*(worker(engine, "f", jobnum=number) for number in range(8)))
    assert not [line for line in shown(worker(engine, "f")) if line.startswith("Connections")]
