"""``iocurve elbencho …`` and ``iocurve explain elbencho …``: turns an elbencho command line into phases."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Unpack

import msgspec

from iocurve.dialects import base
from iocurve.dialects.base import ClusterRequest, Dialect, Measured, Needs, ParsedCommand, Step, Workplace
from iocurve.dialects.elbencho import output
from iocurve.dialects.elbencho.options import STDOUT, ElbenchoOptions, parse
from iocurve.dialects.elbencho.phases import (
    ElbenchoData,
    Phase,
    name_of,
    of_option,
    options_of,
    place,
    roots_of,
    transferred,
)
from iocurve.dialects.registry import help_text
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, PlanError, TargetError
from iocurve.foundation.units import SECOND_NS, counted, format_bytes
from iocurve.job.explain import explain, section_lines
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine
from iocurve.result.document import Result
from iocurve.result.summary import summarise

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Phases(msgspec.Struct):
    """The phases of a command line, each planned when its turn comes, and their rows of output."""

    data_set: ElbenchoData
    machine: Machine
    notes: tuple[PlanNote, ...] = ()
    rows: list[output.PhaseRow] = msgspec.field(default_factory=list)
    """Results of the phases that ended."""
    running: tuple[Phase, Plan, datetime] | None = None
    """The phase that was planned last, its plan and its start."""

    @property
    def options(self) -> ElbenchoOptions:
        """The command line."""
        return self.data_set.options

    def steps(self) -> Iterator[Step]:
        """A step for each phase of all iterations."""
        for option in options_of(self.options) * self.options.iterations:
            yield Step(
                name=name_of(self.options, option),
                plan=partial(self._plan, option),
                job=None if self.data_set.is_tree else partial(self._job, option),
                pause_ns=self.options.pause_s * SECOND_NS,
                is_timed_phase=True,
                before=self._clear_caches,
                after=lambda _: self._clear_caches(),
                follow=self._follow,
                answer=self._answer,
                goes_on=self._goes_on,
            )

    def _job(self, option: str) -> Job:
        return of_option(self.data_set, option).job

    def _plan(self, option: str, _measured: Measured) -> Plan:
        phase, started = of_option(self.data_set, option), datetime.now().astimezone()
        plan = phase.plan(self.machine, runs=not self.data_set.obstacles)
        self.running = phase, plan, started
        return plan

    def _follow(self, _plan: Plan) -> Callable[[Live], None]:
        """Writes the values of a phase while it runs (--livecsv)."""
        path = self.options.live_csv
        if path is None:
            return lambda _: None
        assert self.running, "a phase was planned before it runs"
        phase = self.running[0]
        live_rows = output.LiveRows(self.data_set, phase, _planned_bytes(self.data_set, phase))

        def write(live: Live) -> None:
            if rows := live_rows.next(live):
                _append(path, lambda is_new: output.LIVE_HEADER + rows if is_new else rows)

        return write

    def of_iteration(self) -> Iterator[Phase]:
        """The phases of one iteration, each planned when it is taken."""
        return (of_option(self.data_set, option) for option in options_of(self.options))

    @contextmanager
    def written(self, _notes: Sequence[PlanNote]) -> Iterator[None]:
        """The header of the table."""
        print(output.HEADER, end="", flush=True)
        yield

    def _answer(self, outcome: Outcome) -> None:
        """Prints the rows of a phase."""
        self.rows.append(self._row(outcome))
        print(output.table(self.rows[-1], self.options), end="", flush=True)

    def _row(self, outcome: Outcome) -> output.PhaseRow:
        assert self.running, "a phase was planned before it ran"
        phase, plan, started = self.running
        workers = [worker for worker in outcome.workers if worker.group == 0]
        return output.PhaseRow(phase, started, summarise(phase.name, plan, workers), workers, outcome.state)

    def finish(self, result: Result) -> Result:
        """Appends to the files of results."""
        options, rows = self.options, self.rows
        hosts = max((len(point.clients) for point in result.points), default=0)
        texts: dict[Path | None, Callable[[bool], str]] = {
            options.csv_path: lambda is_new: output.csv_text(
                rows, self.data_set, hosts, labels=options.csv_labels and is_new
            ),
            options.json_path: lambda _: output.json_text(rows, self.data_set, hosts),
            options.results_path: lambda _: output.HEADER + "".join(output.table(row, options) for row in rows),
        }
        for path, text in texts.items():
            if path is None:
                continue
            _append(path, text)
        return result

    def _goes_on(self, outcome: Outcome) -> bool:
        """False after a phase that reached the time limit. Raises ``TargetError`` where entries were missing."""
        row, options = self._row(outcome), self.options
        phase = row.phase
        ends = [worker.window_end_ns for worker in row.workers]
        if options.runtime_ns and max(ends) >= options.runtime_ns:
            if not options.repeats:
                print(f"{phase.name} reached the time limit; no further phase runs", file=sys.stderr)
            return options.repeats
        missing = phase.entries - row.entries
        needs_all = phase.name in ("STAT", "READ") or not options.ignores_missing
        if missing > 0 and needs_all and phase.name in ("STAT", "READ", "RMFILES", "RMDIRS") and not options.repeats:
            what = f"{missing} of {phase.entries} {phase.unit.lower()} were missing, or directories not empty"
            hint = "use the -t, -n and -N that wrote them, or --nodelerr to delete the rest"
            raise TargetError(f"{phase.name}: {what}; {hint}")
        return True

    def _clear_caches(self) -> None:
        """Raises ``TargetError``."""
        if self.options.syncs:
            os.sync()
        if self.options.drops_caches:
            try:
                DROP_CACHES.write_text("3\n", encoding="ascii")
            except OSError as error:
                raise TargetError(f"--dropcache: {error.strerror}; it needs root") from None

    def counts(self) -> str:
        """The size of the data set, for --dryrun."""
        return "".join(
            f"{phase.name}: {phase.entries:,} entries, {format_bytes(_planned_bytes(self.data_set, phase))}\n"
            for phase in self.of_iteration()
        )

    def explanation(self) -> str:
        """Describes each phase in words."""
        if self.data_set.is_tree:
            return self._explanation_of_tree()
        return "\n".join(
            explain(plan, self.notes, self.data_set.obstacles, self.machine, called="thread")
            for plan in (phase.plan(self.machine, runs=False) for phase in self.of_iteration())
        )

    def _explanation_of_tree(self) -> str:
        options = self.options
        directories = f"{options.directories:,} director{'y' if options.directories == 1 else 'ies'} of each thread"
        files = f"{counted(options.files, 'file')} of {format_bytes(options.size)}"
        where = f"{directories}, {files} in each" if options.directories else f"one directory, {files} of each thread"
        blocks = -(-options.size // options.block)
        limit = f", at most {options.runtime_ns // SECOND_NS} s" if options.runtime_ns else ""
        repeats = ", again and again" if options.repeats else ""
        lines = [f"{' '.join(options.paths)}: {counted(options.ranks, 'thread')}, {where}", ""]
        for phase in self.of_iteration():
            unit = f"{phase.unit.lower()[:-1]}" if phase.entries == 1 else phase.unit.lower()
            parts = f": open, {counted(blocks, phase.data[0])}, close" if phase.data else ""
            first = phase.threads[0].files.regions[0][0].path
            lines.append(f"{phase.name}: {phase.entries:,} {unit}{parts}{repeats}{limit} (first below {first})")
        lines += ["", *(f"{note.level}: {note}" for note in self.notes)] if self.notes else []
        lines += section_lines("Cannot run on this machine", map(str, self.data_set.obstacles))
        return "\n".join(lines) + "\n"


def _append(path: Path, text: Callable[[bool], str]) -> None:
    """Adds to a file a text that depends on whether the file is empty. Raises ``TargetError``."""
    if path == STDOUT:
        print(text(False), end="", flush=True)
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text(file.tell() == 0))
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror}") from None


def _planned_bytes(data_set: ElbenchoData, phase: Phase) -> int:
    if not phase.data:
        return 0
    return phase.entries * data_set.options.size or sum(map(transferred, phase.threads))


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads an elbencho command line (without ``elbencho``). Raises as ``read_command``."""
    return parsed(read_command(arguments, **place))


def parsed(phases: Phases) -> ParsedCommand:
    """The steps of a command line, and the functions that write elbencho's output."""
    options = phases.options
    source = " ".join(("elbencho", *options.arguments))
    text = "phases of elbencho cannot be written as a job file"
    clustered = options.hosts or options.cluster
    files = (options.csv_path, options.json_path, options.results_path)
    return ParsedCommand(
        title=base.command_title(source),
        source=source,
        steps=tuple(phases.steps()),
        notes=phases.notes,
        obstacles=phases.data_set.obstacles,
        needs=Needs(
            output_paths=tuple(path for path in (*files, options.live_csv) if path and path != STDOUT),
            cluster=ClusterRequest(address=options.cluster, count=options.hosts or None) if clustered else None,
            # Each thread has a rank, and its host follows from it.
            replicas=None,
        ),
        out=options.out,
        explanation=phases.explanation,
        only_prints=phases.counts() if options.only_counts else None,
        no_job_file=Diagnostic(text, None, "run them with iocurve elbencho"),
        writing=phases.written,
        finish=phases.finish,
    )


def read_command(arguments: Sequence[str], **place: Unpack[Workplace]) -> Phases:
    """Reads an elbencho command line (without ``elbencho``).

    Raises ``DialectError`` with every error in it, and ``PlanError`` if the paths cannot be used.
    """
    machine = place.get("machine") or Machine()
    options = parse(arguments, place.get("cwd") or Path.cwd())
    data_set = ElbenchoData.on_machine(options, machine)
    notes: list[PlanNote] = []
    used = max(data_set.sizes, default=data_set.options.size)
    if options.size > used:
        kept, said = format_bytes(used), format_bytes(options.size)
        text = f"direct and random transfers have whole blocks: of each file {kept} are used, not {said}"
        notes.append(PlanNote("size_reduced", text, None, "warning"))
    if data_set.is_tree:
        _require_tree(data_set, machine)
        if options.depth > 1:
            text = (
                "--iodepth has no effect on directories: each thread has one operation in flight; use more threads (-t)"
            )
            notes.append(PlanNote("depth_capped", text, None, "warning"))
    for option in options_of(data_set.options):
        notes += of_option(data_set, option).notes(machine)
    return Phases(data_set, machine, tuple(dict.fromkeys(notes)))


def _require_tree(data_set: ElbenchoData, machine: Machine) -> None:
    """Raises ``PlanError`` for a mix, and where a local directory of the first rank is missing and nothing makes it."""
    options, errors = data_set.options, []
    if options.read_percent:
        errors.append(Diagnostic("--rwmixpct mixes reads and writes of files and devices, and the path is a directory"))
    if options.random and "write" in options.phases:
        hint = "write them without --rand, then read them with it"
        errors.append(Diagnostic("random writes (-w --rand) of files in directories are not supported", hint=hint))
    if not options.files and options.phases - {"mkdirs", "deldirs"}:
        errors.append(Diagnostic("-N 0 leaves no files"))
    if len({place(path)[0] for path in options.paths}) > 1:
        errors.append(Diagnostic("the directories are on several exports", hint="run them one after another"))
    roots = [roots_of(options, rank) for rank in range(min(len(options.paths), options.sharers))]
    if not options.directories and any(not names.directory or "{}" in names.directory for _, _, names in roots):
        hint = "nfs://host/export/dir" if roots[0][0] else "/mnt/data/dir"
        errors.append(Diagnostic("-n 0 needs a directory with a name, without {}", hint=hint))
    if options.hosts == 0 and "mkdirs" not in options.phases and not data_set.obstacles:
        firsts = [
            f"{paths[0]}/{names.directory.replace('{}', '0')}" for target, paths, names in roots if target is None
        ]
        missing = [first for first in firsts if machine.stat(first).kind != "directory"]
        errors += [Diagnostic(f"there is no directory {first}", hint="create it: -d") for first in missing[:1]]
    if errors:
        raise PlanError(errors)


def _information(arguments: Sequence[str]) -> str | None:
    asked = [word for word in arguments if word.startswith("--help") or word in ("-h", "--version")]
    return help_text("elbencho", 30).rstrip("\n") if asked or not arguments else None


DIALECT = Dialect("elbencho", prepare, _information, on_hosts=lambda hosts, _: [f"--numhosts={len(hosts)}"])
