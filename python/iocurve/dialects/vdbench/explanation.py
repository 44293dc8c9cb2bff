"""Describes in words what a parameter file would run: definitions, runs, workloads and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from iocurve.dialects.vdbench.file_systems import FileSystems, Tree, Workload
from iocurve.dialects.vdbench.job import WORDS
from iocurve.dialects.vdbench.parameter_file import DEFINITIONS_IN_FULL, ParameterFile, Resolved
from iocurve.dialects.vdbench.read.file_values import Shares
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.topology import LOCALHOST
from iocurve.foundation.units import counted, format_bytes, format_duration
from iocurve.job.explain import explain_job, section_lines

RUNS_SHOWN = 20
"""Limit of runs shown per run definition; the rest is counted."""
DEFINITIONS_SHOWN = 100


def explain(file: ParameterFile) -> str:
    """Plain text. Raises ``PlanError``."""
    files = file.file_systems
    lines = list(_file_heading(file, files) if files else _heading(file))
    for number, (_, runs) in enumerate(groupby(file.runs, key=lambda run: id(run.rd))):
        if number == DEFINITIONS_SHOWN:
            lines += ["", f"… and {len(list(file.first_runs())) - number} more run definitions"]
            break
        lines += [] if files else [""]
        lines += _definition(file, list(runs), in_full=number < DEFINITIONS_IN_FULL)
    if not files:
        seconds = sum(run.timing.total_ns + (run.rd.get("pause") or 0) for run in file.runs)
        lines += ["", f"Time: {format_duration(seconds)}"]
    lines += section_lines("Warnings", (str(note) for note in file.notes if note.level == "warning"))
    lines += section_lines("Notes", (str(note) for note in file.notes if note.level == "info"))
    lines += section_lines("Cannot run on this machine", map(str, file.obstacles))
    return "\n".join(lines) + "\n"


def _heading(file: ParameterFile) -> Iterator[str]:
    definitions = len(list(file.first_runs()))
    yield f"{counted(definitions, 'run definition')}, {counted(len(file.runs), 'run')}"


def _file_heading(file: ParameterFile, files: FileSystems) -> Iterator[str]:
    workloads = list(files.workloads.values())
    yield (
        f"{counted(len(files.trees), 'file system')}, {counted(len(workloads), 'file workload')}, "
        f"{counted(len(file.runs), 'run')}"
    )
    for tree in list(files.trees.values())[:DEFINITIONS_SHOWN]:
        yield from _tree(tree)
    for workload in workloads[:DEFINITIONS_SHOWN]:
        yield from _file_workload(workload)
    if file.options.cleans:
        yield "-c: deletes the files and directories below an anchor before the first run that uses it"


def _definition(file: ParameterFile, runs: Sequence[Run], *, in_full: bool) -> Iterator[str]:
    first, files = runs[0], file.file_systems
    yield f"rd={first.rd.name}: {counted(len(runs), 'run')}, {_timing(first)}"
    if files and (text := _formats(first.formats)):
        yield f"  {text}"
    shown: list[str] = []
    for run in runs[:RUNS_SHOWN]:
        yield f"  {_run_text(run)}"
        changes = list(_changes(files, run)) if files else []
        yield from (f"    {line}" for line in changes if changes != shown)
        shown = changes
    if len(runs) > RUNS_SHOWN:
        yield f"  … and {len(runs) - RUNS_SHOWN} more"
    if in_full and not files:
        yield from _workloads(file, file.resolved.get(id(first)) or file.resolve(first))


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


def _workloads(file: ParameterFile, resolved: Resolved) -> Iterator[str]:
    """Yields one section of each workload in full; the others are alike."""
    workers = [worker for group in resolved.resolution.plan.groups[:1] for worker in group.workers]
    pairs = list(zip(resolved.built.placements, workers, strict=True))
    for name, found in groupby(pairs, key=lambda pair: pair[0].workload.name):
        alike = list(found)
        in_flight = sum(worker.depth for _, worker in alike)
        luns = {lun for placement, _ in alike for lun in placement.luns}
        summary = f"{counted(len(alike), 'worker')} on {counted(len(luns), 'lun')}, at most {in_flight} in flight"
        yield f"  wd={name}: {summary}; the first:"
        yield from (f"    {line}" for line in explain_job([alike[0][1]], file.machine, WORDS.worker))


# -- file systems ------------------------------------------------------------------------------------------------------

_METADATA = {
    "mkdir": "creates directories",
    "rmdir": "removes empty directories",
    "create": "creates empty files",
    "delete": "deletes files",
    "getattr": "reads the attributes of files",
    "setattr": "sets the attributes of files",
    "access": "checks access to files",
    "open": "opens files",
    "close": "closes files",
}
_FORMATS = {
    "clean": "deletes the files and directories",
    "restart": "creates what is missing, and extends files that are too short",
    "directories": "creates the directories only",
    "complete": "nothing: the files are taken to be complete",
}
_TREE_LOOPS = frozenset({"depth", "width", "files", "sizes", "totalsize", "wss"})


def _tree(tree: Tree) -> Iterator[str]:
    """The directories and files of an FSD."""
    shared = ", shared by hosts" if tree.shared else ""
    yield f"fsd={tree.name}: {_contents(tree)} below {tree.anchor}{shared}"
    yield f"  the first is {tree.first_file()}"
    if tree.total_bytes:
        yield f"  used: files of {format_bytes(tree.total_bytes)} in total, chosen at random"
    if tree.working_set_bytes:
        yield f"  working set: {format_bytes(tree.working_set_bytes)}"


def _contents(tree: Tree) -> str:
    files = "1 file" if tree.file_count == 1 else f"{tree.file_count:,} files"
    about = "" if tree.sizes.is_fixed else "about "
    directories = "1 directory" if tree.directories == 1 else f"{tree.directories:,} directories"
    return f"{directories}, {files} of {_sizes(tree.sizes)}, {about}{format_bytes(tree.bytes)}"


def _sizes(sizes: Shares) -> str:
    if sizes.is_average:
        return f"{format_bytes(sizes.parts[0][0])} on average"
    if sizes.is_fixed:
        return format_bytes(sizes.parts[0][0])
    return ", ".join(f"{format_bytes(size)} ({percent:f} %)" for size, percent in sizes.parts)


def _file_workload(workload: Workload) -> Iterator[str]:
    """The operations of an FWD."""
    hosts = f" at {', '.join(workload.hosts)}" if workload.hosts != (LOCALHOST,) else ""
    where = ", ".join(f"fsd={tree.name}" for tree in workload.trees[:8])
    more = f" and {len(workload.trees) - 8} more" if len(workload.trees) > 8 else ""
    skew = f", {workload.skew:f} % of the rate" if workload.skew else ""
    yield f"fwd={workload.name}: {counted(workload.threads, 'thread')} on {where}{more}{hosts}{skew}"
    yield f"  {_operations(workload)}"


def _operations(workload: Workload) -> str:
    if workload.read_percent is None and workload.operation in _METADATA:
        return f"{_METADATA[workload.operation]} {_order(workload)}"
    if workload.read_percent is None and workload.operation in ("copy", "move"):
        verb = "copies" if workload.operation == "copy" else "moves"
        return f"{verb} files to fsd={workload.target} {_order(workload)}"
    return f"opens a file, {_verb(workload)} {_places(workload)}, closes it; takes files {_order(workload)}"


def _verb(workload: Workload) -> str:
    if workload.read_percent is None:
        return "reads" if workload.operation == "read" else "writes"
    if workload.read_percent in (0, 100):
        return "reads" if workload.read_percent else "writes"
    return f"reads ({workload.read_percent:f} %) or writes"


def _places(workload: Workload) -> str:
    size = _sizes(workload.transfers)
    limit = _limit(workload)
    if workload.io.access == "sequential":
        before = "it again, after deleting it, " if workload.io.delete else "it from start to end "
        return f"{before}in transfers of {size}{limit}"
    together = ", several threads in one file" if workload.io.shared else ""
    return f"{size} at random offsets{limit or ', as often as the file has such blocks'}{together}"


def _limit(workload: Workload) -> str:
    if workload.stop_after is None:
        return ""
    if workload.stop_after.endswith("%"):
        return f", {workload.stop_after} of the file"
    return f", {workload.stop_after} times"


def _order(workload: Workload) -> str:
    select = workload.select
    how = "at random" if select.order == "random" else "in turn"
    if select.midpoint is not None:
        how = f"at random, half of the time from the first {select.midpoint:f} %"
    return f"{how}, each once" if select.once else how


def _formats(words: Sequence[str]) -> str:
    """The effect of ``format=`` before a run; empty if there is none."""
    if not words:
        return ""
    does = [text for word, text in _FORMATS.items() if word in words]
    if not does:
        does = ["deletes what is below the anchors, then creates all directories and files"]
    if "limited" in words:
        does.append("ends when elapsed= is over")
    if "once" in words:
        does.append("only before the first of the runs")
    only = "; nothing else runs" if {"only", "clean"} & set(words) else ""
    return f"format: {', '.join(does)}{only}"


def _changes(found: FileSystems, run: Run) -> Iterator[str]:
    """Operations and trees that a run changes."""
    for name, group in groupby(found.of_run(run), key=lambda workload: workload.name):
        alike = list(group)
        before = found.workloads.get(name)
        if before is None or _operations(before) != _operations(alike[0]) or len(alike) > 1:
            yield from (f"fwd={name}: {_operations(one)}" for one in alike)
        if _TREE_LOOPS & run.rd.loops.keys():
            yield from (f"fsd={tree.name}: {_contents(tree)}" for tree in alike[0].trees[:8])
