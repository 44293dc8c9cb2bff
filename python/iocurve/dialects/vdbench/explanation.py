"""Describes in words what a parameter file would run: definitions, runs, workloads and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from iocurve.dialects.vdbench.invocation import Invocation, Resolved, check
from iocurve.dialects.vdbench.read.definitions import Definition
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.words import WORDS
from iocurve.errors import Mistake
from iocurve.job.explain import explain_job
from iocurve.units import counted, format_duration

RUNS_SHOWN = 20
"""Limit of runs shown per run definition; the rest is counted."""
DEFINITIONS_SHOWN = 100
DEFINITIONS_IN_FULL = 20
"""Run definitions shown with their workloads; the others are shown without."""


def explain(prepared: Invocation) -> str:
    """Plain text. Raises ``PlanError``."""
    if prepared.definitions.is_file_system:
        return "\n".join(_file_systems(prepared)) + "\n"
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
        yield from (f"    {line}" for line in explain_job([alike[0][1]], prepared.machine, WORDS.clone))


def _file_systems(prepared: Invocation) -> Iterator[str]:
    found = prepared.definitions
    yield (
        f"{counted(len(found.by_kind['fsd']), 'file system')}, {counted(len(found.by_kind['fwd']), 'file workload')}, "
        f"{counted(len(prepared.runs), 'run')}"
    )
    for kind in ("fsd", "fwd"):
        for definition in found.by_kind[kind]:
            yield f"{kind}={definition.name}: {_written(definition)}"
            yield from (f"  {line}" for line in _tree(definition) if kind == "fsd")
    for _, found_runs in groupby(prepared.runs, key=lambda run: id(run.rd)):
        runs = list(found_runs)
        yield f"rd={runs[0].rd.name}: {counted(len(runs), 'run')}, {_timing(runs[0])}; {_written(runs[0].rd)}"
        yield from (f"  {_run_text(run)}" for run in runs[:RUNS_SHOWN])
    yield from _section("Warnings", (str(note) for note in prepared.notes if note.level == "warning"))
    yield from _section("Notes", (str(note) for note in prepared.notes if note.level == "info"))
    yield from _section("Cannot run on this machine", (str(mistake) for mistake in file_system_obstacles(prepared)))


def file_system_obstacles(prepared: Invocation) -> list[Mistake]:
    """The reason why file system workloads do not run, at the first FSD or FWD."""
    first = next((definition for kind in ("fsd", "fwd") for definition in prepared.definitions.by_kind[kind]), None)
    if first is None:
        return []
    text = f"{first.kind}={first.name}: file system workloads need metadata operations, which are not supported yet"
    return [
        Mistake(
            text, first.where, "sd=, wd= and rd= are supported; iocurve explain vdbench shows what this file would do"
        )
    ]


def _tree(fsd: Definition) -> Iterator[str]:
    """Yields the number of directories and files, if they are plain numbers."""
    depth, width, files = (fsd.written.get(name, "") for name in ("depth", "width", "files"))
    if not all(word.isdecimal() and len(word) < 7 for word in (depth, width, files)) or int(depth) > 30:
        return
    levels = [int(width) ** level for level in range(1, int(depth) + 1)]
    everywhere = fsd.written.get("distribution", "bottom").lower().startswith("a")
    holders = sum(levels) if everywhere else levels[-1] if levels else 1
    yield f"{sum(levels):,} directories, {holders * int(files):,} files of size {fsd.written.get('sizes', 'not said')}"


def _written(definition: Definition) -> str:
    return ", ".join(f"{name}={value}" for name, value in definition.written.items()) or "defaults"


def _section(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"  - {item}" for item in dict.fromkeys(items)]
    return ["", f"{title}:", *lines] if lines else []
