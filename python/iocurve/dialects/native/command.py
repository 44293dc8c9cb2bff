"""``iocurve run``, ``iocurve explain run`` and ``iocurve convert``: job files become plans, other words job files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.fio import command as fio
from iocurve.dialects.native.document import Run
from iocurve.dialects.native.read import read
from iocurve.dialects.native.write import write
from iocurve.dialects.ready import Ready
from iocurve.dialects.vdbench import command as vdbench
from iocurve.engine.plan import Plan
from iocurve.errors import Mistake, PlanError
from iocurve.job.model import Note
from iocurve.job.resolve import Machine, ThisMachine, resolve
from iocurve.units import SECOND_NS


@dataclass(frozen=True)
class Prepared(Ready):
    """The plans of a job file."""

    name: str
    plans: tuple[Plan, ...]


def prepare(
    path: Path, out: Path | None = None, *, cwd: Path | None = None, machine: Machine | None = None
) -> Prepared:
    """Reads a job file; names in it start from the current directory. Raises ``DialectError`` and ``PlanError``."""
    notes: list[Note] = []
    obstacles: list[Mistake] = []
    directories: list[str] = []
    plans: list[Plan] = []
    mistakes: list[Mistake] = []
    for run in read(path):
        try:
            resolution = resolve(run.job, machine or ThisMachine(), cwd or Path.cwd())
        except PlanError as error:
            mistakes += error.mistakes
            continue
        plans.append(resolution.plan.replace(interval_ns=run.interval_ns))
        notes += resolution.notes
        obstacles += resolution.obstacles
        directories += resolution.directories
    if mistakes:
        raise PlanError(list(dict.fromkeys(mistakes)))
    unique = tuple(dict.fromkeys(notes)), tuple(dict.fromkeys(obstacles)), tuple(dict.fromkeys(directories))
    return Prepared(*unique, out, path.stem, tuple(plans))


def convert_fio(arguments: Sequence[str], *, cwd: Path | None = None, machine: Machine | None = None) -> str:
    """A fio command line as a job file. Raises ``DialectError`` and ``PlanError``."""
    prepared = fio.prepare(arguments, cwd=cwd, machine=machine)
    if any(section.replay for section in prepared.job.sections):
        raise PlanError(
            [Mistake("a replayed trace (read_iolog) cannot be written as a job file; run it with iocurve fio")]
        )
    return write([Run(prepared.job, prepared.plan.interval_ns)], " ".join(("fio", *arguments)))


def convert_diskspd(arguments: Sequence[str], *, cwd: Path | None = None, machine: Machine | None = None) -> str:
    """A DiskSpd command line as a job file. Raises ``DialectError`` and ``PlanError``."""
    prepared = diskspd.prepare(arguments, cwd=cwd, machine=machine)
    if not prepared.spans:
        raise PlanError([Mistake("-Rp prints a profile and runs nothing: leave it out")])
    runs = [Run(span.job, span.plan.interval_ns) for span in prepared.spans]
    return write(runs, prepared.profile.command_line)


def convert_vdbench(arguments: Sequence[str], *, cwd: Path | None = None, machine: Machine | None = None) -> str:
    """A vdbench command line as a job file. Raises ``DialectError``, and ``PlanError`` where only vdbench's own runner
    can do it: a curve goes by what its first run measures."""
    prepared = vdbench.prepare(arguments, cwd=cwd, machine=machine)
    if prepared.found.is_file_system:
        raise PlanError([Mistake("file system workloads (FSD, FWD) cannot be written as a job file yet")])
    curves = [run.name for run in prepared.runs if run.curve_percent is not None]
    if curves:
        text = f"{curves[0]}: the points of a curve go by what its first run measures; run it with iocurve vdbench"
        raise PlanError([Mistake(text)])
    runs = []
    formatted: frozenset[str] = frozenset()
    for run in prepared.runs:
        built = prepared.resolve(run, formatted=formatted).built
        formatted |= built.storage
        runs.append(Run(built.job, run.timing.interval_ns or SECOND_NS))
    return write(runs, " ".join(("vdbench", *arguments)))
