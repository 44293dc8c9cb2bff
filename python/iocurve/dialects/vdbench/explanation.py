"""Describes in words what a parameter file would run: definitions, runs, workloads and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from iocurve.dialects.vdbench import file_words
from iocurve.dialects.vdbench.file_systems import FileSystems
from iocurve.dialects.vdbench.invocation import Invocation, Resolved, check
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.words import WORDS
from iocurve.errors import Diagnostic
from iocurve.job.explain import explain_job
from iocurve.job.model import PlanNote
from iocurve.units import counted, format_duration

RUNS_SHOWN = 20
"""Limit of runs shown per run definition; the rest is counted."""
DEFINITIONS_SHOWN = 100
DEFINITIONS_IN_FULL = 20
"""Run definitions shown with their workloads; the others are shown without."""


def explain(prepared: Invocation) -> str:
    """Plain text. Raises ``PlanError``."""
    if prepared.file_systems:
        return "\n".join(_file_systems(prepared, prepared.file_systems)) + "\n"
    resolved_runs: dict[int, Resolved] = {}
    notes, obstacles = check(prepared, resolved_runs)
    seconds = sum(run.timing.total_ns + (run.rd.get("pause") or 0) for run in prepared.runs)
    definitions = list(prepared.first_runs())
    lines = [f"{counted(len(definitions), 'run definition')}, {counted(len(prepared.runs), 'run')}"]
    for number, (rd, runs) in enumerate(groupby(prepared.runs, key=lambda run: id(run.rd))):
        if number == DEFINITIONS_SHOWN:
            lines += ["", f"… and {len(definitions) - number} more run definitions"]
            break
        assert rd
        lines += ["", *_definition(prepared, list(runs), resolved_runs, in_full=number < DEFINITIONS_IN_FULL)]
    lines += ["", f"Time: {format_duration(seconds)}"]
    everything = [*prepared.notes, *notes]
    lines += _section("Warnings", (str(note) for note in everything if note.level == "warning"))
    lines += _section("Notes", (str(note) for note in everything if note.level == "info"))
    lines += _section("Cannot run on this machine", map(str, obstacles))
    return "\n".join(lines) + "\n"


def _definition(
    prepared: Invocation, runs: Sequence[Run], resolved_runs: Mapping[int, Resolved], *, in_full: bool
) -> Iterator[str]:
    first = runs[0]
    yield f"rd={first.rd.name}: {counted(len(runs), 'run')}, {_timing(first)}"
    for run in runs[:RUNS_SHOWN]:
        yield f"  {_run_text(run)}"
    if len(runs) > RUNS_SHOWN:
        yield f"  … and {len(runs) - RUNS_SHOWN} more"
    if in_full:
        yield from _workloads(prepared, resolved_runs.get(id(first)) or prepared.resolve(first))


def _run_text(run: Run) -> str:
    rate = f"{run.curve_percent} % of the maximum" if run.curve_percent is not None else _rate(run)
    loops = "" if run.loops_text == "None" else f"; {run.loops_text}"
    return f"{run.name}: {rate}{loops}"


def _rate(run: Run) -> str:
    if run.rate.kind == "number":
        return f"{run.rate.per_second:f} operations/s in total"
    if run.rate.kind == "variable":
        parts = ", ".join(f"{rate:f} for {seconds} s" for rate, seconds in run.rate.pattern)
        return f"operations/s in total: {parts}, repeated"
    return "as fast as possible" + (", to find the maximum for the curve" if run.rate.kind == "curve" else "")


def _timing(run: Run) -> str:
    timing = run.timing
    after = f" after a warmup of {format_duration(timing.warmup_ns)}" if timing.warmup_ns else ""
    last = timing.total_ns // timing.interval_ns
    return (
        f"{format_duration(timing.elapsed_ns)}{after}, intervals of {format_duration(timing.interval_ns)}, "
        f"average over intervals {timing.skipped + 1} to {last}"
    )


def _workloads(prepared: Invocation, resolved: Resolved) -> Iterator[str]:
    """Yields one section of each workload in full; the others are alike."""
    workers = [worker for group in resolved.resolution.plan.groups[:1] for worker in group.workers]
    pairs = list(zip(resolved.built.placements, workers, strict=True))
    for name, found in groupby(pairs, key=lambda pair: pair[0].workload.name):
        alike = list(found)
        in_flight = sum(worker.depth for _, worker in alike)
        luns = {lun for placement, _ in alike for lun in placement.luns}
        summary = f"{counted(len(alike), 'worker')} on {counted(len(luns), 'lun')}, at most {in_flight} in flight"
        yield f"  wd={name}: {summary}; the first:"
        yield from (f"    {line}" for line in explain_job([alike[0][1]], prepared.machine, WORDS.worker))


def _file_systems(prepared: Invocation, found: FileSystems) -> Iterator[str]:
    workloads = [workload for workload in found.workloads.values() if workload.name.lower() != "format"]
    yield (
        f"{counted(len(found.trees), 'file system')}, {counted(len(workloads), 'file workload')}, "
        f"{counted(len(prepared.runs), 'run')}"
    )
    for tree in list(found.trees.values())[:DEFINITIONS_SHOWN]:
        yield from file_words.tree(tree)
    for workload in workloads[:DEFINITIONS_SHOWN]:
        yield from file_words.workload(workload)
    for rd, found_runs in groupby(prepared.runs, key=lambda run: id(run.rd)):
        assert rd
        yield from _file_system_runs(found, list(found_runs))
    notes, obstacles = check_file_systems(prepared)
    yield from _section("Warnings", (str(note) for note in notes if note.level == "warning"))
    yield from _section("Notes", (str(note) for note in notes if note.level == "info"))
    yield from _section("Cannot run on this machine", map(str, obstacles))


def _file_system_runs(found: FileSystems, runs: Sequence[Run]) -> Iterator[str]:
    first = runs[0]
    yield f"rd={first.rd.name}: {counted(len(runs), 'run')}, {_timing(first)}"
    formats = file_words.formats(first.rd.get("format", ()))
    if formats:
        yield f"  {formats}"
    shown: list[str] = []
    for run in runs[:RUNS_SHOWN]:
        yield f"  {_run_text(run)}"
        changes = list(file_words.changes(found, run))
        yield from (f"    {line}" for line in changes if changes != shown)
        shown = changes
    if len(runs) > RUNS_SHOWN:
        yield f"  … and {len(runs) - RUNS_SHOWN} more"


def check_file_systems(prepared: Invocation) -> tuple[Sequence[PlanNote], Sequence[Diagnostic]]:
    """Plans the runs of file system workloads; returns notes and obstacles. Raises ``PlanError``."""
    if not prepared.file_systems:
        return prepared.notes, []
    plans = prepared.file_plans
    obstacles = list(plans.obstacles(prepared.runs))
    if prepared.validation:
        obstacles.append(Diagnostic("data validation (-v, -j, validate=, journal=) is not supported for FSDs"))
    if not obstacles:
        for run in prepared.first_runs():
            plans.check(run)
    return [*prepared.notes, *plans.notes(prepared.runs)], obstacles


def _section(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"  - {item}" for item in dict.fromkeys(items)]
    return ["", f"{title}:", *lines] if lines else []
