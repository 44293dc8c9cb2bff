"""Names the loads of points in the field's words (``8 KiB random writes``), and the unit of their rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from iocurve.engine.derived import block_text, counts_bytes, order_text
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import FLUSH_KINDS, METADATA_KINDS, FixedBlocks, OperationPlan, Plan, Worker
from iocurve.foundation.units import format_bytes
from iocurve.result.document import Axis, CachePolicy, Point, Result

RateUnit = Literal["IOPS", "MiB/s"]

KINDS_NAMED_MAX = 3
"""A load of more kinds is a mix."""
KIND_WORDS = {
    "create": "creations", "open": "opens", "close": "closes", "getattr": "getattrs", "setattr": "setattrs",
    "access": "access checks", "rename": "renames", "delete": "removals", "mkdir": "mkdirs", "rmdir": "rmdirs",
    "lookup": "lookups", "link": "links", "symlink": "symlinks", "readlink": "readlinks", "readdir": "listings",
    "readdirplus": "listings with attributes", "copy": "copies", "read_file": "whole-file reads",
    "write_file": "whole-file writes",
}  # fmt: skip
"""Operations on names, attributes and whole files."""

CACHE_WORDS: dict[CachePolicy, str] = {"cached": "cached", "uncached": "no cache", "warmed": "warm cache"}
"""The word for each way of dealing with caches; ``untouched`` has none."""
_ACCOMPANYING = (*FLUSH_KINDS, "create", "open", "close")


def workers_of(point: Point, outcomes: Iterable[WorkerOutcome] | None = None) -> list[Worker]:
    """The plans of the workers of a point that ran, or of some of them."""
    ran = point.outcome.workers if outcomes is None else outcomes
    return [point.plan.groups[outcome.group].workers[outcome.worker] for outcome in ran]


def point_load(point: Point) -> str:
    """The load of a point; that of an imported point as it was imported."""
    return point.imported.load if point.imported else load_name(workers_of(point))


def point_unit(point: Point) -> RateUnit:
    """The unit of the rate of a point."""
    return "MiB/s" if point.rate_name == "bytes_per_s" else "IOPS"


def load_axes(plan: Plan) -> dict[str, Axis]:
    """The parameters of a load of reads and writes that all workers of the first phase share, named as in imports.

    ``depth`` is that of all workers together. Empty for loads of other kinds of operation.
    """
    workers = plan.groups[0].workers
    kinds = _by_kind(operation for worker in workers for operation in worker.operations)
    if not kinds or not kinds.keys() <= {"read", "write", "trim"}:
        return {}
    operations = [operation for of_kind in kinds.values() for operation in of_kind]
    orders = {order_text(one) for one in operations}
    sizes = {one.blocks.bytes if isinstance(one.blocks, FixedBlocks) else None for one in operations}
    named: dict[str, Axis | None] = {
        "kind": next(iter(kinds)) if len(kinds) == 1 else "mixed",
        "order": orders.pop() if len(orders) == 1 else None,
        "block_bytes": sizes.pop() if len(sizes) == 1 else None,
        "read_percent": _read_percent(workers) if kinds.keys() == {"read", "write"} else None,
        "depth": sum(worker.depth for worker in workers),
    }
    return {name: value for name, value in named.items() if value is not None}


def load_family(plan: Plan) -> str:
    """The family of points of this load, as of an import: they differ in depth. Empty for other kinds of operation."""
    return f"{load_name(plan.groups[0].workers)} by depth" if load_axes(plan) else ""


def along_axes(phase: Point) -> Point:
    """A phase of a run with the parameters of its load."""
    return phase.replace(axes=load_axes(phase.plan), family=load_family(phase.plan) or phase.family)


def load_name(workers: Sequence[Worker], kind: str | None = None) -> str:
    """The load of some workers, or what they do of one kind: ``8 KiB random writes``, ``8 KiB random, 50 % reads``."""
    kinds = _by_kind(operation for worker in workers for operation in worker.operations)
    if names := [name for name in kinds if name in METADATA_KINDS and kind in (None, name)]:
        return _metadata_name(names, kinds)
    chosen = {name: found for name, found in kinds.items() if kind in (None, name)}
    places = {name: _places(found) for name, found in chosen.items()}
    if len(set(places.values())) > 1:
        return " and ".join(f"{place} {name}s".strip() for name, place in places.items())
    place = next(iter(places.values()), "")
    read_percent = _read_percent(workers) if chosen.keys() == {"read", "write"} else None
    if read_percent is not None:
        return f"{place}, {read_percent:.3g} % reads"
    return f"{place} {' and '.join(f'{name}s' for name in places)}".strip()


def _metadata_name(names: Sequence[str], kinds: Mapping[str, Sequence[OperationPlan]]) -> str:
    """``getattrs and listings``, ``a mix of 11 kinds of operation``."""
    drawn = [name for name in names if any(one.share for one in kinds[name])]
    data = [f"{_places(kinds[name])} {name}s" for name in kinds if name not in METADATA_KINDS]
    if len(drawn) > KINDS_NAMED_MAX:
        return " and ".join([*data, f"a mix of {len(drawn)} kinds of operation"])
    return " and ".join([*data, *(KIND_WORDS[name] for name in drawn)])


def rate_unit(workers: Iterable[Worker], kind: str | None = None) -> RateUnit:
    """``MiB/s`` for sequential loads and those of large blocks, ``IOPS`` for others."""
    return "MiB/s" if counts_bytes(workers, kind) else "IOPS"


def cache_word(result: Result, point: Point, kinds: Iterable[str]) -> str:
    """The word for the cache policy of a point, where the scenario has several; a warm cache answers reads only."""
    policies = {family.name: family.cache for family in result.scenario.families} if result.scenario else {}
    if len(set(policies.values())) < 2:
        return ""
    policy = policies.get(point.family, "untouched")
    return "" if policy == "warmed" and "read" not in kinds else CACHE_WORDS.get(policy, "")


def _by_kind(operations: Iterable[OperationPlan]) -> dict[str, list[OperationPlan]]:
    """Reads before writes before metadata operations; the ``_ACCOMPANYING`` only where there is nothing else."""
    found: dict[str, list[OperationPlan]] = {}
    for operation in sorted(operations, key=lambda operation: (operation.kind in METADATA_KINDS, operation.kind)):
        found.setdefault(operation.kind, []).append(operation)
    return {kind: of_kind for kind, of_kind in found.items() if kind not in _ACCOMPANYING} or found


def _places(operations: Iterable[OperationPlan]) -> str:
    """Block size and order: ``8 KiB random``; empty for metadata operations."""
    operations = [operation for operation in operations if operation.kind not in METADATA_KINDS]
    if not operations:
        return ""
    blocks = _joined((block_text(operation.blocks) for operation in operations), "mixed-size")
    return f"{blocks} {_joined((order_text(operation) for operation in operations), 'mixed-order')}"


def _joined(texts: Iterable[str], many: str) -> str:
    distinct = list(dict.fromkeys(texts))
    return " and ".join(distinct) if len(distinct) < 3 else many


def _read_percent(workers: Iterable[Worker]) -> float | None:
    """The share of reads where each worker mixes reads and writes alike; None where rates or jobs set them apart."""
    shares = {tuple((operation.kind, operation.share) for operation in worker.operations) for worker in workers}
    is_paced = any(operation.rate for worker in workers for operation in worker.operations)
    if len(shares) != 1 or is_paced:
        return None
    of_kind = dict(shares.pop())
    total = sum(of_kind.values())
    return 100 * of_kind["read"] / total if of_kind.keys() == {"read", "write"} and total else None


COMPARED_AXES = ("nconnect", "target", "clients")
"""Axes along which points are compared with each other; of several, the first that varies labels the bars."""


def axis_text(axis: str, value: Axis) -> str:
    """A place on an axis: ``nconnect 8``, ``4 KiB``, ``read``, ``mix 75:25``."""
    if axis == "block_bytes":
        return format_bytes(int(value))
    if axis == "read_percent":
        reads = float(value)
        return {100.0: "read", 0.0: "write"}.get(reads, f"mix {reads:g}:{100 - reads:g}")
    return str(value) if axis in ("kind", "order", "target") else f"{axis} {value}"
