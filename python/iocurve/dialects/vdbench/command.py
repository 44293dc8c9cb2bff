"""``iocurve vdbench …`` and ``iocurve explain vdbench …``: a command line becomes runs, notes and settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from iocurve.dialects.base import Dialect, RunPlan, TimedJob
from iocurve.dialects.vdbench import explanation, runner
from iocurve.dialects.vdbench.invocation import Invocation, check, distinct
from iocurve.dialects.vdbench.read import lines, options
from iocurve.dialects.vdbench.read.definitions import Definitions, define
from iocurve.dialects.vdbench.read.options import Options
from iocurve.dialects.vdbench.runs import Run, expand
from iocurve.dialects.vdbench.validation import Asked, Reader, validation
from iocurve.dialects.vdbench.validation import mistakes as validation_mistakes
from iocurve.dialects.vdbench.world import make_world
from iocurve.errors import DialectError, Mistake, PlanError, in_order
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine, ThisMachine
from iocurve.result.document import Result
from iocurve.units import SECOND_NS

HELP = """\
Usage: iocurve vdbench -f file [file ...] [vdbench's options] [variable=value ...]

Runs vdbench's parameter files as they are; vdbench's guide describes them. Of its options there are
  -f FILE ...         parameter files
  -o DIR              folder for the reports (output); DIR+ counts on, DIR.tod adds the time
  -e, -i, -w TIME     instead of every elapsed=, interval=, warmup=
  -l [TIME]           all runs again, for a time or without end
  -v[r|w], -j[r|ro]   data validation: what is read is compared; journals let a later run verify what this one wrote
  -r RD               begin with this run definition
  -s                  only print which runs there would be
  -t                  a sample: five seconds on a small file
On top of them there are
  --map-host FROM=TO  play host FROM (a label, a system, or a pattern) as TO; hosts with one name become one
  --map-lun FROM=TO   use TO instead of the LUN, directory or pattern FROM; {sd} and {host} are filled in
  --size SIZE         instead of every size=, to try a file out
  --report DIR        result.json, report.html and points.csv go there
A lun may be nfs://host[:port]/export/file?nconnect=8.

What a parameter file would do, and which traps are in it: iocurve explain vdbench ...
"""


@dataclass(frozen=True, kw_only=True)
class Prepared(Invocation):
    """A vdbench command line that can be run, explained and answered."""

    arguments: tuple[str, ...]

    @property
    def source(self) -> str:
        """The command line."""
        return " ".join(("vdbench", *self.arguments))

    @property
    def shows_progress(self) -> bool:
        """Each interval is a line on stdout already."""
        return False

    @property
    def writes_output_at_end(self) -> bool:
        """Each run is answered when it ends: a file may have thousands."""
        return False

    def output_without_run(self) -> str | None:
        """With -s the runs that there would be."""
        return "".join(f"{line}\n" for line in runner.simulate(self)) if self.options.simulate else None

    def explain(self) -> str:
        """Definitions, runs and workloads in words."""
        return explanation.explain(self)

    def check(self) -> tuple[Sequence[PlanNote], Sequence[Mistake]]:
        """Plans the runs, as far as they differ."""
        if self.found.is_file_system:
            return self.notes, explanation.file_system_obstacles(self)
        notes, obstacles = check(self)
        return list(dict.fromkeys([*self.notes, *notes])), obstacles

    def measure(self, run: RunPlan) -> None:
        """Runs one after another; a curve goes by what its first one measures."""
        runner.Runner(self, run, sys.stdout).run(self.check()[0])

    def write_output(self, result: Result) -> Result:
        """Everything was answered while it ran."""
        return result

    def jobs(self) -> list[TimedJob]:
        """A job for each run; not where one goes by what another measures."""
        if self.found.is_file_system:
            raise PlanError([Mistake("file system workloads (FSD, FWD) cannot be written as a job file yet")])
        curves = [run.name for run in self.runs if run.curve_percent is not None]
        if curves:
            text = f"{curves[0]}: the points of a curve go by what its first run measures; run it with iocurve vdbench"
            raise PlanError([Mistake(text)])
        jobs = []
        formatted: frozenset[str] = frozenset()
        for run in self.runs:
            built = self.resolve(run, formatted=formatted).built
            formatted |= built.storage
            jobs.append(TimedJob(built.job, run.timing.interval_ns or SECOND_NS))
        return jobs


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - variables are on the command line alone
    machine: Machine | None = None,
) -> Prepared:
    """Reads a vdbench command line (without ``vdbench``) and its parameter files.

    Raises ``DialectError`` with every mistake in what was written, ``PlanError`` where a run cannot be planned.
    """
    directory = cwd or Path.cwd()
    machine = machine or ThisMachine()
    said = options.parse(arguments, directory)
    if said.text is not None:
        text = lines.read_text(said.text, "-t", said.variables)
    else:
        text = lines.read(said.files, said.variables)
    found = define(text.statements)
    mistakes = [*said.mistakes, *text.mistakes, *found.mistakes]
    if not text.is_whole:
        raise DialectError(in_order(mistakes))
    world = make_world(found, said.host_maps, said.lun_maps, said.size)
    runs = expand(found, list(world.storage), said.overrides, Random(machine.fresh_seed()))
    mistakes += [*world.mistakes, *runs.mistakes]
    mistakes += _loop_mistakes(found) + _nothing_to_run(runs.runs, mistakes) + _cannot_begin(said, found)
    asked = _asked_validation(said, found, mistakes)
    mistakes += validation_mistakes(found, world, asked)
    notes = (*said.notes, *found.notes, *world.notes, *asked.notes)
    begun = _from(said.begin_at, runs.runs)
    validated = validation(found, world, runs.runs, asked, directory)
    prepared = Prepared(
        notes=notes,
        out=said.report,
        machine=machine,
        options=said,
        text=text,
        found=found,
        world=world,
        runs=tuple(begun),
        directory=directory,
        validation=validated,
        arguments=tuple(arguments),
    )
    if not found.is_file_system:
        mistakes += _first_mistakes(prepared)
    if mistakes:
        raise DialectError(in_order(mistakes))
    return prepared


def _first_mistakes(prepared: Invocation) -> list[Mistake]:
    """What building the first run of each definition finds: names that nothing has, flags, skews."""
    mistakes: list[Mistake] = []
    builder = prepared.builder()
    for run in distinct(prepared.first_runs()):
        try:
            builder.build(run)
        except PlanError as error:
            mistakes += error.mistakes
    return mistakes


def _asked_validation(said: Options, found: Definitions, mistakes: list[Mistake]) -> Asked:
    """What the command line and the general parameters say together."""
    reader = Reader(said.validation)
    for keyword in ("validate", "journal"):
        try:
            reader.words(keyword, found.general.get(keyword, ()), found.general.place(keyword))
        except ValueError as error:
            mistakes.append(Mistake(f"{keyword}: {error}", found.general.place(keyword)))
    if reader.asked.recover and (said.loop or found.general.get("loop")):
        where = found.general.place("journal", "loop")
        mistakes.append(Mistake("a journal is recovered once: leave out -l and loop=", where if where.source else None))
    if reader.asked.recover_only and not reader.asked.recover:
        reader.asked = replace(reader.asked, recover=True)
    return reader.asked


def _loop_mistakes(found: Definitions) -> list[Mistake]:
    said = found.general.get("loop")
    try:
        if said:
            options.loop(said)
    except ValueError as error:
        return [Mistake(f"loop: {error}", found.general.place("loop"))]
    return []


def _nothing_to_run(runs: Sequence[Run], mistakes: Sequence[Mistake]) -> list[Mistake]:
    if runs or mistakes:
        return []
    return [Mistake("there is nothing to run", None, "add rd=rd1,wd=…,iorate=max,elapsed=60")]


def _cannot_begin(said: Options, found: Definitions) -> list[Mistake]:
    if said.begin_at is None or any(rd.name == said.begin_at for rd in found.by_kind["rd"]):
        return []
    return [Mistake(f"-r: there is no rd={said.begin_at[:40]}")]


def _from(name: str | None, runs: Sequence[Run]) -> Sequence[Run]:
    number = next((index for index, run in enumerate(runs) if run.rd.name == name), 0)
    return runs[number:]


def _information(arguments: Sequence[str]) -> str | None:
    return HELP if tuple(arguments) in (("--help",), ("-h",)) else None


DIALECT = Dialect("vdbench", prepare, _information)
