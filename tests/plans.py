"""Plans for tests: one worker each; tests vary them with ``replace``."""

from pathlib import Path
from typing import Any

from iocurve.engine import plan
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS
from iocurve.targets.target import NfsTarget

READ = plan.OperationPlan(kind="read", share=1, blocks=plan.FixedBlocks(bytes=4 * KIB), random_percent=100, rate=None)
WRITE = READ.replace(kind="write")


def worker(engine: plan.EnginePlan, path: str, **changes: Any) -> plan.Worker:
    """Reads 4 KiB blocks of a 1 MiB file at random, each once, at depth 8."""
    file = plan.FilePlan(path=path, offset_bytes=0, bytes=MIB, layout="fill", keep=False)
    base = plan.Worker(
        job="job",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(file,),
        file_select="round_robin",
        operations=(READ,),
        access=plan.Access(cover="once", passes="same"),
        depth=8,
        start_delay_ns=0,
        ramp_ns=0,
        end=plan.End(runtime_ns=None, bytes=MIB, operations=None),
        seed=1,
        payload=plan.Payload(content=plan.RandomContent(), renew="scramble"),
    )
    return base.replace(**changes)


def plan_of(*workers: plan.Worker) -> plan.Plan:
    return in_groups(workers)


def in_groups(*groups: tuple[plan.Worker, ...]) -> plan.Plan:
    """A plan whose groups run one after another."""
    made = tuple(plan.Group(workers=workers) for workers in groups)
    return plan.Plan(name="test", interval_ns=100 * MILLISECOND_NS, groups=made)


def end(*, runtime_ns: int | None = None, bytes: int | None = None, operations: int | None = None) -> plan.End:
    """The end of a worker: none, or the first of these."""
    return plan.End(runtime_ns=runtime_ns, bytes=bytes, operations=operations)


def own_file(file: plan.FilePlan, client: int) -> plan.FilePlan:
    """Each client after the first has an own file next to the first client's."""
    return file.replace(path=f"{file.path}.client-{client}") if client else file


def null_plan() -> plan.Plan:
    """Performs no I/O."""
    return plan_of(worker(plan.NullEngine(), "nothing"))


def local_engine(kind: str, *, direct: bool = False) -> plan.EnginePlan:
    """An engine for local files, by its kind."""
    how = plan.FileOpen(direct=direct, durability="none", invalidate=False)
    engines: dict[str, plan.EnginePlan] = {
        "sync": plan.SyncEngine(open=how),
        "aio": plan.AioEngine(open=how),
        "uring": plan.UringEngine(open=how),
        "mmap": plan.MmapEngine(open=how),
    }
    return engines[kind]


def nfs_engine(url: str, nconnect: int = 1) -> plan.NfsEngine:
    """Our client, at a running server."""
    return plan.NfsEngine(mount=NfsTarget.of(url).mount(nconnect))


def file_plan(path: Path | str, size: int = MIB, **changes: Any) -> plan.FilePlan:
    """A file that is created, filled and removed."""
    base = plan.FilePlan(path=str(path), offset_bytes=0, bytes=size, layout="fill", keep=False)
    return base.replace(**changes)
