"""fio's logs of bandwidth, IOPS and latency next to its JSON, as a time series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from iocurve.foundation.units import KIB, MILLISECOND_NS
from iocurve.imports.parsing import SourceFile, number, whole
from iocurve.result.imported import ImportedInterval

KINDS = {0: "read", 1: "write", 2: "trim"}
OPTIONS = {"iops": "write_iops_log", "bw": "write_bw_log", "lat": "write_lat_log"}


class _Cell(msgspec.Struct):
    """One interval of one kind, of all jobs."""

    iops: float | None = None
    bytes_per_s: float | None = None
    latencies: list[float] = msgspec.field(default_factory=list)
    jobs: int = 0
    """Entries of rates; an interval in which not all jobs have one is left out."""


def intervals(
    source: SourceFile, numbers: Sequence[Sequence[int]], options: Sequence[Mapping[str, str] | None], unit_ns: int
) -> tuple[ImportedInterval, ...]:
    """The series of the jobs of one point, from the logs that are in the same directory; empty without any.

    ``numbers`` are those in the names of the logs of each job; latencies are in ``unit_ns``.
    """
    cells: dict[tuple[int, str], _Cell] = {}
    window_ms = _window_ms(options)
    if window_ms is None:
        return ()
    for job, of_job in zip(options, numbers, strict=True):
        for which, option in OPTIONS.items():
            prefix = PurePosixPath((job or {}).get(option, "")).name
            for place in of_job if prefix else ():
                for (index, kind), value in _windows(_entries(source, prefix, which, place), window_ms, which):
                    _add(cells.setdefault((index, kind), _Cell()), which, value * (unit_ns if which == "lat" else 1))
    most = {kind: max(cell.jobs for (_, each), cell in cells.items() if each == kind) for _, kind in cells}
    whole_cells = [(place, cell) for place, cell in sorted(cells.items()) if cell.jobs == most[place[1]]]
    return tuple(_interval(index, kind, cell, window_ms) for (index, kind), cell in whole_cells)


def _window_ms(options: Sequence[Mapping[str, str] | None]) -> float | None:
    """The window that all jobs log means of; None where they log each operation, or differ."""
    windows = {number((job or {}).get("log_avg_msec")) for job in options}
    return windows.pop() or None if len(windows) == 1 else None


def _entries(source: SourceFile, prefix: str, which: str, place: int) -> Iterator[tuple[float, float, str]]:
    """Time in ms, value and kind of each line that is whole."""
    log = source.sibling(f"{prefix}_{which}.{place}.log") or source.sibling(f"{prefix}_{which}.log")
    for line in log.text.splitlines() if log else ():
        columns = line.split(",")
        if len(columns) >= 4:
            time_ms, value, kind = number(columns[0]), number(columns[1]), whole(columns[2])
            if time_ms is not None and value is not None and kind in KINDS:
                yield time_ms, value, KINDS[kind]


def _windows(
    entries: Iterable[tuple[float, float, str]], window_ms: float, which: str
) -> Iterator[tuple[tuple[int, str], float]]:
    """Number, kind and value of each window of a log. fio logs no rate where nothing completed: it is 0 there."""
    ends: dict[str, int] = {}
    for time_ms, value, kind in entries:
        index = max(1, round(time_ms / window_ms))
        if which != "lat":
            yield from (((missing, kind), 0.0) for missing in range(ends.get(kind, index) + 1, index))
        ends[kind] = index
        yield (index, kind), value


def _add(cell: _Cell, which: str, value: float) -> None:
    cell.jobs += which != "lat"
    if which == "iops":
        cell.iops = (cell.iops or 0.0) + value
    elif which == "bw":
        cell.bytes_per_s = (cell.bytes_per_s or 0.0) + value * KIB
    else:
        cell.latencies.append(value)


def _interval(index: int, kind: str, cell: _Cell, window_ms: float) -> ImportedInterval:
    return ImportedInterval(
        start_ns=round((index - 1) * window_ms * MILLISECOND_NS),
        end_ns=round(index * window_ms * MILLISECOND_NS),
        kind=kind,
        iops=cell.iops,
        bytes_per_s=cell.bytes_per_s,
        mean_ns=math.fsum(cell.latencies) / len(cell.latencies) if cell.latencies else None,
    )
