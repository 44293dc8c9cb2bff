"""``iocurve mdtest …`` and ``iocurve explain mdtest …``: turns an mdtest command line into phases."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from iocurve.dialects import base
from iocurve.dialects.base import Dialect, RunPlan, TimedJob, shared_help
from iocurve.dialects.mdtest import output
from iocurve.dialects.mdtest.names import Shape
from iocurve.dialects.mdtest.options import ITEMS_MAX, Options, parse
from iocurve.dialects.mdtest.phases import Phase, of_iteration, wear_out
from iocurve.engine.outcome import Outcome, WorkerOutcome
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, DialectError, PlanError
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine, ThisMachine
from iocurve.result.document import Result
from iocurve.units import SECOND_NS, counted

HELP = f"""\
Usage: iocurve mdtest [mdtest's options]

Runs mdtest's phases on a directory or an NFS export, and prints mdtest's table of rates. mdtest's options:
  -d DIR[@DIR…]  directory of the test (default: ./out), or nfs://host/export; several with -u
  -n N, -I N     items of each task in all, and in each directory of the tree
  -z N, -b N     depth and branching factor of the tree (defaults: 0 and 1)
  -L             items only in the lowest level of the tree
  -D, -F         only directories, only files
  -u             each task has its own tree; -t is accepted: the time always includes the way into it
  -C, -T, -E, -r only these phases: create, stat, read (open and close), remove
  -N N           each phase uses the items of the task N further on
  -W SECONDS     stop creating after that time, then let each task catch up with the fastest (with -F)
  -i N           iterations
  -w BYTES       bytes written to each file that is created (default: 0); -y flushes it before it is closed
  -e BYTES       bytes read from each file (default: 0, files are opened and closed)
  -Y             sync(2) after each phase, in its time
  -v             print the rate of each phase when it ends
iocurve adds
  --np N         tasks (default: 1), as mpirun's -np. Over NFS they are operations in flight of one worker
  --clients N    divide the tasks over N load clients of a cluster: --on auto (of this machine, default), or HOST:PORT
{shared_help(17)}

To see what a command line would do: iocurve explain mdtest ...
"""


@dataclass(frozen=True, kw_only=True)
class Prepared(base.Prepared):
    """An mdtest command line that was read."""

    shape: Shape
    missing: tuple[str, ...] = ()
    """Directories of -d that did not exist."""
    rates: dict[str, list[float]] = field(default_factory=dict)
    """By phase: operations per second in each iteration."""

    @property
    def options(self) -> Options:
        """The command line."""
        return self.shape.options

    @property
    def plans(self) -> Sequence[Plan]:
        """The plan of the first phase: names of the others would take memory."""
        return [next(self._phases(0)).plan(self.machine)]

    @property
    def source(self) -> str:
        """The command line."""
        return " ".join(("mdtest", *self.options.arguments))

    @property
    def title(self) -> str:
        """The command line, shortened."""
        return base.command_title(self.source)

    @property
    def places_workers(self) -> bool:
        """True on load clients: each has a part of the tasks."""
        return self.cluster is not None

    @property
    def needs_intervals(self) -> bool:
        """False: the table has whole phases."""
        return False

    def explain(self) -> str:
        """Lists the phases of an iteration."""
        options, shape = self.options, self.shape
        directories = len(shape.nodes) * shape.loops
        in_each = f"{counted(shape.items, 'item')} in {directories} director{'y' if directories == 1 else 'ies'}"
        lines = [
            f"{counted(options.ranks, 'task')}, {counted(options.iterations, 'iteration')}; of each task {in_each}",
            "",
        ]
        for phase in self._phases(0):
            names = phase.paths[0]
            total = sum(map(len, phase.paths))
            lines.append(f"{phase.name}: {counted(total, 'operation')} ({phase.kind}), first {names[0]}")
        return "\n".join(lines) + "\n"

    def measure(self, run: RunPlan) -> None:
        """Runs all phases; stops after the first that does not finish."""
        sys.stdout.write(output.started(self.shape, datetime.now().astimezone()))
        for iteration in range(self.options.iterations):
            limit: int | None = None
            for planned in self._phases(iteration):
                phase = planned if limit is None else planned.limited(limit)
                outcomes = [run(phase.plan(self.machine), lambda _: False)]
                if phase.runtime_ns is not None and outcomes[0].state == "finished":
                    done = [_done(worker) for worker in outcomes[0].workers]
                    limit = max(done)
                    if min(done) < self.shape.items:
                        sys.stdout.write(output.stonewall(done))
                    phase = replace(phase, items=limit * len(done))
                    if rest := wear_out(phase, done):
                        outcomes.append(run(rest.plan(self.machine), lambda _: False))
                if not self._ended(phase, outcomes):
                    return
        if self.options.does("remove"):
            for path in self.missing:
                # As mdtest, which removes what it has created.
                with suppress(OSError):
                    Path(path).rmdir()

    def write_output(self, result: Result) -> Result:
        """Prints the table of rates."""
        incomplete = None if result.state == "finished" else result.incomplete_reason
        sys.stdout.write(output.table(self.shape, self.rates, is_complete=incomplete is None))
        sys.stdout.write(output.finished(datetime.now().astimezone(), incomplete))
        return result

    def jobs(self) -> list[TimedJob]:
        """Raises ``PlanError``."""
        raise PlanError(
            [Diagnostic("phases of mdtest cannot be written as a job file", None, "run them with iocurve mdtest")]
        )

    def _phases(self, iteration: int) -> Iterator[Phase]:
        for phase in of_iteration(self.shape, iteration):
            if self.cluster is not None:
                yield phase
                continue
            missing = [path for path in phase.paths[0] if not _is_made(path)]
            if phase.name != "Test directory creation":
                yield phase
            elif missing:
                yield replace(phase, paths=(missing,))

    def _ended(self, phase: Phase, outcomes: Sequence[Outcome]) -> bool:
        """Notes the rate of a phase. Returns True if it finished."""
        for outcome in outcomes:
            for worker in outcome.workers:
                for failed in worker.failures:
                    first = f"the first of {failed.path}: {failed.error}"
                    sys.stdout.write(f"WARNING: {phase.name}: {failed.count} {failed.kind} failed, {first}\n")
                if worker.error:
                    sys.stdout.write(f"ERROR: {phase.name}: {worker.error}\n")
            if outcome.state != "finished":
                return False
        started = time.perf_counter()
        if self.options.syncs:
            os.sync()
        seconds = sum(max(map(_ended_ns, outcome.workers)) for outcome in outcomes) / SECOND_NS
        seconds += (time.perf_counter() - started) if self.options.syncs else 0.0
        if phase.items:
            rate = phase.items / max(seconds, 1e-9)
            self.rates.setdefault(phase.name, []).append(rate)
            if self.options.verbose:
                sys.stdout.write(f"   {phase.name:<20}: {seconds:14.3f} sec, {rate:14.3f} ops/sec\n")
        return True


def _is_made(path: str) -> bool:
    return not path.startswith("nfs:") and Path(path).is_dir()


def _done(worker: WorkerOutcome) -> int:
    return sum(kind.operations for kind in worker.operations.values()) + worker.drained_operations


def _ended_ns(worker: WorkerOutcome) -> int:
    return max(worker.window_end_ns, worker.drained_ns)


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - no variables
    machine: Machine | None = None,
) -> Prepared:
    """Reads an mdtest command line (without ``mdtest``). Raises ``DialectError`` with every error in it."""
    options = parse(arguments)
    if cwd is not None:
        options = replace(options, paths=tuple(path if _is_url(path) else str(cwd / path) for path in options.paths))
    shape = Shape.of(options)
    total = shape.items * options.ranks
    errors = []
    if not shape.per_directory:
        errors.append(Diagnostic(f"-n {options.items} leaves none of {shape.directories} directories an item"))
    if options.items and options.items_per_directory and options.depth:
        errors.append(Diagnostic("-n with -I needs a depth (-z) of 0: mdtest would stat only a part of the tree"))
    if max(total, shape.directories * shape.loops * options.ranks) > ITEMS_MAX:
        errors.append(Diagnostic(f"{total} files or directories are more than the limit of {ITEMS_MAX}"))
    if errors:
        raise DialectError(errors)
    notes: tuple[PlanNote, ...] = ()
    if options.does("read") and options.tests_files and not options.read_bytes:
        # mdtest warns of it, too.
        text = "-e is 0: the read phase opens and closes the files"
        notes = (PlanNote("mdtest_reads_nothing", text, None, "info"),)
    creates_directories = options.does("create") and options.cluster is None
    directories = tuple(path for path in options.paths if creates_directories and not _is_url(path))
    return Prepared(
        notes=notes,
        directories=directories,
        missing=tuple(path for path in directories if not Path(path).exists()),
        cluster=options.cluster,
        out=options.out,
        machine=machine or ThisMachine(),
        shape=shape,
    )


def _is_url(path: str) -> bool:
    return path.startswith("nfs:")


def _information(arguments: Sequence[str]) -> str | None:
    return HELP.rstrip("\n") if tuple(arguments) in (("--help",), ("-h",)) else None


DIALECT = Dialect("mdtest", prepare, _information, on_hosts=lambda hosts, _: [f"--clients={len(hosts)}"])
