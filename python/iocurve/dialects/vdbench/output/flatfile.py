"""``flatfile.html``: one line per interval. The first line that is not a comment names the columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from iocurve.dialects.vdbench.output.rows import Row, clock, ms

COLUMNS = (
    *("tod", "Run", "Interval", "reqrate", "rate", "MB/sec", "bytes/io", "read%", "resp", "read_resp", "write_resp"),
    *("resp_max", "read_max", "write_max", "resp_std", "xfersize", "threads", "rdpct", "rhpct", "whpct", "seekpct"),
    *("lunsize", "version"),
    *("compratio", "dedupratio", "queue_depth", "cpu_used", "cpu_user", "cpu_kernel", "cpu_wait", "cpu_idle"),
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


def heading() -> str:
    """The line of column names."""
    return _line(COLUMNS)


def line(at: datetime, run: str, row: Row, settings: Mapping[str, Any]) -> str:
    """The line of an interval; ``settings`` are the columns that are constant within the run."""
    used = row.processors
    values = {
        "tod": clock(at),
        "Run": run,
        "Interval": row.label,
        "rate": row.rate,
        "MB/sec": row.mib_per_s,
        "bytes/io": row.bytes_per_operation,
        "read%": row.read_percent,
        "resp": ms(row.both.mean_ns),
        "read_resp": ms(row.reads.mean_ns),
        "write_resp": ms(row.writes.mean_ns),
        "resp_max": ms(row.both.max_ns),
        "read_max": ms(row.reads.max_ns),
        "write_max": ms(row.writes.max_ns),
        "resp_std": ms(row.both.stddev_ns),
        "queue_depth": row.queue_depth,
        "cpu_used": used.used if used else None,
        "cpu_user": used.user if used else None,
        "cpu_kernel": used.system if used else None,
        "cpu_wait": used.wait if used else None,
        "cpu_idle": used.idle if used else None,
        **settings,
    }
    return _line([_text(values.get(name)) for name in COLUMNS])


def _text(value: Any) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _line(words: Any) -> str:
    first, *others = words
    return f"{first:>12} " + " ".join(
        f"{word:>{max(10, len(name))}}" for word, name in zip(others, COLUMNS[1:], strict=True)
    )
