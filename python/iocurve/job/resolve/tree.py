"""Workers that do a mix of operations on the names, attributes and whole files of a directory tree."""

from __future__ import annotations

from collections.abc import Iterator

from iocurve.engine import plan as planned
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
