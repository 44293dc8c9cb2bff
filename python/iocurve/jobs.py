"""Runs what was written in another tool's words: prepares, measures, answers in that tool's form."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from iocurve import _native, host
from iocurve import explain as explaining
from iocurve import plan as planned
from iocurve.console import LiveView
from iocurve.dialects.fio import command as fio
from iocurve.dialects.fio import logs as fio_logs
from iocurve.dialects.fio import output as fio_output
from iocurve.dialects.vdbench import command as vdbench
from iocurve.dialects.vdbench import explanation as vdbench_explanation
from iocurve.dialects.vdbench import runner as vdbench_run
from iocurve.errors import RunError, TargetError
from iocurve.outcome import Live, Outcome
from iocurve.resolve import ThisMachine
from iocurve.result import Point, Result, TargetFacts
from iocurve.run import local
from iocurve.units import SECOND_NS

NULL_CEILING_S = 0.1


def explain_fio(arguments: Sequence[str]) -> str:
    """What a fio command line would run, in words. Raises ``DialectError`` and ``PlanError``."""
    prepared = fio.prepare(arguments)
    return explaining.explain(prepared.plan, prepared.notes, prepared.obstacles, ThisMachine())


def explain_vdbench(arguments: Sequence[str]) -> str:
    """What a vdbench command line would run, in words. Raises ``DialectError`` and ``PlanError``."""
    return vdbench_explanation.explain(vdbench.prepare(arguments))


def run_fio(arguments: Sequence[str]) -> Result | None:
    """Runs a fio command line and answers as fio does; None where it was only to be checked.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    prepared = fio.prepare(arguments)
    for note in prepared.notes:
        print(f"{note.level}: {note}", file=sys.stderr)
    if prepared.check_only:
        for line in prepared.command_lines:
            print(line)
        return None
    prepared.require_runnable()
    prepared.make_directories()
    result = _measured("fio", prepared.plan, prepared.output.eta != "never")
    for note in prepared.notes:
        result = result.with_note(note.code, str(note), note.level)
    fio_logs.write(prepared, result)
    if unlogged := fio_logs.lost(result):
        result = result.with_note("log_full", f"{unlogged:,} operations found no room in the logs", "warning")
    _answer(fio_output.render(prepared, result), prepared.output.path)
    if prepared.out:
        # The charts' library takes half a second to load; who wants none need not wait for it.
        from iocurve import report

        report.write_all(result, prepared.out)
    return result


def run_vdbench(arguments: Sequence[str]) -> Result | None:
    """Runs a vdbench command line, prints its intervals and leaves its folder; None where it was only simulated (-s).

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    prepared = vdbench.prepare(arguments)
    if prepared.options.simulate:
        print("\n".join(vdbench_run.simulate(prepared)))
        return None
    notes = vdbench_run.require_runnable(prepared)
    for note in notes:
        print(f"{note.level}: {note}", file=sys.stderr)
    results: list[Result] = []

    def carry_out(plan: planned.Plan, watch: local.Watch) -> Outcome:
        if not results:
            results.append(_started("vdbench", plan))
        point = _point("vdbench", plan, watch)
        ended = results[0].ended(point.outcome.state, _reason(point.outcome))
        # Points of thousands of runs are kept only for who wants them.
        results[0] = ended.with_point(point) if prepared.options.report else ended
        return point.outcome

    try:
        vdbench_run.Runner(prepared, carry_out, sys.stdout).run(notes)
    except (TargetError, RunError) as error:
        # What earlier runs measured is kept.
        if not results:
            raise
        results[0] = results[0].ended("failed", str(error))
    result = results[0]
    for note in notes:
        result = result.with_note(note.code, str(note), note.level)
    if prepared.options.report:
        from iocurve import report

        report.write_all(result, prepared.options.report)
    return result


def _measured(kind: str, plan: planned.Plan, show_progress: bool) -> Result:
    result = _started(kind, plan)
    view: AbstractContextManager[LiveView | None] = LiveView() if show_progress else nullcontext()
    with view as live:
        if live:
            live.point_started(0, 1, plan.name, _seconds(plan), plan.interval_ns)
        point = _point(kind, plan, live.update if live else _ignore)
    return result.with_point(point).ended(point.outcome.state, _reason(point.outcome))


def _started(kind: str, plan: planned.Plan) -> Result:
    """A result without points, of this machine and the places of the plan's files."""
    return Result.start(kind, plan.name, host.collect(), _target_facts(plan), _native.null_ceiling(NULL_CEILING_S))


def _point(kind: str, plan: planned.Plan, watch: local.Watch) -> Point:
    """Carries out one plan."""
    measured = local.measure(plan, watch)
    return Point(
        name=plan.name,
        family=kind,
        axes={},
        plan=plan,
        outcome=measured.outcome,
        layout=measured.layout,
        machine=measured.machine,
    )


def _ignore(_live: Live) -> None:
    """Nobody watches."""


def _reason(outcome: Outcome) -> str | None:
    if outcome.state == "finished":
        return None
    errors = [f"{worker.job}: {worker.error}" for worker in outcome.workers if worker.error]
    return "; ".join(dict.fromkeys(errors)) or "interrupted"


def _target_facts(plan: planned.Plan) -> TargetFacts:
    """Where the plan's files are, if that is one place."""
    workers = [worker for group in plan.groups for worker in group.workers]
    mounts = {worker.engine.mount for worker in workers if isinstance(worker.engine, planned.NfsEngine)}
    paths = {
        str(Path(file.path).absolute().parent)
        for worker in workers
        if not isinstance(worker.engine, planned.NfsEngine | planned.NullEngine)
        for file in worker.files
    }
    if len(mounts) + len(paths) > 1:
        return TargetFacts(kind="several", address=f"{len(mounts) + len(paths)} places")
    for mount in mounts:
        return _nfs_facts(mount)
    for path in paths:
        return TargetFacts(kind="directory", address=path, mount=host.mount_of(Path(path)))
    return TargetFacts(kind="null", address="null")


def _nfs_facts(mount: planned.NfsMount) -> TargetFacts:
    port = f":{mount.port}" if mount.port else ""
    return TargetFacts(kind="nfs", address=f"nfs://{mount.host}{port}{mount.export}?nconnect={mount.nconnect}")


def _seconds(plan: planned.Plan) -> float:
    """Longest worker of each group, one group after another; 0 where the end is an amount."""
    ends = [
        [worker.start_delay_ns + worker.ramp_ns + (worker.end.runtime_ns or 0) for worker in group.workers]
        for group in plan.groups
    ]
    return sum(map(max, ends)) / SECOND_NS


def _answer(text: str, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TargetError(f"--output={path}: {error.strerror}") from None
