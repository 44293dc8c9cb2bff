"""Runs file system workloads: the format of each run, then the run, with a rate for each kind of operation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from iocurve.dialects.vdbench.file_plan import FileRun
from iocurve.dialects.vdbench.output import flatfile
from iocurve.dialects.vdbench.output.file_rows import FileRow, columns, maker
from iocurve.dialects.vdbench.output.flatfile import Table
from iocurve.dialects.vdbench.output.reports import Kind, Reports
from iocurve.dialects.vdbench.output.rows import MakeRow, average, clock, rows
from iocurve.dialects.vdbench.runner import LiveIntervals, Runner, file_starting, times_of
from iocurve.dialects.vdbench.runs import Run, curve_target
from iocurve.engine.outcome import Outcome, WorkerOutcome


class FileRunner(Runner):
    """Runs a parameter file with FSDs and FWDs."""

    def _make_reports(self) -> Reports:
        systems = self._prepared.file_plans.file_systems
        names = [name for name in systems.workloads if name.lower() != "format"]
        return Reports(self._prepared.topology.hosts, systems.trees, names, ("fsd", "fwd"))

    def _make_table(self) -> Table:
        self._shown = columns(self._prepared.file_plans.operations(self._prepared.runs))
        self._formatted_runs: set[int] = set()
        return flatfile.file_systems(self._shown)

    def _run_one(self, run: Run) -> bool:
        rate = None
        if run.curve_percent is not None:
            rate = float(curve_target(self._max_rate, run.curve_percent))
        plans = self._prepared.file_plans
        formats = plans.formats(run, already=id(run.rd) in self._formatted_runs)
        if formats:
            self._formatted_runs.add(id(run.rd))
            if not self._carry_out(run, formats, f"Starting RD={formats.name}", None):
                return False
        planned = plans.run(run, rate)
        return planned is None or self._carry_out(run, planned, file_starting(run, rate), rate)

    def _carry_out(self, run: Run, planned: FileRun, text: str, rate: float | None) -> bool:
        begun, make = self._now(), maker(planned.requested, self._shown)
        self._print(f"{clock(begun)} {text}", *self._table.header(begun))
        self._directory.run_started(begun, text)
        self._status(begun, "Starting", run)
        live = LiveIntervals(
            run,
            planned.plan,
            self._prepared,
            self._print,
            self._now,
            lambda: self._status(self._now(), "Warmup done", run),
            make,
        )
        outcome = self._run_plan(planned.plan, live.update)
        ended = self._now()
        made = rows(outcome.workers, run.timing.interval_ns, make, live.processors)
        total = average(made, run.timing.skipped) or average(made, 0)
        self._write_rows(planned.name, made, total, ended, live, self._file_settings(run, rate))
        self._write_parts(run, planned, begun, ended, outcome, make)
        self._end(ended, run, outcome)
        if run.rate.kind == "curve" and planned.name == run.name:
            self._max_rate = total.rate if total else 0.0
        self._say_who_was_idle(planned, outcome)
        return outcome.state == "finished"

    def _say_who_was_idle(self, planned: FileRun, outcome: Outcome) -> None:
        """Prints which workloads found nothing to do; as in vdbench the next run follows."""
        pairs = [(planned.placements[worker.worker].workload, worker) for worker in outcome.workers]
        busy = {name for name, worker in pairs if any(interval.operations for interval in worker.intervals)}
        idle = {name for name, worker in pairs if worker.state == "finished"} - busy - {"format"}
        for name in sorted(idle):
            text = f"fwd={name} found no file or directory that it could use: format=yes creates them"
            at = self._now()
            self._print(f"{clock(at)} {text}")
            self._directory.error(at, f"rd={planned.name} {text}")

    def _write_parts(
        self,
        run: Run,
        planned: FileRun,
        begun: datetime,
        ended: datetime,
        outcome: Outcome,
        make: MakeRow[FileRow],
    ) -> None:
        """Writes the reports of hosts, FSDs and FWDs."""
        self._directory.histogram(outcome.workers)
        groups: dict[tuple[Kind, str], list[WorkerOutcome]] = {}
        for worker in outcome.workers:
            placement = planned.placements[worker.worker]
            for key in (("fwd", placement.workload), ("fsd", placement.tree.name), ("host", placement.host)):
                groups.setdefault(key, []).append(worker)
        for (kind, name), workers in groups.items():
            if kind == "fwd" and not self._reports.has(kind, name):
                continue
            made = rows(workers, run.timing.interval_ns, make)
            total = average(made, run.timing.skipped) or average(made, 0)
            lines = [*zip(times_of(made, ended), made, strict=True), *([(ended, total)] if total else [])]
            self._directory.part(kind, name, begun, lines, workers)
            if kind == "host":
                self._directory.part("slave", f"{name}-0", begun, lines, workers)

    def _file_settings(self, run: Run, rate: float | None) -> dict[str, Any]:
        asked = {"max": flatfile.MAXIMUM, "curve": flatfile.CURVE}.get(run.rate.kind, float(run.rate.per_second))
        return {"reqrate": float(asked) if rate is None else rate, "version": "iocurve"}
