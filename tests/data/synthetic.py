"""SYNTHETIC results: every figure is chosen or computed here, so that tests know the exact results.

Histograms are encoded by a separate writer, from the description of the format, and not by the code under test.
"""

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from goldens import data
from iocurve.engine.outcome import (
    CpuTime,
    IntervalKind,
    IntervalOutcome,
    KindOutcome,
    LatencyOutcome,
    Live,
    Outcome,
    State,
    WorkerOutcome,
)
from iocurve.engine.plan import (
    Access,
    End,
    FixedBlocks,
    Group,
    NullEngine,
    Plan,
    Rate,
    Worker,
)
from iocurve.foundation.units import KIB, MIB, SECOND_NS
from iocurve.result.caps import caps
from iocurve.result.document import (
    CachePolicy,
    FamilyFacts,
    HostFacts,
    LayoutFacts,
    MachineUse,
    Point,
    Result,
    ScenarioFacts,
    TargetFacts,
    Turn,
)
from plans import READ, file_plan, nfs_engine, worker

NAME = "SYNTHETIC, nothing was measured"
Values = Mapping[int, int]
"""Latencies in nanoseconds, and the number of operations with each."""

FACTS: dict[str, Any] = json.loads(data("synthetic.json"))
"""A host, a target and the parts of a result, of which tests change what they need."""
HOST = HostFacts.from_builtins(FACTS["host"])
VOLUME = TargetFacts.from_builtins(FACTS["volume"])
AXES: dict[str, int | float | str] = FACTS["axes"]
OPERATIONS = IntervalKind.from_builtins(FACTS["operations"])
WORKER = WorkerOutcome.from_builtins(FACTS["worker"])


# ---- points in turns


def in_turns(points: Sequence[Point], deviation: float = 0.01, rounds: int = 6) -> list[Point]:
    """The points as if they had taken turns; of each, every other turn is slower and the others are faster."""
    names = tuple(point.name for point in points)
    made = []
    for member, point in enumerate(points):
        summary, turns = point.summary(), []
        for number in range(rounds):
            place = member if number % 2 == 0 else len(points) - 1 - member
            factor = 1 + deviation * (1 if (number + member) % 3 else -2)
            turns.append(
                Turn(
                    repetition=number + 1,
                    order=number * len(points) + place + 1,
                    state="finished",
                    window_ns=summary.window_ns // rounds,
                    operations=summary.operations // rounds,
                    iops=summary.iops * factor,
                    bytes_per_s=summary.bytes_per_s * factor,
                    mean_ns=summary.latency.mean_ns,
                    seeds=(number,),
                )
            )
        made.append(point.replace(runs=tuple(turns), compared_with=names))
    return made


# ---- one worker, exact to the last digit


def encode_histogram(values: Values) -> str:
    """HdrHistogram V2, DEFLATE, base64: bounds 1 ns to 1 h, three significant digits."""
    counts: dict[int, int] = {}
    for value, count in values.items():
        counts[_bucket(value)] = counts.get(_bucket(value), 0) + count
    payload = b"".join(_zigzag(number) for number in _runs(counts))
    header = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, 3600 * SECOND_NS, 1.0)
    packed = zlib.compress(header + payload)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode("ascii")


def _bucket(value: int) -> int:
    """With three digits a bucket has 2048 steps, each further one 1024 of twice the width."""
    power = max(0, value.bit_length() - 11)
    return (power << 10) + (value >> power)


def _runs(counts: Mapping[int, int]) -> Sequence[int]:
    """Counts in order; a run of n empty buckets is -n, a single one 0."""
    runs, position = [], 0
    for bucket in sorted(counts):
        gap = bucket - position
        runs += [-gap] if gap > 1 else [0] * gap
        runs.append(counts[bucket])
        position = bucket + 1
    return runs


def _zigzag(number: int) -> bytes:
    """ZigZag LEB128; a ninth byte, never needed for counts here, would be whole."""
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def latency(values: Values) -> LatencyOutcome:
    count = sum(values.values())
    mean = math.fsum(value * number for value, number in values.items()) / count if count else 0.0
    squares = math.fsum((value - mean) ** 2 * number for value, number in values.items())
    return LatencyOutcome(
        count=count,
        min_ns=min(values, default=0),
        max_ns=max(values, default=0),
        mean_ns=mean,
        stddev_ns=math.sqrt(squares / count) if count else 0.0,
        histogram=encode_histogram(values),
    )


def kind(
    values: Values,
    block_bytes: int,
    *,
    response: Values | None = None,
    errors: int = 0,
    parts: tuple[Values, Values] | None = None,
) -> KindOutcome:
    operations = sum(values.values())
    return KindOutcome(
        operations=operations,
        bytes=operations * block_bytes,
        errors=errors,
        short=0,
        service=latency(values),
        response=latency(response) if response is not None else None,
        submission=latency(parts[0]) if parts else None,
        completion=latency(parts[1]) if parts else None,
    )


def interval(
    index: int, start_ns: int, end_ns: int, operations: Mapping[str, int], block_bytes: int
) -> IntervalOutcome:
    return IntervalOutcome(
        index=index,
        ramp=False,
        start_ns=start_ns,
        end_ns=end_ns,
        operations={
            name: OPERATIONS.replace(operations=count, bytes=count * block_bytes) for name, count in operations.items()
        },
    )


def intervals(
    counts: Sequence[int | Mapping[str, int]],
    block_bytes: int = 4 * KIB,
    *,
    name: str = "read",
    length_ns: int = SECOND_NS,
) -> list[IntervalOutcome]:
    """Intervals one after another, with these numbers of operations of one kind, or of each."""
    return [
        interval(
            index,
            index * length_ns,
            (index + 1) * length_ns,
            {name: count} if isinstance(count, int) else count,
            block_bytes,
        )
        for index, count in enumerate(counts)
    ]


def live(elapsed_ns: int, **changes: Any) -> Live:
    """A snapshot of a run before its first interval, with changes."""
    return Live(
        phase="run", group=0, elapsed_ns=elapsed_ns, layout_bytes=0, layout_bytes_total=0, intervals=0, operations={}
    ).replace(**changes)


def worker_outcome(
    operations: Mapping[str, KindOutcome],
    *,
    number: int = 0,
    window_ns: tuple[int, int] = (0, SECOND_NS),
    intervals: Sequence[IntervalOutcome] = (),
    **changes: Any,
) -> WorkerOutcome:
    start_ns, end_ns = window_ns
    times = {"window_start_ns": start_ns, "window_end_ns": end_ns, "drained_ns": end_ns}
    parts = {"operations": dict(operations), "intervals": tuple(intervals)}
    return WORKER.replace(worker=number, **times, **parts, **changes)


def worker_plan(
    operations: Sequence[tuple[str, int]] = (("read", 100),),
    *,
    job: str = "load",
    block_bytes: int = 4 * KIB,
    depth: int = 1,
    nconnect: int | None = None,
    random_percent: int = 100,
    rate: Rate | None = None,
    runtime_ns: int = SECOND_NS,
    report_group: int = 0,
) -> Worker:
    blocks = FixedBlocks(bytes=block_bytes)
    made = [
        READ.replace(share=share, blocks=blocks, random_percent=random_percent, rate=rate) for _, share in operations
    ]
    return worker(
        NullEngine() if nconnect is None else nfs_engine("nfs://127.0.0.1:20490/vol", nconnect),
        "",
        job=job,
        report_group=report_group,
        files=(file_plan("iocurve.0", 256 * MIB),),
        operations=tuple(one.replace(kind=name) for one, (name, _) in zip(made, operations, strict=True)),
        access=Access(cover="once", passes="fresh"),
        depth=depth,
        end=End(runtime_ns=runtime_ns, bytes=None, operations=None),
    )


def plan(*groups: Sequence[Worker], name: str = NAME) -> Plan:
    return Plan(name=name, interval_ns=SECOND_NS, groups=tuple(Group(workers=tuple(workers)) for workers in groups))


def outcome(*workers: WorkerOutcome) -> Outcome:
    order: list[State] = ["finished", "interrupted", "failed"]
    return Outcome(state=max((worker.state for worker in workers), key=order.index), workers=workers)


Measured = tuple[Point, tuple[()]]
"""The answer of ``local.measure``."""


def measured(plan: Plan, outcome: Outcome, machine: MachineUse | None = None) -> Measured:
    return Point(name=plan.name, family="", axes={}, plan=plan, outcome=outcome, machine=machine), ()


def point(planned: Plan, *workers: WorkerOutcome, **changes: Any) -> Point:
    """The measurement of a plan by its workers."""
    return Point(name="p", family="f", axes={}, plan=planned, outcome=outcome(*workers)).replace(**changes)


def reads(counts: Sequence[int], latencies: Values | None = None, block_bytes: int = 4 * KIB, **changes: Any) -> Point:
    """A worker that reads, with these numbers of operations in successive seconds; ``changes`` are of the point."""
    done = worker_outcome(
        {"read": kind(latencies or {100_000: sum(counts)}, block_bytes)},
        window_ns=(0, len(counts) * SECOND_NS),
        intervals=intervals(counts, block_bytes),
    )
    return point(plan([worker_plan()]), done, **changes)


def with_worker(one: Point, **changes: Any) -> Point:
    """The point, with changes of what its worker did."""
    (worker,) = one.outcome.workers
    return one.replace(outcome=outcome(worker.replace(**changes)))


def with_reads(one: Point, changes: Mapping[int, Mapping[str, Any]]) -> Point:
    """The point, with changes of the reads in some of its worker's intervals."""
    intervals = list(one.outcome.workers[0].intervals)
    for at, change in changes.items():
        read = intervals[at].operations["read"].replace(**change)
        intervals[at] = intervals[at].replace(operations={"read": read})
    return with_worker(one, intervals=tuple(intervals))


def scenario(
    points: Sequence[Point], caches: Mapping[str, CachePolicy] | None = None, **targets: TargetFacts
) -> Result:
    """The result of a scenario whose families are those of the points, each with the policy of its cache."""
    families = dict.fromkeys(one.family for one in points)
    facts = ScenarioFacts.from_builtins(FACTS["scenario"]).replace(
        targets=targets or {"volume": TargetFacts(kind="nfs", address="nfs://server/vol")},
        families=tuple(
            FamilyFacts(name=name, title=f"Title of {name}", cache=(caches or {}).get(name, "untouched"))
            for name in families
        ),
    )
    return result(points, kind="scenario").replace(scenario=facts)


def capped(target: TargetFacts, **limits: int) -> TargetFacts:
    """The target with other limits; ``client_`` and ``connection_`` are the scopes of their names."""
    values = {re.sub("^(client|connection)_", r"\1.", name): value for name, value in limits.items()}
    return target.replace(caps=caps(values))


def result(points: Sequence[Point], *, kind: str = "envelope", target: TargetFacts = VOLUME) -> Result:
    return Result(
        iocurve="0.0.0",
        kind=kind,
        name=NAME,
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        state="finished",
        incomplete_reason=None,
        host=HOST,
        target=target,
        null_ceiling_operations_per_s=20_000_000.0,
        notes=(),
        points=tuple(points),
    )


# ---- whole runs, for the report


def envelope() -> Result:
    """Two mixes and a depth series on a volume of 512 MiB/s, below its limit."""
    random_mix = [_mix_point("random-4k-mix", percent, 4 * KIB) for percent in (100, 75, 50, 25, 0)]
    sequential_mix = [_mix_point("sequential-64k-mix", percent, 64 * KIB) for percent in (100, 75, 50, 25, 0)]
    depths = [_depth_point(depth, nconnect) for nconnect in (1, 8) for depth in (1, 2, 4, 8, 16, 32, 64, 128)]
    return result([*random_mix, *sequential_mix, *depths])


def fio_run() -> Result:
    """One point with two jobs, the second with a rate."""
    rate = Rate(unit="operations", count=3200, per_ns=SECOND_NS)
    long = 10 * SECOND_NS
    workers = [
        worker_plan([("read", 100)], job="reader", depth=32, runtime_ns=long),
        worker_plan([("write", 100)], job="writer", depth=16, runtime_ns=long, rate=rate, report_group=1),
    ]
    common: dict[str, Any] = {"window_ns": (0, long), "engine": "io_uring, registered buffers and files"}
    outcomes = [
        worker_outcome(
            {"read": kind(spread(410_000, 780_000), 4 * KIB)},
            job="reader",
            intervals=_course("read", 78_000, 10),
            cpu=CpuTime(user_ns=1_400_000_000, system_ns=900_000_000, context_switches=12_000),
            **common,
        ),
        worker_outcome(
            {"write": kind(spread(180_000, 32_000), 4 * KIB, response=spread(260_000, 32_000))},
            number=1,
            job="writer",
            intervals=_course("write", 3_200, 10),
            report_group=1,
            **common,
        ),
    ]
    measured = point(plan(workers), *outcomes, name="fioreadwrite.ini", family="fio")
    return result([measured], kind="fio", target=TargetFacts(kind="file", address="/mnt/data/test"))


def spread(median_ns: int, count: int) -> Values:
    """A distribution with a long tail, like real latencies; ``count`` values in all."""
    values = {round(median_ns * factor): int(count * share) for factor, share in FACTS["spread"]}
    values[median_ns] += count - sum(values.values())
    return values


def _mix_point(family: str, read_percent: int, block_bytes: int) -> Point:
    """The more writes, the higher the latency: only reads of 64 KiB reach the volume's limit."""
    writes = (100 - read_percent) / 100
    free = (118_000 if block_bytes == 4 * KIB else 8_900) * (1 - 0.45 * writes)
    order = "random" if family.startswith("random") else "sequential"
    axes = AXES | {"read_percent": read_percent, "block_bytes": block_bytes, "depth": 64, "nconnect": 8, "order": order}
    name = f"{block_bytes // KIB} KiB, {read_percent} % reads"
    return nfs_point(name, family, axes, min(free, 512 * MIB / block_bytes))


def _depth_point(depth: int, nconnect: int) -> Point:
    idle_ns, ceiling = 38_000, 70_000 if nconnect == 1 else 131_072
    iops = 1 / (1 / (depth * SECOND_NS / idle_ns) ** 4 + 1 / ceiling**4) ** 0.25
    return nfs_point(
        f"depth {depth}, nconnect {nconnect}", "depth", AXES | {"depth": depth, "nconnect": nconnect}, iops
    )


def nfs_point(name: str, family: str, axes: dict[str, int | float | str], iops: float) -> Point:
    depth, block_bytes, read_percent = int(axes["depth"]), int(axes["block_bytes"]), int(axes["read_percent"])
    shares = {"read": read_percent, "write": 100 - read_percent}
    counts = {name: round(iops * 2 * share / 100) for name, share in shares.items() if share}
    # The mean of `spread` is 1.157 medians; by Little's law it is depth / IOPS.
    median = round(depth / iops * SECOND_NS / 1.157)
    planned = worker_plan(
        [(name, share) for name, share in shares.items() if share],
        block_bytes=block_bytes,
        depth=depth,
        nconnect=int(axes["nconnect"]),
        random_percent=0 if axes["order"] == "sequential" else 100,
        runtime_ns=2 * SECOND_NS,
    )
    cpu_ns = round(sum(counts.values()) * 900)
    each = {kind: count // 2 for kind, count in counts.items()}
    done = worker_outcome(
        {name: kind(spread(median, count), block_bytes) for name, count in counts.items()},
        window_ns=(0, 2 * SECOND_NS),
        intervals=intervals([each] * 2, block_bytes),
        cpu=CpuTime(user_ns=cpu_ns // 3, system_ns=cpu_ns * 2 // 3, context_switches=1000),
        labels=("payload_discarded",) if block_bytes >= 32 * KIB else (),
    )
    layout = LayoutFacts(bytes=256 * MIB, elapsed_ns=SECOND_NS // 2)
    machine = MachineUse(busy_share=min(0.99, 0.2 + iops / 180_000), cpus=2)
    return point(plan([planned]), done, name=name, family=family, axes=axes, layout=layout, machine=machine)


def _course(name: str, per_second: int, seconds: int) -> list[IntervalOutcome]:
    return intervals([round(per_second * (1 + 0.03 * math.sin(second))) for second in range(seconds)], name=name)
