"""``iocurve mdtest …`` and ``iocurve explain mdtest …``: turns an mdtest command line into phases."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Unpack

import msgspec
from msgspec.structs import replace

from iocurve.dialects import base
from iocurve.dialects.base import Dialect, Measured, Needs, ParsedCommand, Replicas, Step, Workplace
from iocurve.dialects.mdtest import output
from iocurve.dialects.mdtest.options import ITEMS_MAX, MdtestOptions, Table, parse
from iocurve.dialects.mdtest.phases import Phase, Shape, of_iteration, wear_out
from iocurve.dialects.registry import help_text
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError
from iocurve.foundation.units import SECOND_NS, counted
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine
from iocurve.result.document import Result


class _Table(msgspec.Struct):
    """The table of rates, and the phase whose output is to be written."""

    shape: Shape
    rates: dict[str, list[float]] = msgspec.field(default_factory=dict)
    """By phase: operations per second in each iteration."""
    times: dict[str, list[float]] = msgspec.field(default_factory=dict)
    """By phase: seconds of each iteration."""
    phase: Phase | None = None
    """As it runs."""
    outcomes: list[Outcome] = msgspec.field(default_factory=list)
    """The outcome of the phase, before that of the tasks that catch up with the fastest."""
    sync_s: float = 0.0

    @contextmanager
    def written(self, _notes: Sequence[PlanNote]) -> Iterator[None]:
        """The first lines of the output."""
        sys.stdout.write(output.started(self.shape, datetime.now().astimezone()))
        yield

    def finish(self, result: Result) -> Result:
        """Prints the table of rates."""
        incomplete = None if result.state == "finished" else result.incomplete_reason
        values: dict[Table, dict[str, list[float]]] = {"rate": self.rates, "time": self.times}
        for kind in self.shape.options.tables:
            sys.stdout.write(output.table(self.shape, kind, values[kind], is_complete=incomplete is None))
        sys.stdout.write(output.finished(datetime.now().astimezone(), incomplete))
        return result

    def answer_of(self, phase: Phase, outcome: Outcome) -> None:
        """Prints what the tasks had done when the time was over, and the rate unless some are behind."""
        done = _done_by_task(outcome)
        if outcome.state == "finished":
            self._keep(max(done))
            if min(done) < self.shape.items:
                sys.stdout.write(output.stonewall(done))
            self.phase = replace(phase, items=max(done) * len(done))
            if min(done) < max(done):
                self.outcomes.append(outcome)
                return
        self.answer(outcome)

    def _keep(self, count: int) -> None:
        """Writes the items of each task to the file of -x."""
        if path := self.shape.options.status_file:
            try:
                path.write_text(str(count), encoding="ascii")
            except OSError as error:
                raise TargetError(f"-x {path}: {error.strerror}") from None

    def answer(self, outcome: Outcome) -> None:
        """Notes the rate of a phase that finished."""
        outcomes, self.outcomes = [*self.outcomes, outcome], []
        assert self.phase, "a phase was planned before it ran"
        name = self.phase.name
        for one in outcomes:
            for worker in one.workers:
                for failed in worker.failures:
                    first = f"the first of {failed.path}: {failed.error}"
                    sys.stdout.write(f"WARNING: {name}: {failed.count} {failed.kind} failed, {first}\n")
                if worker.error:
                    sys.stdout.write(f"ERROR: {name}: {worker.error}\n")
            if one.state != "finished":
                return
        ends_ns = (max(max(worker.window_end_ns, worker.drained_ns) for worker in one.workers) for one in outcomes)
        seconds = sum(ends_ns) / SECOND_NS + self.sync_s
        if self.phase.items:
            rate = self.phase.items / max(seconds, 1e-9)
            self.rates.setdefault(name, []).append(rate)
            self.times.setdefault(name, []).append(seconds)
            if self.shape.options.verbose:
                sys.stdout.write(f"   {name:<20}: {seconds:14.3f} sec, {rate:14.3f} ops/sec\n")

    def sync(self, _outcome: Outcome) -> None:
        """sync(2) after a phase, in its time."""
        if self.shape.options.syncs:
            started = time.perf_counter()
            os.sync()
            self.sync_s = time.perf_counter() - started

    def made_on_agents(self, outcome: Outcome) -> None:
        """As ``sync``, of the first phase. Raises ``TargetError`` where -d is not there."""
        missing = (one for worker in outcome.workers for one in worker.failures if one.errno == ENOENT)
        if failure := next(missing, None):
            directory = Path(failure.path).parent
            raise TargetError(f"{directory} does not exist on the agents; create it, or name one that is there (-d)")
        self.sync(outcome)

    def sync_of(self, outcome: Outcome) -> None:
        """As ``sync``; where tasks are behind it follows when they have caught up."""
        done = _done_by_task(outcome)
        if min(done) == max(done):
            self.sync(outcome)


def _steps(table: _Table, machine: Machine, is_local: bool) -> Iterator[Step]:
    """A step for each phase of all iterations; those that follow a time limit depend on what it let through."""
    number = 0
    options = table.shape.options
    kept = None if options.does("create") else _kept_items(options.status_file)
    for iteration in range(options.iterations):
        limited_by: int | None = None
        paused: set[str] = set()
        for phase in of_iteration(table.shape, iteration):
            phase = phase if kept is None else phase.limited(kept)
            part = phase.name.partition(" ")[0]
            pause_ns = options.pause_s * SECOND_NS if part in ("File", "Directory") and part not in paused else 0
            paused.add(part)
            if phase.runtime_ns is not None:
                limited_by = number
                yield Step(
                    name=phase.name,
                    plan=partial(_plan, table, machine, phase, None),
                    kept=True,
                    pause_ns=pause_ns,
                    is_timed_phase=not options.syncs,
                    after=table.sync_of,
                    answer=partial(table.answer_of, phase),
                )
                rest = partial(_rest, machine, phase, number)
                yield Step(name=phase.name, plan=rest, optional=True, after=table.sync, answer=table.answer)
                number += 1
            elif is_local and phase.name == "Test directory creation":
                missing = partial(_plan_of_missing, table, machine, phase)
                yield Step(name=phase.name, plan=missing, after=table.sync, answer=table.answer)
            else:
                is_first = phase.name == "Test directory creation"
                yield Step(
                    name=phase.name,
                    plan=partial(_plan, table, machine, phase, limited_by),
                    pause_ns=pause_ns,
                    # With -Y the time of a phase has the sync after it.
                    is_timed_phase=not options.syncs,
                    after=table.made_on_agents if is_first else table.sync,
                    answer=table.answer,
                )
            number += 1


def _kept_items(path: Path | None) -> int | None:
    """The items of each task in the file of -x; None without one. Raises ``DialectError``."""
    if path is None:
        return None
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, IndexError):
        raise DialectError(
            [Diagnostic(f"-x {path} has no number of items", hint="create the items first: -C -W")]
        ) from None


def _plan(table: _Table, machine: Machine, phase: Phase, limited_by: int | None, measured: Measured) -> Plan:
    """The plan of a phase; after a time limit on the items of the task that was fastest."""
    if limited_by is not None and limited_by in measured:
        phase = phase.limited(max(_done_by_task(measured[limited_by])))
    table.phase = phase
    return phase.plan(machine)


def _plan_of_missing(table: _Table, machine: Machine, phase: Phase, _measured: Measured) -> Plan | None:
    """The directories that are not there; None if all are."""
    missing = [path for path in phase.paths[0] if not _is_made(path)]
    table.phase = replace(phase, made=lambda: (missing,))
    return table.phase.plan(machine) if missing else None


def _rest(machine: Machine, phase: Phase, number: int, measured: Measured) -> Plan | None:
    """The items by which tasks are behind the fastest when the time is over."""
    rest = wear_out(phase, _done_by_task(measured[number])) if number in measured else None
    return rest.plan(machine) if rest else None


def _explanation(shape: Shape, is_local: bool) -> str:
    """Lists the phases of an iteration."""
    options = shape.options
    directories = len(shape.nodes) * shape.loops
    in_each = f"{counted(shape.items, 'item')} in {directories} director{'y' if directories == 1 else 'ies'}"
    lines = [
        f"{counted(options.ranks, 'task')}, {counted(options.iterations, 'iteration')}; of each task {in_each}",
        "",
    ]
    for phase in of_iteration(shape, 0):
        paths = phase.paths
        if is_local and phase.name == "Test directory creation":
            paths = ([path for path in paths[0] if not _is_made(path)],)
        if paths[0]:
            total = sum(map(len, paths))
            lines.append(f"{phase.name}: {counted(total, 'operation')} ({phase.kind}), first {paths[0][0]}")
    return "\n".join(lines) + "\n"


def _is_made(path: str) -> bool:
    return not path.startswith("nfs:") and Path(path).is_dir()


def _done_by_task(outcome: Outcome) -> list[int]:
    return [
        sum(kind.operations for kind in worker.operations.values()) + worker.drained_operations
        for worker in outcome.workers
    ]


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads an mdtest command line (without ``mdtest``). Raises ``DialectError`` with every error in it."""
    options = parse(arguments)
    options, notes = _lowered(options)
    machine, cwd = place.get("machine") or Machine(), place.get("cwd")
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
    notes += _notes_of_reads(options)
    for phase in of_iteration(shape, 0):
        if phase.kind in ("write_file", "read_file"):
            notes += phase.notes(machine)
    creates_directories = options.does("create") and options.cluster is None
    directories = tuple(path for path in options.paths if creates_directories and not _is_url(path))
    missing = tuple(path for path in directories if not Path(path).exists())
    table, is_local = _Table(shape), options.cluster is None
    steps = tuple(_steps(table, machine, is_local))
    if missing and options.does("remove"):
        steps = (*steps[:-1], replace(steps[-1], after=partial(_remove, table, missing)))
    source = " ".join(("mdtest", *options.arguments))
    text = "phases of mdtest cannot be written as a job file"
    return ParsedCommand(
        title=base.command_title(source),
        source=source,
        steps=steps,
        notes=tuple(dict.fromkeys(notes)),
        needs=Needs(
            directories=directories,
            cluster=options.cluster,
            # On agents each has a part of the tasks.
            replicas=Replicas() if is_local else None,
            # The table has whole phases.
            intervals=False,
        ),
        out=options.out,
        explanation=lambda: _explanation(shape, is_local),
        no_job_file=Diagnostic(text, None, "run them with iocurve mdtest"),
        writing=table.written,
        finish=table.finish,
    )


def _notes_of_reads(options: MdtestOptions) -> Iterator[PlanNote]:
    """Notes about read phases that do less than they seem to."""
    if options.does("read") and options.tests_files and not options.read_bytes:
        # mdtest warns of it, too.
        text = "-e is 0: the read phase opens and closes the files"
        yield PlanNote("mdtest_reads_nothing", text, None, "info")
    if options.does("read") and options.verifies_reads:
        text = "-X has no effect: all data are read, and not compared; iocurve fio --verify=crc32c compares them"
        yield PlanNote("no_effect", text, None, "warning")


def _lowered(options: MdtestOptions) -> tuple[MdtestOptions, list[PlanNote]]:
    """The options with as many items as a plan can name, where a time ends their creation."""
    most = ITEMS_MAX // options.ranks
    if not options.stonewall_ns or options.items <= most:
        return options, []
    text = f"-n is lowered to {most:,}: a plan has up to {ITEMS_MAX:,} names; -W may end the creation before"
    return replace(options, items=most), [PlanNote("items_lowered", text, None, "warning")]


def _remove(table: _Table, paths: Sequence[str], outcome: Outcome) -> None:
    """After the last phase, removes the directories that were made before the first, as mdtest does."""
    table.sync(outcome)
    for path in paths:
        with suppress(OSError):
            Path(path).rmdir()


def _is_url(path: str) -> bool:
    return path.startswith("nfs:")


def _information(arguments: Sequence[str]) -> str | None:
    return help_text("mdtest", 17).rstrip("\n") if tuple(arguments) in (("--help",), ("-h",)) else None


DIALECT = Dialect("mdtest", prepare, _information, on_hosts=lambda hosts, _: [f"--clients={len(hosts)}"])
