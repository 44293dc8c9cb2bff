"""The line of an interval of file system workloads: a rate and a response time for each kind of operation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Self

from iocurve.dialects.vdbench.output.rows import Kinds, MakeRow, clock, day, ms
from iocurve.result.host import Processors
from iocurve.result.summary import Work
from iocurve.units import MIB

METADATA = ("mkdir", "rmdir", "create", "open", "close", "delete", "getattr", "setattr", "access")
"""Operations with columns of their own, in order. vdbench always prints open and close."""
ALWAYS = frozenset({"open", "close"})


@dataclass(frozen=True)
class FileRow:
    """One interval, or the average of several."""

    label: str
    """Number of the interval, or ``avg_2-10``."""
    seconds: float
    parts: Mapping[str, Work]
    """By kind of operation. An open that creates the file counts as create and as open, as in vdbench."""
    requested: frozenset[str]
    """Operations that the workloads ask for; opens and closes around them do not count in the rate."""
    columns: tuple[str, ...]
    """Metadata operations that are printed."""
    processors: Processors | None

    @property
    def both(self) -> Work:
        """All requested operations."""
        return Work.of(self.of(kind) for kind in sorted(self.requested))

    @property
    def rate(self) -> float:
        """Requested operations per second."""
        return self.per_second(self.both)

    def of(self, kind: str) -> Work:
        """Operations of a kind."""
        return self.parts.get(kind, Work())

    def per_second(self, part: Work) -> float:
        """Operations per second."""
        return part.operations / self.seconds if self.seconds else 0.0

    def mib_per_s(self, kind: str) -> float:
        """Throughput in vdbench's MB/sec (1024**2)."""
        return self.of(kind).bytes / MIB / self.seconds if self.seconds else 0.0

    @property
    def transfers(self) -> Work:
        """Reads and writes."""
        return Work.of([self.of("read"), self.of("write")])

    @property
    def bytes_per_transfer(self) -> int:
        """Mean transfer size."""
        return self.transfers.bytes // self.transfers.operations if self.transfers.operations else 0

    @property
    def read_percent(self) -> float:
        """Reads in percent of all transfers."""
        every = self.transfers.operations
        return 100 * self.of("read").operations / every if every else 0.0

    @classmethod
    def merged(cls, label: str, several: Sequence[Self], processors: Processors | None) -> Self:
        """Several intervals as one."""
        kinds = {kind for one in several for kind in one.parts}
        return cls(
            label=label,
            seconds=math.fsum(one.seconds for one in several),
            parts={kind: Work.of(one.of(kind) for one in several) for kind in kinds},
            requested=several[0].requested,
            columns=several[0].columns,
            processors=processors,
        )

    def line(self, at: datetime) -> str:
        """The line in ``summary.html``."""
        return f"{clock(at)} {self.label:>12}" + "".join(self._cells())

    def _cells(self) -> Iterator[str]:
        used = self.processors
        yield _pair(self.rate, 6, ms(self.both.mean_ns))
        yield _cell(used.used if used else 0.0, 5, 1) + _cell(used.system if used else 0.0, 4, 2)
        yield _cell(self.read_percent, 5, 1)
        for kind in ("read", "write"):
            yield _pair(self.per_second(self.of(kind)), 6, ms(self.of(kind).mean_ns))
        read, write = self.mib_per_s("read"), self.mib_per_s("write")
        yield _cell(read, 5, 2) + _cell(write, 5, 2) + _cell(read + write, 6, 2)
        yield _cell(self.bytes_per_transfer, 7, 0)
        for kind in self.columns:
            yield _pair(self.per_second(self.of(kind)), 5, ms(self.of(kind).mean_ns))


def columns(operations: frozenset[str]) -> tuple[str, ...]:
    """The metadata operations that are printed for a file that uses ``operations``."""
    return tuple(kind for kind in METADATA if kind in operations | ALWAYS)


def maker(requested: frozenset[str], shown: tuple[str, ...]) -> MakeRow[FileRow]:
    """Makes rows of a run."""
    return partial(_row, requested, shown)


def _row(
    requested: frozenset[str],
    shown: tuple[str, ...],
    label: str,
    seconds: float,
    kinds: Kinds,
    processors: Processors | None = None,
) -> FileRow:
    parts = {kind: Work.of([work]) for kind, work in kinds.items()}
    if "create" in parts:
        parts["open"] = Work.of([parts.get("open", Work()), parts["create"]])
    return FileRow(label, seconds, parts, requested, shown, processors)


def header(shown: Sequence[str], at: datetime) -> list[str]:
    """The two lines above the intervals."""
    pairs = [("ReqstdOps.", 6, "rate", 6, "resp"), ("cpu%", 5, "total", 4, "sys")]
    transfers = [("read", 6, "rate", 6, "resp"), ("write", 6, "rate", 6, "resp"), ("mb/sec", 5, "read", 5, "write")]
    upper = _dotted("Interval", 12) + "".join(_dotted(name, left + right + 1) for name, left, _, right, _ in pairs)
    lower = f" {'':>12}" + "".join(f" {one:>{left}} {two:>{right}}" for _, left, one, right, two in pairs)
    upper += _dotted(" read", 5) + "".join(_dotted(name, left + right + 1) for name, left, _, right, _ in transfers)
    lower += f" {'pct':>5}" + "".join(f" {one:>{left}} {two:>{right}}" for _, left, one, right, two in transfers)
    upper += _dotted("mb/sec", 6) + _dotted("xfer", 7) + "".join(_dotted(kind, 12) for kind in shown)
    lower += f" {'total':>6} {'size':>7}" + " ".join(["", *(f"{'rate':>5} {'resp':>6}" for _ in shown)])
    return ["", f"{day(at)}{upper}", f"{'':12}{lower}"]


def _dotted(name: str, width: int) -> str:
    """Centers a name among dots."""
    dots = width - len(name)
    return " " + "." * (dots // 2) + name + "." * (dots - dots // 2)


def _pair(rate: float, width: int, response_ms: float) -> str:
    return _cell(rate, width, 1) + _cell(response_ms, 6, 3)


def _cell(value: float, width: int, decimals: int) -> str:
    """A number with as many decimals as fit, as vdbench prints it."""
    for fewer in range(decimals, -1, -1):
        text = f"{value:.{fewer}f}"
        if len(text) <= width:
            break
    return f" {text:>{width}}"
