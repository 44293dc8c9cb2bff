"""The line of an interval as vdbench prints it: rates, sizes, response times in ms, queue depth, CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Self, TypeVar

from iocurve.engine.outcome import IntervalKind, WorkerOutcome
from iocurve.result.host import Processors
from iocurve.result.summary import Work, intervals
from iocurve.units import MIB, MILLISECOND_NS, SECOND_NS

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
"""English in every locale."""


class AnyRow(Protocol):
    """One interval, or the average of several, of SDs or of file systems."""

    @property
    def label(self) -> str:
        """Number of the interval, or ``avg_2-10``."""

    @property
    def seconds(self) -> float:
        """Length."""

    @property
    def processors(self) -> Processors | None:
        """Use of the processors."""

    @property
    def rate(self) -> float:
        """Operations per second."""

    @property
    def both(self) -> Work:
        """The operations that the rate counts."""

    @classmethod
    def merged(cls, label: str, several: Sequence[Self], processors: Processors | None) -> Self:
        """Several intervals as one."""

    def line(self, at: datetime) -> str:
        """The line in ``summary.html``."""


R = TypeVar("R", bound=AnyRow)


@dataclass(frozen=True)
class Row:
    """One interval, or the average of several."""

    label: str
    """Number of the interval, or ``avg_2-10``."""
    seconds: float
    reads: Work
    writes: Work
    both: Work
    processors: Processors | None

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.both.operations / self.seconds if self.seconds else 0.0

    @property
    def mib_per_s(self) -> float:
        """Throughput in vdbench's MB/sec (1024**2)."""
        return self.both.bytes / MIB / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_operation(self) -> int:
        """Mean transfer size."""
        return round(self.both.bytes / self.both.operations) if self.both.operations else 0

    @property
    def read_percent(self) -> float:
        """Percentage of reads."""
        return 100 * self.reads.operations / self.both.operations if self.both.operations else 0.0

    @property
    def queue_depth(self) -> float:
        """Mean number of operations in flight: rate x response time."""
        return self.rate * self.both.mean_ns / SECOND_NS

    @classmethod
    def merged(cls, label: str, several: Sequence[Row], processors: Processors | None) -> Row:
        """Several intervals as one."""
        return cls(
            label=label,
            seconds=math.fsum(one.seconds for one in several),
            reads=Work.of(one.reads for one in several),
            writes=Work.of(one.writes for one in several),
            both=Work.of(one.both for one in several),
            processors=processors,
        )

    def line(self, at: datetime) -> str:
        """The line in ``summary.html``."""
        used, system = (self.processors.used, self.processors.system) if self.processors else (0.0, 0.0)
        return (
            f"{clock(at)} {self.label:>9} {self.rate:>10.2f} {self.mib_per_s:>8.2f} {self.bytes_per_operation:>7} "
            f"{self.read_percent:>6.2f} {ms(self.both.mean_ns):>8.3f} {ms(self.reads.mean_ns):>8.3f} "
            f"{ms(self.writes.mean_ns):>8.3f} {ms(self.both.max_ns):>8.3f} {ms(self.both.stddev_ns):>8.3f} "
            f"{self.queue_depth:>5.1f} {used:>5.1f} {system:>5.1f}"
        )


def ms(nanoseconds: float) -> float:
    """Converts nanoseconds to milliseconds."""
    return nanoseconds / MILLISECOND_NS


def clock(at: datetime) -> str:
    """Formats ``10:12:43.103``."""
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def day(at: datetime) -> str:
    """Formats ``Dec 02, 2016``."""
    return f"{MONTHS[at.month - 1]} {at.day:02}, {at.year}"


def header(at: datetime) -> list[str]:
    """The two lines above the intervals."""
    upper = ("i/o", "MB/sec", "bytes", "read", "resp", "read", "write", "resp", "resp", "queue", "cpu%", "cpu%")
    lower = ("rate", "1024**2", "i/o", "pct", "time", "resp", "resp", "max", "stddev", "depth", "sys+u", "sys")
    widths = (11, 9, 8, 7, 9, 9, 9, 9, 9, 6, 6, 6)
    first, second = (
        "".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True)) for words in (upper, lower)
    )
    return [f"{day(at)}  interval{first}", f"{'':22}{second}"]


def row(label: str, seconds: float, kinds: Kinds, processors: Processors | None = None) -> Row:
    """Makes a row of the operations of each kind."""
    reads, writes = (Work.of([kinds[kind]] if kind in kinds else []) for kind in ("read", "write"))
    return Row(label, seconds, reads, writes, Work.of([reads, writes]), processors)


Kinds = Mapping[str, IntervalKind | Work]
"""The operations of an interval, by kind."""
MakeRow = Callable[[str, float, Kinds, Processors | None], R]


def rows(
    workers: Sequence[WorkerOutcome], interval_ns: int, make: MakeRow[R], processors: Sequence[Processors | None] = ()
) -> list[R]:
    """The intervals of workers as rows numbered from 1; groups run one after another."""
    made = []
    for number, interval in enumerate(intervals(workers, ramp=True)):
        # Skip a rest shorter than 1 % of the interval at the end of the run.
        if interval.length_ns >= interval_ns // 100 or interval.kinds:
            used = processors[number] if number < len(processors) else None
            made.append(make(str(number + 1), max(1, interval.length_ns) / SECOND_NS, interval.kinds, used))
    return made


def average(made: Sequence[R], skipped: int) -> R | None:
    """Merges all rows but the first ``skipped`` (vdbench's ``avg_2-10``); None if no row is left."""
    counted = made[skipped:]
    if not counted:
        return None
    known = [one.processors for one in counted if one.processors]
    label = f"avg_{skipped + 1}-{len(made)}"
    return counted[0].merged(label, counted, Processors.mean(known) if known else None)
