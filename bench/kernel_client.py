"""``python -m bench.kernel_client``: the Linux kernel's NFS client on the embedded volume and on nfs-ganesha, in turns.

Each turn boots the same guest kernel (``tests/rig/kernel-nfs``), which mounts one server and runs every workload once.
Data move with direct I/O; workloads on names begin with empty caches where they read. The volume stores in memory,
nfs-ganesha on tmpfs by its VFS store or, with ``--ganesha mem``, in memory, where it keeps 2 MiB of a file.
Processors are kept awake (``bench.awake``): each call on a name waits for the one before.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench import servers
from bench.awake import processors_awake
from bench.machine import environment, save
from bench.measure import median_bounds, process_cpu_seconds
from bench.servers import Server, guest_command

RESULTS = Path(__file__).parent / "results"
MOUNT_OPTIONS = "nconnect=8,rsize=262144,wsize=262144,hard"
TURN_TIMEOUT_SECONDS = 300
ARCHIVE_IN_GUEST = "/tree.tar"
ARCHIVE_FILES = 1_000
ARCHIVE_FILE_BYTES = 8 << 10
ARCHIVE_DIRECTORY_FILES = 40
ARCHIVE_SEED = 1

LOADS = (
    ("randread", "4k", 16),
    ("randread", "8k", 16),
    ("randwrite", "4k", 16),
    ("randwrite", "8k", 16),
    ("read", "64k", 16),
    ("read", "256k", 8),
    ("read", "1m", 4),
    ("write", "64k", 16),
    ("write", "256k", 8),
    ("write", "1m", 4),
)
"""Access, block size, and depth."""

READ_FIELDS, WRITE_FIELDS = "8,9", "49,50"
"""Fields of fio's terse output, version 3: IOPS and milliseconds."""

FUNCTIONS = """
set -e
load() {
    echo "begin $1 $2"
    /usr/bin/fio --name=load --filename=$MNT/data --size=${FILE_MIB}m --ioengine=libaio --direct=1 --fallocate=none \\
        --rw=$1 --bs=$2 --iodepth=$3 --time_based --runtime=${SECONDS_MS}ms --minimal >/tmp/fio
    echo "end $(cut -d';' -f$4 /tmp/fio | tr ';' ' ')"
}
forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }
[ -f $MNT/data ] || dd if=/dev/urandom of=$MNT/data bs=1M count=$FILE_MIB 2>/dev/null
"""

NAMES = f"""
mkdir $MNT/many $MNT/tree; cd $MNT/many
echo begin create; for i in $(seq $FILES); do : >$i; done; echo end $FILES
forget; echo begin stat; for i in $(seq $FILES); do [ -f $i ]; done; echo end $FILES
echo begin list; for i in 1 2 3 4 5; do forget; ls -l >/dev/null; done; echo end $((5 * FILES))
echo begin unlink; rm -f *; echo end $FILES
cd $MNT/tree
echo begin untar; tar -xf {ARCHIVE_IN_GUEST}; sync; echo end {ARCHIVE_FILES}
forget; echo begin read a tree; tar -cf - . | cat >/dev/null; echo end {ARCHIVE_FILES}
echo begin remove a tree; rm -r *; echo end {ARCHIVE_FILES}
cd /; rmdir $MNT/many $MNT/tree
"""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the loads of a turn."""

    seconds: float
    file_mib: int
    files: int


@dataclass(frozen=True)
class Reached:
    """The result of a workload in one turn: operations are I/Os, or files."""

    operations_per_s: float
    server_cpu_us_per_operation: float


@dataclass(frozen=True)
class Turn:
    """Every workload once, by one server."""

    load_average: float
    reached: dict[str, Reached]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the tables, and saves the result as JSON."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(options.seconds, options.file_mib, options.files)
    try:
        document = _document(options.rounds, options.versions, options.ganesha, sizes)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(f"Saved as {save(document, options.out, 'kernel-client-')}")
    return 0


def _document(rounds: int, nfs_versions: Sequence[str], kind: Literal["mem", "vfs"], sizes: Sizes) -> dict[str, Any]:
    turns: dict[str, dict[str, list[Turn]]] = {nfs: {"ganesha": [], "volume": []} for nfs in nfs_versions}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iocurve-bench-", dir="/dev/shm")))
        archive = _archive(directory / "tree.tar")
        stack.enter_context(processors_awake())
        sides = {
            "ganesha": stack.enter_context(servers.ganesha(kind, directory / "export")),
            "volume": stack.enter_context(servers.volume("--profile=unlimited", "--no-root-squash")),
        }
        for number in range(rounds):
            for nfs in nfs_versions:
                for name in sorted(sides, reverse=number % 2 == 1):
                    turns[nfs][name].append(_turn(sides[name], nfs, archive, sizes))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    comparisons = [_comparison(nfs, turns[nfs]) for nfs in nfs_versions]
    return {
        **environment(),
        "ganesha_store": kind,
        "mount_options": MOUNT_OPTIONS,
        "sizes": asdict(sizes),
        "comparisons": comparisons,
    }


def _archive(path: Path) -> Path:
    """An archive of many small files whose contents are the same in every run."""
    content = random.Random(ARCHIVE_SEED)
    with tarfile.open(path, "w") as archive:
        for number in range(ARCHIVE_FILES):
            entry = tarfile.TarInfo(f"{number // ARCHIVE_DIRECTORY_FILES}/{number}")
            entry.size = ARCHIVE_FILE_BYTES
            archive.addfile(entry, io.BytesIO(content.randbytes(entry.size)))
    return path


def _turn(server: Server, nfs: str, archive: Path, sizes: Sizes) -> Turn:
    """Runs every workload once in a separate guest. Raises ``RuntimeError`` if one fails."""
    added = [f"{archive}:{ARCHIVE_IN_GUEST}"]
    command = guest_command(server, _script(sizes), f"vers={nfs},{MOUNT_OPTIONS}", TURN_TIMEOUT_SECONDS, added)
    load_average = os.getloadavg()[0]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True) as guest,
    ):
        assert guest.stdout is not None
        found = dict(reached(guest.stdout, time.monotonic, lambda: process_cpu_seconds(server.pid)))
        if guest.wait() != 0:
            errors.seek(0)
            raise RuntimeError(f"{server.url}, vers={nfs}: the guest failed:\n{errors.read()[-2000:]}")
    return Turn(load_average, found)


def _script(sizes: Sizes) -> str:
    """The guest's shell script."""
    loads = (
        f"load {access} {block} {depth} {READ_FIELDS if access.endswith('read') else WRITE_FIELDS}"
        for access, block, depth in LOADS
    )
    values = f"FILE_MIB={sizes.file_mib} SECONDS_MS={round(sizes.seconds * 1000)} FILES={sizes.files}"
    return "\n".join((values, FUNCTIONS, *loads, NAMES))


def reached(
    lines: Iterable[str], clock: Callable[[], float], server_cpu_seconds: Callable[[], float]
) -> Iterator[tuple[str, Reached]]:
    """Reads what the guest prints: ``begin NAME``, then ``end FILES`` or, of fio, ``end IOPS MILLISECONDS``.

    Files count by the time between the two lines; fio's I/Os by fio's time, without its start.
    """
    name, begun, cpu = "", 0.0, 0.0
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "begin":
            name, begun, cpu = rest, clock(), server_cpu_seconds()
        elif word == "end":
            rate, operations = _rate(rest, clock() - begun)
            yield name, Reached(rate, (server_cpu_seconds() - cpu) * 1e6 / operations)


def _rate(figures: str, seconds: float) -> tuple[float, float]:
    """Operations per second, and operations."""
    first, *milliseconds = (float(figure) for figure in figures.split())
    if milliseconds:
        return first, first * milliseconds[0] / 1000
    return first / seconds, first


def _comparison(nfs: str, turns: dict[str, list[Turn]]) -> dict[str, Any]:
    """Medians over the rounds, and the volume's rate to nfs-ganesha's; prints the table."""
    rows = [_row(workload, turns) for workload in turns["volume"][0].reached]
    print(f"### NFSv{nfs}\n\n| workload | volume | nfs-ganesha | × | server CPU µs, volume | nfs-ganesha |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        rates = (f"{_figures(row, side, 'operations_per_s', ',.0f')}/s" for side in ("volume", "ganesha"))
        costs = (_figures(row, side, "server_cpu_us_per_operation", ".1f") for side in ("volume", "ganesha"))
        print(f"| {row['workload']} | {' | '.join(rates)} | {_ratio_text(row)} | {' | '.join(costs)} |")
    averages = {name: [turn.load_average for turn in side] for name, side in turns.items()}
    return {"nfs_version": nfs, "workloads": rows, "load_averages": averages}


def _figures(row: dict[str, Any], side: str, figure: str, form: str) -> str:
    return format(row[side]["median"][figure], form)


def _ratio_text(row: dict[str, Any]) -> str:
    bounds = row["ratio_bounds"]
    return f"{row['ratio']:.2f}" + (f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else "")


def _row(workload: str, turns: dict[str, list[Turn]]) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": workload}
    for name, side in turns.items():
        records = [asdict(turn.reached[workload]) for turn in side]
        columns = {figure: [record[figure] for record in records] for figure in records[0]}
        row[name] = {
            "median": {figure: statistics.median(values) for figure, values in columns.items()},
            "min": {figure: min(values) for figure, values in columns.items()},
            "max": {figure: max(values) for figure, values in columns.items()},
            "rounds": records,
        }
    rates = ((turn.reached[workload].operations_per_s for turn in turns[name]) for name in ("volume", "ganesha"))
    ratios = [ours / theirs for ours, theirs in zip(*rates, strict=True)]
    return {**row, "ratio": statistics.median(ratios), "ratio_bounds": median_bounds(ratios)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.kernel_client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="turns of each server; 6 or more give intervals")
    parser.add_argument("--versions", nargs="+", choices=("3", "4.1"), default=("3", "4.1"), help="versions of NFS")
    parser.add_argument("--ganesha", choices=("vfs", "mem"), default="vfs", help="nfs-ganesha's store; mem: in memory")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each load of fio")
    parser.add_argument("--file-mib", type=int, default=64, help="size of fio's file; at most 2 with --ganesha mem")
    parser.add_argument("--files", type=int, default=2_000, help="files to create, stat, list and unlink")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
