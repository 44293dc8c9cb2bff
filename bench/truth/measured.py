"""Compares what iocurve measured with what an instrument logged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.truth.instruments import Logged, machine_delays, percentile
from bench.truth.table import Row
from iocurve.engine import plan as planned
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.result.document import Point

FIGURES = ("mean", "p50", "p95", "p99", "p99.9", "max")
COLUMNS = ("case", "operations", "operations/s", *(f"{figure} (µs)" for figure in FIGURES))
RATE_ERROR_MAX = 0.005
TIME_ERROR_MAX = 0.02
TIME_ERROR_NS_MAX = 20_000
"""Goals: a rate within 0.5 %; a percentile within 2 % or 20 µs, beyond the machine's own delay."""
FILE_BYTES = 16 * MIB


@dataclass(frozen=True)
class Times:
    """Mean, percentiles and largest of times in ns, in the order of ``FIGURES``."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, times_ns: Sequence[float]) -> Times:
        """The figures of single times."""
        ordered = sorted(times_ns)
        return cls((fmean(ordered), *(percentile(ordered, percent) for percent in (50, 95, 99, 99.9)), ordered[-1]))

    @classmethod
    def of_point(cls, point: Point) -> Times:
        """The values that iocurve reports: of the response latency where a rate was set."""
        found = point.summary().latency
        return cls((found.mean_ns, *(found.percentile(percent) for percent in (50, 95, 99, 99.9)), found.max_ns))


def machine_row(name: str, delays_ns: Sequence[float]) -> Row:
    """A row with the machine's own delays."""
    return name, f"{len(delays_ns):,}", "", *(f"{value / 1000:+,.0f}" for value in Times.of(delays_ns).values)


def exchange_delays(count: int, wait_ns: int = MILLISECOND_NS) -> tuple[Row, Times]:
    """Time of an exchange with a bare C program over loopback, without the time that the program waits."""
    delays = machine_delays("exchange", count, wait_ns)
    return machine_row("this machine: an exchange between two C programs", delays), Times.of(delays)


@dataclass(frozen=True)
class Expected:
    """The log of an instrument."""

    operations: int
    rate: float
    times: Times


def held(log: Sequence[Logged]) -> Expected:
    """By the times for which the instrument held the operations."""
    span_ns = max(one.sent_ns for one in log) - min(one.arrival_ns for one in log)
    return Expected(len(log), len(log) * SECOND_NS / span_ns, Times.of([one.time_ns for one in log]))


def due_evenly(log: Sequence[Logged], per_s: float) -> Expected:
    """By the times since operations were due at even distances, whenever they were sent.

    The schedule begins where the operation that was least late puts it. Operations arrive in the order in which they
    are due.
    """
    between_ns = SECOND_NS / per_s
    ordered = sorted(log, key=lambda one: one.arrival_ns)
    start = min(one.arrival_ns - number * between_ns for number, one in enumerate(ordered))
    times = Times.of([one.sent_ns - start - number * between_ns for number, one in enumerate(ordered)])
    return Expected(len(log), len(log) * SECOND_NS / (max(one.sent_ns for one in log) - start), times)


def compared(name: str, point: Point, expected: Expected, machine: Times) -> Row:
    """A row: each cell has what the log says and iocurve's difference from it, bold if it misses its goal."""
    summary = point.summary()
    found = Times.of_point(point)
    counted = f"{expected.operations:,} {summary.operations - expected.operations:+,}"
    cells = zip(FIGURES, expected.times.values, found.values, machine.values, strict=True)
    return (
        name,
        _marked(counted, misses=summary.operations != expected.operations),
        _rate_cell(expected.rate, summary.iops),
        *(_time_cell(*cell) for cell in cells),
    )


def _rate_cell(true: float, found: float) -> str:
    error = found / true - 1
    return _marked(f"{true:,.1f} {error:+.2%}", misses=abs(error) > RATE_ERROR_MAX)


def _time_cell(figure: str, true_ns: float, found_ns: float, machine_ns: float) -> str:
    surplus = found_ns - true_ns
    allowed = max(TIME_ERROR_NS_MAX, TIME_ERROR_MAX * true_ns)
    misses = figure != "max" and not -allowed <= surplus <= machine_ns + allowed
    return _marked(f"{true_ns / 1000:,.0f} {surplus / 1000:+,.0f}", misses=misses)


def _marked(text: str, *, misses: bool) -> str:
    return f"**{text}**" if misses else text


def load(engine: planned.EnginePlan, path: str, operations: int, depth: int, **changes: object) -> planned.Plan:
    """Random reads of 4 KiB, or writes with ``is_write``; a fixed number of operations, all counted."""
    kind: planned.OperationKind = "write" if changes.pop("is_write", False) else "read"
    blocks = planned.FixedBlocks(bytes=4 * KIB)
    mix = planned.OperationPlan(kind=kind, share=1, blocks=blocks, random_percent=100, rate=None)
    worker = planned.Worker(
        job="truth",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(planned.FilePlan(path=path, offset_bytes=0, bytes=FILE_BYTES, layout="existing", keep=True),),
        file_select="round_robin",
        operations=(mix,),
        access=planned.Access(cover="independent", passes="fresh"),
        depth=depth,
        start_delay_ns=0,
        ramp_ns=0,
        end=planned.End(runtime_ns=None, bytes=None, operations=operations),
        seed=1,
        payload=planned.Payload(content=planned.RandomContent(), renew="keep"),
    ).replace(**changes)
    return planned.Plan(name="truth", interval_ns=100 * MILLISECOND_NS, groups=(planned.Group(workers=(worker,)),))


def paced(per_s: int, arrivals: str = "even") -> planned.Rate:
    """An open-loop rate in operations per second."""
    return planned.Rate.from_builtins({"unit": "operations", "count": per_s, "per_ns": SECOND_NS, "arrivals": arrivals})


def block_error(values: Sequence[float], blocks: int = 20) -> float:
    """Standard error of the mean of successive values that depend on their neighbours, from means of blocks."""
    size = len(values) // blocks
    means = [fmean(values[size * each : size * (each + 1)]) for each in range(blocks)]
    centre = fmean(means)
    return math.sqrt(math.fsum((mean - centre) ** 2 for mean in means) / (blocks - 1) / blocks)
