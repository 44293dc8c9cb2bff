"""elbencho's table, and its results as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from iocurve.dialects.elbencho.options import ElbenchoOptions
from iocurve.dialects.elbencho.phases import ElbenchoData, Phase
from iocurve.engine.derived import with_drained
from iocurve.engine.outcome import Live, LiveTotals, State, WorkerOutcome
from iocurve.foundation.units import MB, MIB, MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from iocurve.result.summary import Latency, MergedOperations, Summary, Totals, merge_latencies

VERSION = "3.1"
"""The version whose output this is."""
HEADER = """\
OPERATION   RESULT TYPE         FIRST DONE   LAST DONE
=========== ================    ==========   =========
"""
LIVE_HEADER = (
    "ISO Date,Label,Phase,RuntimeMS,Rank,MixType,Done%,DoneBytes,MiB/s,IOPS,Entries,Entries/s,"
    "Lat Ent us,Lat IO us,Active,CPU,Service,\n"
)
_NO_TOTALS = LiveTotals(operations=0, bytes=0, errors=0)


class LiveRows(msgspec.Struct):
    """The rows of --livecsv: the values of all threads, every --liveint milliseconds.

    Rates are over the time since the row before, latencies those of the newest interval. The columns of active
    threads, processors and services are empty.
    """

    data_set: ElbenchoData
    phase: Phase
    bytes_planned: int
    written_ns: int = 0
    before: Mapping[str, LiveTotals] = {}

    def next(self, live: Live) -> str:
        """The rows that are due, of each kind that moves data; empty before they are."""
        options = self.data_set.options
        took_ns = live.elapsed_ns - self.written_ns
        if live.phase != "run" or not live.totals or took_ns < options.live_interval_ms * MILLISECOND_NS:
            return ""
        kinds = self.phase.data or ("",)
        rows = io.StringIO()
        for kind in kinds:
            mix = kind.capitalize() if len(kinds) > 1 else ""
            csv.writer(rows, lineterminator=",\n").writerow(self._row(live, kind, mix, took_ns / SECOND_NS))
        self.written_ns, self.before = live.elapsed_ns, live.totals
        return rows.getvalue()

    def _row(self, live: Live, kind: str, mix: str, seconds: float) -> list[object]:
        entry = self.phase.entry if self.data_set.is_tree else ""
        data, entries = live.totals.get(kind, _NO_TOTALS), live.totals.get(entry, _NO_TOTALS)
        earlier = self.before.get(kind, _NO_TOTALS)
        entries_more = entries.operations - self.before.get(entry, _NO_TOTALS).operations
        done = data.bytes / self.bytes_planned if self.bytes_planned else entries.operations / (self.phase.entries or 1)
        means = [
            live.operations[name].mean_ns // MICROSECOND_NS if name in live.operations else 0 for name in (entry, kind)
        ]
        return [
            datetime.now().astimezone().isoformat(timespec="milliseconds"),
            self.data_set.options.label,
            self.phase.name,
            live.elapsed_ns // MILLISECOND_NS,
            "Total",
            mix,
            min(100, int(100 * done)),
            data.bytes,
            int((data.bytes - earlier.bytes) / seconds) // MIB,
            int((data.operations - earlier.operations) / seconds),
            entries.operations,
            int(entries_more / seconds),
            *map(int, means),
            "",
            "",
            "",
        ]


class PhaseRow(msgspec.Struct, frozen=True):
    """The result of a phase."""

    phase: Phase
    started: datetime
    summary: Summary
    workers: Sequence[WorkerOutcome]
    state: State = "finished"

    @property
    def name(self) -> str:
        """The phase; of one that did not finish with its state, so that no reader takes its values for those of all."""
        return self.phase.name if self.state == "finished" else f"{self.phase.name} [{self.state}]"

    @property
    def last_ns(self) -> int:
        """Time until the slowest thread was done."""
        return max((max(worker.window_end_ns, worker.drained_ns) for worker in self.workers), default=0)

    @property
    def first_ns(self) -> int:
        """Time until the fastest thread was done."""
        return min((worker.window_end_ns for worker in self.workers), default=0)

    @property
    def entries(self) -> int:
        """Directories or files that were completed."""
        return self.view((self.phase.entry,)).operations

    @property
    def entry_latency(self) -> Latency:
        """Latency of a directory or file; from open to close of a file that is written or read."""
        timed = [worker.files for worker in self.workers if worker.files]
        return merge_latencies(timed) if timed else self.view((self.phase.entry,)).service

    def view(self, kinds: Sequence[str]) -> MergedOperations:
        """Operations of some kinds, of all threads, up to the last completion."""
        return MergedOperations([with_drained(worker) for worker in self.workers], kinds)

    def values(self, kinds: Sequence[str]) -> Values:
        """The values of some kinds in both columns."""
        seconds = self.last_ns / SECOND_NS
        view = self.view(kinds)
        totals: list[Totals] = [self.summary.kinds[kind] for kind in kinds if kind in self.summary.kinds]
        rate = sum(total.overlap_iops for total in totals)
        bytes_rate = sum(total.overlap_bytes_per_s for total in totals)
        first_s = self.first_ns / SECOND_NS
        return Values(
            rates=(rate, view.operations / seconds if seconds else 0.0),
            mib_per_s=(bytes_rate / MIB, view.bytes / MIB / seconds if seconds else 0.0),
            # The rate up to the first end counts operations of all threads.
            operations=(min(round(rate * first_s), view.operations), view.operations),
            mib=(min(bytes_rate * first_s, view.bytes) / MIB, view.bytes / MIB),
            latency=view.service,
        )


class Values(msgspec.Struct, frozen=True):
    """Values up to the end of the fastest thread, and up to that of the slowest."""

    rates: tuple[float, float]
    mib_per_s: tuple[float, float]
    operations: tuple[int, int]
    mib: tuple[float, float]
    latency: Latency


def table(row: PhaseRow, options: ElbenchoOptions) -> str:
    """The rows of a phase."""
    phase = row.phase
    lines = [_line("Elapsed time", *(_duration(value) for value in (row.first_ns, row.last_ns)))]
    entries = row.values((phase.entry,)) if phase.entry else None
    if entries:
        lines.append(_line(f"{phase.unit}/s", *map(_whole, entries.rates)))
    if len(phase.data) > 1:
        lines += _mix_lines(row, options)
    elif phase.data:
        data = row.values(phase.data)
        if not entries or options.size > options.block:
            lines.append(_line("IOPS", *map(_whole, data.rates)))
        lines.append(_throughput("Throughput ", "", data, options))
        lines.append(_line("Total MiB", *map(_whole, data.mib)))
    if entries:
        lines.append(_line(f"{phase.unit} total", *map(_whole, entries.operations)))
    if options.shows_elapsed:
        times = " ".join(str(worker.window_end_ns // MILLISECOND_NS) for worker in row.workers)
        lines.append(_list("Time ms each", times))
    if entries:
        lines += _latency_lines(phase.unit, row.entry_latency, options)
    for kind in reversed(phase.data):
        mixed = {"write": "IO wr", "read": "IO rd"}[kind]
        lines += _latency_lines(mixed if len(phase.data) > 1 else "IO", row.values((kind,)).latency, options)
    if row.name != phase.name:
        lines.insert(0, row.name)
    first = f"{row.name:<12}{lines[0][12:]}"
    return "\n".join([first, *lines[1:], "---", ""])


def _throughput(before: str, after: str, values: Values, options: ElbenchoOptions) -> str:
    unit, scale = ("MB/s", MIB / MB) if options.base10 else ("MiB/s", 1.0)
    return _line(f"{before}{unit}{after}", *(_whole(rate * scale) for rate in values.mib_per_s))


def _mix_lines(row: PhaseRow, options: ElbenchoOptions) -> Iterator[str]:
    """The rows of a mix: writes, reads, and both."""
    parts = [("write", row.values(("write",))), ("read", row.values(("read",)))]
    both = [*parts, ("total", row.values(("read", "write")))]
    yield from (_line(f"IOPS {name}", *map(_whole, values.rates)) for name, values in both)
    yield from (_throughput("", f" {name}", values, options) for name, values in both)
    yield from (_line(f"MiB {name}", *map(_whole, values.mib)) for name, values in parts)


def _line(label: str, first: str, last: str) -> str:
    return f"{'':12}{label:<16} :{first:>12}{last:>12}"


def _latency_lines(name: str, latency: Latency, options: ElbenchoOptions) -> Iterator[str]:
    if not latency.count:
        return
    if options.shows_latency:
        shown = (("min", latency.min_ns), ("avg", latency.mean_ns), ("max", latency.max_ns))
        yield _list(f"{name} latency", " ".join(f"{label}={_duration_us(value)}" for label, value in shown))
    if options.shows_percentiles:
        percents = [1.0, 50.0, 75.0, 99.0, *(100 - 10.0**-nine for nine in range(1, options.nines + 1))]
        texts = (f"{percent:g}%<={_microseconds(latency.percentile(percent))}" for percent in percents)
        yield _list(f"{name} lat % us", " ".join(texts))
    if options.shows_histogram:
        yield _list(f"{name} lat hist", ", ".join(f"{_microseconds(top)}: {count}" for top, count in _buckets(latency)))


def _list(label: str, text: str) -> str:
    return f"{'':12}{label:<16} : [ {text} ]"


def _buckets(latency: Latency) -> Iterator[tuple[float, int]]:
    """Upper bounds in nanoseconds, four to a power of two microseconds, with the operations in each."""
    counted, quarter = 0, 0
    while latency.histogram is not None and counted < latency.count:
        top = MICROSECOND_NS * 2 ** (quarter / 4)
        below = latency.histogram.count_between(0, int(top)) if top < latency.max_ns else latency.count
        if below > counted:
            yield top, below - counted
        counted, quarter = below, quarter + 1


def _microseconds(nanoseconds: float) -> str:
    value = nanoseconds / MICROSECOND_NS
    return f"{value:.1f}" if value < 10 else str(round(value))


def _whole(value: float) -> str:
    return str(int(value))


def _duration(nanoseconds: int) -> str:
    """``0ms``, ``12.345s``, ``2m3.241s``, ``1h2m3.241s``."""
    milliseconds = nanoseconds // MILLISECOND_NS
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}h' if hours else ''}{f'{minutes}m' if hours or minutes else ''}{rest / 1000:.3f}s"


def _duration_us(nanoseconds: float) -> str:
    """``42us``, ``1.23ms``, ``1.23s``."""
    if nanoseconds < MILLISECOND_NS:
        return f"{int(nanoseconds // MICROSECOND_NS)}us"
    unit, text = (MILLISECOND_NS, "ms") if nanoseconds < SECOND_NS else (SECOND_NS, "s")
    return f"{nanoseconds / unit:.2f}{text}"


# ---- files of results


def _date(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}{at:%z}"


def csv_text(rows: Sequence[PhaseRow], data_set: ElbenchoData, hosts: int, *, labels: bool) -> str:
    """The results as elbencho's CSV, a line for each phase."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, row in enumerate(rows):
        columns = _columns(row, data_set, hosts)
        if labels and number == 0:
            writer.writerow(columns)
        writer.writerow(columns.values())
    return text.getvalue()


def _columns(row: PhaseRow, data_set: ElbenchoData, hosts: int) -> dict[str, object]:
    options, phase = data_set.options, row.phase
    mixes = len(phase.data) > 1
    main = ("write",) if mixes else phase.data
    entries = row.values((phase.entry,)) if phase.entry else None
    data = row.values(main) if main else None
    return {
        "ISO date": _date(row.started),
        "label": options.label,
        **_config(data_set, hosts),
        "operation": row.name,
        "time ms [first]": row.first_ns // MILLISECOND_NS,
        "time ms [last]": row.last_ns // MILLISECOND_NS,
        **_results("", entries, data, row),
        **_results("rwmix read ", None, row.values(("read",)) if mixes else None, row),
        "version": f"{VERSION} (iocurve)",
        "command": _command(options),
    }


def _command(options: ElbenchoOptions) -> str:
    return shlex.join(("elbencho", *options.arguments))


def _config(data_set: ElbenchoData, hosts: int) -> dict[str, object]:
    options = data_set.options
    kind = "dir" if data_set.is_tree else "blockdev" if data_set.is_device else "file"
    aligned = int(options.aligned) if options.random else ""
    size = max(data_set.sizes, default=options.size)
    return {
        "path type": kind,
        "paths": len(options.paths),
        "hosts": max(1, hosts),
        "threads": options.threads,
        "dirs": options.directories if data_set.is_tree else "",
        "files": options.files if data_set.is_tree else "",
        "file size": size,
        "block size": min(options.block, size),
        "direct IO": int(options.direct),
        "random": int(options.random),
        "random aligned": aligned,
        "IO depth": options.depth,
        "shared paths": int(options.share_paths) if hosts else "",
        "truncate": 0,
    }


def _results(prefix: str, entries: Values | None, data: Values | None, row: PhaseRow) -> dict[str, object]:
    def pair(name: str, values: tuple[float, float] | None) -> dict[str, object]:
        shown: Sequence[object] = ("", "") if values is None else [int(value) for value in values]
        return {f"{prefix}{name} [first]": shown[0], f"{prefix}{name} [last]": shown[1]}

    def latency(name: str, found: Latency | None) -> dict[str, object]:
        known = found is not None and found.count > 0
        values = (found.min_ns, found.mean_ns, found.max_ns) if found is not None and known else ("", "", "")
        shown = [int(value // MICROSECOND_NS) if isinstance(value, (int, float)) else value for value in values]
        return {
            f"{prefix}{name} lat us [{part}]": value for part, value in zip(("min", "avg", "max"), shown, strict=True)
        }

    return {
        **pair("entries/s", entries.rates if entries else None),
        **pair("IOPS", data.rates if data else None),
        **pair("MiB/s", data.mib_per_s if data else None),
        **({} if prefix else pair("CPU%", None)),
        **pair("entries", entries.operations if entries else None),
        **pair("MiB", data.mib if data else None),
        **latency("Ent", row.entry_latency if entries and not prefix else None),
        **latency("IO", data.latency if data else None),
    }


def json_text(rows: Sequence[PhaseRow], data_set: ElbenchoData, hosts: int) -> str:
    """The results as elbencho's JSON, an object on a line for each phase."""
    return "".join(json.dumps(_document(row, data_set, hosts)) + "\n" for row in rows)


def _document(row: PhaseRow, data_set: ElbenchoData, hosts: int) -> Mapping[str, object]:
    options = data_set.options
    known = _config(data_set, hosts)
    of_tree = ("dirs", "files") if data_set.is_tree else ()
    config = {
        **{
            name.replace(" ", "_"): known[name]
            for name in ("path type", "paths", "hosts", "threads", *of_tree, "file size", "block size")
        },
        "direct_io": str(options.direct).lower(),
        "random_offsets": str(options.random).lower(),
        "io_depth": options.depth,
        "truncate_files": "false",
        "version": f"{VERSION} (iocurve)",
        "label": options.label,
        "command": _command(options),
    }
    return {
        "iso_start_date": _date(row.started),
        "phase_type": row.name,
        "config": {name: str(value) for name, value in config.items()},
        **{name: _column(row, index) for index, name in enumerate(("first_done", "last_done"))},
    }


def _column(row: PhaseRow, index: int) -> Mapping[str, object]:
    phase = row.phase
    mixes = len(phase.data) > 1
    values: dict[str, object] = {"elapsed_time_ms": str((row.first_ns, row.last_ns)[index] // MILLISECOND_NS)}
    latency: dict[str, object] = {}
    if phase.entry:
        entries = row.values((phase.entry,))
        values |= {"entries": str(entries.operations[index]), "entries/s": str(int(entries.rates[index]))}
        latency["entries"] = _json_latency(row.entry_latency)
    if phase.data:
        data = row.values(("write",) if mixes else phase.data)
        values |= _json_rates(data, index)
        latency["IO"] = _json_latency(data.latency)
    if mixes:
        reads = row.values(("read",))
        values["rwmix_read"] = _json_rates(reads, index)
        latency["IO"] = _json_latency(row.values(("write",)).latency) | {"rwmix_read": _json_latency(reads.latency)}
    return values | {"latency": latency}


def _json_rates(values: Values, index: int) -> dict[str, object]:
    return {
        "iops": str(int(values.rates[index])),
        "bytes": str(round(values.mib[index] * MIB)),
        "bytes/s": str(round(values.mib_per_s[index] * MIB)),
    }


def _json_latency(latency: Latency) -> dict[str, object]:
    shown = (("min_us", latency.min_ns), ("avg_us", latency.mean_ns), ("max_us", latency.max_ns))
    return {name: str(int(value // MICROSECOND_NS)) for name, value in shown if latency.count}
