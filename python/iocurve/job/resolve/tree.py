"""Workers that do a mix of operations on the names, attributes and whole files of a directory tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_max
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Section, TreeLoad

_FIRST: dict[planned.MetadataKind, tuple[planned.MetadataKind, ...]] = {
    "create": ("delete", "close"),
    "open": ("close",),
    "delete": ("write_file",),
    "link": ("delete",),
    "symlink": ("delete",),
    "readlink": ("symlink", "delete"),
    "copy": ("delete",),
    "mkdir": ("rmdir",),
    "rmdir": ("mkdir",),
}
"""Kinds that come before others where the tree has nothing for these to work on, or after them."""


def on_tree(section: Section, worker: planned.Worker) -> planned.Worker:
    """The worker of a section with ``load.tree``."""
    load = section.load.tree
    assert load is not None, "asked by the caller"
    work = planned.TreeWork(tree=_tree(load), tasks=("mix",), select=planned.RandomSelect())
    return _working(worker, work, tuple(_mix(load))).replace(
        depth=worker.depth,
        rate=worker.rate if worker.rate and worker.rate.unit == "operations" else None,
        end=worker.end.replace(bytes=None, operations=section.ending.operations or None),
        verify=_verify(section),
    )


def with_tasks(section: Section, worker: planned.Worker) -> planned.Worker:
    """The worker of a section with ``load.tasks``."""
    work, shares = section.load.tasks, section.load.task_shares
    assert work is not None, "asked by the caller"
    blocks = section.load.blocks.write
    engine = worker.engine
    if isinstance(engine, planned.SyncEngine):
        engine = planned.MetadataEngine(open=engine.open, keep_open=True)
    random_percent = section.load.random_percent.write if section.load.random else 0
    operations = tuple(
        _operation(kind, shares.get(kind, 1), 1).replace(blocks=blocks, random_percent=random_percent)
        if kind in TRANSFERS
        else _operation(kind, 1, 1)
        for kind in (*shares, *_further_kinds(work))
    )
    done = _working(worker.replace(engine=engine), work, operations)
    return done.replace(
        files=(done.files[0].replace(bytes=block_bytes_max(blocks)),),
        rate=_operations_rate(section),
        end=planned.End(runtime_ns=section.ending.runtime_ns or None, bytes=None, operations=None),
    )


TRANSFERS = ("read", "write")
_TASK_KINDS: Mapping[planned.TreeTask, tuple[planned.OperationKind, ...]] = {
    "getattr": ("getattr",),
    "setattr": ("setattr",),
    "access": ("access",),
    "delete": ("delete",),
    "mkdir": ("mkdir",),
    "rmdir": ("rmdir",),
    "create": ("create", "close"),
    "open": ("open", "close"),
    "transfer": ("create", "open", "close"),
    **dict.fromkeys(
        ("remove", "make_directories", "fill"), ("write", "delete", "rmdir", "mkdir", "create", "open", "close")
    ),
}
"""Kinds of operation that a task needs; a transfer needs reads or writes, too. Tasks that make or remove a tree are
one set."""


def _further_kinds(work: planned.TreeWork) -> list[planned.OperationKind]:
    kinds = [*_TASK_KINDS[work.tasks[0]]]
    if work.delete_first:
        kinds.append("delete")
    if work.flush_before_close:
        kinds.append("fsync")
    return kinds


def _operations_rate(section: Section) -> planned.Rate | None:
    """The rate of all operations together, in thousandths; one in bytes is one of the largest block."""
    pace = section.pace
    thousandths = round(pace.rate_total_operations * RATE_SCALE)
    if pace.rate_total_bytes:
        thousandths = pace.rate_total_bytes * RATE_SCALE // block_bytes_max(section.load.blocks.write)
    if not (pace.rate_total_operations or pace.rate_total_bytes):
        return None
    per_ns = SECOND_NS * RATE_SCALE
    return planned.Rate(unit="operations", count=max(1, thousandths), per_ns=per_ns, arrivals=pace.arrivals)


RATE_SCALE = 1000


def removal(engine: planned.EnginePlan, root: str) -> planned.Plan:
    """The plan that removes a tree and its root, but nothing of another name."""
    tree = planned.Tree(
        depth=1, width=1, files=1, files_on_all_levels=False, sizes=(planned.SizeShare(bytes=1, weight=1),)
    )
    work = planned.TreeWork(tree=tree, tasks=("remove",), select=planned.SequentialSelect())
    below = _remover(engine, root, ("delete", "rmdir")).replace(tree=work, depth=REMOVAL_DEPTH)
    itself = _remover(engine, root, ("rmdir",)).replace(end=planned.End(runtime_ns=None, bytes=None, operations=1))
    groups = tuple(planned.Group(workers=(worker,)) for worker in (below, itself))
    return planned.Plan(name=f"removing {root}", interval_ns=SECOND_NS, groups=groups)


REMOVAL_DEPTH = 32


def _remover(engine: planned.EnginePlan, root: str, kinds: tuple[planned.MetadataKind, ...]) -> planned.Worker:
    return planned.Worker(
        job="removal",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(planned.FilePlan(path=root, offset_bytes=0, bytes=1, layout="nothing", keep=True),),
        file_select="round_robin",
        operations=tuple(_operation(kind, 1, 1) for kind in kinds),
        access=planned.Access(),
        depth=1,
        start_delay_ns=0,
        ramp_ns=0,
        end=planned.End(runtime_ns=None, bytes=None, operations=None),
        ends_others="on_error",
        seed=1,
        payload=planned.Payload(content=planned.RandomContent(), renew="scramble"),
    )


def _verify(section: Section) -> planned.Verify | None:
    """Verification of a tree: what is read is compared, and nothing else is read."""
    said = section.data.verify
    return said and said.replace(interval_bytes=said.interval_bytes or INTERVAL_BYTES, read_back=False, pass_bytes=None)


INTERVAL_BYTES = 4096
"""Default length of a block with a header."""


def layout(plan: planned.Plan, name: str) -> planned.Plan | None:
    """The plan that makes what is missing of the trees of a plan; None if it has none."""
    workers = [worker for group in plan.groups for worker in group.workers if worker.tree]
    makers = {worker.files[0].path: laid_out(worker) for worker in reversed(workers)}
    groups = (planned.Group(workers=tuple(makers.values())),)
    return plan.replace(name=name, groups=groups) if makers else None


def laid_out(worker: planned.Worker) -> planned.Worker:
    """A worker that makes what is missing of the tree of a worker, and ends."""
    return _alone(worker, ("make_directories", "fill"), ("mkdir", "create", "open", "write", "close"))


def _alone(
    worker: planned.Worker, tasks: tuple[planned.TreeTask, ...], kinds: tuple[planned.OperationKind, ...]
) -> planned.Worker:
    assert worker.tree is not None, "asked by the caller"
    work = planned.TreeWork(tree=worker.tree.tree, tasks=tasks, select=planned.SequentialSelect())
    operations = tuple(_operation(kind, 1, LAYOUT_BYTES if kind == "write" else 1) for kind in kinds)
    done = _working(worker, work, operations)
    end = planned.End(runtime_ns=None, bytes=None, operations=None)
    return done.replace(depth=LAYOUT_DEPTH, end=end, ramp_ns=0, rate=None)


LAYOUT_DEPTH = 32
LAYOUT_BYTES = 128 << 10


def _working(
    worker: planned.Worker, work: planned.TreeWork, operations: tuple[planned.OperationPlan, ...]
) -> planned.Worker:
    largest = max(
        operation.blocks.bytes for operation in operations if isinstance(operation.blocks, planned.FixedBlocks)
    )
    root = planned.FilePlan(path=worker.files[0].path, offset_bytes=0, bytes=largest, layout="nothing", keep=True)
    return worker.replace(
        engine=_engine(worker.engine),
        files=(root,),
        operations=operations,
        tree=work,
        access=planned.Access(),
        batch=planned.Batch(),
        syncs=(),
        sync_at_end=False,
        log=None,
        submission_latency=False,
    )


def _engine(engine: planned.EnginePlan) -> planned.EnginePlan:
    if isinstance(engine, planned.MetadataEngine | planned.NfsMetadataEngine):
        return engine
    if isinstance(engine, planned.NfsEngine):
        return planned.NfsMetadataEngine(mount=engine.mount, keep_open=True)
    how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    return planned.MetadataEngine(open=how, keep_open=True)


def _tree(load: TreeLoad) -> planned.Tree:
    return planned.Tree(
        depth=load.depth, width=load.width, files=load.files, files_on_all_levels=False, sizes=load.sizes
    )


def _mix(load: TreeLoad) -> Iterator[planned.OperationPlan]:
    """The kinds of the mix, then those that make room or files for them, which are not drawn."""
    largest = max(size.bytes for size in load.sizes)
    further = (kind for drawn in load.mix for kind in _FIRST.get(drawn, ()))
    for kind in dict.fromkeys([*load.mix, *further]):
        yield _operation(kind, load.mix.get(kind, 0), max(largest, 1) if kind in WHOLE_FILES else 1)


WHOLE_FILES = ("read_file", "write_file", "copy")


def _operation(kind: planned.OperationKind, share: int, size: int) -> planned.OperationPlan:
    blocks = planned.FixedBlocks(bytes=size)
    return planned.OperationPlan(kind=kind, share=share, blocks=blocks, random_percent=0, rate=None)
