"""vdbench's output directory: ``flatfile.html``, or ``summary.html`` or ``totals.html``, and ``histogram.html``.

Each run (RD, and each step of its loops) is a point. vdbench states rates: counts are rates times the time between the
lines of the report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import unescape
from typing import TypeAlias

import msgspec

from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.imports.parsing import SourceFile, nanoseconds, number, time_of
from iocurve.imports.points import ImportedLoad, ImportedMeasurement
from iocurve.result.imported import ImportedInterval, ImportedKind, ImportedLatency, histogram_of, total_of

FILES = ("flatfile.html", "summary.html", "totals.html")
"""Files with results, the most detailed first."""
METADATA = ("mkdir", "rmdir", "create", "open", "close", "delete", "getattr", "setattr", "access", "copy", "move")
COUNTS = "vdbench states rates: operations and bytes are rates times the time of the run."
BINS = (
    "Percentiles come from vdbench's histograms, whose bins are up to twice as wide as their lower end: each value is "
    "the upper end of its bin."
)
NO_BINS = "No histogram.html: percentiles are not known."
THREADS = "The depth is vdbench's threads= of the run."
SAME_DEPTH = 1.1
"""With more operations in flight than threads= times this, several SDs or hosts had that many each."""

_TIME = r"(\d\d):(\d\d):(\d\d)\.(\d{3})"
_LINE = re.compile(rf"\s*{_TIME}\s+(.*)")
_STARTING = re.compile(r"Starting RD=([^\s;<]+)")
_COLUMNS = re.compile(r"\s*tod\s+(?:timestamp\s+)?Run\s+Interval\s", re.IGNORECASE)
_INTERVAL = re.compile(r"\d+\Z|avg_\d+-\d+\Z")
_CREATED = re.compile(r"created (?:.*\()?(\d\d:\d\d:\d\d \w{3} \d\d \d{4}) (?:UTC|GMT)\b")
_BIN = re.compile(r"\s*([\d.]+)\s*<\s*([\d.]+|max)\s+([\d,]+)\s")
Values: TypeAlias = Mapping[str, float | None]
"""The values of a line by the columns of the flat file, in lower case; n/a is None."""
_DAY_MS = 24 * 3600 * 1000


class _Row(msgspec.Struct, frozen=True):
    """A line of a report: an interval, or the average of a run."""

    run: str
    label: str
    time_ms: int
    """Time of day."""
    values: Values


class _RunTables(msgspec.Struct):
    name: str
    intervals: list[_Row] = msgspec.field(default_factory=list)
    average: _Row | None = None


def is_vdbench(source: SourceFile) -> bool:
    """True of a flat file, and of a report with intervals or averages."""
    text = source.text
    is_report = "Vdbench summary report" in text or "Run totals" in text
    return is_report or any(_COLUMNS.match(line) for line in text.splitlines()[:200])


def read(source: SourceFile) -> list[ImportedMeasurement]:
    """A point for each run of a report. Raises ``ResultError``."""
    runs = _runs(_flat_rows(source) or _report_rows(source))
    if not runs:
        raise source.error("vdbench's report has no interval and no average")
    tables = _histograms(source, [run.name for run in runs])
    found = [_measured(source, run, table) for run, table in zip(runs, tables, strict=True)]
    points = [one for one in found if one is not None]
    if not points:
        raise source.error("no run of vdbench completed an operation")
    return points


# ---- lines


def _milliseconds(parts: Sequence[str]) -> int:
    hours, minutes, seconds, milliseconds = map(int, parts)
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def _flat_rows(source: SourceFile) -> list[_Row]:
    columns: list[str] = []
    rows = []
    for line in source.text.splitlines():
        if _COLUMNS.match(line):
            columns = [name.lower() for name in line.split()]
            continue
        words = line.split()
        found = _LINE.match(line)
        # The last line of a run that was killed may be cut.
        if found is None or not columns or len(words) < len(columns):
            continue
        values = {name: number(word) for name, word in zip(columns, words, strict=False)}
        place = columns.index("run")
        rows.append(_Row(words[place], words[place + 1], _milliseconds(found.groups()[:4]), values))
    return [row for row in rows if _INTERVAL.match(row.label)]


def _report_rows(source: SourceFile) -> list[_Row]:
    """The lines of ``summary.html`` or ``totals.html``; two lines above them name the columns."""
    run, upper = "", ""
    columns: list[str] = []
    rows = []
    for line in source.text.splitlines():
        started, found = _STARTING.search(line), _LINE.match(line)
        if started:
            run = unescape(started[1])
        elif found and columns:
            label, *cells = found[5].split() or [""]
            if _INTERVAL.match(label) and len(cells) >= len(columns):
                values = {name: number(cell) for name, cell in zip(columns, cells, strict=False)}
                rows.append(_Row(run, label, _milliseconds(found.groups()[:4]), values))
        elif re.search(r"interval", line, re.IGNORECASE):
            upper = re.split(r"interval", line, maxsplit=1, flags=re.IGNORECASE)[1]
        elif upper and line.strip():
            columns, upper = _column_names(upper, line.split()), ""
    return rows


def _column_names(upper: str, lower: Sequence[str]) -> list[str]:
    """The names of the flat file for the two lines above the columns of a report."""
    words = [word.strip(".") for word in upper.split()]
    words = [word for word in words if word]
    if words and words[0].lower().startswith("reqstd"):
        pairs = [word for word in words if word.lower() in METADATA]
        known = ["rate", "resp", "cpu_used", "cpu_kernel", "read_pct", "read_rate", "read_resp", "write_rate"]
        known += ["write_resp", "mb_read", "mb_write", "mb/sec", "xfersize"]
        return [*known, *(f"{pair.lower()}_{what}" for pair in pairs for what in ("rate", "resp"))]
    names = [f"{first} {second}".lower() for first, second in zip(words, lower, strict=False)]
    return [_REPORT_COLUMNS.get(name, name) for name in names]


_REPORT_COLUMNS = {
    "i/o rate": "rate",
    "mb/sec 1024**2": "mb/sec",
    "bytes i/o": "bytes/io",
    "read pct": "read%",
    "resp time": "resp",
    "resp max": "resp_max",
    "resp stddev": "resp_std",
    "read resp": "read_resp",
    "write resp": "write_resp",
    "read max": "read_max",
    "write max": "write_max",
}


def _runs(rows: Sequence[_Row]) -> list[_RunTables]:
    """The lines by run: one ends with its average, or where intervals count from 1 again."""
    runs: list[_RunTables] = []
    for row in rows:
        last = runs[-1] if runs else None
        is_average = row.label.startswith("avg")
        starts = last is None or last.name != row.run or last.average is not None or _is_restart(last, row)
        if last is None or starts:
            last = _RunTables(row.run)
            runs.append(last)
        if is_average:
            last.average = row
        else:
            last.intervals.append(row)
    return runs


def _is_restart(run: _RunTables, row: _Row) -> bool:
    return row.label.isdigit() and bool(run.intervals) and int(row.label) <= int(run.intervals[-1].label)


# ---- histograms


_Histogram = tuple[str, dict[float, int]]
"""A kind, and operations by the upper end of their bin in ms, infinite for the last."""


def _histograms(source: SourceFile, names: Sequence[str]) -> list[list[_Histogram]]:
    """The tables of each run in ``histogram.html``, by the order of the runs."""
    file = source.sibling("histogram.html")
    found: list[tuple[str, list[_Histogram]]] = []
    title = ""
    for line in file.text.splitlines() if file else ():
        started, one = _STARTING.search(line), _BIN.match(line)
        if started:
            found.append((unescape(started[1]), []))
        elif line.strip().endswith(":") and found:
            title = line.strip()
        elif "min(ms)" in line and found:
            found[-1][1].append((_kind_of(title), {}))
        elif one and found and found[-1][1]:
            upper = math.inf if one[2] == "max" else float(one[2])
            found[-1][1][-1][1][upper] = int(one[3].replace(",", ""))
    if [name for name, _ in found] == list(names):
        return [tables for _, tables in found]
    # A name that several runs have tells no run from another.
    single = {name: tables for name, tables in found if [other for other, _ in found].count(name) == 1}
    return [single.get(name, []) if names.count(name) == 1 else [] for name in names]


def _kind_of(title: str) -> str:
    """The kind of a table; empty for all kinds together."""
    words = re.findall(r"[a-z]+", title.lower())
    kinds = [kind for kind in ("read", "write", *METADATA) if kind in words or f"{kind}s" in words]
    return kinds[0] if len(kinds) == 1 else ""


def _binned(tables: Sequence[_Histogram], kind: str, max_ns: float | None) -> str | None:
    """The histogram of a kind; each operation counts at the upper end of its bin."""
    for name, counts in tables:
        if name == kind:
            ends = {upper: upper * MILLISECOND_NS - 1 for upper in counts if math.isfinite(upper)}
            beyond = max([*ends.values(), max_ns or 0.0])
            return histogram_of({round(ends.get(upper, beyond)): count for upper, count in counts.items()})
    return None


def _of_each_kind(tables: Sequence[_Histogram], kinds: Sequence[str]) -> list[_Histogram]:
    """A run with one kind of operation has one table: that of the kind, or that of all."""
    if len(kinds) != 1 or len(tables) != 1:
        return list(tables)
    return [(kind, tables[0][1]) for kind in ("", kinds[0])]


# ---- points


def _measured(source: SourceFile, run: _RunTables, tables: Sequence[_Histogram]) -> ImportedMeasurement | None:
    """The point of a run; None if it has no rate."""
    counted = run.intervals[1:] or run.intervals
    values = run.average.values if run.average else _mean(counted)
    window_ns = _window_ns(run)
    tables = _of_each_kind(tables, list(_kinds(values, window_ns, ())))
    kinds = _kinds(values, window_ns, tables)
    total = _kind(values, "", window_ns, tables) if "rate" in values else total_of(kinds)
    if not total.iops and not any(kind.iops for kind in kinds.values()):
        return None
    notes = [("vdbench_counts", COUNTS), ("vdbench_bins", BINS) if tables else ("vdbench_no_bins", NO_BINS)]
    load = _load(values, kinds)
    if load.depth is not None:
        notes.append(("vdbench_threads", THREADS))
    if run.average is None:
        text = f"{source.name}: {run.name} has no average, as if interrupted; the mean of its intervals counts"
        notes.append(("vdbench_no_average", text))
    return ImportedMeasurement(
        tool=_tool(source),
        source=source.name,
        name=run.name,
        shape=load,
        kinds=kinds,
        total=total,
        intervals=tuple(_intervals(run)),
        window_ns=window_ns,
        state="interrupted" if run.average is None else "finished",
        errors_text=("no average was written",) if run.average is None else (),
        created=_created(source),
        notes=tuple(notes),
    )


def _mean(rows: Sequence[_Row]) -> Values:
    """The mean of rates; latencies are weighted by their rates and deviations are left out."""
    found: dict[str, float | None] = {}
    for name in rows[0].values:
        weight = _rate_of(name)
        pairs = [(row.values.get(weight) if weight else 1.0, row.values.get(name)) for row in rows]
        known = [(share, value) for share, value in pairs if share is not None and value is not None]
        whole = math.fsum(share for share, _ in known)
        mean = math.fsum(share * value for share, value in known) / whole if whole else None
        found[name] = None if name.endswith("_std") else mean
        if name.endswith("_max"):
            found[name] = max((value for _, value in known), default=None)
    return found


def _rate_of(name: str) -> str | None:
    """The column of the rate that a latency belongs to; None for other columns."""
    if name in ("read_resp", "write_resp", "resp"):
        return "rate"
    return name.removesuffix("resp") + "rate" if name.endswith("_resp") else None


def _elapsed_ms(later: _Row, earlier: _Row) -> int:
    return (later.time_ms - earlier.time_ms) % _DAY_MS


def _window_ns(run: _RunTables) -> int | None:
    """The time between the first line, whose interval vdbench leaves out, and the last."""
    if len(run.intervals) < 2:
        return None
    # Runs of days pass midnight more than once: the time adds up from line to line.
    pairs = zip(run.intervals, run.intervals[1:], strict=False)
    return sum(_elapsed_ms(later, earlier) for earlier, later in pairs) * MILLISECOND_NS or None


def _kinds(values: Values, window_ns: int | None, tables: Sequence[_Histogram]) -> dict[str, ImportedKind]:
    named = [kind for kind in ("read", "write", *METADATA) if values.get(f"{kind}_rate")]
    if "read_rate" in values or named:
        return {kind: _kind(values, kind, window_ns, tables) for kind in named}
    share, rate, moved = values.get("read%"), values.get("rate"), values.get("mb/sec")
    if share is None or not rate:
        return {}
    kinds = {}
    for kind, percent in (("read", share), ("write", 100 - share)):
        if percent > 0:
            # Only the reports of file systems have the sizes of reads and writes apart; of one size both have it.
            size = values.get("bytes/io") if values.get("bytes/io") == values.get("xfersize") else None
            of_kind = {f"{kind}_rate": rate * percent / 100, f"{kind}_resp": values.get(f"{kind}_resp")}
            of_kind |= {f"mb_{kind}": rate * percent / 100 * size / MIB if size else None}
            of_kind |= {f"{kind}_resp_max": values.get(f"{kind}_max")}
            if percent == 100:
                of_kind |= {f"mb_{kind}": moved, f"{kind}_resp": values.get("resp")}
                of_kind |= {f"{kind}_resp_max": values.get("resp_max"), f"{kind}_resp_std": values.get("resp_std")}
            kinds[kind] = _kind(of_kind, kind, window_ns, tables)
    return kinds


def _kind(values: Values, kind: str, window_ns: int | None, tables: Sequence[_Histogram]) -> ImportedKind:
    """The values of a kind, or with an empty name those of all operations."""
    prefix = f"{kind}_" if kind else ""
    rate = values.get(f"{prefix}rate")
    moved = values.get(f"mb_{kind}" if kind else "mb/sec")
    seconds = window_ns / SECOND_NS if window_ns else None
    operations = None if rate is None or seconds is None else round(rate * seconds)
    max_ns = nanoseconds(values.get(f"{prefix}resp_max"))
    return ImportedKind(
        operations=operations,
        bytes=None if moved is None or seconds is None else round(moved * MIB * seconds),
        iops=rate,
        bytes_per_s=None if moved is None else moved * MIB,
        latency=ImportedLatency(
            count=operations,
            mean_ns=nanoseconds(values.get(f"{prefix}resp")),
            stddev_ns=nanoseconds(values.get(f"{prefix}resp_std")),
            max_ns=max_ns,
            histogram=_binned(tables, kind, max_ns),
        ),
    )


def _load(values: Values, kinds: Mapping[str, ImportedKind]) -> ImportedLoad:
    moved = [kind for kind in ("read", "write") if kind in kinds]
    seek, size, moved_bytes = values.get("seekpct"), values.get("xfersize"), values.get("bytes/io")
    threads, in_flight = values.get("threads"), (values.get("rate") or 0.0) * (values.get("resp") or 0.0) / 1000
    kind = moved[0] if len(moved) == 1 else "mixed" if moved else None
    return ImportedLoad(
        kind=kind,
        order={100.0: "random", 0.0: "sequential"}.get(seek) if seek is not None else None,
        # Of several sizes vdbench gives one.
        block_bytes=int(size) if size and size % 512 == 0 and moved_bytes in (None, size) else None,
        read_percent=values.get("rdpct") if kind == "mixed" else None,
        depth=threads if threads and in_flight <= threads * SAME_DEPTH else None,
    )


def _intervals(run: _RunTables) -> Iterator[ImportedInterval]:
    """The intervals after the first, whose start is not in the report."""
    start_ns = 0
    for earlier, row in zip(run.intervals, run.intervals[1:], strict=False):
        end_ns = start_ns + _elapsed_ms(row, earlier) * MILLISECOND_NS
        for kind, values in _kinds(row.values, None, ()).items():
            yield ImportedInterval(
                start_ns=start_ns,
                end_ns=end_ns,
                kind=kind,
                iops=values.iops,
                bytes_per_s=values.bytes_per_s,
                mean_ns=values.latency.mean_ns,
            )
        start_ns = end_ns


# ---- facts


def _tool(source: SourceFile) -> str:
    for name in ("logfile.html", "summary.html"):
        file = source.sibling(name)
        found = re.search(r"distribution:\s*vdbench(\d)(\d\d)(\d\d)", file.text) if file else None
        if found:
            return f"vdbench {found[1]}.{found[2]}.{found[3]}"
        if file and " by iocurve" in file.text[:2000]:
            return "iocurve vdbench"
    return "vdbench, version not stated"


def _created(source: SourceFile) -> datetime | None:
    file = source.sibling("summary.html")
    found = _CREATED.search(file.text) if file else None
    return time_of(found[1], "%H:%M:%S %b %d %Y") if found else None
