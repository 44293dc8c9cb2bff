"""``iocurve run FILE`` and ``iocurve explain FILE``: turns a job file into plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iocurve.dialects import base
from iocurve.dialects.base import Dialect, TimedJob
from iocurve.dialects.native.keys import WORDS
from iocurve.dialects.native.reader import read
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, PlanError
from iocurve.job.explain import explain
from iocurve.job.resolve import Machine, Resolution, ThisMachine, resolve
from iocurve.job.resolve.tree import layout
from iocurve.result.document import Result


@dataclass(frozen=True, kw_only=True)
class Prepared(base.Prepared):
    """A job file that can be run and explained."""

    path: Path
    runs: tuple[TimedJob, ...]
    resolutions: tuple[Resolution, ...]

    @property
    def source(self) -> str:
        """The name of the file."""
        return str(self.path)

    @property
    def plans(self) -> Sequence[Plan]:
        """One plan for each run of the file; a run on directory trees has their layout before it."""
        return [resolution.plan for resolution in self.resolutions]

    @property
    def needs_intervals(self) -> bool:
        """The table has no intervals."""
        return False

    def explain(self) -> str:
        """Describes the plans in words."""
        texts = []
        for number, plan in enumerate(self.plans, start=1):
            is_last = number == len(self.plans)
            notes, obstacles = (self.notes, self.obstacles) if is_last else ((), ())
            texts.append(explain(plan, notes, obstacles, self.machine, called=WORDS.worker))
        return "\n".join(texts)

    def write_output(self, result: Result) -> Result:
        """Writes nothing: the terminal shows iocurve's own table after every run."""
        return result

    def jobs(self) -> list[TimedJob]:
        """The jobs of the file."""
        return list(self.runs)


def prepare(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,  # noqa: ARG001 - no variables
    machine: Machine | None = None,
) -> Prepared:
    """Reads a job file, the only argument. Paths in it are relative to ``cwd``.

    Raises ``DialectError`` and ``PlanError``.
    """
    (text,) = arguments
    path, machine = Path(text), machine or ThisMachine()
    runs, resolutions = read(path), []
    errors: list[Diagnostic] = []
    for run in runs:
        try:
            resolution = resolve(run.job, machine, cwd or Path.cwd())
        except PlanError as error:
            errors += error.errors
            continue
        plan = resolution.plan.replace(interval_ns=run.interval_ns)
        if made := layout(plan, f"{plan.name}: layout"):
            resolutions.append(replace(resolution, plan=made))
        resolutions.append(replace(resolution, plan=plan))
    if errors:
        raise PlanError(list(dict.fromkeys(errors)))
    return Prepared(
        notes=tuple(dict.fromkeys(note for each in resolutions for note in each.notes)),
        obstacles=tuple(dict.fromkeys(obstacle for each in resolutions for obstacle in each.obstacles)),
        directories=tuple(dict.fromkeys(name for each in resolutions for name in each.directories)),
        machine=machine,
        path=path,
        runs=tuple(runs),
        resolutions=tuple(resolutions),
    )


DIALECT = Dialect("run", prepare, lambda _: None)
