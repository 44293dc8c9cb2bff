"""Describes file system workloads in words: trees, workloads, and what a run changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from iocurve.dialects.vdbench.file_systems import FileSystems, Tree, Workload
from iocurve.dialects.vdbench.read.file_values import Shares
from iocurve.dialects.vdbench.runs import Run
from iocurve.units import counted, format_bytes

_METADATA = {
    "mkdir": "creates directories",
    "rmdir": "removes empty directories",
    "create": "creates empty files",
    "delete": "deletes files",
    "getattr": "reads the attributes of files",
    "setattr": "sets the attributes of files",
    "access": "asks for access to files",
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


def tree(tree: Tree) -> Iterator[str]:
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


def workload(workload: Workload) -> Iterator[str]:
    """The operations of an FWD."""
    hosts = f" at {', '.join(workload.hosts)}" if workload.hosts else ""
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
        before = "it anew, after deleting it, " if workload.io.delete else "it from start to end "
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


def formats(words: Sequence[str]) -> str:
    """What ``format=`` does before a run; empty if it does nothing."""
    if not words:
        return ""
    does = [text for word, text in _FORMATS.items() if word in words]
    if not does:
        does = ["deletes what is below the anchors, and creates all directories and files anew"]
    if "limited" in words:
        does.append("ends when elapsed= is over")
    if "once" in words:
        does.append("only before the first of the runs")
    only = "; nothing else runs" if {"only", "clean"} & set(words) else ""
    return f"format: {', '.join(does)}{only}"


def changes(found: FileSystems, run: Run) -> Iterator[str]:
    """What a run changes: the operations of workloads, and the trees if it changes them."""
    for name, group in groupby(found.of_run(run), key=lambda workload: workload.name):
        alike = list(group)
        before = found.workloads.get(name)
        if before is None or _operations(before) != _operations(alike[0]) or len(alike) > 1:
            yield from (f"fwd={name}: {_operations(one)}" for one in alike)
        if _TREE_LOOPS & run.loops.keys():
            yield from (f"fsd={tree.name}: {_contents(tree)}" for tree in alike[0].trees[:8])
