"""Runs the runs of a parameter file in order, prints their intervals and writes the reports."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from iocurve.dialects.base import RunPlan
from iocurve.dialects.vdbench.invocation import Invocation
from iocurve.dialects.vdbench.output.directory import OutputDirectory, choose
from iocurve.dialects.vdbench.output.reports import Kind, Reports
from iocurve.dialects.vdbench.output.rows import Row, average, row, rows
from iocurve.dialects.vdbench.output.table import OutputTable, clock, ms
from iocurve.dialects.vdbench.planned import Course, Planned, Share, starting
from iocurve.dialects.vdbench.read.options import Loop
from iocurve.dialects.vdbench.runs import Run
from iocurve.engine.derived import difference_text
from iocurve.engine.outcome import Live, Outcome, WorkerOutcome
from iocurve.engine.plan import Group
from iocurve.errors import Interrupted, IocurveError, RunError
from iocurve.job.model import PlanNote
from iocurve.machine.processors import ProcessorMeter, Processors
from iocurve.units import SECOND_NS, counted, format_bytes


def simulate(prepared: Invocation) -> Iterator[str]:
    """Yields a line for each run, for -s."""
    for run in prepared.runs:
        yield starting(run, None)
    seconds = sum(run.timing.total_ns for run in prepared.runs) // SECOND_NS
    yield f"{len(prepared.runs)} runs, {seconds} seconds"


class Runner:
    """Runs a parameter file. ``now`` and ``sleep`` are the clock; tests pass their own."""

    def __init__(
        self,
        prepared: Invocation,
        run_plan: RunPlan,
        out: TextIO,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._prepared = prepared
        self._run_plan = run_plan
        self._out = out
        self._now = now
        self._sleep = sleep
        self._course = Course()

    def run(self, notes: Sequence[PlanNote]) -> Path:
        """Runs all runs and returns the output directory. Stops after a run that ends early."""
        started = self._now()
        path = choose(self._prepared.options.output, self._prepared.directory, started)
        names = list(self._prepared.names())
        self._table = self._prepared.table
        self._reports = _reports(self._prepared, self._table)
        self._directory = OutputDirectory(path, names, started, self._reports, self._table)
        self._slaves_started(started, self._prepared.topology.hosts)
        self._directory.parameters(_parameter_lines(self._prepared), _scan_lines(self._prepared))
        for note in notes:
            self._directory.log(started, f"{note.level}: {note}")
        try:
            with self._validation_maps():
                finished = self._recover_journal() and self._run_all()
        except IocurveError as error:
            self._directory.error(self._now(), str(error))
            if isinstance(error, Interrupted):
                self._directory.status(self._now(), "Ctrl-C found")
            self._print(f"{clock(self._now())} Vdbench execution failed: {error}")
            raise
        ended = self._now()
        self._directory.status(ended, "Shutting down slaves")
        if finished:
            self._directory.status(ended, "Vdbench complete")
        ending = "completed successfully" if finished else "was ended early"
        text = f"Vdbench execution {ending}. Output directory: {path.absolute()}"
        self._print(f"{clock(ended)} {text}")
        self._directory.summary(["", f"{clock(ended)} {text}"])
        return path

    def _slaves_started(self, at: datetime, hosts: Sequence[str]) -> None:
        """Writes the lines of ``status.html`` that programs wait for; this process stands in for all slaves."""
        process = os.getpid()
        self._directory.status(at, "Starting slaves")
        for host in hosts:
            self._directory.status(at, f"Slave {host}-0 (pid {process:>6}) connected to master {process}")
        for event in ("Slaves connected", "Query host configuration started", "Query host configuration completed"):
            self._directory.status(at, event)

    @contextmanager
    def _validation_maps(self) -> Iterator[None]:
        """Provides the maps of data validation: in a temporary directory, or kept as journals."""
        validation = self._prepared.validation
        if validation is None:
            yield
        elif validation.request.journal:
            if not validation.request.recover:
                validation.remove_journals(self._prepared.topology, self._prepared.file_systems)
            yield
        else:
            with TemporaryDirectory(prefix="iocurve-vdbench-") as directory:
                kept = replace(validation, directory=Path(directory))
                self._prepared = replace(self._prepared, validation=kept)
                yield

    def _recover_journal(self) -> bool:
        """Recovers the journals with -jr. Returns True if the runs are to follow."""
        validation = self._prepared.validation
        if validation is None or not validation.request.recover:
            return True
        plan = self._prepared.recovery()
        if plan is None:
            raise RunError("there is no journal to recover; write one first with -j in this directory")
        started = self._now()
        self._print(f"{clock(started)} Starting RD=journal_recovery: every block in the journal is read and verified")
        outcome = self._run_plan(plan, lambda _: False)
        for worker in outcome.workers:
            if worker.error:
                self._directory.error(self._now(), f"journal_recovery: {worker.error}")
            for found in worker.differences:
                self._directory.error(self._now(), f"journal_recovery: {difference_text(found)}")
        if outcome.state != "finished":
            return False
        read = sum(kind.bytes for worker in outcome.workers for kind in worker.operations.values())
        self._print(
            f"{clock(self._now())} Journal recovery: {format_bytes(read)} read and verified, no differences", ""
        )
        return not validation.request.recover_only

    def _run_all(self) -> bool:
        """Runs all runs. Returns True if all of them finished."""
        loop = self._prepared.loop
        until = None if loop.seconds is None else self._now() + timedelta(seconds=loop.seconds)
        for number, (round_number, run) in enumerate(_rounds(self._prepared.runs, loop.times)):
            if until and round_number and self._now() >= until:
                return True
            if loop != Loop() and number % len(self._prepared.runs) == 0:
                self._directory.status(self._now(), f"Starting loop {round_number + 1}")
            if number and run.rd.get("pause"):
                try:
                    self._sleep(run.rd.values["pause"] / SECOND_NS)
                except KeyboardInterrupt:
                    raise Interrupted("stopped in the pause before a run") from None
            if run.curve_percent is None:
                self._course.curve_stopped = False
            elif self._course.curve_stopped:
                continue
            if not all(self._carry_out(planned) for planned in self._prepared.planned(run, self._course)):
                return False
        return True

    # -- one run -------------------------------------------------------------------------------------------------------

    def _carry_out(self, planned: Planned) -> bool:
        """Runs a run, or the format before it, and writes its reports. Returns True if it finished."""
        started = self._now()
        self._print(f"{clock(started)} {planned.start}", "", *filter(None, self._table.header(started)))
        self._directory.run_started(started, planned.link, planned.start)
        self._status(started, "Starting", planned.run)
        self._consoles(started, planned.shares)
        live = LiveIntervals(
            planned,
            self._table,
            self._prepared,
            self._print,
            self._now,
            lambda: self._status(self._now(), "Warmup done", planned.run),
        )
        outcome = self._run_plan(planned.plan, live.update)
        done = _Done(planned, started, self._now(), outcome, live.processors, live.shown)
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
        if not planned.is_format:
            self._follow_curve(done, total)
        if outcome.state == "finished" and done.data_errors:
            raise RunError(f"rd={planned.run.name}: {counted(done.data_errors, 'I/O error')}: see errorlog.html")
        return outcome.state == "finished"

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
        self._directory.rows("summary", lines)
        for at, one in lines:
            self._directory.flat(at, planned.name, one, planned.constants)
        if total:
            line = self._table.line(ended, total)
            self._print(line, "")
            self._directory.summary([line])
            self._directory.total(ended, total)
            self._directory.flat(ended, planned.name, total, planned.constants)
        elif not planned.is_format:
            line = f"{clock(ended)} no average: the run ended before the first counted interval was complete"
            self._print(line, "")
            self._directory.summary([line])
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
            self._directory.skew(_skew_lines(totals))

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
        if done.data_errors and done.outcome.state == "finished":
            text = f"Total Data Validation or I/O error count: {done.data_errors}"
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

    def _follow_curve(self, done: _Done, total: Row | None) -> None:
        """Takes the maximum for the points of a curve, and stops the curve at its ``stopcurve=``."""
        run = done.planned.run
        limit = run.rd.get("stopcurve")
        if run.rate.kind == "curve":
            workers = done.outcome.workers[: len(done.planned.shares)]
            counts = [sum(kind.operations for kind in worker.operations.values()) for worker in workers]
            if done.outcome.state == "finished" and (total is None or not total.rate or not sum(counts)):
                raise RunError(f"rd={run.name}: the run at the maximum measured nothing, so the curve has no points")
            self._course.max_rate = total.rate if total else 0.0
            self._course.shares = [number / max(1, sum(counts)) for number in counts]
        elif run.curve_percent is not None and total and limit is not None and ms(total.both.mean_ns) >= limit:
            self._course.curve_stopped = True
            text = f"stopcurve={limit} is reached; the remaining points of the curve are skipped"
            self._directory.log(self._now(), text)

    def _print(self, *lines: str) -> None:
        self._directory.echo(lines)
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()


@dataclass(frozen=True)
class _Done:
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
        """vdbench's name and text of each statistic, with its count if there is one."""
        found: Counter[str] = Counter()
        for worker in self.outcome.workers:
            work = Counter({kind: done.operations for kind, done in worker.operations.items()})
            found.update(work)
            writes = "WRITE_OPENS" if work["write"] or work["create"] else "READ_OPENS"
            found[writes] += work["open"] + work["create"]
        for kind, (name, text) in _STATISTICS.items():
            if found[kind]:
                yield name, text, found[kind]

    @property
    def data_errors(self) -> int:
        """Reads and writes that failed and did not end the run."""
        failures = (failed for worker in self.outcome.workers for failed in worker.failures)
        return sum(failed.count for failed in failures if failed.kind in ("read", "write"))

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
    """Prints each interval when it is complete, and ends the run when maxdata= is reached."""

    planned: Planned
    table: OutputTable
    prepared: Invocation
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
        self._moved = {"read": 0, "write": 0}
        self._limits = {} if self.planned.is_format else _data_limits(self.planned.run, self.prepared)
        self._before = list(accumulate((_intervals(group, plan.interval_ns) for group in plan.groups), initial=0))

    def update(self, live: Live) -> bool:
        """Called with the live state. Returns True if the run has reached its maxdata=."""
        if live.phase == "layout" and live.layout_bytes_total and not self._layout_announced:
            self._layout_announced = True
            size = format_bytes(live.layout_bytes_total)
            self.say(f"{clock(self.now())} Files are missing or too small: {size} to write before the run")
        if live.phase in ("layout", "prepare"):
            self._meter = ProcessorMeter()
        if live.intervals == 0 or (live.group, live.intervals) == self._last_seen:
            return False
        before, self._number = self._number, self._before[live.group] + live.intervals
        self._last_seen = live.group, live.intervals
        # The processors of this machine say nothing of those of a cluster's hosts.
        use = None if self.prepared.cluster is not None else self._meter.sample()
        self.processors += [None] * (self._number - 1 - len(self.processors)) + [use]
        if live.elapsed_ns < live.intervals * self._timing.interval_ns:
            # The rest of an interval in which the run ended: its length is known at the end.
            return False
        seconds = self._timing.interval_ns / SECOND_NS
        made = row(str(self._number), seconds, live.operations, self.planned.counted, self.processors[-1])
        self.say(self.table.line(self.now(), made))
        self.shown.add(made.label)
        if before < self._timing.skipped <= self._number:
            self.warmed_up()
        return self._limit_reached(live)

    def _limit_reached(self, live: Live) -> bool:
        if self._number <= self._timing.skipped:
            return False
        for kind in self._moved:
            self._moved[kind] += live.operations[kind].bytes if kind in live.operations else 0
        moved = {**self._moved, "both": sum(self._moved.values())}
        return any(moved[kind] >= limit for kind, limit in self._limits.items())


def _intervals(group: Group, interval_ns: int) -> int:
    """Number of intervals of a group."""
    return -(-max(worker.ramp_ns + (worker.end.runtime_ns or 0) for worker in group.workers) // interval_ns)


def _data_limits(run: Run, prepared: Invocation) -> dict[str, int]:
    """Bytes after which a run ends, by kind. Values below 100 are multiples of the size of all SDs."""
    limits = {}
    for name, kind in (("maxdata", "both"), ("maxdataread", "read"), ("maxdatawritten", "write")):
        limit = run.rd.get(name)
        if limit is not None:
            whole = sum(storage.size or 0 for storage in prepared.topology.storage.values())
            limits[kind] = limit * whole if limit < 100 and whole else limit
    return limits


def _rounds(runs: Sequence[Run], times: int | None) -> Iterator[tuple[int, Run]]:
    for number in range(times) if times is not None else count():
        for run in runs:
            yield number, run


_STATISTICS = {
    "create": ("FILE_CREATES", "Files created:"),
    "mkdir": ("DIRECTORY_CREATES", "Directories created:"),
    "delete": ("FILE_DELETES", "Files deleted:"),
    "rmdir": ("DIRECTORY_DELETES", "Directories deleted:"),
    "READ_OPENS": ("READ_OPENS", "Files opened for read activity:"),
    "WRITE_OPENS": ("WRITE_OPENS", "Files opened for write activity:"),
    "getattr": ("GET_ATTR", "Getattr requests:"),
    "setattr": ("SET_ATTR", "Setattr requests:"),
    "access": ("ACCESS", "Access requests:"),
    "close": ("FILE_CLOSES", "Close requests:"),
}
"""vdbench's name and text of what it counts, by kind of operation."""


def _anchor_lines(planned: Planned) -> Iterator[str]:
    for tree in {tree.anchor: tree for tree in planned.trees}.values():
        parts = (tree.total_bytes, tree.working_set_bytes)
        used = "".join(f" {'n/a' if size is None else format(size, ','):>18}" for size in parts)
        yield f"{tree.anchor:<40} {tree.file_count:>12,} {tree.directories:>10,} {tree.bytes:>18,}{used}"


def _reports(prepared: Invocation, table: OutputTable) -> Reports:
    """The reports of an invocation. Concatenated SDs get a report when they are first used."""
    kinds = (table.target, table.workload)
    if prepared.file_systems:
        names = [name for name in prepared.file_systems.workloads if name.lower() != "format"]
        names = ["format", *names] if any(name.startswith("format_for_") for name in prepared.names()) else names
        return Reports(prepared.topology.hosts, prepared.file_systems.trees, names, kinds)
    storage = () if prepared.definitions.general.get("concatenatesds") else prepared.topology.storage
    return Reports(prepared.topology.hosts, storage, [wd.name for wd in prepared.definitions.by_kind["wd"]], kinds)


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


def _parameter_lines(prepared: Invocation) -> Iterator[str]:
    source = None
    for where, line in prepared.text.lines:
        if where.source != source:
            source = where.source
            yield from ("", f"* Contents of parameter file: {source}", "")
        yield line


def _scan_lines(prepared: Invocation) -> Iterator[str]:
    for statement in prepared.text.statements:
        for parameter in statement.parameters:
            yield f"keyw: {parameter.keyword}={','.join(parameter.values)}"
            yield from (f"parm: {value}" for value in parameter.values)
