"""Writes results as DiskSpd's text. Scripts split its tables at ``|``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from iocurve.dialects.diskspd.job import PreparedSpan, ThreadRow
from iocurve.dialects.diskspd.output.profile_text import distribution_lines, profile_text, size_text
from iocurve.dialects.diskspd.read.profile import Profile, TimeSpan
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.engine.derived import measured_ns
from iocurve.engine.outcome import GroupInterval, Outcome, WorkerOutcome
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.resolve.checks import consecutive
from iocurve.machine.processes import Topology
from iocurve.result.course import measured_intervals, work
from iocurve.result.document import MachineUse
from iocurve.result.summary import Latency, MergedOperations, Spread

READS, WRITES, BOTH = ("read",), ("write",), ("read", "write")
"""Kinds of operations of a view."""


class TargetStats(msgspec.Struct, frozen=True):
    """One thread on one target."""

    row: ThreadRow
    workers: tuple[WorkerOutcome, ...]

    def view(self, kinds: Sequence[str]) -> MergedOperations:
        """The workers of the row, merged."""
        return MergedOperations(self.workers, kinds)


class SpanStats(msgspec.Struct, frozen=True):
    """A time span of the results."""

    seconds: float
    """Length of the measured time; 0 if the run was stopped before it began."""
    threads: tuple[tuple[TargetStats, ...], ...]

    @property
    def paths(self) -> list[str]:
        """Paths of the targets, each once."""
        return list(dict.fromkeys(target.row.path for thread in self.threads for target in thread))

    def workers(self, path: str | None = None) -> list[WorkerOutcome]:
        """The workers of all rows, or of those on the target ``path``."""
        targets = (target for thread in self.threads for target in thread)
        return [worker for target in targets if path in (None, target.row.path) for worker in target.workers]


def span_stats(prepared: PreparedSpan, outcome: Outcome | None, clients: int = 1) -> SpanStats:
    """Groups the workers by thread and target. ``outcome`` is None if the time span never ran.

    On a cluster the threads of the second agent follow those of the first.
    """
    if outcome is None:
        return SpanStats(0.0, ())
    lengths = [len(group.workers) for group in prepared.plan.groups]
    places = ((group, worker) for group, length in enumerate(lengths) for worker in range(length))
    numbers = {place: number for number, place in enumerate(places)}
    workers = {
        (worker.worker // lengths[worker.group], numbers[worker.group, worker.worker % lengths[worker.group]]): worker
        for worker in outcome.workers
    }
    threads = tuple(
        tuple(
            TargetStats(row, tuple(workers[client, n] for n in row.workers if (client, n) in workers)) for row in rows
        )
        for client in range(clients)
        for rows in prepared.threads
    )
    return SpanStats(max((measured_ns(worker) for worker in workers.values()), default=0) / SECOND_NS, threads)


def buckets(workers: Sequence[WorkerOutcome]) -> list[GroupInterval]:
    """The intervals that count. A rest shorter than a millisecond at the end of the run does not."""
    return [one for one in measured_intervals(workers) if one.end_ns - one.start_ns >= MILLISECOND_NS // 2]


def iops(interval: GroupInterval, kinds: Sequence[str]) -> float:
    """Rate over one interval."""
    return work(interval, kinds).operations / ((interval.end_ns - interval.start_ns) / SECOND_NS)


def iops_deviation(view: MergedOperations) -> float:
    """Standard deviation of the IOPS of the intervals."""
    return Spread.of([iops(interval, view.kinds) for interval in buckets(view.workers)]).stddev


STARS = "*" * 79
NOT_BEGUN = "The test was interrupted before the measurements began. No results are displayed."
NAMED_PERCENTILES = (
    (25, "25th"), (50, "50th"), (75, "75th"), (90, "90th"), (95, "95th"), (99, "99th"), (99.9, "3-nines"),
    (99.99, "4-nines"), (99.999, "5-nines"), (99.9999, "6-nines"), (99.99999, "7-nines"), (99.999999, "8-nines"),
    (99.9999999, "9-nines"),
)  # fmt: skip

Measured = tuple[SpanStats, MachineUse | None]


def results_text(
    profile: Profile, system: Topology, start: datetime, measured: Sequence[Measured], incomplete: str | None = None
) -> str:
    """The complete output: profile, system and each time span; the last line says why it is ``incomplete``."""
    lines = [*_system(system, start)]
    for number, (span, (stats, machine)) in enumerate(zip(profile.time_spans, measured, strict=False), start=1):
        lines += ["", f"Results for timespan {number}:", STARS, *_time_span(span, stats, machine, system)]
    if len(measured) > 1:
        lines += _totals([stats for stats, _ in measured])
    lines += ["", f"incomplete: {incomplete}"] if incomplete else []
    return profile_text(profile) + "\n".join(lines) + "\n"


def _system(system: Topology, start: datetime) -> Iterator[str]:
    yield "System information:"
    yield ""
    yield f"\tcomputer name: {system.name}"
    yield f"\tstart time: {start:%Y/%m/%d %H:%M:%S} UTC"
    yield ""
    yield f"\tcpu count:\t\t{len(system.processors)}"
    yield f"\tcore count:\t\t{system.cores}"
    yield "\tgroup count:\t\t1"
    yield f"\tnode count:\t\t{system.nodes}"
    yield f"\tsocket count:\t\t{system.sockets}"
    yield "\theterogeneous cores:\tn"
    yield ""
    yield f"\tactive power scheme:\t{system.power_scheme}"


def _time_span(span: TimeSpan, stats: SpanStats, machine: MachineUse | None, system: Topology) -> Iterator[str]:
    if not stats.seconds:
        yield NOT_BEGUN
        return
    yield ""
    yield f"actual test time:\t{stats.seconds:.2f}s"
    yield f"thread count:\t\t{len(stats.threads)}"
    if span.shares_requests:
        yield f"request count:\t\t{span.requests}"
    yield from _processors(machine, system)
    yield from _distributions(stats)
    for title, kinds in (("Total IO", BOTH), ("Read IO", READS), ("Write IO", WRITES)):
        yield from ("", title, *_section(span, stats, kinds))
    if span.measure_latency:
        yield from _latencies(stats)


# -- processors and distributions --------------------------------------------------------------------------------------


def _processors(machine: MachineUse | None, system: Topology) -> Iterator[str]:
    columns = _place_columns(system)
    line = "-" * (40 + sum(width for _, width, _ in columns))
    yield ""
    yield "".join(f"{title} | " for title, _, _ in columns) + "CPU |  Usage |  User  | Kernel |  Idle"
    yield line
    uses = () if machine is None else machine.processors
    places = {processor.number: processor for processor in system.processors}
    shares = []
    for use in uses:
        share = (100 * (use.user_share + use.system_share), 100 * use.user_share, 100 * use.system_share)
        shares.append(share)
        place = places.get(use.processor)
        before = "".join(f"{place_of(place) if place else 0:{width - 2}}| " for _, width, place_of in columns)
        yield f"{before}{use.processor:4}{_shares(share)}"
    yield line
    count = len(shares) or 1
    mean = (sum(s[0] for s in shares) / count, sum(s[1] for s in shares) / count, sum(s[2] for s in shares) / count)
    yield " " * sum(width for _, width, _ in columns) + f"avg.{_shares(mean)}"


def _place_columns(system: Topology) -> list[tuple[str, int, Callable[..., int]]]:
    """Columns that say where a processor is, if there are several such places: title, width, number."""
    columns: list[tuple[bool, str, int, Callable[..., int]]] = [
        (system.sockets > 1, "Socket", 9, lambda place: place.socket),
        (system.nodes > 1, "Node", 7, lambda place: place.node),
        (system.has_threads, "Core", 7, lambda place: place.core),
    ]
    return [(title, width, place_of) for is_shown, title, width, place_of in columns if is_shown]


def _shares(used: tuple[float, float, float]) -> str:
    return "".join(f"| {share:6.2f}%" for share in (*used, 100 - used[0]))


def _distributions(stats: SpanStats) -> Iterator[str]:
    """Distributions as they came to be, with the threads that had them."""
    users: dict[str, tuple[tuple[OffsetZone, ...], dict[str, list[int]]]] = {}
    for thread, targets in enumerate(stats.threads):
        for target in targets:
            if target.row.zones:
                _, threads = users.setdefault(str(target.row.zones), (target.row.zones, {}))
                threads.setdefault(target.row.path, []).append(thread)
    if users:
        yield from ("", "Effective IO Distributions", "--------------------------")
    for zones, threads in users.values():
        for path, numbers in threads.items():
            yield f"target: {path} [thread:{_runs(numbers)}]"
        yield from distribution_lines(zones)


def _runs(numbers: Iterable[int]) -> str:
    """`` 0 - 3 7``."""
    runs = consecutive(numbers)
    texts = (f" {run[0]}" + (" -" if len(run) > 2 else "") + (f" {run[-1]}" if len(run) > 1 else "") for run in runs)
    return "".join(texts)


# -- tables ------------------------------------------------------------------------------------------------------------


def _section(span: TimeSpan, stats: SpanStats, kinds: Sequence[str]) -> Iterator[str]:
    latency, deviation = span.measure_latency, span.measure_iops_deviation
    titles = ("|  AvgLat  " if latency else "") + ("| IopsStdDev " if deviation else "")
    titles += "| LatStdDev " if latency else ""
    line = "-" * (78 + (23 if latency else 0) + (13 if deviation else 0))
    yield f"thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s {titles}|  file"
    yield line
    for thread, targets in enumerate(stats.threads):
        for target in targets:
            view = target.view(kinds)
            file = f"{target.row.path} ({size_text(target.row.bytes)})"
            yield f"{thread:6} | {view.bytes:15}{_cells(span, view, stats.seconds)} | {file}"
    yield line
    total = MergedOperations(stats.workers(), kinds)
    yield f"total:   {total.bytes:15}{_cells(span, total, stats.seconds)}"


def _cells(span: TimeSpan, view: MergedOperations, seconds: float) -> str:
    cells = [f"{view.operations:12}", f"{view.bytes / MIB / seconds:10.2f}", f"{view.operations / seconds:10.2f}"]
    latency = view.service if span.measure_latency else None
    if latency is not None:
        cells.append(f"{latency.mean_ns / MILLISECOND_NS:8.3f}")
    if span.measure_iops_deviation:
        cells.append(f"{iops_deviation(view):10.2f}")
    if latency is not None:
        cells.append(f" {latency.stddev_ns / MILLISECOND_NS:8.3f}" if latency.count else "      N/A")
    return "".join(f" | {cell}" for cell in cells)


def _latencies(stats: SpanStats) -> Iterator[str]:
    """Latency distribution of each target, if there are several, and of all targets together."""
    for path in stats.paths if len(stats.paths) > 1 else ():
        yield from ("", f"Latency distribution: {path}", *_chart(stats.workers(path)))
    yield from ("", "Total latency distribution:", *_chart(stats.workers()))


def _chart(workers: Sequence[WorkerOutcome]) -> Iterator[str]:
    columns = [MergedOperations(workers, kinds).service for kinds in (READS, WRITES, BOTH)]
    yield "  %-ile |  Read (ms) | Write (ms) | Total (ms)"
    yield "----------------------------------------------"
    yield _chart_line("min", columns, [column.min_ns for column in columns])
    for percent, name in NAMED_PERCENTILES:
        yield _chart_line(name, columns, [column.percentile(percent) for column in columns])
    yield _chart_line("max", columns, [column.max_ns for column in columns])


def _chart_line(name: str, columns: Sequence[Latency], values: Sequence[float]) -> str:
    cells = [f"{value / MILLISECOND_NS:10.3f}" for value in values]
    read, write = (cell if column.count else "       N/A" for column, cell in zip(columns[:2], cells[:2], strict=True))
    return f"{name:>7} | {read} | {write} | {cells[2]}"


def _totals(spans: Sequence[SpanStats]) -> Iterator[str]:
    """Totals over the time spans that measured something."""
    measured = [span for span in spans if span.seconds]
    seconds = sum(span.seconds for span in measured)
    line = "-" * 79
    yield from ("", "", "Totals:", STARS, "")
    yield "type   |       bytes     |     I/Os     |    MiB/s   |  I/O per s"
    yield line
    workers = [worker for span in measured for worker in span.workers()]
    yield _total_line("write", MergedOperations(workers, WRITES), seconds)
    yield _total_line("read", MergedOperations(workers, READS), seconds)
    yield line
    yield _total_line("total", MergedOperations(workers, BOTH), seconds)
    yield ""
    yield f"total test time:\t{seconds:.2f}s"


def _total_line(name: str, view: MergedOperations, seconds: float) -> str:
    per_second = 1 / seconds if seconds else 0.0
    rates = f"{view.bytes / MIB * per_second:10.2f} | {view.operations * per_second:10.2f}"
    return f"{name:<6} | {view.bytes:15} | {view.operations:12} | {rates}"
