"""Runs jobs for programs: the loads of a dialect, as their files say or on another target, without a tool's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from msgspec.structs import replace

from iocurve.dialects.base import Dialect, Measured, ParsedCommand, Step
from iocurve.dialects.registry import REGISTRY, load
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, DialectError, PlanError, words_of
from iocurve.job.model import Said
from iocurve.job.resolve import plan_here
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep, Measure
from iocurve.measure.data_set import require_reachable, target_fields
from iocurve.measure.jobs import NO_TARGET, measure_steps
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.measure.scenario import document as documents
from iocurve.report.progress import View
from iocurve.result.document import Result, TargetFacts
from iocurve.result.turns import phase_names
from iocurve.targets import opened_target
from iocurve.targets.opened_target import OpenedTarget, Volume
from iocurve.targets.target import Target, parse

DialectName = Literal["iocurve", "fio", "vdbench", "diskspd", "mdtest", "elbencho"]
TargetLike: TypeAlias = str | Path | Volume
"""A directory, a file, a device, ``nfs://host/export``, ``volume:PROFILE?quota=4TiB``, ``disk:NAME``, or a running
``Volume``."""
JobLike: TypeAlias = str | Path | Plan
"""The text or the path of a job file, a command line, or a plan."""
FILE_ARGUMENTS: Mapping[DialectName, Callable[[str], list[str]]] = {
    "iocurve": lambda path: [path],
    "fio": lambda path: [path],
    "vdbench": lambda path: ["-f", path],
    "diskspd": lambda path: [f"-X{path}"],
    "elbencho": lambda path: ["-c", path],
}
"""The command line that runs a job file; mdtest has none."""
JOB_TEXT = "job text"
"""The source in messages about a job that is in no file."""


def measure_command(
    kind: str,
    command: ParsedCommand,
    view: View,
    keep: Keep,
    *,
    target: TargetFacts | None = None,
    machines: Machines = THIS_MACHINE,
) -> Result:
    """Measures the steps of a command line, each a point; the tool's output is not written.

    ``kind`` is that of the run in the result: the name of a dialect. ``target`` defaults to what the plans name. Raises
    ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    started = campaigns.started(kind, command.title, target or NO_TARGET)
    campaign = Campaign(started, view, keep, count=command.count, machines=machines)
    return measure_steps(campaign, kind, command, writes=False, target=target)


def of_plans(plans: Sequence[Plan]) -> ParsedCommand:
    """A command that measures plans one after another."""
    steps = tuple(Step(name=plan.name, phases=phase_names(plan), plan=partial(_same, plan)) for plan in plans)
    return ParsedCommand(title=plans[0].name, steps=steps, explanation=str)


def _same(plan: Plan, _measured: Measured) -> Plan:
    return plan


def as_written(kind: str, command: ParsedCommand, machines: Machines = THIS_MACHINE) -> Measure:
    """Measures the steps of a command line on the targets that it names. Raises ``PlanError`` and ``TargetError``."""
    _require_this_machine(command)
    if command.only_prints is not None:
        raise PlanError([Diagnostic("this runs nothing; ask on the command line")])
    command.require_runnable()
    command.needs.make_directories()
    return partial(measure_command, kind, command, machines=machines)


def measured_on(
    target: Target,
    kind: str,
    command: ParsedCommand,
    view: View,
    keep: Keep,
    *,
    overwrite: bool,
    machines: Machines = THIS_MACHINE,
) -> Result:
    """Measures the loads of a command line on another target, which is open meanwhile.

    Raises ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    _require_this_machine(command)
    require_reachable(target, machines)
    jobs = command.jobs()
    writes = any(section.load.writes for one in jobs for section in one.sections)
    opened_target.check_overwrites(target, overwrite=overwrite, writes=writes)
    with opened_target.opened(target) as found:
        moved = [one.changed(partial(_on_target, found)) for one in jobs]
        planned = of_plans([plan_here(one, one.interval_ns) for one in moved])
        loads = replace(planned, notes=command.notes)
        return measure_command(kind, loads, view, keep, target=found.facts, machines=machines)


def _require_this_machine(command: ParsedCommand) -> None:
    if command.needs.cluster is not None:
        text = "agents of a cluster are for the command line; leave out --client, --on and --map-host"
        raise PlanError([Diagnostic(text)])


def _on_target(opened: OpenedTarget, said: Said) -> Said:
    """The fields of a section on another target: files keep their names, without directories."""
    engine = said.get("engine")
    said = said.but(nfs_url=None, disk=None, directories=None, engine=None if engine in ("nfs", "null") else engine)
    if opened.path is not None:
        return said.but(paths=(opened.path,))
    names = tuple(Path(path).name for path in said.get("paths") or ())
    return target_fields(opened).over(said.but(paths=names or None))


# ---- jobs as programs write them


def kind_of(dialect: DialectName) -> str:
    """The kind of run in results of a dialect."""
    return "run" if dialect == "iocurve" else dialect


def prepared(job: str | Path, dialect: DialectName, options: Sequence[str] = ()) -> ParsedCommand:
    """The command line of a job: the text or the path of a job file, or a command line. Raises ``DialectError``."""
    known = _dialect(dialect)
    text = str(job)
    if isinstance(job, Path) or not ("\n" in text or text.startswith("-")):
        if dialect == "iocurve" and documents.is_scenario(Path(text)):
            raise DialectError([Diagnostic(f"{text} is a scenario; run it with iocurve.scenario")])
        return known.prepare([*options, *_file_arguments(dialect, text)])
    if "\n" not in text:
        words = words_of(text)
        if known.information(words) is not None:
            raise DialectError([Diagnostic(f"{text}: this runs nothing; ask on the command line: iocurve {dialect}")])
        return known.prepare([*options, *words])
    with TemporaryDirectory(prefix="iocurve-") as directory:
        path = Path(directory) / "job"
        # A lone surrogate is an error of the text, which its reader finds.
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            return known.prepare([*options, *_file_arguments(dialect, str(path))])
        except DialectError as error:
            raise DialectError([_in_text(one, str(path)) for one in error.errors]) from None


def _file_arguments(dialect: DialectName, path: str) -> list[str]:
    """The command line that runs a job file. Raises ``DialectError``."""
    if dialect not in FILE_ARGUMENTS:
        raise DialectError([Diagnostic(f"{dialect} has no job files; give a command line, as '-n 1000 -d /mnt/a'")])
    return FILE_ARGUMENTS[dialect](path)


def _dialect(name: DialectName) -> Dialect:
    if name == "iocurve":
        # Loaded here, as the registry loads the others.
        from iocurve.dialects.native.command import DIALECT

        return DIALECT
    if name not in REGISTRY:
        known = ", ".join(["iocurve", *REGISTRY])
        raise DialectError([Diagnostic(f"there is no dialect '{name}'; choose one of: {known}")])
    return load(name)


def _in_text(error: Diagnostic, path: str) -> Diagnostic:
    """The error without the name of the file that held the text."""
    where = error.where and replace(error.where, source=error.where.source.replace(path, JOB_TEXT))
    return replace(error, text=error.text.replace(path, JOB_TEXT), where=where)


# ---- targets as programs name them


def target_of(target: TargetLike, *, create: bool = False) -> Target:
    """The target that a caller gave. Raises ``DialectError`` and ``TargetError``."""
    return target.target if isinstance(target, Volume) else parse(str(target), create=create)


def named_targets(
    found: documents.Scenario, target: TargetLike | Mapping[str, TargetLike] | None, *, create: bool
) -> Mapping[str, Target] | Sequence[str]:
    """The targets of a scenario that a caller gave. Raises ``DialectError`` and ``TargetError``."""
    if target is None:
        return ()
    names = [need.name for need in found.targets]
    said = target if isinstance(target, Mapping) else dict.fromkeys(names, target)
    if said.keys() != set(names):
        raise DialectError(
            [Diagnostic(f"target: {found.name} has {', '.join(names)}; give one target, or each by its name")]
        )
    return {name: target_of(said[name], create=create) for name in names}
