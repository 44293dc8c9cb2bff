"""The intervals of a run, with their average: lines of the reports, and rows of ``flatfile.html``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from statistics import stdev
from typing import Literal

import msgspec

from iocurve.engine.outcome import IntervalKind, WorkerOutcome
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.machine.processes import Processors
from iocurve.result.course import group_intervals
from iocurve.result.summary import NOTHING, together

Kind = Literal["host", "slave", "sd", "wd", "fsd", "fwd"]
"""The subject of a report."""
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
"""English in every locale."""
METADATA = ("mkdir", "rmdir", "create", "open", "close", "delete", "getattr", "setattr", "access")
"""Operations with separate columns, in order."""
ALWAYS = frozenset({"open", "close"})
"""Metadata operations that vdbench always prints."""
COLUMNS = (
    *("tod", "timestamp", "Run", "Interval", "reqrate", "rate", "MB/sec", "bytes/io", "read%"),
    *("resp", "read_resp", "write_resp", "resp_max", "read_max", "write_max", "resp_std", "read_std", "write_std"),
    *("xfersize", "threads", "rdpct", "rhpct", "whpct", "seekpct", "lunsize", "version"),
    *("compratio", "dedupratio", "queue_depth", "cpu_used", "cpu_user", "cpu_kernel", "cpu_wait", "cpu_idle"),
)
"""Columns of the flat file of vdbench 5.04.07."""
_FILE_KINDS = ("read", "write", *METADATA)
_FIGURES = ("rate", "rate_std", "rate_max", "resp", "resp_std", "resp_max")
FILE_COLUMNS = (
    *("tod", "timestamp", "Run", "Interval", "Xfersize", "Threads", "Reqrate"),
    *(name.capitalize() for name in _FIGURES),
    *("MB/sec", "MB_read", "MB_write"),
    *(f"{kind.title()}_{name}" for kind in _FILE_KINDS for name in _FIGURES),
    *("Compratio", "Dedupratio", "cpu_used", "cpu_user", "cpu_kernel", "cpu_wait", "cpu_idle"),
)
_FILE_NAMES = {"reqrate": "Reqrate", "compratio": "Compratio", "dedupratio": "Dedupratio"}
"""Names that the flat file of file systems spells otherwise."""
MAXIMUM, CURVE = 9_999_988, 9_999_977
"""reqrate of iorate=max and iorate=curve in vdbench 5.04.06."""
Cell = float | str | None
"""A value of the flat file; None: n/a."""


class OutputTable(msgspec.Struct, frozen=True):
    """The columns of intervals, and the kinds of the reports that have them."""

    target: Kind
    """Kind of the reports on SDs or FSDs."""
    workload: Kind
    """Kind of the reports on WDs or FWDs."""
    header: Callable[[datetime], list[str]]
    """The lines above the intervals."""
    line: Callable[[datetime, Row], str]
    """The line of an interval in the reports."""
    columns: tuple[str, ...]
    """Columns of the flat file."""
    values: Callable[[Row], dict[str, float]]
    """Values of a row, by column of the flat file."""

    def heading(self) -> str:
        """The line of column names of the flat file."""
        return _flat_line(self.columns, self.columns)

    def flat(self, at: datetime, run: str, row: Row, constants: Mapping[str, Cell]) -> str:
        """The flat file's line of an interval; ``constants`` are the columns that are constant within the run."""
        common: dict[str, Cell] = {
            "tod": clock(at),
            "timestamp": f"{at:%m/%d/%Y-%H:%M:%S}-{at.tzname() or 'UTC'}",
            "Run": run,
            "Interval": row.label,
            "rate": row.rate,
            "resp": ms(row.both.mean_ns),
        }
        values: dict[str, Cell] = {**common, **_processors(row.processors), **self.values(row), **constants}
        values |= {_FILE_NAMES[name]: constants[name] for name in _FILE_NAMES.keys() & constants.keys()}
        return _flat_line(self.columns, [_text(values.get(name)) for name in self.columns])


def _processors(used: Processors | None) -> dict[str, float]:
    if used is None:
        return {}
    return {
        "cpu_used": used.used,
        "cpu_user": used.user,
        "cpu_kernel": used.system,
        "cpu_wait": used.wait,
        "cpu_idle": used.idle,
    }


def _text(value: Cell) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _flat_line(columns: Sequence[str], words: Sequence[str]) -> str:
    first, *others = words
    return f"{first:>12} " + " ".join(
        f"{word:>{max(10, len(name))}}" for word, name in zip(others, columns[1:], strict=True)
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


# -- SDs ---------------------------------------------------------------------------------------------------------------


def _storage_header(at: datetime) -> list[str]:
    """The two lines above the intervals."""
    upper = ("i/o", "MB/sec", "bytes", "read", "resp", "read", "write", "resp", "resp", "queue", "cpu%", "cpu%")
    lower = ("rate", "1024**2", "i/o", "pct", "time", "resp", "resp", "max", "stddev", "depth", "sys+u", "sys")
    widths = (11, 9, 8, 7, 9, 9, 9, 9, 9, 6, 6, 6)
    first, second = (
        "".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True)) for words in (upper, lower)
    )
    return [f"{day(at)}  interval{first}", f"{'':22}{second}"]


def _storage_line(at: datetime, row: Row) -> str:
    both = row.both
    used, system = (row.processors.used, row.processors.system) if row.processors else (0.0, 0.0)
    return (
        f"{clock(at)} {row.label:>9} {row.rate:>10.2f} {row.mib_per_s(both):>8.2f} {_mean_bytes(row):>7} "
        f"{row.read_percent:>6.2f} {ms(both.mean_ns):>8.3f} {ms(row.of('read').mean_ns):>8.3f} "
        f"{ms(row.of('write').mean_ns):>8.3f} {ms(both.max_ns):>8.3f} {ms(both.stddev_ns):>8.3f} "
        f"{row.queue_depth:>5.1f} {used:>5.1f} {system:>5.1f}"
    )


def _mean_bytes(row: Row) -> int:
    return round(row.both.bytes / row.both.operations) if row.both.operations else 0


def _storage_values(row: Row) -> dict[str, float]:
    reads, writes, both = row.of("read"), row.of("write"), row.both
    return {
        "MB/sec": row.mib_per_s(both),
        "bytes/io": _mean_bytes(row),
        "read%": row.read_percent,
        "read_resp": ms(reads.mean_ns),
        "write_resp": ms(writes.mean_ns),
        "resp_max": ms(both.max_ns),
        "read_max": ms(reads.max_ns),
        "write_max": ms(writes.max_ns),
        "resp_std": ms(both.stddev_ns),
        "read_std": ms(reads.stddev_ns),
        "write_std": ms(writes.stddev_ns),
        "queue_depth": row.queue_depth,
    }


STORAGE = OutputTable("sd", "wd", _storage_header, _storage_line, COLUMNS, _storage_values)
"""The columns of SDs."""


# -- FSDs --------------------------------------------------------------------------------------------------------------


def file_systems(operations: frozenset[str]) -> OutputTable:
    """The columns of file systems; the reports have those of the metadata operations that a file uses."""
    shown = tuple(kind for kind in METADATA if kind in operations | ALWAYS)
    return OutputTable(
        "fsd", "fwd", partial(_file_header, shown), partial(_file_line, shown), FILE_COLUMNS, _file_values
    )


def _file_header(shown: Sequence[str], at: datetime) -> list[str]:
    """A blank line, and the two lines above the intervals."""
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


def _file_line(shown: Sequence[str], at: datetime, row: Row) -> str:
    return f"{clock(at)} {row.label:>12}" + "".join(_file_cells(shown, row))


def _file_cells(shown: Sequence[str], row: Row) -> Iterator[str]:
    used = row.processors
    yield _pair(row.rate, 6, ms(row.both.mean_ns))
    yield _cell(used.used if used else 0.0, 5, 1) + _cell(used.system if used else 0.0, 4, 2)
    yield _cell(row.read_percent, 5, 1)
    for kind in ("read", "write"):
        yield _pair(row.per_second(row.of(kind)), 6, ms(row.of(kind).mean_ns))
    read, write = row.mib_per_s(row.of("read")), row.mib_per_s(row.of("write"))
    yield _cell(read, 5, 2) + _cell(write, 5, 2) + _cell(read + write, 6, 2)
    yield _cell(_bytes_per_transfer(row), 7, 0)
    for kind in shown:
        yield _pair(row.per_second(row.of(kind)), 5, ms(row.of(kind).mean_ns))


def _bytes_per_transfer(row: Row) -> int:
    return row.transfers.bytes // row.transfers.operations if row.transfers.operations else 0


def _pair(rate: float, width: int, response_ms: float) -> str:
    return _cell(rate, width, 1) + _cell(response_ms, 6, 3)


def _cell(value: float, width: int, decimals: int) -> str:
    """A number with as many decimals as fit, as vdbench prints it."""
    for fewer in range(decimals, -1, -1):
        text = f"{value:.{fewer}f}"
        if len(text) <= width:
            break
    return f" {text:>{width}}"


def _file_values(row: Row) -> dict[str, float]:
    read, write = row.mib_per_s(row.of("read")), row.mib_per_s(row.of("write"))
    values = {"MB/sec": read + write, "MB_read": read, "MB_write": write, "Xfersize": float(_bytes_per_transfer(row))}
    for prefix, kinds in (("", row.counted), *((f"{kind}_", frozenset({kind})) for kind in _FILE_KINDS)):
        work = together(row.of(kind) for kind in sorted(kinds))
        rates = [each.per_second(together(each.of(kind) for kind in sorted(kinds))) for each in row.averaged]
        figures = (
            *(row.per_second(work), stdev(rates) if len(rates) > 1 else 0.0, max(rates, default=0.0)),
            *(ms(work.mean_ns), ms(work.stddev_ns), ms(work.max_ns)),
        )
        values |= {f"{prefix}{name}".capitalize(): figure for name, figure in zip(_FIGURES, figures, strict=True)}
    return values


TRANSFERS = frozenset({"read", "write"})


class Row(msgspec.Struct, frozen=True):
    """One interval, or the average of several."""

    label: str
    """Number of the interval, or ``avg_2-10``."""
    seconds: float
    parts: Mapping[str, IntervalKind]
    """By kind of operation. An open that creates the file counts as create and as open, as in vdbench."""
    counted: frozenset[str]
    """Operations that the rate counts: reads and writes, or what file workloads request without opens around it."""
    processors: Processors | None
    averaged: tuple[Row, ...] = ()
    """The intervals that an average is over."""

    @property
    def both(self) -> IntervalKind:
        """All counted operations."""
        return together(self.of(kind) for kind in sorted(self.counted))

    @property
    def rate(self) -> float:
        """Counted operations per second."""
        return self.per_second(self.both)

    def of(self, kind: str) -> IntervalKind:
        """Operations of a kind."""
        return self.parts.get(kind, NOTHING)

    def per_second(self, part: IntervalKind) -> float:
        """Operations per second."""
        return part.operations / self.seconds if self.seconds else 0.0

    def mib_per_s(self, part: IntervalKind) -> float:
        """Throughput in vdbench's MB/sec (1024**2)."""
        return part.bytes / MIB / self.seconds if self.seconds else 0.0

    @property
    def transfers(self) -> IntervalKind:
        """Reads and writes."""
        return together(self.of(kind) for kind in sorted(TRANSFERS))

    @property
    def read_percent(self) -> float:
        """Reads in percent of all transfers."""
        every = self.transfers.operations
        return 100 * self.of("read").operations / every if every else 0.0

    @property
    def queue_depth(self) -> float:
        """Mean number of operations in flight: rate x response time."""
        return self.rate * self.both.mean_ns / SECOND_NS


def row(
    label: str,
    seconds: float,
    kinds: Mapping[str, IntervalKind],
    counted: frozenset[str] = TRANSFERS,
    processors: Processors | None = None,
) -> Row:
    """Makes a row of the operations of each kind."""
    parts = dict(kinds)
    if "create" in parts:
        parts["open"] = together(parts[kind] for kind in ("open", "create") if kind in parts)
    return Row(label, seconds, parts, counted, processors)


def rows(
    workers: Sequence[WorkerOutcome],
    interval_ns: int,
    counted: frozenset[str] = TRANSFERS,
    processors: Sequence[Processors | None] = (),
) -> list[Row]:
    """The intervals of workers as rows numbered from 1; groups run one after another."""
    made = []
    for number, interval in enumerate(group_intervals(map(_without_ramp, workers))):
        length_ns = interval.end_ns - interval.start_ns
        # Skip a rest shorter than 1 % of the interval at the end of the run.
        if length_ns >= interval_ns // 100 or interval.operations:
            used = processors[number] if number < len(processors) else None
            made.append(row(str(number + 1), max(1, length_ns) / SECOND_NS, interval.operations, counted, used))
    return made


def _without_ramp(worker: WorkerOutcome) -> WorkerOutcome:
    """The worker without a difference between its ramp and what follows: vdbench's intervals do not end with a ramp."""
    return worker.replace(intervals=tuple(interval.replace(ramp=False) for interval in worker.intervals))


def average(made: Sequence[Row], skipped: int) -> Row | None:
    """Merges all rows but the first ``skipped`` (vdbench's ``avg_2-10``); None if no row is left."""
    counted = made[skipped:]
    if not counted:
        return None
    known = [one.processors for one in counted if one.processors]
    kinds = {kind for one in counted for kind in one.parts}
    return Row(
        label=f"avg_{skipped + 1}-{len(made)}",
        seconds=math.fsum(one.seconds for one in counted),
        parts={kind: together(one.of(kind) for one in counted) for kind in kinds},
        counted=counted[0].counted,
        processors=Processors.mean(known) if known else None,
        averaged=tuple(counted),
    )
