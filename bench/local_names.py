"""``python -m bench.local_names``: creates, getattrs and removes on a local file system, and what each costs.

The sides: iocurve's walk with all operations in flight of one worker (its threads), and of as many workers with one
each; bare threads that make the same system calls; one io_uring (openat, close, statx, unlinkat); and fio's filecreate,
filestat and filedelete with as many jobs. All create the same number of empty files at the same concurrency, in the
same run, on the same file system. CPU time is that of all threads, the kernel's for an io_uring included.

The sides take turns, each in a fresh directory after ``sync``, as creates share the journal with what the sides before
have removed. Every two rounds start with another side, one in order and one in the reverse order: in twice as many
rounds as there are sides each has every place twice, after either neighbour equally often.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.metadata import tree_plan
from iocurve.engine import plan as plans
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import local

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
    print(f"load {os.getloadavg()[0]:.1f}; rate: median (lowest to highest) of {options.rounds} rounds")
    for depth in options.depths:
        rows = list(_in_turns(_sides(depth, options.files), options.rounds, options.directory))
        for phase, *_ in PHASES:
            for side in dict.fromkeys(row.side for row in rows if row.phase == phase):
                print(_line([row for row in rows if (row.side, row.phase) == (side, phase)]), flush=True)
    return 0


Side = Callable[[Path], Iterator[Row]]


def _sides(depth: int, files: int) -> list[Side]:
    """The sides at a depth; each works in a directory."""
    sides: list[Side] = [partial(_walked, f"iocurve, 1 worker × depth {depth}", 1, depth, files)]
    if depth > 1:
        sides.append(partial(_walked, f"iocurve, {depth} workers × depth 1", depth, 1, files))
    sides += [partial(_bare, how, depth, files) for how in ("threads", "uring")]
    return [*sides, partial(_fio, depth, files)] if shutil.which("fio") else sides


def _in_turns(sides: Sequence[Side], rounds: int, within: str | None) -> Iterator[Row]:
    """Runs all sides in each round; two rounds start with the same side, the second has the reverse order."""
    for number in range(rounds):
        start = number // 2 % len(sides)
        order = [*sides[start:], *sides[:start]]
        for side in order if number % 2 == 0 else order[:1] + order[:0:-1]:
            with tempfile.TemporaryDirectory(dir=within) as directory:
                os.sync()
                yield from side(Path(directory, "names"))
        os.sync()


def _line(rows: Sequence[Row]) -> str:
    rates = sorted(row.rate for row in rows)
    cpu_us = median(row.cpu_us for row in rows)
    spread = f"({rates[0]:,.0f} to {rates[-1]:,.0f})"
    return f"{rows[0].side:30} {rows[0].phase:8} {median(rates):10,.0f}/s {spread:26} CPU µs {cpu_us:6.2f}"


def _walked(side: str, workers: int, depth: int, files: int, directory: Path) -> Iterator[Row]:
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


def _bare(how: str, depth: int, files: int, directory: Path) -> Iterator[Row]:
    directory.mkdir(exist_ok=True)
    command = (str(EXAMPLE), how, str(depth), str(directory), str(files))
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        found = json.loads(line)
        yield Row(f"{how}, {depth}", found["phase"], found["rate"], found["cpu_us"])


def _fio(depth: int, files: int, directory: Path) -> Iterator[Row]:
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
    parser.add_argument("--rounds", type=int, default=10, help="turns of each side")
    parser.add_argument("--directory", help="a directory on the file system; default: the one of temporary files")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
