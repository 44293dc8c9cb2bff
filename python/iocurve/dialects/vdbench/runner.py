"""Runs the runs of a parameter file in order, prints their intervals and writes the reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from iocurve.dialects.base import RunPlan
from iocurve.dialects.vdbench.invocation import Invocation, Resolved
from iocurve.dialects.vdbench.job import Placement, read_percent, seek_of
from iocurve.dialects.vdbench.output import flatfile
from iocurve.dialects.vdbench.output.directory import OutputDirectory, choose
from iocurve.dialects.vdbench.output.flatfile import Table
from iocurve.dialects.vdbench.output.reports import Kind, Reports
from iocurve.dialects.vdbench.output.rows import AnyRow, MakeRow, Row, average, clock, row, rows
from iocurve.dialects.vdbench.read.options import Loop
from iocurve.dialects.vdbench.runs import Run, curve_target
from iocurve.engine.outcome import Live, Outcome, WorkerOutcome
from iocurve.engine.plan import Group, Plan
from iocurve.errors import Interrupted, IocurveError, RunError
from iocurve.job.model import PlanNote
from iocurve.result.host import ProcessorMeter, Processors
from iocurve.units import GIB, MILLISECOND_NS, SECOND_NS, format_bytes


def simulate(prepared: Invocation) -> Iterator[str]:
    """Yields a line for each run, for -s."""
    for run in prepared.runs:
        yield starting(run, None)
    seconds = sum(run.timing.total_ns for run in prepared.runs) // SECOND_NS
    yield f"{len(prepared.runs)} runs, {seconds} seconds"


def starting(run: Run, rate: float | None) -> str:
    """The line that announces a run."""
    if run.is_of_files:
        return file_starting(run, rate)
    asked = f"{rate:g}" if rate is not None else str(run.rate)
    if run.curve_percent is not None and rate is None:
        asked = f"{run.curve_percent}% of the maximum"
    return f"Starting RD={run.name}; I/O rate: {asked}; {_elapsed(run)}; For loops: {run.loops_text}"


def file_starting(run: Run, rate: float | None) -> str:
    """The line that announces a run of file system workloads."""
    asked = rate if rate is not None else float(run.rate.per_second)
    said = f"fwdrate={run.rate.kind}." if run.rate.kind in ("max", "curve") and rate is None else f"fwdrate={asked:g};"
    return f"Starting RD={run.name}; {_elapsed(run)}; {said} For loops: {run.loops_text}"


def _elapsed(run: Run) -> str:
    warmup = f" warmup={run.timing.warmup_ns // SECOND_NS}" if run.timing.warmup_ns else ""
    return f"elapsed={run.timing.elapsed_ns // SECOND_NS}{warmup}"


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
        self._max_rate = 0.0
        self._shares: list[float] = []
        self._curve_stopped = False
        self._formatted: frozenset[str] = frozenset()
        """SDs that earlier runs have formatted."""

    def run(self, notes: Sequence[PlanNote]) -> Path:
        """Runs all runs and returns the output directory. Stops after a run that ends early."""
        begun = self._now()
        path = choose(self._prepared.options.output, self._prepared.directory, begun)
        names = [f"{run.name} For loops: {run.loops_text}" for run in self._prepared.runs]
        topology = self._prepared.topology
        self._reports = self._make_reports()
        self._table = self._make_table()
        self._directory = OutputDirectory(path, names, begun, self._reports, self._table)
        self._slaves_started(begun, topology.hosts)
        self._directory.parameters(_parameter_lines(self._prepared), _scan_lines(self._prepared))
        for note in notes:
            self._directory.log(begun, f"{note.level}: {note}")
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

    def _make_reports(self) -> Reports:
        """The reports of an invocation. Concatenated SDs get a report when they are first used."""
        prepared = self._prepared
        concatenated = prepared.definitions.general.get("concatenatesds")
        storage = () if concatenated else prepared.topology.storage
        workloads = [workload.name for workload in prepared.definitions.by_kind["wd"]]
        return Reports(prepared.topology.hosts, storage, workloads)

    def _make_table(self) -> Table:
        """The columns of stdout and of the reports."""
        return flatfile.STORAGE

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
                validation.begin(self._prepared.topology)
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
        resolution = self._prepared.recovery()
        if resolution is None:
            raise RunError("there is no journal to recover; write one first with -j in this directory")
        begun = self._now()
        self._print(f"{clock(begun)} Starting RD=journal_recovery: every block in the journal is read and verified")
        outcome = self._run_plan(resolution.plan, lambda _: False)
        for worker in outcome.workers:
            if worker.error:
                self._directory.error(self._now(), f"journal_recovery: {worker.error}")
            for found in worker.differences:
                self._directory.error(self._now(), f"journal_recovery: {found}")
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
            if not self._run_one(run):
                return False
        return True

    # -- one run -------------------------------------------------------------------------------------------------------

    def _run_one(self, run: Run) -> bool:
        rate = None
        if run.curve_percent is None:
            self._curve_stopped = False
        elif self._curve_stopped:
            return True
        else:
            rate = float(curve_target(self._max_rate, run.curve_percent))
        resolved = self._prepared.resolve(run, self._shares, rate, formatted=self._formatted)
        text = starting(run, rate if rate is not None else None)
        begun = self._now()
        self._print(f"{clock(begun)} {text}", "", *self._table.header(begun))
        self._directory.run_started(begun, text)
        self._status(begun, "Starting", run)
        self._consoles(begun, resolved.built.placements)
        live = LiveIntervals(
            run,
            resolved.resolution.plan,
            self._prepared,
            lambda line: self._print(line),
            self._now,
            lambda: self._status(self._now(), "Warmup done", run),
        )
        outcome = self._run_plan(resolved.resolution.plan, live.update)
        self._formatted |= resolved.built.storage
        self._report(resolved, begun, outcome, live, rate)
        return outcome.state == "finished"

    def _status(self, at: datetime, event: str, run: Run) -> None:
        self._directory.status(at, event, f"rd={run.name}", f"For loops: {run.loops_text}")

    def _consoles(self, at: datetime, placements: Sequence[Placement]) -> None:
        """Writes to the console log of each slave which LUNs it opens."""
        by_host: dict[str, dict[str, None]] = {}
        for placement in placements:
            for storage, lun in zip(placement.storage, placement.luns, strict=True):
                by_host.setdefault(placement.host, {})[f"Opening sd={storage.name},lun={lun}"] = None
        for host, lines in by_host.items():
            self._directory.console(host, at, lines)

    def _report(
        self,
        resolved: Resolved,
        begun: datetime,
        outcome: Outcome,
        live: LiveIntervals,
        rate: float | None,
    ) -> None:
        run, ended = resolved.run, self._now()
        made = rows(outcome.workers, run.timing.interval_ns, row, live.processors)
        total = average(made, run.timing.skipped)
        if total is None and made:
            total = average(made, 0)
            self._directory.log(
                ended, "the run ended before its first counted interval: the average is over all intervals"
            )
        self._write_rows(run.name, made, total, ended, live, self._settings(resolved, rate))
        if not total:
            line = f"{clock(ended)} no average: the run ended before the first counted interval was complete"
            self._print(line, "")
            self._directory.summary([line])
        self._directory.histogram(outcome.workers)
        self._parts(resolved, begun, ended, outcome, live.processors)
        self._end(ended, run, outcome)
        if run.rate.kind == "curve":
            self._begin_curve(run, total, outcome, len(resolved.built.placements))
        elif run.curve_percent is not None and total:
            self._stop_curve(run, total)

    def _write_rows(
        self,
        name: str,
        made: Sequence[AnyRow],
        total: AnyRow | None,
        ended: datetime,
        live: LiveIntervals,
        settings: dict[str, Any],
    ) -> None:
        """Writes the intervals of a run and their average."""
        times = times_of(made, ended)
        # The last interval of a group may end between two live updates.
        self._print(*(one.line(moment) for one, moment in zip(made, times, strict=True) if one.label not in live.shown))
        self._directory.rows("summary", times, made)
        for moment, one in zip(times, made, strict=True):
            self._directory.flat(moment, name, one, settings)
        if total:
            line = total.line(ended)
            self._print(line, "")
            self._directory.summary([line])
            self._directory.total(ended, total)
            self._directory.flat(ended, name, total, settings)

    def _end(self, ended: datetime, run: Run, outcome: Outcome) -> None:
        """Reports the errors of a run, and its end."""
        self._errors(ended, run, outcome)
        if outcome.state == "interrupted":
            self._directory.status(ended, "Ctrl-C found")
        for event in ("Workload done", "Slaves done"):
            self._status(ended, event, run)

    def _begin_curve(self, run: Run, total: Row | None, outcome: Outcome, sections: int) -> None:
        done = [sum(kind.operations for kind in worker.operations.values()) for worker in outcome.workers[:sections]]
        everything = sum(done)
        if outcome.state == "finished" and (total is None or not total.rate or not everything):
            raise RunError(f"rd={run.name}: the run at the maximum measured nothing, so the curve has no points")
        self._max_rate = total.rate if total else 0.0
        self._shares = _skewed(run, [count / max(1, everything) for count in done], self._prepared)

    def _stop_curve(self, run: Run, total: Row) -> None:
        limit = run.rd.get("stopcurve")
        if limit is not None and total.both.mean_ns / MILLISECOND_NS >= limit:
            self._curve_stopped = True
            at = self._now()
            self._directory.log(at, f"stopcurve={limit} is reached; the remaining points of the curve are skipped")

    def _parts(
        self,
        resolved: Resolved,
        begun: datetime,
        ended: datetime,
        outcome: Outcome,
        processors: Sequence[Processors | None],
    ) -> None:
        """Writes the reports of hosts, SDs and workloads, and the skew report."""
        groups: dict[tuple[Kind, str], list[WorkerOutcome]] = {}
        for placement, worker in _placements_of(resolved.built.placements, outcome.workers):
            name = "+".join(storage.name for storage in placement.storage)
            groups.setdefault(("wd", placement.workload.name), []).append(worker)
            groups.setdefault(("sd", name), []).append(worker)
            groups.setdefault(("host", placement.host), []).append(worker)
        timing = resolved.run.timing
        for (kind, name), workers in groups.items():
            if kind == "wd" and not self._reports.has(kind, name):
                continue
            made = rows(workers, timing.interval_ns, row, processors)
            total = average(made, timing.skipped)
            lines = [*zip(times_of(made, ended), made, strict=True), *([(ended, total)] if total else [])]
            self._directory.part(kind, name, begun, lines, workers)
            if kind == "host":
                self._directory.part("slave", f"{name}-0", begun, lines, workers)
        self._directory.skew(_skew_lines(groups, timing.interval_ns, timing.skipped))

    def _errors(self, at: datetime, run: Run, outcome: Outcome) -> None:
        for worker in outcome.workers:
            if worker.error:
                self._directory.error(at, f"rd={run.name} {worker.job}: {worker.error}")
            for found in worker.differences:
                self._directory.error(at, f"rd={run.name} {worker.job}: {found}")

    def _settings(self, resolved: Resolved, rate: float | None) -> dict[str, Any]:
        """The columns of the flat file that are constant within a run."""
        run, placements = resolved.run, resolved.built.placements
        loops = run.loops
        workers = [worker for group in resolved.resolution.plan.groups for worker in group.workers]
        blocks = {operation.blocks.largest for worker in workers for operation in worker.operations}
        asked = {"max": flatfile.MAXIMUM, "curve": flatfile.CURVE}.get(run.rate.kind, float(run.rate.per_second))
        luns = {(file.path, file.offset_bytes): file.bytes for worker in workers for file in worker.files}
        general = self._prepared.definitions.general
        return {
            "reqrate": float(asked) if rate is None else rate,
            "xfersize": _common_value(blocks),
            "threads": _common_value(
                {float(loops.get("threads") or placement.storage[0].threads) for placement in placements}
            ),
            "rdpct": _common_value({float(read_percent(run, placement.workload)) for placement in placements}),
            "rhpct": _common_value(
                {float(loops.get("rhpct", placement.workload.get("rhpct", 0))) for placement in placements}
            ),
            "whpct": _common_value(
                {float(loops.get("whpct", placement.workload.get("whpct", 0))) for placement in placements}
            ),
            "seekpct": _common_value({float(seek_of(run, placement.workload).percent) for placement in placements}),
            "lunsize": sum(luns.values()) / GIB,
            "version": "iocurve",
            "compratio": _ratio(loops.get("compratio", general.get("compratio"))),
            "dedupratio": _ratio(general.get("dedupratio")),
        }

    def _print(self, *lines: str) -> None:
        self._directory.echo(lines)
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()


class LiveIntervals:
    """Prints each interval when it is complete, and ends the run when maxdata= is reached."""

    def __init__(
        self,
        run: Run,
        plan: Plan,
        prepared: Invocation,
        say: Callable[[str], None],
        now: Callable[[], datetime],
        warmed_up: Callable[[], None],
        make: MakeRow[AnyRow] = row,
    ) -> None:
        self._make = make
        self._run = run
        self._print = say
        self._now = now
        self._warmed_up = warmed_up
        self._meter = ProcessorMeter()
        self._last_seen = (0, 0)
        self._number = 0
        self._layout_announced = False
        self._moved = {"read": 0, "write": 0}
        self._limits = _data_limits(run, prepared)
        # The processors of this machine say nothing of those of the hosts.
        self._is_elsewhere = prepared.cluster is not None
        self.processors: list[Processors | None] = []
        self.shown: set[str] = set()
        """Labels of the intervals printed so far."""
        self._before = list(accumulate((_intervals(group, plan.interval_ns) for group in plan.groups), initial=0))

    def update(self, live: Live) -> bool:
        """Called with the live state. Returns True if the run has reached its maxdata=."""
        if live.phase == "layout" and live.layout_bytes_total and not self._layout_announced:
            self._layout_announced = True
            size = format_bytes(live.layout_bytes_total)
            self._print(f"{clock(self._now())} Files are missing or too small: {size} to write before the run")
        if live.phase in ("layout", "prepare"):
            self._meter = ProcessorMeter()
        if live.intervals == 0 or (live.group, live.intervals) == self._last_seen:
            return False
        before, self._number = self._number, self._before[live.group] + live.intervals
        self._last_seen = live.group, live.intervals
        use = None if self._is_elsewhere else self._meter.sample()
        self.processors += [None] * (self._number - 1 - len(self.processors)) + [use]
        if live.elapsed_ns < live.intervals * self._run.timing.interval_ns:
            # The rest of an interval in which the run ended: its length is known at the end.
            return False
        seconds = self._run.timing.interval_ns / SECOND_NS
        self._print(self._make(str(self._number), seconds, live.operations, self.processors[-1]).line(self._now()))
        self.shown.add(str(self._number))
        if before < self._run.timing.skipped <= self._number:
            self._warmed_up()
        return self._limit_reached(live)

    def _limit_reached(self, live: Live) -> bool:
        if self._number <= self._run.timing.skipped:
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


def times_of(made: Sequence[AnyRow], ended: datetime) -> list[datetime]:
    """End time of each interval, counted back from the end of the run."""
    left = sum(one.seconds for one in made)
    times = []
    for one in made:
        left -= one.seconds
        times.append(ended - timedelta(seconds=left))
    return times


def _placements_of(
    placements: Sequence[Placement], workers: Sequence[WorkerOutcome]
) -> Iterator[tuple[Placement, WorkerOutcome]]:
    """Pairs workers with their placements. With a variable rate every group has the same placements."""
    for worker in workers:
        yield placements[worker.worker], worker


def _skewed(run: Run, observed: Sequence[float], prepared: Invocation) -> list[float]:
    """Shares for the points of a curve: those of skew= if any workload has one, else those measured at the maximum."""
    return prepared.asked_shares(run) or list(observed)


def _skew_lines(groups: dict[tuple[Kind, str], list[WorkerOutcome]], interval_ns: int, skipped: int) -> Iterator[str]:
    """Yields the skew report: rates and shares of workloads, SDs and hosts, if there are several."""
    labels: dict[Kind, str] = {"wd": "WD", "sd": "SD", "host": "host"}
    for kind, label in labels.items():
        found = {name: workers for (group, name), workers in groups.items() if group == kind}
        if len(found) < 2:
            continue
        totals = {name: average(rows(workers, interval_ns, row), skipped) for name, workers in found.items()}
        everything = sum(total.rate for total in totals.values() if total) or 1.0
        yield f"{label:<32} {'i/o rate':>12} {'share %':>8} {'resp ms':>9}"
        for name, total in totals.items():
            if total:
                share, response = 100 * total.rate / everything, total.both.mean_ns / MILLISECOND_NS
                yield f"{name:<32} {total.rate:>12.2f} {share:>8.2f} {response:>9.3f}"
        yield ""


def _common_value(values: set[Any]) -> Any:
    """The value if there is only one, else None."""
    return next(iter(values)) if len(values) == 1 else None


def _ratio(written: Any) -> float | None:
    return None if written is None else float(written)


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
