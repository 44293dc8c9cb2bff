"""``python -m bench.limits``: counts how often the verdict on a run with one known limit is right.

Each kind switches one limit on: of an embedded volume on loopback, an emulated disk, or the load itself. Known runs
tell the analysis what the target's limits are; hidden runs go to the same target as a plain ``nfs://`` export, and the
probes of ``iocurve why --confirm`` have to find the limit. ``--hogs`` keeps processors busy with other processes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iocurve.analysis.limits import verdict_of
from iocurve.engine import plan as planned
from iocurve.measure import local
from iocurve.measure.why import HELD_UP, diagnose
from iocurve.result.document import Limit, Point, TargetFacts
from iocurve.targets.target import VolumeTarget, facts_of
from iocurve.units import KIB, MIB, MILLISECOND_NS, SECOND_NS

FILE_BYTES = 16 * MIB


@dataclass(frozen=True)
class Kind:
    """One limit that is switched on, and a load that reaches it."""

    name: str
    profile: str = ""
    """The volume's figures, as TOML."""
    is_write: bool = False
    block_bytes: int = 4 * KIB
    depth: int = 16
    worker: dict[str, Any] = field(default_factory=dict)
    """Fields of the load's worker."""
    workers: tuple[dict[str, Any], ...] = ({},)
    disk: planned.DiskPlan | None = None
    where: str = "volume"
    """volume, disk, file (buffered) or null."""
    runtime_ns: int = SECOND_NS
    hogs: int = 0
    pause_s: float = 0.0
    """Before each run, for burst credits to return."""
    accepted: tuple[str, ...] = ()
    """Further names that are right."""
    hidden: tuple[str, ...] = ()
    """Further names that are right where the target is not known."""
    is_hidden: bool = True
    """True if the limit can be hidden; a limit of the load itself is known with the load."""

    def right(self, *, hidden: bool) -> tuple[str, ...]:
        """The names that are right."""
        return (self.name, *self.accepted, *(self.hidden if hidden else ()))


def _rate(per_s: int) -> planned.Rate:
    return planned.Rate(unit="operations", count=per_s, per_ns=SECOND_NS)


def _disk(
    limits: planned.IoLimits, vm: planned.VmPlan | None = None, cache: planned.HostCache = "none"
) -> planned.DiskPlan:
    return planned.DiskPlan(name="disk", state_path="", limits=limits, io_bytes=256 * KIB, cache=cache, vm=vm)


def _vm(uncached: planned.IoLimits | None = None, cached: planned.IoLimits | None = None) -> planned.VmPlan:
    return planned.VmPlan(name="vm", uncached=uncached, cached=cached, cache_bytes=1 << 30)


FAST = planned.IoLimits(iops=1_000_000, bytes_per_s=10_000_000_000)
FEW_IOPS = planned.IoLimits(iops=1500, bytes_per_s=10_000_000_000)
FEW_BYTES = planned.IoLimits(iops=1_000_000, bytes_per_s=30_000_000)
LARGE = 64 * KIB
KINDS = (
    Kind("volume_throughput", "throughput_mib_per_s = { base = 40 }", block_bytes=LARGE),
    Kind("volume_read_throughput", "throughput_read_mib_per_s = { base = 40 }", block_bytes=LARGE),
    Kind("volume_write_throughput", "throughput_write_mib_per_s = { base = 40 }", is_write=True, block_bytes=LARGE),
    Kind("volume_iops", "iops = { base = 1500 }"),
    Kind("volume_read_iops", "iops_read = { base = 1500 }"),
    Kind("volume_write_iops", "iops_write = { base = 1500 }", is_write=True),
    Kind("client_egress", "bandwidth_write_mib_per_s_per_client = { value = 30 }", is_write=True, block_bytes=LARGE),
    Kind("client_read", "bandwidth_read_mib_per_s_per_client = { value = 30 }", block_bytes=LARGE),
    Kind("client_iops", "iops_read_per_client = { value = 1500 }"),
    Kind("connection_requests", "requests_in_flight_per_connection = { value = 4 }\nlatency_us = { value = 2000 }"),
    Kind("connection_throughput", "bandwidth_mib_per_s_per_connection = { value = 30 }", block_bytes=LARGE),
    Kind("connection_iops", "iops_per_connection = { value = 1500 }", hidden=("connection_requests",)),
    Kind("server_parallelism", "parallelism = { servers = 4, service_us = 2500 }"),
    Kind(
        "burst_credits",
        "iops = { base = 1000 }\nburst_iops = { base = 3000, credits_for_s = 1 }",
        runtime_ns=2 * SECOND_NS,
        pause_s=2.2,
    ),
    Kind(
        "burst_iops",
        "iops = { base = 500 }\nburst_iops = { base = 1500, credits_for_s = 3600 }",
        hidden=("volume_iops",),
    ),
    Kind("depth", "latency_us = { value = 2000 }", depth=4),
    Kind("rate", "latency_us = { value = 500 }", worker={"rate": _rate(500)}, is_hidden=False),
    Kind(
        "group_rate",
        "latency_us = { value = 500 }",
        workers=({"rate": _rate(300)}, {"rate": _rate(200), "report_group": 1, "job": "other"}),
        is_hidden=False,
    ),
    Kind(
        "think_time",
        "latency_us = { value = 500 }",
        depth=1,
        worker={"think": planned.Think(pause_ns=4 * MILLISECOND_NS)},
        is_hidden=False,
    ),
    Kind("generator", where="null", accepted=("foreign_cpu",), is_hidden=False),
    Kind("foreign_cpu", where="null", hogs=4, is_hidden=False),
    Kind("page_cache", where="file", depth=1, is_hidden=False),
    Kind("disk_iops", disk=_disk(FEW_IOPS), where="disk", hidden=("volume_iops",)),
    Kind("disk_throughput", disk=_disk(FEW_BYTES), where="disk", hidden=("volume_throughput",), block_bytes=LARGE),
    Kind("vm_uncached_iops", disk=_disk(FAST, _vm(uncached=FEW_IOPS)), where="disk", hidden=("volume_iops",)),
    Kind(
        "vm_uncached_throughput",
        disk=_disk(FAST, _vm(uncached=FEW_BYTES)),
        where="disk",
        hidden=("volume_throughput",),
        block_bytes=LARGE,
    ),
    Kind("vm_cached_iops", disk=_disk(FAST, _vm(FAST, FEW_IOPS), "read_only"), where="disk", hidden=("volume_iops",)),
    Kind(
        "vm_cached_throughput",
        disk=_disk(FAST, _vm(FAST, FEW_BYTES), "read_only"),
        where="disk",
        hidden=("volume_throughput",),
        block_bytes=LARGE,
    ),
)


@dataclass(frozen=True)
class Bed:
    """A target that is up, and the plan of a kind's load on it."""

    kind: Kind
    plan: planned.Plan
    facts: TargetFacts


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every kind, prints the confusion table and writes it as JSON."""
    options = _parser().parse_args(arguments)
    chosen = [kind for kind in KINDS if not options.kinds or kind.name in options.kinds]
    if options.hidden:
        chosen = [kind for kind in chosen if kind.is_hidden]
    counts: dict[str, Counter[str]] = {}
    if options.counts:
        print(_kept(options))
        return 0
    with hogs(options.hogs):
        for kind in chosen:
            counts[kind.name] = _counted(kind, options)
            print(_row(kind, counts[kind.name], hidden=options.hidden), flush=True)
    table = _table(chosen, counts, options)
    print("\n" + table)
    if options.out:
        asked = {"runs": options.runs, "hidden": options.hidden, "hogs": options.hogs}
        options.out.write_text(json.dumps(asked | {"counts": counts}, indent=1) + "\n", encoding="utf-8")
    return 0


def _kept(options: argparse.Namespace) -> str:
    """The table of counts that earlier runs have kept."""
    counts: dict[str, Counter[str]] = {}
    for path in options.counts:
        for name, found in json.loads(path.read_text(encoding="utf-8"))["counts"].items():
            counts.setdefault(name, Counter()).update(found)
    return _table([kind for kind in KINDS if kind.name in counts], counts, options)


def _counted(kind: Kind, options: argparse.Namespace) -> Counter[str]:
    found: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="iocurve-limits-", dir=options.directory) as directory,
        bed(kind, Path(directory)) as ready,
        hogs(kind.hogs),
    ):
        local.run(ready.plan)
        for _ in range(options.runs):
            time.sleep(kind.pause_s)
            limit, points = judged(ready, hidden=options.hidden)
            found[limit.code if limit else "nothing"] += 1
            is_right = limit is not None and limit.code in kind.right(hidden=options.hidden)
            if options.verbose and not is_right:
                print(f"  {kind.name}: {limit.to_builtins() if limit else None} {points[0].machine}", flush=True)
            if options.record and is_right:
                record(options.record, ready, points, hidden=options.hidden)
    return found


HIDDEN = TargetFacts(kind="nfs", address="nfs://hidden/vol")
"""The facts about a target that states none."""


def judged(ready: Bed, *, hidden: bool) -> tuple[Limit | None, list[Point]]:
    """The verdict of one run, and the points that it is from; the first is the load itself."""
    points: list[Point] = []
    if hidden:

        def run(plan: planned.Plan) -> Point:
            points.append(_hidden(measured(plan)))
            return points[-1]

        return diagnose(ready.plan, HIDDEN, run)[0], points
    points.append(measured(ready.plan))
    return verdict_of(points[0], ready.facts), points


def measured(plan: planned.Plan) -> Point:
    """One run as a point."""
    return local.measure(plan).point("limits", {})


def _hidden(point: Point) -> Point:
    """The point as it would be on a target that says nothing of itself."""
    groups = tuple(group.replace(workers=tuple(map(_undescribed, group.workers))) for group in point.plan.groups)
    workers = tuple(
        worker.replace(labels=tuple(label for label in worker.labels if not label.startswith("limited_by_")))
        for worker in point.outcome.workers
    )
    machine = point.machine and point.machine.replace(target_share=None, target_delay_share=None)
    outcome = point.outcome.replace(workers=workers)
    return point.replace(plan=point.plan.replace(groups=groups), outcome=outcome, machine=machine)


def _undescribed(worker: planned.Worker) -> planned.Worker:
    """A worker on an emulated disk as if on a real one: with direct I/O, and without the disk's limits."""
    if worker.disk is None or not isinstance(worker.engine, planned.UringEngine):
        return worker
    engine = worker.engine.replace(open=worker.engine.open.replace(direct=True))
    return worker.replace(disk=None, engine=engine)


@contextmanager
def bed(kind: Kind, directory: Path) -> Iterator[Bed]:
    """The target of a kind, while it is up."""
    with ExitStack() as stack:
        if kind.where == "volume":
            profile = directory / "profile.toml"
            profile.write_text(f'title = "one limit"\n{kind.profile}\n', encoding="utf-8")
            target = VolumeTarget.of(f"volume:{profile}?quota=1TiB")
            served = stack.enter_context(target.opened())
            engine: planned.EnginePlan = planned.NfsEngine(mount=served.mount(1))
            facts, path = facts_of(target), "data"
        else:
            engine, path = _local_engine(kind), str(directory / "data")
            kinds: dict[str, Any] = {"disk": "emulated_disk", "file": "file", "null": "null"}
            facts = TargetFacts(kind=kinds[kind.where], address=path)
        workers = tuple(_worker(kind, engine, f"{path}.{number}", change) for number, change in enumerate(kind.workers))
        if kind.disk:
            state = str(directory / ".iocurve-disk.json")
            workers = tuple(worker.replace(disk=kind.disk.replace(state_path=state)) for worker in workers)
        group = planned.Group(workers=workers)
        yield Bed(kind, planned.Plan(name=kind.name, interval_ns=50 * MILLISECOND_NS, groups=(group,)), facts)


def _local_engine(kind: Kind) -> planned.EnginePlan:
    how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    if kind.where == "null":
        return planned.NullEngine()
    return planned.UringEngine(open=how) if kind.where == "disk" else planned.SyncEngine(open=how)


def _worker(kind: Kind, engine: planned.EnginePlan, path: str, change: dict[str, Any]) -> planned.Worker:
    operation = planned.OperationPlan(
        kind="write" if kind.is_write else "read",
        share=100,
        blocks=planned.FixedBlocks(bytes=kind.block_bytes),
        random_percent=100,
        rate=None,
    )
    base = planned.Worker(
        job="load",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(planned.FilePlan(path=path, offset_bytes=0, bytes=FILE_BYTES, layout="fill", keep=True),),
        file_select="round_robin",
        operations=(operation,),
        access=planned.Access(cover="once", passes="fresh"),
        depth=kind.depth,
        start_delay_ns=0,
        ramp_ns=0 if kind.name == "burst_credits" else 100 * MILLISECOND_NS,
        end=planned.End(runtime_ns=kind.runtime_ns, bytes=None, operations=None),
        seed=1,
        payload=planned.Payload(content=planned.RandomContent(), renew="keep"),
    )
    return base.replace(**kind.worker, **change)


def record(directory: Path, ready: Bed, points: Sequence[Point], *, hidden: bool) -> None:
    """Writes the points of a run as a small document, without what no verdict reads."""
    document = {
        "kind": ready.kind.name,
        "right": ready.kind.right(hidden=hidden),
        "target": (HIDDEN if hidden else ready.facts.replace(service_level="one limit")).to_builtins(),
        "points": [_slim(point).to_builtins() for point in points],
    }
    name = f"{'hidden' if hidden else 'known'}-{ready.kind.name}.json"
    text = re.sub(r'[^"]*/iocurve-limits-[^"/]+', "/data", json.dumps(document, separators=(",", ":")))
    (directory / name).write_text(text + "\n", encoding="utf-8")


def _slim(point: Point) -> Point:
    """The point with the intervals of burst credits only."""
    if point.plan.name == "burst_credits":
        return point
    workers = tuple(worker.replace(intervals=()) for worker in point.outcome.workers)
    return point.replace(outcome=point.outcome.replace(workers=workers))


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Other processes that keep processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _row(kind: Kind, found: Counter[str], *, hidden: bool) -> str:
    right = sum(found[name] for name in kind.right(hidden=hidden))
    wrong = _wrong(kind, found, hidden=hidden)
    said = ", ".join(f"{name} {count}" for name, count in sorted(wrong.items()))
    cells = (kind.name, found.total(), right, _unknown(found), _starved(kind, found), sum(wrong.values()), said)
    return f"| {' | '.join(map(str, cells))} |"


def _unknown(found: Counter[str]) -> int:
    return found["unknown"] + found["nothing"]


def _starved(kind: Kind, found: Counter[str]) -> int:
    """Runs in which others held the processors, so that the limit under test was not reached."""
    return 0 if HELD_UP in kind.right(hidden=False) else found[HELD_UP]


def _wrong(kind: Kind, found: Counter[str], *, hidden: bool) -> dict[str, int]:
    others = (*kind.right(hidden=hidden), "unknown", "nothing", HELD_UP)
    return {name: count for name, count in found.items() if name not in others}


def _table(kinds: Sequence[Kind], counts: dict[str, Counter[str]], options: argparse.Namespace) -> str:
    rows = [_row(kind, counts[kind.name], hidden=options.hidden) for kind in kinds]
    runs = sum(found.total() for found in counts.values())
    right = sum(counts[kind.name][name] for kind in kinds for name in kind.right(hidden=options.hidden))
    unknown = sum(map(_unknown, counts.values()))
    starved = sum(_starved(kind, counts[kind.name]) for kind in kinds)
    head = (
        "| limit | runs | named rightly | cannot tell | others' CPU | named wrongly | as |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    wrong = runs - right - unknown - starved
    total = f"| all | {runs} | {right} ({right / max(1, runs):.1%}) | {unknown} | {starved} | {wrong} | |"
    return "\n".join([head, *rows, total])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="default: all")
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument(
        "--counts", type=Path, nargs="*", help="print the table of counts that were kept, without a run"
    )
    parser.add_argument("--hidden", action="store_true", help="as a target that says nothing of itself")
    parser.add_argument("--hogs", type=int, default=0, help="other processes that keep processors busy")
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="where files lie")
    parser.add_argument("--out", type=Path, help="keep the counts as JSON")
    parser.add_argument("--record", type=Path, help="keep the points of a run of each kind that was named rightly")
    parser.add_argument("--verbose", action="store_true", help="print verdicts that are wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
