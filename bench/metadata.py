"""``python -m bench.metadata``: creates, getattrs and removes over NFS, and what each costs.

A tree of small files is written (create, write, close: each file one operation), read by getattr and removed, by the
engine of FWDs: as operations in flight of one worker, and as one operation at a time of each of 32 workers. Both are
measured in one run, on the embedded volume and, with ``--ganesha``, on nfs-ganesha's file system in memory. Rates are
those of whole phases; CPU time is that of the worker threads and of the server's process, and hardly depends on the
machine's load. The rate of sockets alone is that of threads that exchange as many messages of the same mean sizes, and
do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench import socket_limit
from bench.servers import Server, ganesha, volume
from iocurve.engine import plan as plans
from iocurve.engine.outcome import Outcome
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import local
from iocurve.targets.target import NfsTarget

DIRECTORIES = 10
FILE_BYTES = 1024
PHASES: tuple[tuple[str, tuple[plans.TreeTask, ...], str], ...] = (
    ("mkdir", ("make_directories",), "mkdir"),
    ("create", ("write_file",), "write_file"),
    ("getattr", ("getattr",), "getattr"),
    ("remove", ("delete",), "delete"),
)
"""Name, tasks, and the operation that is counted."""
CALLS = {("3", "create"): 2}
"""Calls of an operation, where it takes more than one: NFSv3 creates a file by CREATE and WRITE, and NFSv4.1 by one
COMPOUND."""
SOCKET_MS = 2_000


@dataclass(frozen=True)
class Row:
    """A phase of a side."""

    side: str
    phase: str
    rate: float
    client_us: float
    """CPU time of the worker threads for each operation."""
    server_us: float
    sockets: float
    """Operations per second that sockets alone would carry."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    socket_limit.build()
    with tempfile.TemporaryDirectory() as directory:
        servers: dict[str, AbstractContextManager[Server]] = {"volume": volume("--profile=unlimited")}
        if options.ganesha:
            servers["ganesha"] = ganesha("mem", Path(directory))
        for name, started in servers.items():
            with started as server:
                for version in options.versions:
                    _print(measured(f"{name} NFSv{version}", server, version, options))
    return 0


def measured(side: str, server: Server, version: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measures phase after phase, that of creates with all operations in flight first. Raises ``RuntimeError``."""
    for workers, depth in ((1, options.depth), (options.depth, 1)):
        label = f"{side}, {workers} × depth {depth}"
        for phase, tasks, counted in PHASES:
            before = _cpu_s(server.pid)
            outcome = local.run(_plan(server.url_of(version), workers, depth, tasks, options))
            errors = [worker.error for worker in outcome.workers if worker.error]
            if errors:
                raise RuntimeError(f"{label}, {phase}: {errors[0]}")
            server_s = _cpu_s(server.pid) - before
            if phase != "mkdir":
                yield _row(label, phase, counted, outcome, server_s, CALLS.get((version, phase), 1), options.depth)


def _row(side: str, phase: str, counted: str, outcome: Outcome, server_s: float, calls: int, depth: int) -> Row:
    done = sum(worker.operations[counted].operations for worker in outcome.workers if counted in worker.operations)
    done += sum(worker.drained_operations for worker in outcome.workers)
    start = min(worker.window_start_ns for worker in outcome.workers)
    end = max(max(worker.window_end_ns, worker.drained_ns) for worker in outcome.workers)
    cpu_ns = sum(worker.cpu.user_ns + worker.cpu.system_ns for worker in outcome.workers)
    sockets = _sockets(outcome, done, calls, depth)
    return Row(side, phase, done * SECOND_NS / (end - start), cpu_ns / 1000 / done, server_s * 1e6 / done, sockets)


def _sockets(outcome: Outcome, done: int, calls: int, depth: int) -> float:
    """Operations per second of bare sockets, whose messages are as long as the calls and replies were on average."""
    connections = [connection for worker in outcome.workers for connection in worker.connections]
    sent, received = (
        round(sum(sizes) / done / calls)
        for sizes in zip(*((one.sent_bytes, one.received_bytes) for one in connections), strict=True)
    )
    words = (str(number) for number in (len(connections), depth // len(connections), sent, received, 1))
    command = (str(socket_limit.EXAMPLE), *words, f"--runtime={SOCKET_MS}ms")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(printed)["jobs"][0]["read"]["iops"]) / calls


def _plan(
    url: str, workers: int, depth: int, tasks: tuple[plans.TreeTask, ...], options: argparse.Namespace
) -> plans.Plan:
    tree = plans.Tree(
        depth=1,
        width=DIRECTORIES,
        files=options.files // DIRECTORIES,
        files_on_all_levels=True,
        sizes=(plans.SizeShare(bytes=FILE_BYTES, weight=1),),
    )
    kinds: tuple[plans.OperationKind, ...] = ("mkdir", "write_file", "getattr", "delete")
    engine = plans.NfsMetadataEngine(mount=NfsTarget.of(url).mount(1), keep_open=True)
    return tree_plan(
        plans.TreeWork(tree=tree, tasks=tasks, select=plans.SequentialSelect(), select_once=tasks != PHASES[0][1]),
        engine,
        "tree",
        kinds,
        FILE_BYTES,
        workers,
        depth,
    )


def tree_plan(
    work: plans.TreeWork,
    engine: plans.MetadataEngine | plans.NfsMetadataEngine,
    path: str,
    kinds: Sequence[plans.OperationKind],
    block_bytes: int,
    workers: int,
    depth: int,
) -> plans.Plan:
    """Workers that carry out the same work on a tree at ``path``, each with ``depth`` operations in flight."""
    block = plans.FixedBlocks(bytes=block_bytes)
    each = plans.Worker(
        job="metadata",
        jobnum=0,
        report_group=0,
        engine=engine,
        files=(plans.FilePlan(path=path, offset_bytes=0, bytes=block_bytes, layout="nothing", keep=True),),
        file_select="round_robin",
        operations=tuple(
            plans.OperationPlan(kind=kind, share=1, blocks=block, random_percent=0, rate=None) for kind in kinds
        ),
        access=plans.Access(),
        depth=depth,
        start_delay_ns=0,
        ramp_ns=0,
        end=plans.End(runtime_ns=None, bytes=None, operations=None),
        seed=1,
        payload=plans.Payload(content=plans.RandomContent(), renew="scramble", compress_percent=0, dedupe_percent=0),
        tree=work,
    )
    all_workers = tuple(each.replace(jobnum=number) for number in range(workers))
    return plans.Plan(name="metadata", interval_ns=SECOND_NS, groups=(plans.Group(workers=all_workers),))


def _cpu_s(pid: int) -> float:
    """CPU time of a process and its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print(rows: Iterator[Row]) -> None:
    first: dict[str, Row] = {}
    for row in rows:
        base = first.setdefault(row.phase, row)
        print(
            f"{row.side:34} {row.phase:8} {row.rate:10,.0f}/s  CPU µs: client {row.client_us:6.2f}, "
            f"server {row.server_us:6.2f}  × {base.rate / row.rate:5.1f}, {row.rate / row.sockets:.2f} of sockets",
            flush=True,
        )


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.metadata", description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3", "4.1"], help="versions of NFS")
    parser.add_argument("--depth", type=int, default=32, help="operations in flight, and workers of the other side")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--ganesha", action="store_true", help="measure nfs-ganesha, too; needs root")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
