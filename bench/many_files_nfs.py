"""``python -m bench.many_files_nfs``: what files cost over NFS among a thousand and among a million others.

A tree of files of 1 KiB, all in one directory or in directories of 1,000, is created, read by getattr and lookup,
listed, renamed and removed by the engine of FWDs: operations in flight of one worker. CPU time is that of the worker
thread and of the server's process, and hardly depends on the machine's load; the part of it that waits for memory
does. What the server spends on the list of the tree before each phase is measured and taken off. Small trees are made
and removed again and again, until about as many operations have been carried out as on a large one. Memory is what
each process has more with all files than without, and the most that the client had.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.machine import environment, save
from bench.many_files import FILE_BYTES, FILES, RESULTS, TREE_DIRECTORY_FILES
from bench.metadata import tree_plan
from bench.servers import Server, volume
from iocurve.engine import plan as plans
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import local
from iocurve.targets.target import NfsTarget

DEPTH = 32
BRANCHES = 10
PHASES: tuple[tuple[str, plans.TreeTask, plans.OperationKind], ...] = (
    ("create", "write_file", "write_file"),
    ("getattr", "getattr", "getattr"),
    ("lookup", "lookup", "lookup"),
    ("readdir", "readdir", "readdir"),
    ("readdirplus", "readdirplus", "readdirplus"),
    ("rename", "rename", "rename"),
    ("remove", "remove", "delete"),
)
"""Name, task, and the operation that is counted; lists count their entries."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = []
    names = [name for name, *_ in PHASES]
    print("CPU µs per operation, client and server, and rate; bytes of memory per file")
    print(" " * 19 + "".join(f"{name:>13}" for name in (*names, "server B", "client B")))
    for version in options.versions:
        for shape in ("one", "tree"):
            for files in options.files:
                row = _measured(options.store, version, files, shape, options.least)
                rows.append(row)
                _print(row)
    document = {
        **environment(),
        "depth": DEPTH,
        "rows": rows,
    }
    print(f"Saved as {save(document, options.out, 'many-files-nfs-')}")
    return 0


def _measured(store: str, version: str, files: int, shape: str, least: int) -> dict[str, Any]:
    """Measures a fresh server with at least ``least`` operations of each kind."""
    with tempfile.TemporaryDirectory(prefix="iocurve-many-files-") as directory:
        where = () if store == "memory" else ("--store", directory)
        with volume("--profile=unlimited", *where) as server:
            phases, memory = _rounds(server, version, _tree(files, shape), files, -(-least // files))
    each = {name: {key: sums[key] / sums["done"] for key in sums if key != "done"} for name, sums in phases.items()}
    return {"store": store, "version": version, "shape": shape, "files": files, "phases": each, **memory}


def _tree(files: int, shape: str) -> plans.Tree:
    """Puts all files in one directory, or 1,000 in each of several."""
    depth, width, each = 1, 1, files
    if shape == "tree":
        each = min(files, TREE_DIRECTORY_FILES)
        while width**depth * each < files:
            depth, width = (depth if width == 1 else depth + 1), BRANCHES
        if width**depth * each != files:
            raise SystemExit(f"{files:,} files are no tree of {BRANCHES} directories in each and {each:,} files")
    sizes = (plans.SizeShare(bytes=FILE_BYTES, weight=1),)
    return plans.Tree(depth=depth, width=width, files=each, files_on_all_levels=False, sizes=sizes)


def _rounds(
    server: Server, version: str, tree: plans.Tree, files: int, rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    engine = plans.NfsMetadataEngine(mount=NfsTarget.of(server.url_of(version)).mount(1), keep_open=True)
    phases: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    memory = {"client_memory_bytes": 0.0, "server_memory_bytes": 0.0}

    def run(task: plans.TreeTask, counted: plans.OperationKind) -> dict[str, float]:
        work = plans.TreeWork(
            tree=tree,
            tasks=(task,),
            select=plans.SequentialSelect(),
            select_once=task not in ("make_directories", "remove"),
        )
        kinds: tuple[plans.OperationKind, ...] = tuple({"mkdir", "rmdir", "delete", counted, "write_file"})
        return _phase(tree_plan(work, engine, "tree", kinds, FILE_BYTES, 1, DEPTH), counted, server.pid)

    for number in range(rounds):
        run("make_directories", "mkdir")
        before = _memory_bytes(server.pid, "VmRSS"), _memory_bytes(os.getpid(), "VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the next phases
        for name, task, counted in PHASES:
            sums = run(task, counted)
            for key, value in sums.items():
                phases[name][key] += value
            if name == "create":
                listing = run("mkdir", "mkdir")["server_us"]  # every directory exists: nothing but the list of the tree
                if number == 0:
                    memory["server_memory_bytes"] = (_memory_bytes(server.pid, "VmRSS") - before[0]) / files
            else:
                phases[name]["server_us"] -= listing
        if number == 0:
            memory["client_memory_bytes"] = (_memory_bytes(os.getpid(), "VmHWM") - before[1]) / files
    return phases, memory


def _phase(plan: plans.Plan, counted: str, server_pid: int) -> dict[str, float]:
    before = _cpu_ns(server_pid)
    outcome = local.run(plan)
    server_ns = _cpu_ns(server_pid) - before
    (worker,) = outcome.workers
    if worker.error:
        raise RuntimeError(f"{counted}: {worker.error}")
    of = worker.operations.get(counted)
    done = (of.entries or of.operations) if of else 0
    if of and not of.entries:
        done += worker.drained_operations
    end = max(worker.window_end_ns, worker.drained_ns)
    return {
        "done": done,
        "seconds": (end - worker.window_start_ns) / SECOND_NS,
        "client_us": (worker.cpu.user_ns + worker.cpu.system_ns) / 1000,
        "server_us": server_ns / 1000,
    }


def _cpu_ns(pid: int) -> int:
    """CPU time of a process and its threads so far (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def _memory_bytes(pid: int, line: str) -> int:
    found = re.search(rf"{line}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def _print(row: dict[str, Any]) -> None:
    def line(of: Callable[[dict[str, float]], str]) -> Iterator[str]:
        return (f"{of(row['phases'][name]):>13}" for name, *_ in PHASES)

    label = f"{row['version']:>3} {row['shape']:>4}{row['files']:11,}"
    memory = "".join(f"{row[side + '_memory_bytes']:13,.0f}" for side in ("server", "client"))
    print(label + "".join(line(lambda cost: f"{cost['client_us']:.2f}, {cost['server_us']:.2f}")) + memory)
    print(" " * len(label) + "".join(line(lambda cost: f"{1 / cost['seconds']:,.0f}/s")), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.many_files_nfs", description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3", "4.1"], help="versions of NFS")
    parser.add_argument("--store", choices=["memory", "directory"], default="memory")
    parser.add_argument("--files", type=int, nargs="+", default=FILES, help="numbers of files")
    parser.add_argument("--least", type=int, default=100_000, help="operations of each kind")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
