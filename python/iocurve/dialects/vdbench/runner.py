"""Runs the runs of a parameter file in order, prints their intervals and writes the reports."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import TextIO

import msgspec

from iocurve.dialects.vdbench.output.directory import TEXTS, OutputDirectory, Reports, choose
from iocurve.dialects.vdbench.output.table import Kind, OutputTable, Row, average, clock, ms, row, rows
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.dialects.vdbench.planned import Planned, Share, starting
from iocurve.dialects.vdbench.read.options import Loop
from iocurve.dialects.vdbench.runs import Run
from iocurve.engine.derived import difference_text
from iocurve.engine.outcome import Live, Outcome, WorkerOutcome
from iocurve.engine.plan import Group
from iocurve.foundation.errors import Interrupted, IocurveError
from iocurve.foundation.units import SECOND_NS, counted, format_bytes
from iocurve.job.model import PlanNote
from iocurve.machine.processes import ProcessorMeter, Processors


def simulate(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a line for each run, for -s."""
    for run in runs:
        yield starting(run, None)
    seconds = sum(run.timing.total_ns for run in runs) // SECOND_NS
    yield f"{len(runs)} runs, {seconds} seconds"


class Writer:
    """Prints what vdbench prints, and writes its reports. ``now`` is the clock; tests pass their own."""

    def __init__(
        self,
        file: ParameterFile,
        out: TextIO | None = None,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._file = file
        self._out = out
        self._now = now
        self._rounds = 0
        self._is_whole = True
        self._last: Planned | None = None
        self.links: Sequence[str] = ()
        """Names of all runs and formats in order."""

    @contextmanager
    def written(self, notes: Sequence[PlanNote]) -> Iterator[None]:
        """Surrounds the runs: makes the output directory, and writes there how they ended."""
        started = self._now()
        path = choose(self._file.options.output, self._file.directory, started)
        self._table = self._file.table
        self._reports = _reports(self._file, self._table, self.links)
        self._directory = OutputDirectory(path, self.links, started, self._reports, self._table)
        self._slaves_started(started, self._file.topology.hosts)
        self._directory.write("parmfile", _parameter_lines(self._file))
        self._directory.write("parmscan", _scan_lines(self._file))
        for note in notes:
            self._directory.log(started, f"{note.level}: {note}")
        try:
            yield
        except IocurveError as error:
            self._directory.error(self._now(), str(error))
            if isinstance(error, Interrupted):
                self._directory.status(self._now(), "Ctrl-C found")
            self._print(f"{clock(self._now())} Vdbench execution failed: {error}")
            raise
        ended = self._now()
        self._directory.status(ended, "Shutting down slaves")
        if self._is_whole:
            self._directory.status(ended, "Vdbench complete")
        ending = "completed successfully" if self._is_whole else "was ended early"
        text = f"Vdbench execution {ending}. Output directory: {path.absolute()}"
        self._print(f"{clock(ended)} {text}")
        self._directory.write("summary", ["", f"{clock(ended)} {text}"])

    def _slaves_started(self, at: datetime, hosts: Sequence[str]) -> None:
        """Writes the lines of ``status.html`` that programs wait for; this process stands in for all slaves."""
        process = os.getpid()
        self._directory.status(at, "Starting slaves")
        for host in hosts:
            self._directory.status(at, f"Slave {host}-0 (pid {process:>6}) connected to master {process}")
        for event in ("Slaves connected", "Query host configuration started", "Query host configuration completed"):
            self._directory.status(at, event)

    def recovery_started(self) -> Callable[[Live], None]:
        """Announces the recovery of the journals."""
        text = "Starting RD=journal_recovery: every block in the journal is read and verified"
        self._print(f"{clock(self._now())} {text}")
        return lambda _: None

    def recovered(self, outcome: Outcome) -> None:
        """Writes what the recovery of the journals found."""
        validation = self._file.validation
        for worker in outcome.workers:
            if worker.error:
                self._directory.error(self._now(), f"journal_recovery: {worker.error}")
            for found in worker.differences:
                self._directory.error(self._now(), f"journal_recovery: {difference_text(found)}")
        self._is_whole = outcome.state == "finished" and not (validation and validation.request.recover_only)
        if outcome.state == "finished":
            read = sum(kind.bytes for worker in outcome.workers for kind in worker.operations.values())
            text = f"Journal recovery: {format_bytes(read)} read and verified, no differences"
            self._print(f"{clock(self._now())} {text}", "")

    # -- one run -------------------------------------------------------------------------------------------------------

    def follow(self) -> Callable[[Live], None]:
        """Announces the run that was planned last; gives the function that prints its intervals."""
        planned = self._planned
        started = self._now()
        if planned.run is self._file.runs[0] and not self._is_formatted(planned):
            self._rounds += 1
            if self._file.loop != Loop():
                self._directory.status(started, f"Starting loop {self._rounds}")
        self._print(f"{clock(started)} {planned.start}", "", *filter(None, self._table.header(started)))
        self._directory.run_started(started, planned.link, planned.start)
        self._status(started, "Starting", planned.run)
        self._consoles(started, planned.shares)
        warmed_up = partial(self._status, started, "Warmup done", planned.run)
        has_processors = self._file.cluster is None
        self._live = LiveIntervals(planned, self._table, has_processors, self._print, self._now, warmed_up)
        self._started, self._last = started, planned
        return self._live.update

    @property
    def _planned(self) -> Planned:
        planned = self._file.current
        assert planned, "a run was planned before it runs"
        return planned

    def _is_formatted(self, planned: Planned) -> bool:
        """True for a run after its format."""
        last = self._last
        return not planned.is_format and last is not None and last.is_format and last.run is planned.run

    def answer(self, outcome: Outcome) -> None:
        """Writes the reports of a run, or of the format before it."""
        planned = self._planned
        done = _Done(planned, self._started, self._now(), outcome, self._live.processors, self._live.shown)
        total = self._write_rows(done)
        self._directory.histogram(outcome.workers)
        self._write_parts(done)
        self._write_errors(done)
        if self._table.target == "fsd":
            self._write_statistics(done)
        if outcome.state == "interrupted":
            self._directory.status(done.ended, "Ctrl-C found")
        for event in ("Workload done", "Slaves done"):
            self._status(done.ended, event, planned.run)
        limit = None if planned.is_format or planned.run.curve_percent is None else planned.run.rd.get("stopcurve")
        if total and limit is not None and ms(total.both.mean_ns) >= limit:
            text = f"stopcurve={limit} is reached; the remaining points of the curve are skipped"
            self._directory.log(self._now(), text)
        self._is_whole = outcome.state == "finished"

    def _status(self, at: datetime, event: str, run: Run) -> None:
        self._directory.status(at, event, f"rd={run.name}", f"For loops: {run.loops_text}")

    def _consoles(self, at: datetime, shares: Sequence[Share]) -> None:
        """Writes to the console log of each slave which LUNs it opens."""
        by_host: dict[str, dict[str, None]] = {}
        for share in shares:
            for name, lun in share.luns:
                by_host.setdefault(share.host, {})[f"Opening sd={name},lun={lun}"] = None
        for host, lines in by_host.items():
            self._directory.console(host, at, lines)

    def _write_rows(self, done: _Done) -> Row | None:
        """Writes the intervals of a run and their average, and returns the average."""
        made, planned, ended = done.rows(done.outcome.workers), done.planned, done.ended
        total = average(made, planned.run.timing.skipped)
        if total is None and made:
            total = average(made, 0)
            if not planned.is_format:
                text = "the run ended before its first counted interval: the average is over all intervals"
                self._directory.log(ended, text)
        lines = done.timed(made)
        # The last interval of a group may end between two live updates.
        self._print(*(self._table.line(at, one) for at, one in lines if one.label not in done.shown))
        self._directory.write("summary", [self._table.line(at, one) for at, one in lines])
        flat = partial(self._table.flat, run=planned.name, constants=planned.constants)
        self._directory.write("flatfile", [flat(at, row=one) for at, one in lines])
        if total:
            line = self._table.line(ended, total)
            self._print(line, "")
            self._directory.write("summary", [line])
            self._directory.write("totals", [*self._table.header(ended), line])
            self._directory.write("flatfile", [flat(ended, row=total)])
        elif not planned.is_format:
            line = f"{clock(ended)} no average: the run ended before the first counted interval was complete"
            self._print(line, "")
            self._directory.write("summary", [line])
        return total

    def _write_parts(self, done: _Done) -> None:
        """Writes the reports of hosts, SDs or FSDs, and workloads, and the skew report."""
        groups = done.groups(self._table)
        skipped = done.planned.run.timing.skipped
        totals: dict[tuple[Kind, str], Row | None] = {}
        for (kind, name), workers in groups.items():
            made = done.rows(workers)
            total = totals[kind, name] = average(made, skipped) or average(made, 0)
            lines = [*done.timed(made), *([(done.ended, total)] if total else [])]
            self._directory.part(kind, name, done.started, lines, workers)
            if kind == "host":
                self._directory.part("slave", f"{name}-0", done.started, lines, workers)
        if not done.planned.is_format:
            self._directory.write("skew", _skew_lines(totals))

    def _write_errors(self, done: _Done) -> None:
        """Reports the errors of a run, and the file workloads that found nothing to do; the next run follows those."""
        name = done.planned.run.name
        for worker in done.outcome.workers:
            if worker.error:
                self._directory.error(done.ended, f"rd={name} {worker.job}: {worker.error}")
            for failed in worker.failures:
                text = f"{counted(failed.count, f'{failed.kind} operation')} failed, first of {failed.path}"
                self._directory.error(done.ended, f"rd={name} {worker.job}: {text}: {failed.error}")
            for found in worker.differences:
                self._directory.error(done.ended, f"rd={name} {worker.job}: {difference_text(found)}")
        if (errors := data_errors(done.outcome)) and done.outcome.state == "finished":
            text = f"Total Data Validation or I/O error count: {errors}"
            self._print(f"{clock(done.ended)} {text}")
            self._directory.error(done.ended, text)
        for workload in done.idle(self._table):
            text = f"fwd={workload} {_reason_of_idleness(done, workload)}"
            self._print(f"{clock(done.ended)} {text}")
            self._directory.error(done.ended, f"rd={name} {text}")

    def _write_statistics(self, done: _Done) -> None:
        """Writes what was done to files and directories in all reported intervals, and the trees of the run."""
        seconds = max(1.0, sum(one.seconds for one in done.rows(done.outcome.workers)))
        lines = [
            f"{name:<19} {text:<33}{count:>18,}{count / seconds:>11,.0f}/sec" for name, text, count in done.counts()
        ]
        at = clock(done.ended)
        self._print(*(f"{at} {line}".rstrip() for line in ("", "Miscellaneous statistics:", *lines, "")))
        self._directory.anchors(_anchor_lines(done.planned))

    def _print(self, *lines: str) -> None:
        self._directory.write("logfile", lines)
        out = self._out or sys.stdout
        out.write("".join(f"{line}\n" for line in lines))
        out.flush()


def data_errors(outcome: Outcome) -> int:
    """Reads and writes that failed and did not end the run."""
    failures = (failed for worker in outcome.workers for failed in worker.failures)
    return sum(failed.count for failed in failures if failed.kind in ("read", "write"))


class _Done(msgspec.Struct, frozen=True):
    """A run that has ended."""

    planned: Planned
    started: datetime
    ended: datetime
    outcome: Outcome
    processors: Sequence[Processors | None]
    shown: set[str]
    """Labels of the intervals printed so far."""

    def rows(self, workers: Sequence[WorkerOutcome]) -> list[Row]:
        """Intervals of some of the workers."""
        return rows(workers, self.planned.run.timing.interval_ns, self.planned.counted, self.processors)

    def timed(self, made: Sequence[Row]) -> list[tuple[datetime, Row]]:
        """Intervals with the times at which they ended, counted back from the end of the run."""
        left = sum(one.seconds for one in made)
        lines = []
        for one in made:
            left -= one.seconds
            lines.append((self.ended - timedelta(seconds=left), one))
        return lines

    def groups(self, table: OutputTable) -> dict[tuple[Kind, str], list[WorkerOutcome]]:
        """Workers by the reports that they belong to."""
        groups: dict[tuple[Kind, str], list[WorkerOutcome]] = {}
        for worker in self.outcome.workers:
            share = self.planned.shares[worker.worker]
            for key in ((table.workload, share.workload), (table.target, share.target), ("host", share.host)):
                groups.setdefault(key, []).append(worker)
        return groups

    def counts(self) -> Iterator[tuple[str, str, int]]:
        """vdbench's name and text of each statistic, with its count in all intervals if there is one."""
        found: Counter[str] = Counter()
        for worker in self.outcome.workers:
            work: Counter[str] = Counter()
            for interval in worker.intervals:
                work.update({kind: done.operations for kind, done in interval.operations.items()})
            found.update(work)
            writes = "WRITE_OPENS" if work["write"] or work["create"] else "READ_OPENS"
            found[writes] += work["open"] + work["create"]
        for kind, (name, text) in TEXTS["statistics"].items():
            if found[kind]:
                yield name, text, found[kind]

    def idle(self, table: OutputTable) -> list[str]:
        """File workloads that finished without an operation."""
        if self.planned.is_format or table.workload != "fwd":
            return []
        workloads = {name: workers for (kind, name), workers in self.groups(table).items() if kind == "fwd"}
        return sorted(
            name
            for name, workers in workloads.items()
            if any(worker.state == "finished" for worker in workers)
            and not any(interval.operations for worker in workers for interval in worker.intervals)
        )


@dataclass
class LiveIntervals:
    """Prints each interval when it is complete."""

    planned: Planned
    table: OutputTable
    has_processors: bool
    """False on a cluster: the processors of this machine say nothing of those of the hosts."""
    say: Callable[[str], None]
    now: Callable[[], datetime]
    warmed_up: Callable[[], None]
    processors: list[Processors | None] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    """Labels of the intervals printed so far."""

    def __post_init__(self) -> None:
        plan = self.planned.plan
        self._timing = self.planned.run.timing
        self._meter = ProcessorMeter()
        self._last_seen = (0, 0)
        self._number = 0
        self._layout_announced = False
        self._before = list(accumulate((_intervals(group, plan.interval_ns) for group in plan.groups), initial=0))

    def update(self, live: Live) -> None:
        """Called with the live state."""
        if live.phase == "layout" and live.layout_bytes_total and not self._layout_announced:
            self._layout_announced = True
            size = format_bytes(live.layout_bytes_total)
            self.say(f"{clock(self.now())} Files are missing or too small: {size} to write before the run")
        if live.phase in ("layout", "prepare"):
            self._meter = ProcessorMeter()
        if live.intervals == 0 or (live.group, live.intervals) == self._last_seen:
            return
        before, self._number = self._number, self._before[live.group] + live.intervals
        self._last_seen = live.group, live.intervals
        use = self._meter.sample() if self.has_processors else None
        self.processors += [None] * (self._number - 1 - len(self.processors)) + [use]
        if live.elapsed_ns < live.intervals * self._timing.interval_ns:
            # The rest of an interval in which the run ended: its length is known at the end.
            return
        seconds = self._timing.interval_ns / SECOND_NS
        made = row(str(self._number), seconds, live.operations, self.planned.counted, self.processors[-1])
        self.say(self.table.line(self.now(), made))
        self.shown.add(made.label)
        if before < self._timing.skipped <= self._number:
            self.warmed_up()


def _intervals(group: Group, interval_ns: int) -> int:
    """Number of intervals of a group."""
    return -(-max(worker.ramp_ns + (worker.end.runtime_ns or 0) for worker in group.workers) // interval_ns)


def _anchor_lines(planned: Planned) -> Iterator[str]:
    for tree in {tree.anchor: tree for tree in planned.trees}.values():
        parts = (tree.total_bytes, tree.working_set_bytes)
        used = "".join(f" {'n/a' if size is None else format(size, ','):>18}" for size in parts)
        yield f"{tree.anchor:<40} {tree.file_count:>12,} {tree.directories:>10,} {tree.bytes:>18,}{used}"


def _reports(file: ParameterFile, table: OutputTable, links: Sequence[str]) -> Reports:
    """The reports of an invocation. Concatenated SDs get a report when they are first used."""
    kinds = (table.target, table.workload)
    if file.file_systems:
        names = list(file.file_systems.workloads)
        names = ["format", *names] if any(name.startswith("format_for_") for name in links) else names
        return Reports(file.topology.hosts, file.file_systems.trees, names, kinds)
    storage = () if file.definitions.general.get("concatenatesds") else file.topology.storage
    return Reports(file.topology.hosts, storage, [wd.name for wd in file.definitions.by_kind["wd"]], kinds)


def _reason_of_idleness(done: _Done, workload: str) -> str:
    """Says why a file workload found nothing to do."""
    workers = done.planned.plan.groups[0].workers
    tasks = {
        task
        for worker, share in zip(workers, done.planned.shares, strict=True)
        if share.workload == workload and worker.tree
        for task in worker.tree.tasks
    }
    made = {"create": "files", "mkdir": "directories"}
    if tasks <= made.keys():
        what = " and ".join(sorted(made[task] for task in tasks))
        return f"found no {what} to create: all exist, or the directories that they are in do not"
    return "found no file or directory that it could use: format=yes creates them"


def _skew_lines(totals: Mapping[tuple[Kind, str], Row | None]) -> Iterator[str]:
    """Yields the skew report: rates and shares of workloads, targets and hosts, if there are several of a kind."""
    for kind in dict.fromkeys(kind for kind, _ in totals):
        found = {name: total for (other, name), total in totals.items() if other == kind}
        if len(found) < 2:
            continue
        everything = sum(total.rate for total in found.values() if total) or 1.0
        yield f"{kind if kind == 'host' else kind.upper():<32} {'i/o rate':>12} {'share %':>8} {'resp ms':>9}"
        for name, total in found.items():
            if total:
                share, response = 100 * total.rate / everything, ms(total.both.mean_ns)
                yield f"{name:<32} {total.rate:>12.2f} {share:>8.2f} {response:>9.3f}"
        yield ""


def _parameter_lines(file: ParameterFile) -> Iterator[str]:
    source = None
    for where, line in file.text.lines:
        if where.source != source:
            source = where.source
            yield from ("", f"* Contents of parameter file: {source}", "")
        yield line


def _scan_lines(file: ParameterFile) -> Iterator[str]:
    for statement in file.text.statements:
        for parameter in statement:
            yield f"keyw: {parameter.keyword}={','.join(parameter.values)}"
            yield from (f"parm: {value}" for value in parameter.values)
