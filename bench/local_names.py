"""``python -m bench.local_names``: creates, getattrs and removes on a local file system, and what each costs.

The sides: iocurve's walk with all operations in flight of one worker (its threads), and of as many workers with one
each; bare threads that make the same system calls; one io_uring (openat, close, statx, unlinkat); and fio's filecreate,
filestat and filedelete with as many jobs. All create the same number of empty files at the same concurrency, in the
same run, on the same file system. CPU time is that of all threads, the kernel's for an io_uring included.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.metadata import tree_plan
from iocurve.engine import plan as plans
from iocurve.measure import local
from iocurve.units import SECOND_NS

CHECKOUT = Path(__file__).parents[1]
EXAMPLE = CHECKOUT / "target/release/examples/names"
PHASES: tuple[tuple[str, tuple[plans.TreeTask, ...], str, str], ...] = (
    ("create", ("create",), "close", "filecreate"),
    ("getattr", ("getattr",), "getattr", "filestat"),
    ("remove", ("delete",), "delete", "filedelete"),
)
"""Name, tasks, the operation that is counted, and fio's engine."""


class Row(NamedTuple):
    """A phase of a side."""

    side: str
    phase: str
    rate: float
    cpu_us: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    subprocess.run(
        ("cargo", "build", "--release", "--quiet", "--package=iocurve-engine", "--example=names"),
        cwd=CHECKOUT,
        check=True,
    )
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for depth in options.depths:
            rows = [
                *_walked(f"iocurve, 1 worker × depth {depth}", Path(directory, "a"), 1, depth, options.files),
                *_walked(f"iocurve, {depth} workers × depth 1", Path(directory, "b"), depth, 1, options.files),
                *_bare("threads", Path(directory, "c"), depth, options.files),
                *_bare("uring", Path(directory, "d"), depth, options.files),
            ]
            if shutil.which("fio"):
                rows += _fio(Path(directory, "e"), depth, options.files)
            for phase, *_ in PHASES:
                for row in (row for row in rows if row.phase == phase):
                    print(f"{row.side:30} {row.phase:8} {row.rate:10,.0f}/s  CPU µs {row.cpu_us:6.2f}", flush=True)
    return 0


def _walked(side: str, directory: Path, workers: int, depth: int, files: int) -> Iterator[Row]:
    for phase, tasks, counted, _ in (("mkdir", ("make_directories",), "mkdir", ""), *PHASES):
        before = _cpu_s(resource.RUSAGE_SELF)
        outcome = local.run(_plan(directory, workers, depth, tasks, files))
        if errors := [worker.error for worker in outcome.workers if worker.error]:
            raise RuntimeError(f"{side}, {phase}: {errors[0]}")
        cpu_s = _cpu_s(resource.RUSAGE_SELF) - before
        start = min(worker.window_start_ns for worker in outcome.workers)
        end = max(max(worker.window_end_ns, worker.drained_ns) for worker in outcome.workers)
        done = sum(worker.operations[counted].operations for worker in outcome.workers if counted in worker.operations)
        done += sum(worker.drained_operations for worker in outcome.workers)
        if phase != "mkdir":
            yield Row(side, phase, done * SECOND_NS / (end - start), cpu_s * 1e6 / done)


def _plan(directory: Path, workers: int, depth: int, tasks: tuple[plans.TreeTask, ...], files: int) -> plans.Plan:
    sizes = (plans.SizeShare(bytes=1, weight=1),)
    tree = plans.Tree(depth=1, width=1, files=files, files_on_all_levels=False, sizes=sizes)
    work = plans.TreeWork(
        tree=tree, tasks=tasks, select=plans.SequentialSelect(), select_once=tasks != ("make_directories",)
    )
    kinds: tuple[plans.OperationKind, ...] = ("mkdir", "create", "close", "getattr", "delete")
    how = plans.FileOpen(direct=False, durability="none", invalidate=False)
    engine = plans.MetadataEngine(open=how, keep_open=True)
    return tree_plan(work, engine, str(directory), kinds, 4096, workers, depth)


def _bare(how: str, directory: Path, depth: int, files: int) -> Iterator[Row]:
    directory.mkdir(exist_ok=True)
    command = (str(EXAMPLE), how, str(depth), str(directory), str(files))
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        found = json.loads(line)
        yield Row(f"{how}, {depth}", found["phase"], found["rate"], found["cpu_us"])


def _fio(directory: Path, depth: int, files: int) -> Iterator[Row]:
    directory.mkdir(exist_ok=True)
    for phase, _, _, engine in PHASES:
        command = (
            *("fio", "--name=names", f"--ioengine={engine}", f"--directory={directory}", f"--numjobs={depth}"),
            *(f"--nrfiles={files // depth}", "--filesize=4k", "--openfiles=1", "--group_reporting"),
            *("--file_service_type=sequential", "--output-format=json", "--thread"),
        )
        before = _cpu_s(resource.RUSAGE_CHILDREN)
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        read = json.loads(printed)["jobs"][0]["read"]
        done = read["total_ios"]
        cpu_s = _cpu_s(resource.RUSAGE_CHILDREN) - before
        yield Row(f"fio {engine}, {depth} jobs", phase, done * 1000 / max(read["runtime"], 1), cpu_s * 1e6 / done)


def _cpu_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.local_names", description=__doc__)
    parser.add_argument("--depths", type=int, nargs="*", default=[1, 8, 32], help="operations in flight")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--directory", help="a directory on the file system; default: the one of temporary files")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
