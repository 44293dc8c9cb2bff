"""Variations of a load that change one thing: its depth, its blocks, its connections, its clients, its mix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from iocurve.engine.plan import Batch, End, FixedBlocks, LogPlan, NfsEngine, OperationPlan, Plan, Rate, Think, Worker
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.result.caps import Kind
from iocurve.targets.opened_target import is_ipv4_loopback

NCONNECT_MAX = 16
BLOCK_BYTES_MIN = 1024
PROBE_NS = 400 * MILLISECOND_NS
"""Measured time of a probe."""
RAMP_NS = 100 * MILLISECOND_NS
INTERVAL_NS = 20 * MILLISECOND_NS
PAUSE = 2.5
"""The pause after a burst lasts this many times as long as the burst takes at the rate of the load."""
RECORDS = 200_000
"""Most operations of a log; a probe is over before."""


class Variation(msgspec.Struct, frozen=True):
    """A change of a load."""

    name: str
    text: str
    """The change in words: ``twice the depth``."""
    apply: Callable[[Plan], Plan | None]
    """The changed load; None where the load cannot be changed so."""


def shortened(plan: Plan, runtime_ns: int = PROBE_NS, ramp_ns: int = RAMP_NS) -> Plan:
    """The load for the length of a probe; a part of a load that ends by an amount runs for that time, too."""
    end = End(runtime_ns=runtime_ns, bytes=None, operations=None)
    changed = _each(plan, lambda worker: worker.replace(end=end, ramp_ns=ramp_ns, cooldown_ns=0))
    return changed.replace(interval_ns=INTERVAL_NS)


def measured_alike(plan: Plan, runtime_ns: int) -> Plan:
    """The load as it was, but for no longer than a time, and with the intervals of probes."""
    longest_ns = max(worker.end.runtime_ns or runtime_ns for worker in plan.groups[0].workers)
    ramp_ns = min(max(worker.ramp_ns for worker in plan.groups[0].workers), RAMP_NS)
    return shortened(plan, min(longest_ns, runtime_ns), ramp_ns)


def from_the_start(plan: Plan) -> Plan:
    """The load for the length of a probe, measured from its first operation on."""
    return shortened(plan, PROBE_NS, 0)


def _deeper(plan: Plan) -> Plan:
    return _each(plan, lambda worker: worker.replace(depth=2 * worker.depth))


def _smaller_blocks(plan: Plan, divisor: int) -> Plan | None:
    blocks = [operation.blocks for worker in plan.groups[0].workers for operation in worker.operations]
    if not all(isinstance(one, FixedBlocks) and one.bytes >= divisor * BLOCK_BYTES_MIN for one in blocks):
        return None

    def smaller(operation: OperationPlan) -> OperationPlan:
        assert isinstance(operation.blocks, FixedBlocks), "checked above"
        return operation.replace(blocks=FixedBlocks(bytes=operation.blocks.bytes // divisor), align_bytes=0)

    return _each(plan, lambda worker: worker.replace(operations=tuple(map(smaller, worker.operations))))


def _alone(kind: str, plan: Plan) -> Plan | None:
    """One kind of a mix."""
    return _of_kinds(plan, {kind: 100}) if _kinds_of(plan) == {"read", "write"} else None


def _with_other_kind(percent: int, plan: Plan) -> Plan | None:
    """Writes among reads, or reads among writes, by their share."""
    kinds = _kinds_of(plan)
    if len(kinds) > 1 or not kinds < {"read", "write"}:
        return None
    (own,), (other,) = kinds, {"read", "write"} - kinds
    return _of_kinds(plan, {other: percent, own: 100 - percent})


def _kinds_of(plan: Plan) -> set[str]:
    return {operation.kind for worker in plan.groups[0].workers for operation in worker.operations}


def _of_kinds(plan: Plan, shares: dict[str, int]) -> Plan | None:
    """The load with other shares of reads and writes; None unless its files are its own."""

    def changed(worker: Worker) -> Worker:
        (first, *_) = worker.operations
        operations = (first.replace(kind=kind, share=shares.get(kind, 0)) for kind in ("read", "write"))
        return worker.replace(operations=tuple(one for one in operations if one.share))

    return _each(plan, changed) if all(map(_is_own, plan.groups[0].workers)) else None


def _is_own(worker: Worker) -> bool:
    """True if the load created its files, so that they may be written."""
    return all(file.layout in ("fill", "new", "create", "recreate") for file in worker.files)


def _more_connections(plan: Plan) -> Plan | None:
    """Twice the connections, the same depth over all of them."""
    mounts = [worker.engine.mount for worker in plan.groups[0].workers if isinstance(worker.engine, NfsEngine)]
    if len(mounts) < len(plan.groups[0].workers) or any(2 * mount.nconnect > NCONNECT_MAX for mount in mounts):
        return None

    def doubled(worker: Worker) -> Worker:
        assert isinstance(worker.engine, NfsEngine), "checked above"
        mount = worker.engine.mount
        return worker.replace(engine=NfsEngine(mount=mount.replace(nconnect=2 * mount.nconnect)))

    return _each(plan, doubled)


def _more_clients(plan: Plan) -> Plan | None:
    """The load from two addresses of this machine, half of the depth from each; on loopback only."""
    engines = [worker.engine for worker in plan.groups[0].workers]
    if not all(isinstance(one, NfsEngine) and is_ipv4_loopback(one.mount.host) for one in engines):
        return None

    def half(worker: Worker, number: int) -> Worker:
        assert isinstance(worker.engine, NfsEngine), "checked above"
        mount = worker.engine.mount.replace(source=f"127.0.{1 + number}.1")
        return worker.replace(engine=NfsEngine(mount=mount))

    return _halves(plan, half)


def _more_workers(plan: Plan) -> Plan:
    """Twice the threads, half of the depth for each."""
    return _halves(plan, lambda worker, _number: worker)


def _halves(plan: Plan, half: Callable[[Worker, int], Worker]) -> Plan:
    """Two workers for each, with half of its depth."""
    workers = plan.groups[0].workers
    halves = tuple(
        half(worker.replace(depth=max(1, worker.depth // 2), jobnum=worker.jobnum + number * len(workers)), number)
        for number in (0, 1)
        for worker in workers
    )
    return plan.replace(groups=(plan.groups[0].replace(workers=halves),))


def _faster(plan: Plan) -> Plan | None:
    """Twice the requested rate."""

    def doubled(rate: Rate | None) -> Rate | None:
        return rate and rate.replace(count=2 * rate.count)

    def faster(worker: Worker) -> Worker:
        operations = tuple(one.replace(rate=doubled(one.rate)) for one in worker.operations)
        return worker.replace(rate=doubled(worker.rate), operations=operations)

    changed = _each(plan, faster)
    return None if changed == plan else changed


def _unpaced(plan: Plan) -> Plan | None:
    """Without a requested rate."""
    changed = _each(plan, lambda worker: worker.replace(rate=None, operations=_without_rates(worker)))
    return None if changed == plan else changed


def _thoughtless(plan: Plan) -> Plan | None:
    """Without think time."""
    changed = _each(plan, lambda worker: worker.replace(think=None))
    return None if changed == plan else changed


def _other_offsets(plan: Plan) -> Plan:
    """The same load at offsets of another seed."""
    return _each(plan, lambda worker: worker.replace(seed=worker.seed + 1))


DEEPER = Variation("depth", "twice the depth", _deeper)
HALF_BLOCKS = Variation("block", "half the block size", lambda plan: _smaller_blocks(plan, 2))
QUARTER_BLOCKS = Variation("blocks", "a quarter of the block size", lambda plan: _smaller_blocks(plan, 4))
MIXED = Variation("mix", "half reads, half writes", partial(_with_other_kind, 50))
ALONE: dict[Kind, Variation] = {
    kind: Variation(f"{kind}s", f"the {kind}s alone", partial(_alone, kind)) for kind in ("read", "write")
}
OTHER_KIND = Variation("kind", "the other kind of operation alone", partial(_with_other_kind, 100))
MORE_CONNECTIONS = Variation("connections", "twice the connections", _more_connections)
MORE_CLIENTS = Variation("clients", "half of the load from another address", _more_clients)
MORE_WORKERS = Variation("workers", "twice the threads, the same depth over all", _more_workers)
FASTER = Variation("rate", "twice the rate", _faster)
UNPACED = Variation("unpaced", "no rate", _unpaced)
THOUGHTLESS = Variation("think", "no think time", _thoughtless)
OTHER_OFFSETS = Variation("offsets", "fresh offsets", _other_offsets)
_ALONE = (
    DEEPER, HALF_BLOCKS, MORE_CONNECTIONS, MORE_CLIENTS, MORE_WORKERS, FASTER, UNPACED, THOUGHTLESS, OTHER_OFFSETS,
)  # fmt: skip
NAMED = {one.name: one for one in _ALONE}
"""The variations of experiments, by name."""


def together(plan: Plan, changes: Sequence[Variation]) -> Variation:
    """Several changes of a load at once; those that it cannot have are left out."""
    possible = [change for change in changes if change.apply(plan) is not None]

    def apply(plan: Plan) -> Plan | None:
        changed: Plan | None = plan
        for change in possible:
            changed = changed and change.apply(changed)
        return changed if possible else None

    return Variation("together", ", ".join(change.text for change in possible), apply)


def with_some(percent: int) -> Variation:
    """Some operations of the other kind among those of the load."""
    return Variation("some", f"{percent} % of the other kind of operation", partial(_with_other_kind, percent))


def in_bursts(size: int, iops: float) -> Variation:
    """So many operations at once, with pauses in between in which a bucket of a rate gains more than a burst takes.

    Offsets are fresh, so that a cache holds no more of them than of those of the load; the log has each operation.
    """
    pause_ns = round(PAUSE * size / iops * SECOND_NS)

    def apply(plan: Plan) -> Plan:
        (first, *_) = plan.groups[0].workers
        think = Think(pause_ns=pause_ns, every=size, counts="issued", drains=True)
        log = LogPlan(window_ns=None, histograms=False, records=RECORDS)
        operations = _without_rates(first)
        return _only(
            plan,
            first.replace(
                depth=size,
                rate=None,
                operations=operations,
                think=think,
                batch=Batch(),
                log=log,
                seed=first.seed + size,
            ),
        )

    return Variation("bursts", f"bursts of {size} operations", apply)


def at_depth(depth: int) -> Variation:
    """So many operations in flight all the time, of one thread."""

    def apply(plan: Plan) -> Plan:
        (first, *_) = plan.groups[0].workers
        return _only(plan, first.replace(depth=depth, rate=None, operations=_without_rates(first), think=None))

    return Variation("in flight", f"{depth} in flight all the time", apply)


def _without_rates(worker: Worker) -> tuple[OperationPlan, ...]:
    return tuple(operation.replace(rate=None) for operation in worker.operations)


def _only(plan: Plan, worker: Worker) -> Plan:
    return plan.replace(groups=(plan.groups[0].replace(workers=(worker,)),))


def _each(plan: Plan, change: Callable[[Worker], Worker]) -> Plan:
    """The plan with each worker of its first group changed; probes run one group."""
    (first, *_) = plan.groups
    return plan.replace(groups=(first.replace(workers=tuple(map(change, first.workers))),))
