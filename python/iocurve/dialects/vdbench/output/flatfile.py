"""``flatfile.html``: one line per interval. The first line that is not a comment names the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from iocurve.dialects.vdbench.output import file_rows
from iocurve.dialects.vdbench.output.file_rows import METADATA, FileRow
from iocurve.dialects.vdbench.output.rows import AnyRow, Row, clock, header, ms
from iocurve.result.host import Processors

COLUMNS = (
    *("tod", "Run", "Interval", "reqrate", "rate", "MB/sec", "bytes/io", "read%", "resp", "read_resp", "write_resp"),
    *("resp_max", "read_max", "write_max", "resp_std", "xfersize", "threads", "rdpct", "rhpct", "whpct", "seekpct"),
    *("lunsize", "version"),
    *("compratio", "dedupratio", "queue_depth", "cpu_used", "cpu_user", "cpu_kernel", "cpu_wait", "cpu_idle"),
)
_FILE_KINDS = ("read", "write", *METADATA, "copy", "move")
FILE_COLUMNS = (
    *("tod", "Run", "Interval", "reqrate", "rate", "resp", "MB/sec", "Read_rate", "Read_resp", "Write_rate"),
    *("Write_resp", "MB_read", "MB_write", "Xfersize"),
    *(f"{kind.title()}_{what}" for kind in _FILE_KINDS[2:] for what in ("rate", "resp")),
    *("version", "compratio", "dedupratio", "cpu_used", "cpu_user", "cpu_kernel", "cpu_wait", "cpu_idle"),
)
MAXIMUM, CURVE = 9_999_988, 9_999_977
"""reqrate of iorate=max and iorate=curve in vdbench 5.04.06."""
INTRODUCTION = [
    "*",
    "* One line per reporting interval; the next line that is not a comment names the columns.",
    "* Times are in milliseconds, MB is 1024*1024 bytes, lunsize is in units of 1024*1024*1024 bytes.",
    "* n/a: unknown, or different among the workloads of the run.",
    "*",
]


@dataclass(frozen=True)
class Table:
    """The columns of intervals: above the lines of the reports, and in the flat file."""

    header: Callable[[datetime], list[str]]
    """The lines above the intervals."""
    columns: tuple[str, ...]
    """Of the flat file."""
    values: Callable[[Any], dict[str, Any]]
    """Values of a row, by column of the flat file."""

    def heading(self) -> str:
        """The line of column names of the flat file."""
        return _line(self.columns, self.columns)

    def flat(self, at: datetime, run: str, row: AnyRow, settings: Mapping[str, Any]) -> str:
        """The line of an interval; ``settings`` are the columns that are constant within the run."""
        common = {"tod": clock(at), "Run": run, "Interval": row.label, "rate": row.rate, "resp": ms(row.both.mean_ns)}
        values = {**common, **_processors(row.processors), **self.values(row), **settings}
        return _line(self.columns, [_text(values.get(name)) for name in self.columns])


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


def _storage(row: Row) -> dict[str, Any]:
    return {
        "MB/sec": row.mib_per_s,
        "bytes/io": row.bytes_per_operation,
        "read%": row.read_percent,
        "read_resp": ms(row.reads.mean_ns),
        "write_resp": ms(row.writes.mean_ns),
        "resp_max": ms(row.both.max_ns),
        "read_max": ms(row.reads.max_ns),
        "write_max": ms(row.writes.max_ns),
        "resp_std": ms(row.both.stddev_ns),
        "queue_depth": row.queue_depth,
    }


STORAGE = Table(header, COLUMNS, _storage)
"""The columns of SDs."""


def _files(row: FileRow) -> dict[str, Any]:
    values: dict[str, Any] = {
        "MB/sec": row.mib_per_s("read") + row.mib_per_s("write"),
        "MB_read": row.mib_per_s("read"),
        "MB_write": row.mib_per_s("write"),
        "Xfersize": row.bytes_per_transfer,
    }
    for kind in _FILE_KINDS:
        part = row.of(kind)
        values[f"{kind.title()}_rate"] = row.per_second(part)
        values[f"{kind.title()}_resp"] = ms(part.mean_ns)
    return values


def file_systems(shown: Sequence[str]) -> Table:
    """The columns of file systems; the reports have those of the metadata operations in ``shown``."""
    return Table(partial(file_rows.header, shown), FILE_COLUMNS, _files)


def _text(value: Any) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _line(columns: Sequence[str], words: Sequence[str]) -> str:
    first, *others = words
    return f"{first:>12} " + " ".join(
        f"{word:>{max(10, len(name))}}" for word, name in zip(others, columns[1:], strict=True)
    )
