"""Values derived from plans and outcomes, each computed in one place."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from iocurve.engine import plan as plans
from iocurve.engine.outcome import DifferenceOutcome, LogOutcome, WorkerOutcome
from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.foundation.units import LARGE_BLOCK_BYTES, format_bytes


def block_bytes_min(blocks: plans.Blocks) -> int:
    """Bytes of the smallest operation."""
    if isinstance(blocks, plans.FixedBlocks):
        return blocks.bytes
    return blocks.low if isinstance(blocks, plans.BlockRange) else min(part.bytes for part in blocks.parts)


def counts_bytes(workers: Iterable[plans.Worker], kind: str | None = None) -> bool:
    """True for sequential loads and those of large blocks, whose rates are in MiB/s; ``kind`` looks at one kind alone.

    Flushes, which move no data, count only where there is nothing else; metadata operations never do.
    """
    all_kinds = [one for worker in workers for one in worker.operations if kind in (None, one.kind)]
    found = [one for one in all_kinds if one.kind not in plans.METADATA_KINDS]
    moving = [one for one in found if one.kind not in plans.FLUSH_KINDS] or found
    return bool(moving) and all(
        not one.random_percent or block_bytes_min(one.blocks) >= LARGE_BLOCK_BYTES for one in moving
    )


def block_bytes_max(blocks: plans.Blocks) -> int:
    """Bytes of the largest operation."""
    if isinstance(blocks, plans.FixedBlocks):
        return blocks.bytes
    return blocks.high if isinstance(blocks, plans.BlockRange) else max(part.bytes for part in blocks.parts)


def block_bytes_mean(blocks: plans.Blocks) -> float:
    """Mean bytes per operation."""
    if isinstance(blocks, plans.FixedBlocks):
        return blocks.bytes
    if isinstance(blocks, plans.BlockRange):
        return (blocks.low + blocks.low + (blocks.high - blocks.low) // blocks.step * blocks.step) / 2
    weight = sum(part.weight for part in blocks.parts)
    return sum(part.bytes * part.weight for part in blocks.parts) / weight if weight else block_bytes_min(blocks)


def with_drained(worker: WorkerOutcome) -> WorkerOutcome:
    """The worker as tools count it that wait for what is in flight at the end of a run, as fio does.

    Operations that drained are among the others, and the window reaches to the last completion.
    """
    if not any(kind.drained or kind.unfinished for kind in worker.operations.values()):
        return worker
    kinds = {
        name: kind.replace(
            operations=kind.operations + kind.drained, bytes=kind.bytes + kind.drained_bytes, drained=0, drained_bytes=0
        )
        for name, kind in worker.operations.items()
    }
    return worker.replace(operations=kinds, window_end_ns=max(worker.window_end_ns, worker.drained_ns))


def with_workers(plan: plans.Plan, change: Callable[[tuple[int, int], plans.Worker], plans.Worker]) -> plans.Plan:
    """The plan with other workers; ``change`` gets the numbers of the worker's group and of the worker."""
    return plan.replace(
        groups=tuple(
            group.replace(workers=tuple(change((number, index), worker) for index, worker in enumerate(group.workers)))
            for number, group in enumerate(plan.groups)
        )
    )


def stream_hash(plan: plans.Plan) -> str:
    """SHA-256 of what decides the operations of a plan: kinds, sizes, order, rates, ends and seeds of each worker.

    It leaves out where the operations go (engine, mount, paths), and what is recorded of them. Fields that have their
    default do not count, so that a hash stays valid when plans get more fields.
    """
    # Imported here because few programs need a hash.
    import hashlib

    groups = [
        [
            _stated(worker.replace(files=tuple(file.replace(path="", keep=False) for file in worker.files)), NOT_STREAM)
            for worker in group.workers
        ]
        for group in plan.groups
    ]
    return hashlib.sha256(msgspec.json.encode(groups, order="deterministic")).hexdigest()


NOT_STREAM = frozenset(
    {
        "engine",
        "disk",
        "report_group",
        "response_limit_ns",
        "intervals_singly",
        "client",
        "log",
        "submission_latency",
        "cpus",
    }
)
"""Fields of a worker that do not decide its operations."""


FIELDS = cache(msgspec.structs.fields)
"""The fields of a struct, of which msgspec reads the annotations again at each call."""


def _stated(value: object, without: frozenset[str] = frozenset()) -> object:
    """The form of a value in JSON, without fields that have their default."""
    if isinstance(value, TaggedStruct | Struct):
        fields = [field for field in FIELDS(type(value)) if field.name not in without]
        stated = {field.name: getattr(value, field.name) for field in fields}
        stated = {field.name: stated[field.name] for field in fields if stated[field.name] != field.default}
        tag = {"kind": value.kind} if isinstance(value, TaggedStruct) else {}
        return tag | {name: _stated(part) for name, part in stated.items()}
    return [_stated(part) for part in value] if isinstance(value, tuple) else value


def on_existing_files(worker: plans.Worker) -> plans.Worker:
    """The worker on files that are there, which are neither made nor removed."""
    return worker.replace(files=tuple(file.replace(layout="existing", keep=True) for file in worker.files))


def on_clients(group: plans.Group, clients: Sequence[int]) -> plans.Group:
    """The same workers, each on its load client."""
    placed = zip(group.workers, clients, strict=True)
    return group.replace(workers=tuple(worker.replace(client=client) for worker, client in placed))


def measured_ns(worker: WorkerOutcome) -> int:
    """Length of the measured window."""
    return max(0, worker.window_end_ns - worker.window_start_ns)


def cpu_share(worker: WorkerOutcome) -> float:
    """Share of one processor that the worker's thread used in its window."""
    length_ns = measured_ns(worker)
    return (worker.cpu.user_ns + worker.cpu.system_ns) / length_ns if length_ns else 0.0


def difference_text(found: DifferenceOutcome) -> str:
    """A difference with its place, in one line."""
    kind = found.kind.replace("_", " ")
    place = f"{found.length} bytes at offset {found.offset} of {found.path}" if found.length else found.path
    return f"{kind}: {place}: {found.text}"


class LogRecords(msgspec.Struct, frozen=True):
    """A log as lists: entry k of each list is record k. Times are since the group's start."""

    at_ns: list[int]
    """Completion of the operation, or start of the window."""
    kind: list[str]
    bytes: list[int]
    service_ns: list[float]
    """Service latency; the mean over a window."""
    response_ns: list[int]
    """Response latency; empty where the worker is not paced, and with windows."""
    offset: list[int]
    """Offset in the file; empty with windows."""
    file: list[int]
    """Index of the file among those of the worker; empty unless the plan asks for it."""
    operations: list[int]
    """Operations in the window; 1 where each record is one operation."""
    service_ns_max: list[int]
    """Largest service latency in the window; empty without windows."""
    submission_ns: list[float]
    """Submission latency; the mean over a window. Empty unless it was measured."""
    submission_ns_max: list[int]
    """Largest submission latency in the window; empty without windows, and unless it was measured."""
    completion_ns_max: list[int]
    """Largest completion latency in the window; empty without windows, and unless submission latency was measured."""
    histograms: list[str]
    """As in ``LatencyOutcome``; of the completion latency where submission latency was measured. Empty unless the plan
    has them."""


def unpack(log: LogOutcome) -> LogRecords:
    """The columns of a log as lists."""
    return LogRecords(
        at_ns=_column("Q", log.at_ns),
        kind=[log.kinds[number] for number in base64.b64decode(log.kind)],
        bytes=_column("Q", log.bytes),
        service_ns=_column("d", log.service_ns),
        response_ns=_column("Q", log.response_ns),
        offset=_column("Q", log.offset),
        file=_column("I", log.file),
        operations=[1] * log.records if log.window_ns is None else _column("Q", log.operations),
        service_ns_max=_column("Q", log.service_ns_max),
        submission_ns=_column("d", log.submission_ns),
        submission_ns_max=_column("Q", log.submission_ns_max),
        completion_ns_max=_column("Q", log.completion_ns_max),
        histograms=list(log.histograms),
    )


def _column(figure: str, packed: str) -> list[Any]:
    """Unpacks figures, little-endian; ``figure`` is their format in ``struct``."""
    raw = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(f'<{figure}')}{figure}", raw))


# ---- in words


PATTERN_SHOWN = 16
"""Digits of a pattern that are shown."""


def block_text(blocks: plans.Blocks) -> str:
    """``4 KiB``, ``4 KiB to 64 KiB``, ``4 KiB (50 %) or 64 KiB (50 %)``."""
    if isinstance(blocks, plans.FixedBlocks):
        return format_bytes(blocks.bytes)
    if isinstance(blocks, plans.BlockRange):
        return f"{format_bytes(blocks.low)} to {format_bytes(blocks.high)}"
    total = sum(part.weight for part in blocks.parts) or 1
    return " or ".join(f"{format_bytes(part.bytes)} ({100 * part.weight / total:.3g} %)" for part in blocks.parts)


def order_text(operation: plans.OperationPlan) -> str:
    """``random``, ``sequential``, ``30 % random``."""
    if operation.random_percent in (0, 100):
        return "random" if operation.random_percent else "sequential"
    return f"{operation.random_percent} % random"


def payload_text(payload: plans.Payload) -> str:
    """Written data; empty if they are just random bytes."""
    content = payload.content
    parts = []
    if isinstance(content, plans.ZeroContent):
        parts.append("zeros")
    elif isinstance(content, plans.PatternContent):
        parts.append(f"the pattern {pattern_text(content.bytes)}")
    elif isinstance(content, plans.PoolContent):
        source = f"from {content.path}" if content.path else "of random bytes"
        parts.append(f"random parts of a pool of {format_bytes(content.bytes)} {source}")
    if payload.compress_percent:
        chunk = f" in every {format_bytes(payload.compress_chunk_bytes)}" if payload.compress_chunk_bytes else ""
        parts.append(f"{payload.compress_percent} % compressible{chunk}")
    if payload.dedupe_percent:
        drawn = f", drawn from {payload.dedupe_set_blocks:,} blocks" if payload.dedupe_set_blocks else ""
        parts.append(f"{payload.dedupe_percent} % of the blocks are duplicates{drawn}")
    return "; ".join(parts)


def pattern_text(pattern: str) -> str:
    """The start of a pattern."""
    text = pattern.replace("o" * 16, "<offset>")
    return text if len(text) <= PATTERN_SHOWN else f"{text[:PATTERN_SHOWN]}…"
