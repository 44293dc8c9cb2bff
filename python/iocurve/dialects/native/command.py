"""``iocurve run FILE`` and ``iocurve explain FILE``: turns a job file into plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from iocurve.dialects.base import Dialect, Needs, ParsedCommand, Step, Workplace
from iocurve.dialects.native.kinds import WORDS
from iocurve.dialects.native.reader import read
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, PlanError
from iocurve.job.explain import explain
from iocurve.job.model import Job, PlanNote
from iocurve.job.resolve import Machine, Resolution, resolve
from iocurve.job.resolve.tree import layout
from iocurve.result.turns import phase_names


def prepare(arguments: Sequence[str], **place: Unpack[Workplace]) -> ParsedCommand:
    """Reads a job file, the only argument. Paths in it are relative to ``cwd``.

    Raises ``DialectError`` and ``PlanError``.
    """
    (text,) = arguments
    path, machine = Path(text), place.get("machine") or Machine()
    resolutions: list[Resolution] = []
    steps: list[Step] = []
    errors: list[Diagnostic] = []
    for job in read(path):
        try:
            resolution = resolve(job, machine, place.get("cwd") or Path.cwd())
        except PlanError as error:
            errors += error.errors
            continue
        resolutions.append(resolution)
        plan = resolution.plan
        if made := layout(plan, f"{plan.name}: layout"):
            steps.append(_step(made))
        steps.append(_step(plan, job))
    if errors:
        raise PlanError(list(dict.fromkeys(errors)))
    notes = tuple(dict.fromkeys(note for each in resolutions for note in each.notes))
    obstacles = tuple(dict.fromkeys(obstacle for each in resolutions for obstacle in each.obstacles))
    return ParsedCommand(
        title=steps[0].name,
        source=str(path),
        steps=steps,
        notes=notes,
        obstacles=obstacles,
        # The terminal shows iocurve's own table, which has no intervals, after every run.
        needs=Needs(
            directories=tuple(dict.fromkeys(name for each in resolutions for name in each.directories)), intervals=False
        ),
        explanation=lambda: _explanation(
            [plan for step in steps if (plan := step.plan({}))], notes, obstacles, machine
        ),
    )


def _explanation(
    plans: Sequence[Plan], notes: Sequence[PlanNote], obstacles: Sequence[Diagnostic], machine: Machine
) -> str:
    """Describes the plans in words, with notes and obstacles after the last."""
    texts = [explain(plan, (), (), machine, called=WORDS.worker) for plan in plans[:-1]]
    return "\n".join([*texts, explain(plans[-1], notes, obstacles, machine, called=WORDS.worker)])


def _step(plan: Plan, job: Job | None = None) -> Step:
    phases = phase_names(plan)
    return Step(name=plan.name, phases=phases, plan=lambda _: plan, job=None if job is None else lambda: job)


DIALECT = Dialect("run", prepare)
