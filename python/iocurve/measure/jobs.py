"""Runs what was written in another tool's words: prepares, measures, answers in that tool's form."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.diskspd import output as diskspd_output
from iocurve.dialects.fio import command as fio
from iocurve.dialects.fio import logs as fio_logs
from iocurve.dialects.fio import output as fio_output
from iocurve.dialects.fio import questions as fio_questions
from iocurve.dialects.native import command as native
from iocurve.dialects.ready import Ready
from iocurve.dialects.vdbench import command as vdbench
from iocurve.dialects.vdbench import explanation as vdbench_explanation
from iocurve.dialects.vdbench import runner as vdbench_run
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import RunError, TargetError
from iocurve.job import explain as explaining
from iocurve.job.option_names import clone_word
from iocurve.job.resolve import ThisMachine
from iocurve.measure import campaign as series
from iocurve.measure import local
from iocurve.result.document import Result


def explain_fio(arguments: Sequence[str]) -> str:
    """What a fio command line would run, in words. Raises ``DialectError`` and ``PlanError``."""
    prepared = fio.prepare(arguments)
    return explaining.explain(prepared.plan, prepared.notes, prepared.obstacles, ThisMachine())


def explain_vdbench(arguments: Sequence[str]) -> str:
    """What a vdbench command line would run, in words. Raises ``DialectError`` and ``PlanError``."""
    return vdbench_explanation.explain(vdbench.prepare(arguments))


def run_fio(arguments: Sequence[str]) -> Result | None:
    """Runs a fio command line and answers as fio does; None where it only asked, or was only to be checked.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    if answer := fio_questions.answer(arguments):
        print(answer)
        return None
    prepared = fio.prepare(arguments)
    _tell(prepared)
    if prepared.check_only:
        for line in prepared.command_lines:
            print(line)
        return None
    prepared.require_runnable()
    _require_writable([*filter(None, [prepared.output.path]), *fio_logs.planned(prepared)])
    prepared.make_directories()
    result = series.measure("fio", prepared.plan.name, [prepared.plan], show_progress=prepared.output.eta != "never")
    result = _noted(result, prepared)
    fio_logs.write(prepared, result)
    if unlogged := fio_logs.lost(result):
        result = result.with_note("log_full", f"{unlogged:,} operations found no room in the logs", "warning")
    _answer(fio_output.render(prepared, result), prepared.output.path)
    _report(result, prepared)
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

    def carry_out(plan: Plan, watch: local.Watch) -> Outcome:
        if not results:
            results.append(series.started("vdbench", plan.name, [plan]))
        point = series.point("vdbench", plan, watch)
        ended = results[0].ended(point.outcome.state, series.reason(point.outcome))
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
        from iocurve.report import page as report

        report.write_all(result, prepared.options.report)
    return result


def explain_diskspd(arguments: Sequence[str]) -> str:
    """What a DiskSpd command line would run, in words. Raises ``DialectError`` and ``PlanError``."""
    prepared = diskspd.prepare(arguments)
    if not prepared.spans:
        return diskspd_output.profile(prepared.profile)
    return diskspd_output.explain(prepared, ThisMachine())


def run_diskspd(arguments: Sequence[str]) -> Result | None:
    """Runs a DiskSpd command line and answers as DiskSpd does; None where only the profile was to be printed.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    prepared = diskspd.prepare(arguments)
    _tell(prepared)
    if not prepared.spans:
        sys.stdout.write(diskspd_output.profile(prepared.profile))
        return None
    prepared.require_runnable()
    prepared.make_directories()
    plans = [span.plan for span in prepared.spans]
    result = _noted(series.measure("diskspd", plans[0].name, plans, show_progress=True), prepared)
    sys.stdout.write(diskspd_output.render(prepared, result))
    _report(result, prepared)
    return result


def explain_job(path: Path) -> str:
    """What a job file would run, in words. Raises ``DialectError`` and ``PlanError``."""
    prepared = native.prepare(path)
    texts = []
    for number, plan in enumerate(prepared.plans, start=1):
        is_last = number == len(prepared.plans)
        notes, obstacles = (prepared.notes, prepared.obstacles) if is_last else ((), ())
        texts.append(explaining.explain(plan, notes, obstacles, ThisMachine(), called=clone_word("iocurve")))
    return "\n".join(texts)


def run_job(path: Path, out: Path | None) -> Result:
    """Runs a job file. Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError``."""
    prepared = native.prepare(path, out)
    _tell(prepared)
    prepared.require_runnable()
    prepared.make_directories()
    result = _noted(series.measure("run", prepared.name, prepared.plans, show_progress=True), prepared)
    _report(result, prepared)
    return result


CONVERTERS = {"fio": native.convert_fio, "vdbench": native.convert_vdbench, "diskspd": native.convert_diskspd}
"""By the dialect that a job file is made of."""


def convert(dialect: str, arguments: Sequence[str], path: Path | None) -> None:
    """Writes a job file of another tool's words, to ``path`` or to stdout; a file that is there stays as it is.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` where the file cannot be written.
    """
    text = CONVERTERS[dialect](arguments)
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise TargetError(f"{path} is there already; remove it, or choose another name") from None
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror}") from None


def _tell(ready: Ready) -> None:
    """Notes go to stderr, so that stdout keeps to the answer."""
    for note in ready.notes:
        print(f"{note.level}: {note}", file=sys.stderr)


def _noted(result: Result, ready: Ready) -> Result:
    for note in ready.notes:
        result = result.with_note(note.code, str(note), note.level)
    return result


def _report(result: Result, ready: Ready) -> None:
    if ready.out:
        # The charts' library takes half a second to load; who wants none need not wait for it.
        from iocurve.report import page as report

        report.write_all(result, ready.out)


def _require_writable(paths: Iterable[Path]) -> None:
    """What cannot be written after a run is known before it. Raises ``TargetError``."""
    for path in paths:
        reason = None
        if not path.parent.is_dir():
            reason = f"there is no directory {path.parent}"
        elif path.is_dir():
            reason = "it is a directory"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = "Permission denied"
        if reason:
            raise TargetError(f"{path} cannot be written: {reason}")


def _answer(text: str, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TargetError(f"--output={path}: {error.strerror}") from None
