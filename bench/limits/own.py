"""iocurve's own volume and emulated disks as targets of the limits bench, and loads that hold themselves down.

Known runs tell the analysis what the target's limits are; hidden runs go to the same target as a plain ``nfs://``
export or a plain disk, and probes have to find the limit. The limits are drawn by a seed.
``python -m bench.limits.own KIND… --record DIRECTORY`` keeps the points of a run of each kind for the tests.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.limits.case import logarithmic
from bench.limits.examine import CONFIDENT, HELD_UP, Machine, hogs, judged_name
from iocurve.analysis.limits import verdict_of
from iocurve.engine import plan as planned
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.measure.why import diagnose
from iocurve.result.document import Limit, Point, TargetFacts
from iocurve.targets.target import VolumeTarget, facts_of

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
LARGE = 64 * KIB
Named = Iterator[Kind]


def kinds(seed: int) -> dict[str, Kind]:
    """The kinds, with limits that the seed gives."""
    draw = random.Random(seed)
    groups = (_volumes, _clients, _connections, _bursts, _loads, _disks)
    return {kind.name: kind for group in groups for kind in group(draw)}


def _iops(draw: random.Random) -> int:
    return round(logarithmic(draw, 500, 4000))


def _mib(draw: random.Random) -> int:
    return round(logarithmic(draw, 20, 80))


def _volumes(draw: random.Random) -> Named:
    depth = draw.choice((8, 16, 32))
    yield Kind("volume_throughput", f"throughput_mib_per_s = {{ base = {_mib(draw)} }}", block_bytes=LARGE)
    yield Kind("volume_read_throughput", f"throughput_read_mib_per_s = {{ base = {_mib(draw)} }}", block_bytes=LARGE)
    profile = f"throughput_write_mib_per_s = {{ base = {_mib(draw)} }}"
    yield Kind("volume_write_throughput", profile, is_write=True, block_bytes=LARGE)
    yield Kind("volume_iops", f"iops = {{ base = {_iops(draw)} }}", depth=depth)
    yield Kind("volume_read_iops", f"iops_read = {{ base = {_iops(draw)} }}", depth=depth)
    yield Kind("volume_write_iops", f"iops_write = {{ base = {_iops(draw)} }}", is_write=True, depth=depth)
    servers = draw.randint(2, 8)
    service_us = round(servers / _iops(draw) * 1e6)
    profile = f"parallelism = {{ servers = {servers}, service_us = {service_us} }}"
    yield Kind("server_parallelism", profile, depth=5 * servers)


def _clients(draw: random.Random) -> Named:
    profile = f"bandwidth_write_mib_per_s_per_client = {{ value = {_mib(draw)} }}"
    yield Kind("client_egress", profile, is_write=True, block_bytes=LARGE)
    yield Kind("client_read", f"bandwidth_read_mib_per_s_per_client = {{ value = {_mib(draw)} }}", block_bytes=LARGE)
    yield Kind("client_iops", f"iops_read_per_client = {{ value = {_iops(draw)} }}")


def _connections(draw: random.Random) -> Named:
    requests, latency_us = draw.randint(2, 6), draw.randint(1500, 3000)
    profile = f"requests_in_flight_per_connection = {{ value = {requests} }}\nlatency_us = {{ value = {latency_us} }}"
    yield Kind("connection_requests", profile, depth=5 * requests)
    profile = f"bandwidth_mib_per_s_per_connection = {{ value = {_mib(draw)} }}"
    yield Kind("connection_throughput", profile, block_bytes=LARGE)
    profile = f"iops_per_connection = {{ value = {_iops(draw)} }}"
    yield Kind("connection_iops", profile, hidden=("connection_requests",))
    profile = f"latency_us = {{ value = {draw.randint(1500, 4000)} }}"
    yield Kind("depth", profile, depth=draw.choice((2, 4, 6)))


def _bursts(draw: random.Random) -> Named:
    base = _iops(draw) // 2
    profile = f"iops = {{ base = {base} }}\nburst_iops = {{ base = {3 * base}, credits_for_s = 1 }}"
    hidden = ("volume_iops", "burst_iops")
    yield Kind("burst_credits", profile, hidden=hidden, runtime_ns=2 * SECOND_NS)
    profile = f"iops = {{ base = {base} }}\nburst_iops = {{ base = {3 * base}, credits_for_s = 3600 }}"
    yield Kind("burst_iops", profile, hidden=("volume_iops",))


def _loads(draw: random.Random) -> Named:
    profile = "latency_us = { value = 500 }"
    yield Kind("rate", profile, worker={"rate": _rate(draw.randint(200, 900))}, is_hidden=False)
    second = {"rate": _rate(draw.randint(100, 300)), "report_group": 1, "job": "other"}
    yield Kind("group_rate", profile, workers=({"rate": _rate(draw.randint(200, 400))}, second), is_hidden=False)
    think = planned.Think(pause_ns=draw.randint(2, 6) * MILLISECOND_NS)
    yield Kind("think_time", profile, depth=1, worker={"think": think}, is_hidden=False)
    yield Kind("generator", where="null", accepted=("cpu_contention",), is_hidden=False)
    yield Kind("cpu_contention", where="null", hogs=4, is_hidden=False)
    yield Kind("page_cache", where="file", depth=1, is_hidden=False)


def _disks(draw: random.Random) -> Named:
    iops = planned.IoLimits(iops=_iops(draw), bytes_per_s=10_000_000_000)
    rate = planned.IoLimits(iops=1_000_000, bytes_per_s=_mib(draw) * 1_000_000)
    on_iops: dict[str, Any] = {"where": "disk", "hidden": ("volume_iops",)}
    on_bytes: dict[str, Any] = {"where": "disk", "hidden": ("volume_throughput",), "block_bytes": LARGE}
    yield Kind("disk_iops", disk=_disk(iops), **on_iops)
    yield Kind("disk_throughput", disk=_disk(rate), **on_bytes)
    yield Kind("vm_uncached_iops", disk=_disk(FAST, _vm(uncached=iops)), **on_iops)
    yield Kind("vm_uncached_throughput", disk=_disk(FAST, _vm(uncached=rate)), **on_bytes)
    yield Kind("vm_cached_iops", disk=_disk(FAST, _vm(FAST, iops), "read_only"), **on_iops)
    yield Kind("vm_cached_throughput", disk=_disk(FAST, _vm(FAST, rate), "read_only"), **on_bytes)


NAMES = tuple(kinds(0))
HIDDEN_NAMES = tuple(name for name, kind in kinds(0).items() if kind.is_hidden)


@dataclass(frozen=True)
class Bed:
    """A target that is up, and the plan of a kind's load on it."""

    kind: Kind
    plan: planned.Plan
    facts: TargetFacts


def known(name: str, seed: int) -> dict[str, Any]:
    """The record of a run on a target that states its limits."""
    return _examined(name, seed, hidden=False)


def hidden(name: str, seed: int) -> dict[str, Any]:
    """The record of a run on a target that states nothing."""
    return _examined(name, seed, hidden=True)


def _examined(name: str, seed: int, *, hidden: bool, records: Path | None = None) -> dict[str, Any]:
    kind, machine = kinds(seed)[name], Machine()
    with (
        tempfile.TemporaryDirectory(prefix="iocurve-limits-", dir=Path.cwd()) as directory,
        bed(kind, Path(directory)) as ready,
        hogs(kind.hogs),
    ):
        if kind.name != "burst_credits":
            local.run(ready.plan)
        limit, points = judged(ready, hidden=hidden)
        right = frozenset(kind.right(hidden=hidden))
        if records and limit and limit.code in right:
            record(records, ready, points, hidden=hidden)
    name_found = limit.code if limit and limit.confidence in CONFIDENT else None
    # A load of which the generator or other programs are the limit keeps the processors busy itself.
    facts = machine.facts()
    share = 0.0 if HELD_UP[0] in right else facts["busy_share"]
    return {
        **facts,
        "kind": name,
        "seed": seed,
        "right": sorted(right),
        "profile": kind.profile,
        "final": name_found,
        "evidence": limit.to_builtins() if limit else None,
        "judged": judged_name(right, name_found, share),
    }


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
    return local.measure(plan)[0]


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
        "points": [(point if hidden else _slim(point)).to_builtins() for point in points],
    }
    name = f"{'hidden' if hidden else 'known'}-{ready.kind.name}.json"
    text = re.sub(r'[^"]*/iocurve-limits-[^"/]+', "/data", json.dumps(document, separators=(",", ":")))
    (directory / name).write_text(text + "\n", encoding="utf-8")


def _slim(point: Point) -> Point:
    """The point with the intervals of burst credits only."""
    if point.plan.name == "burst_credits":
        return point
    workers = tuple(worker.replace(intervals=()) for worker in point.outcome.workers)
    return point.replace(outcome=point.outcome.replace(workers=workers, intervals=()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Records the points of kinds whose limit is named rightly."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits.own", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*NAMES, []], help="default: all")
    parser.add_argument("--record", type=Path, required=True, help="where the points are kept")
    parser.add_argument("--hidden", action="store_true", help="as a target that says nothing of itself")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for name in options.kinds or (HIDDEN_NAMES if options.hidden else NAMES):
        found = _examined(name, options.seed, hidden=options.hidden, records=options.record)
        print(f"{found['judged']}: {name}: {found['final']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
