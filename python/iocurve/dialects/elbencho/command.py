"""``iocurve elbencho …`` and ``iocurve explain elbencho …``: turns an elbencho command line into phases."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from iocurve.dialects import base
from iocurve.dialects.base import ClusterRequest, Dialect, RunPlan, TimedJob, shared_help
from iocurve.dialects.elbencho import output
from iocurve.dialects.elbencho.options import Options, parse
from iocurve.dialects.elbencho.phases import DataSet, Phase, of_iteration, place, roots_of, transferred
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, PlanError, TargetError
from iocurve.job.explain import explain
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine, ThisMachine
from iocurve.result.document import Result
from iocurve.result.summary import summarise
from iocurve.units import SECOND_NS, counted, format_bytes

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
HELP = f"""\
Usage: iocurve elbencho [elbencho's options] PATH [PATH…]

Runs elbencho's phases on directories, files, block devices or NFS exports, and prints elbencho's table. A path is
/mnt/data, "/mnt/data/file[1-4]", /dev/nvme0n1 or nfs://host/export/dir. elbencho's options:
  -d, -w, --stat, -r, -F, -D  create directories; write, stat, read, delete files; delete directories
  -t N, -n N, -N N            threads, directories of each thread, files of each thread in each directory
  -s SIZE, -b SIZE            file size and block size (default: 1m)
  --direct, --iodepth N       direct I/O; operations in flight of each thread (files and devices)
  --rand, --randamount SIZE   random offsets, and how much to transfer; --norandalign does not align them
  --rwmixpct N                per cent of reads in the write phase (files and devices)
  --limitread SIZE, --limitwrite SIZE  bytes per second of each thread
  --timelimit S, --infloop    end each phase after S seconds; start again until then
  -i N, --phasedelay S        iterations, pause between phases
  --lat, --latpercent, --latpercent9s N, --lathisto, --allelapsed  more rows
  --csvfile, --jsonfile, --resfile FILE  append the results; --label TEXT, --nocsvlabels
  --cores 0,2,4-7             bind threads to processors
  --trunctosize, --blockvarpct 0|100, --nodelerr, --nosvcshare, --sync, --dropcache, --dryrun, -c FILE
iocurve adds
  --numhosts N, --on CLUSTER  run on N load clients of a cluster: auto (of this machine, default), or HOST:PORT
{shared_help(30)}

To see what a command line would do: iocurve explain elbencho ...
"""


@dataclass(frozen=True, kw_only=True)
class Prepared(base.Prepared):
    """An elbencho command line that was read."""

    data_set: DataSet
    rows: list[output.PhaseRow] = field(default_factory=list)
    """Results of the phases that ended."""

    @property
    def options(self) -> Options:
        """The command line."""
        return self.data_set.options

    @property
    def plans(self) -> Sequence[Plan]:
        """The plans of an iteration."""
        return [phase.plan(self.machine) for phase in self._phases()]

    @property
    def places_workers(self) -> bool:
        """True: each thread has a rank, and its host follows from it."""
        return True

    @property
    def source(self) -> str:
        """The command line."""
        return " ".join(("elbencho", *self.options.arguments))

    @property
    def title(self) -> str:
        """The command line, shortened."""
        return base.command_title(self.source)

    def output_without_run(self) -> str | None:
        """The size of the data set with --dryrun."""
        if not self.options.only_counts:
            return None
        return "".join(
            f"{phase.name}: {phase.entries:,} entries, {format_bytes(_planned_bytes(self.data_set, phase))}\n"
            for phase in self._phases()
        )

    def output_paths(self) -> Sequence[Path]:
        """Files that results are appended to."""
        options = self.options
        return [path for path in (options.csv_path, options.json_path, options.results_path) if path]

    def explain(self) -> str:
        """Describes each phase in words."""
        if self.data_set.is_tree:
            return self._explain_tree()
        return "\n".join(
            explain(plan, self.notes, self.obstacles, self.machine, called="thread") for plan in self.plans
        )

    def _explain_tree(self) -> str:
        options = self.options
        directories = f"{options.directories:,} director{'y' if options.directories == 1 else 'ies'} of each thread"
        files = f"{counted(options.files, 'file')} of {format_bytes(options.size)}"
        where = f"{directories}, {files} in each" if options.directories else f"one directory, {files} of each thread"
        blocks = -(-options.size // options.block)
        limit = f", at most {options.runtime_ns // SECOND_NS} s" if options.runtime_ns else ""
        repeats = ", again and again" if options.repeats else ""
        lines = [f"{' '.join(options.paths)}: {counted(options.ranks, 'thread')}, {where}", ""]
        for phase in self._phases():
            unit = f"{phase.unit.lower()[:-1]}" if phase.entries == 1 else phase.unit.lower()
            parts = f": open, {counted(blocks, phase.data[0])}, close" if phase.data else ""
            first = phase.threads[0].files.regions[0][0].path
            lines.append(f"{phase.name}: {phase.entries:,} {unit}{parts}{repeats}{limit} (first below {first})")
        lines += ["", *(f"{note.level}: {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def measure(self, run: RunPlan) -> None:
        """Runs all phases; stops after the first that does not finish."""
        options = self.options
        print(output.HEADER, end="", flush=True)
        for iteration in range(options.iterations):
            for number, phase in enumerate(self._phases()):
                if options.pause_s and (number or iteration):
                    time.sleep(options.pause_s)
                self._clear_caches()
                started = datetime.now().astimezone()
                plan = phase.plan(self.machine)
                outcome = run(plan, lambda _: False)
                self._clear_caches()
                workers = [worker for worker in outcome.workers if worker.group == 0]
                row = output.PhaseRow(phase, started, summarise(phase.name, plan, workers), workers, outcome.state)
                self.rows.append(row)
                print(output.table(row, options), end="", flush=True)
                if not self._goes_on(phase, row, outcome):
                    return

    def write_output(self, result: Result) -> Result:
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
            try:
                with path.open("a", encoding="utf-8") as file:
                    file.write(text(file.tell() == 0))
            except OSError as error:
                raise TargetError(f"{path} cannot be written: {error.strerror}") from None
        return result

    def jobs(self) -> list[TimedJob]:
        """Raises ``PlanError``."""
        raise PlanError(
            [Diagnostic("phases of elbencho cannot be written as a job file", None, "run them with iocurve elbencho")]
        )

    def _phases(self) -> Iterator[Phase]:
        return of_iteration(self.data_set)

    def _goes_on(self, phase: Phase, row: output.PhaseRow, outcome: Outcome) -> bool:
        """False after a phase that failed, was stopped, or reached the time limit. Raises ``TargetError``."""
        if outcome.state != "finished":
            return False
        options = self.options
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


def _planned_bytes(data_set: DataSet, phase: Phase) -> int:
    if not phase.data:
        return 0
    return phase.entries * data_set.options.size or sum(map(transferred, phase.threads))


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - no variables
    machine: Machine | None = None,
) -> Prepared:
    """Reads an elbencho command line (without ``elbencho``).

    Raises ``DialectError`` with every error in it, and ``PlanError`` if the paths cannot be used.
    """
    machine = machine or ThisMachine()
    options = parse(arguments, cwd or Path.cwd())
    data_set = DataSet.found(options, machine)
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
    cluster = (
        ClusterRequest(address=options.cluster, count=options.hosts or None)
        if options.hosts or options.cluster
        else None
    )
    return Prepared(notes=tuple(notes), out=options.out, machine=machine, data_set=data_set, cluster=cluster)


def _require_tree(data_set: DataSet, machine: Machine) -> None:
    """Raises ``PlanError`` for a mix, and where a local directory of the first rank is missing and nothing makes it."""
    options, errors = data_set.options, []
    if options.read_percent:
        errors.append(Diagnostic("--rwmixpct mixes reads and writes of files and devices, and the path is a directory"))
    if options.random:
        errors.append(Diagnostic("--rand is for files and devices, and the path is a directory"))
    if not options.files and options.phases - {"mkdirs", "deldirs"}:
        errors.append(Diagnostic("-N 0 leaves no files"))
    if len({place(path)[0] for path in options.paths}) > 1:
        errors.append(Diagnostic("the directories are on several exports", hint="run them one after another"))
    roots = [roots_of(options, rank) for rank in range(min(len(options.paths), options.sharers))]
    if not options.directories and any(not names.directory or "{}" in names.directory for _, _, names in roots):
        hint = "nfs://host/export/dir" if roots[0][0] else "/mnt/data/dir"
        errors.append(Diagnostic("-n 0 needs a directory with a name, without {}", hint=hint))
    if options.hosts == 0 and "mkdirs" not in options.phases:
        firsts = [
            f"{paths[0]}/{names.directory.replace('{}', '0')}" for target, paths, names in roots if target is None
        ]
        missing = [first for first in firsts if machine.stat(first).kind != "directory"]
        errors += [Diagnostic(f"there is no directory {first}", hint="create it: -d") for first in missing[:1]]
    if errors:
        raise PlanError(errors)


def _information(arguments: Sequence[str]) -> str | None:
    asked = [word for word in arguments if word.startswith("--help") or word in ("-h", "--version")]
    return HELP.rstrip("\n") if asked or not arguments else None


DIALECT = Dialect("elbencho", prepare, _information, on_hosts=lambda hosts, _: [f"--numhosts={len(hosts)}"])
