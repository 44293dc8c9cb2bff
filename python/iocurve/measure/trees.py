"""Removal of the directory trees of a run."""

from __future__ import annotations

from iocurve.engine import plan as planned
from iocurve.errors import TargetError
from iocurve.measure import local
from iocurve.targets.places import LocalPlace, NfsPlace, Place
from iocurve.units import SECOND_NS

REMOVAL_DEPTH = 32


def remove(place: Place, name: str) -> None:
    """Removes a tree and its root, but nothing of another name. Raises ``TargetError`` if the root stays."""
    outcome = local.run(_removal(place, name))
    if outcome.state != "finished":
        errors = [worker.error for worker in outcome.workers if worker.error]
        raise TargetError(f"{name} was not removed as a whole: {errors[0] if errors else outcome.state}")


def _removal(place: Place, name: str) -> planned.Plan:
    tree = planned.Tree(
        depth=1, width=1, files=1, files_on_all_levels=False, sizes=(planned.SizeShare(bytes=1, weight=1),)
    )
    work = planned.TreeWork(tree=tree, tasks=("remove",), select=planned.SequentialSelect())
    below = _worker(place, name, ("delete", "rmdir")).replace(tree=work, depth=REMOVAL_DEPTH)
    root = _worker(place, name, ("rmdir",)).replace(end=planned.End(runtime_ns=None, bytes=None, operations=1))
    groups = tuple(planned.Group(workers=(worker,)) for worker in (below, root))
    return planned.Plan(name=f"removing {name}", interval_ns=SECOND_NS, groups=groups)


def _worker(place: Place, name: str, kinds: tuple[planned.MetadataKind, ...]) -> planned.Worker:
    engine: planned.EnginePlan
    if isinstance(place, NfsPlace):
        engine, path = planned.NfsMetadataEngine(mount=place.mount, keep_open=True), name
    elif isinstance(place, LocalPlace):
        how = planned.FileOpen(direct=False, durability="none", invalidate=False)
        engine, path = planned.MetadataEngine(open=how, keep_open=True), str(place.directory / name)
    else:
        raise TargetError(f"{name} is in a directory of a load client: trees of files need an NFS export there")
    one = planned.FixedBlocks(bytes=1)
    return planned.Worker(
        job="removal",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(planned.FilePlan(path=path, offset_bytes=0, bytes=1, layout="nothing", keep=True),),
        file_select="round_robin",
        operations=tuple(
            planned.OperationPlan(kind=kind, share=1, blocks=one, random_percent=0, rate=None) for kind in kinds
        ),
        access=planned.Access(),
        depth=1,
        start_delay_ns=0,
        ramp_ns=0,
        end=planned.End(runtime_ns=None, bytes=None, operations=None),
        ends_others="on_error",
        seed=1,
        payload=planned.Payload(
            content=planned.RandomContent(), renew="scramble", compress_percent=0, dedupe_percent=0
        ),
    )
