"""``python -m bench.limits.strangers``: what iocurve says limits servers and disks that are not its own.

Each row sets one limit up, runs ``iocurve envelope TARGET --quick`` and ``iocurve why --confirm`` on its result as a
user would, and puts both names next to what was set up. Load goes only to this machine's loopback and to namespaces
that the bench makes; everything that it sets up goes when its row ends, after Ctrl-C, too. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults import network
from bench.limits import tables
from bench.limits.examine import HELD_UP, Machine, final_name, judged_name
from bench.servers import RIG, free_ports, ganesha
from bench.truth.instruments import program

COLUMNS = ("set up", "points of the first page", "fastest point", "why --confirm", "right names", "judged")
JUDGED = {"right": "right", "undecided": "inconclusive", "held up": "CPU contention", "false": "false"}
RUN_TIMEOUT_S = 300
START_TIMEOUT_S = 90
DISK_BYTES = 640 << 20
MBIT = 200
READ_WRITE = ("volume_{}", "volume_read_{}", "volume_write_{}")
IOPS = frozenset({"disk_iops", *(name.format("iops") for name in READ_WRITE)})
BYTES = frozenset({"disk_throughput", *(name.format("throughput") for name in READ_WRITE)})
LINK = frozenset({*BYTES - {"disk_throughput"}, "client_read", "client_egress", "tcp_congestion"})
MACHINE = frozenset({*HELD_UP, "server_parallelism"})
"""The processors are the limit if nothing else is: of the machine, and so of the server."""


@dataclass(frozen=True)
class Opened:
    """A target that is up, and what comes before iocurve's command line."""

    target: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A target with a limit."""

    setting: str
    right: frozenset[str]
    opened: Callable[[Path], AbstractContextManager[Opened]]


def _ganesha(**settings: str) -> Callable[[Path], AbstractContextManager[Opened]]:
    @contextmanager
    def opened(directory: Path) -> Iterator[Opened]:
        with ganesha("mem", directory, settings=settings) as server:
            yield Opened(server.url)

    return opened


def _ganesha_on_a_slow_disk(delay_ms: int, threads: int) -> Callable[[Path], AbstractContextManager[Opened]]:
    """Each read and write of the disk takes a time, of any number at once (``slow_disk.c``).

    ``threads`` is RPC_Ioq_ThrdMax; one of them waits for connections. Nb_Worker is for 9P alone in nfs-ganesha 4.
    """

    @contextmanager
    def opened(_: Path) -> Iterator[Opened]:
        settings = {
            "CORE": f"RPC_Ioq_ThrdMax = {threads};",
            "LD_PRELOAD": program("slow_disk"),
            "SLOW_DISK_US": str(1000 * delay_ms),
        }
        with (
            tempfile.TemporaryDirectory(prefix="iocurve-limits-", dir="/dev/shm") as disk,
            ganesha("vfs", Path(disk), settings=settings) as server,
        ):
            yield Opened(server.url)

    return opened


@contextmanager
def _behind_a_link(directory: Path) -> Iterator[Opened]:
    shaped = f"tbf rate {MBIT}mbit burst 64kb latency 100ms"
    with network.link() as link:
        network.run_command(f"ip -n {link.name} link set lo up")
        network.run_command(f"tc qdisc add dev {link.name}-c root {shaped}")
        network.run_command(f"ip netns exec {link.name} tc qdisc add dev {link.name}-s root {shaped}")
        settings = {"ADDRESS": link.server_address}
        with ganesha("mem", directory, link.prefix, settings) as server:
            yield Opened(server.url)


def _knfsd(threads: int, file_system: str) -> Callable[[Path], AbstractContextManager[Opened]]:
    @contextmanager
    def opened(_: Path) -> Iterator[Opened]:
        port = free_ports()
        command = [str(RIG / "kernel-nfs"), "--serve", "--port", str(port), "--threads", str(threads)]
        command += ["--fs", file_system, "--size", "640"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            try:
                line = process.stdout.readline()
                if "READY" not in line:
                    raise RuntimeError(f"the kernel's NFS server did not start: {line}")
                yield Opened(f"nfs://127.0.0.1/export?nfsport={port}&mountport={port + 1}")
            finally:
                process.terminate()
                process.wait(START_TIMEOUT_S)

    return opened


@contextmanager
def io_group(device: Path | None, limits: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Limits the I/O of processes on a device, by a cgroup; gives what comes before their commands."""
    parent = Path("/sys/fs/cgroup/blkio")
    is_first = parent.is_dir()
    group = (parent if is_first else Path("/sys/fs/cgroup")) / f"iocurve-limits-{os.getpid()}"
    group.mkdir()
    try:
        number = (device or Path("/dev/loop0")).stat().st_rdev
        name = f"{os.major(number)}:{os.minor(number)}"
        short = {"read_iops": "riops", "write_iops": "wiops", "read_bps": "rbps", "write_bps": "wbps"}
        for key, value in limits.items():
            if is_first:
                (group / f"blkio.throttle.{key}_device").write_text(f"{name} {value}")
            else:
                (group / "io.max").write_text(f"{name} {short[key]}={value}")
        yield ("sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"))
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def _ext4(**limits: int) -> Callable[[Path], AbstractContextManager[Opened]]:
    """ext4 on a loop device over a file in memory."""

    @contextmanager
    def opened(directory: Path) -> Iterator[Opened]:
        image, mount = Path("/dev/shm") / f"iocurve-limits-{os.getpid()}", directory / "mount"
        mount.mkdir()
        with ExitStack() as stack:
            stack.callback(image.unlink, missing_ok=True)
            with image.open("wb") as file:
                file.truncate(DISK_BYTES)
            _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
            device = _run("losetup", "--find", "--show", str(image)).strip()
            stack.callback(_run, "losetup", "--detach", device)
            _run("mount", device, str(mount))
            stack.callback(_run, "umount", str(mount))
            yield Opened(str(mount), stack.enter_context(io_group(Path(device), limits)))

    return opened


@contextmanager
def _tmpfs(_: Path) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory(prefix="iocurve-limits-", dir="/dev/shm") as directory:
        limits = {"read_iops": 1000, "write_iops": 1000}
        with io_group(None, limits) as prefix:
            yield Opened(directory, prefix)


ROWS = {
    "ganesha": Row("nfs-ganesha (FSAL_MEM), no limit: both ends on one machine", MACHINE, _ganesha()),
    "ganesha-1-worker": Row(
        "nfs-ganesha (FSAL_MEM), `Nb_Worker = 1`, which version 4 has for 9P only",
        MACHINE,
        _ganesha(CORE="Nb_Worker = 1;"),
    ),
    "ganesha-threads": Row(
        "nfs-ganesha (FSAL_VFS) with 4 threads (`RPC_Ioq_ThrdMax`), disk of 4 ms",
        frozenset({"server_parallelism"}),
        _ganesha_on_a_slow_disk(4, 4),
    ),
    "ganesha-slow-disk": Row(
        "nfs-ganesha (FSAL_VFS), disk of 20 ms at any depth", frozenset({"depth"}), _ganesha_on_a_slow_disk(20, 200)
    ),
    "ganesha-link": Row(f"nfs-ganesha behind a link of {MBIT} Mbit/s each way (`tc`, tbf)", LINK, _behind_a_link),
    "knfsd-1": Row("knfsd, 1 thread, tmpfs, kernel on one processor", MACHINE, _knfsd(1, "tmpfs")),
    "knfsd-2": Row("knfsd, 2 threads, tmpfs, kernel on one processor", MACHINE, _knfsd(2, "tmpfs")),
    "knfsd-8": Row("knfsd, 8 threads, ext4, kernel on one processor", MACHINE, _knfsd(8, "ext4")),
    "ext4-iops": Row(
        "ext4 in a cgroup: 1,500 reads and as many writes per second", IOPS, _ext4(read_iops=1500, write_iops=1500)
    ),
    "ext4-bytes": Row(
        "ext4 in a cgroup: 40 MiB/s of reads and as many of writes", BYTES, _ext4(read_bps=40 << 20, write_bps=40 << 20)
    ),
    "tmpfs": Row("tmpfs in a cgroup of 1,000 operations per second, which do not apply to it", MACHINE, _tmpfs),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures rows, prints the table and writes it."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits.strangers", description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="default: all")
    parser.add_argument("--out", type=Path, help="add the records to this file, and repeat no row that it has")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row after this time")
    parser.add_argument("--pages", type=Path, help="keep the first pages in this directory, one a row")
    parser.add_argument("--section", help="write the rows into this section of the page, and keep its other rows")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    records = tables.kept(options.out)
    ends = time.monotonic() + options.seconds
    for name in options.rows or ROWS:
        if time.monotonic() > ends or any(record["row"] == name for record in records):
            continue
        records.append(_measured(name, options.pages))
        print(json.dumps(records[-1]), flush=True)
        tables.keep(options.out, records[-1])
    rows = _rows(records)
    print("\n".join(["", tables.machine(records), "", *rows]))
    if options.section and records:
        measured = {ROWS[record["row"]].setting for record in records if "problem" not in record}
        new = [row for row, record in zip(rows, records, strict=True) if "problem" not in record]
        kept = [row for row in tables.rows(options.section) if row.split(" | ")[0].removeprefix("| ") not in measured]
        head = [tables.line(COLUMNS), tables.line(["---"] * len(COLUMNS))]
        note = " This is the machine of the rows with the newest commit." if kept else ""
        tables.write(options.section, "\n".join([f"{tables.machine(records)}{note}", "", *head, *new, *kept]))
    return 0


def _measured(name: str, pages: Path | None) -> dict[str, Any]:
    """The record of a row; a row that cannot be set up on this machine says why."""
    row, machine = ROWS[name], Machine()
    with tempfile.TemporaryDirectory(prefix="iocurve-limits-") as directory:
        try:
            with row.opened(Path(directory)) as opened:
                found = _named(opened, str(pages / name) if pages else f"{directory}/report")
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            found = {"problem": f"{type(error).__name__}: {error}"[:300]}
    facts = machine.facts()
    if "final" in found:
        found["judged"] = judged_name(row.right, found["final"], facts["busy_share"])
    return {"row": name, **facts, **found}


def _named(opened: Opened, out: str) -> dict[str, Any]:
    _iocurve(opened, "envelope", opened.target, "--quick", "--quiet", "--out", out)
    points = json.loads(_iocurve(opened, "why", out, "--json"))
    document = json.loads(_iocurve(opened, "why", out, "--confirm", "--json"))
    return {
        "points": Counter(f"{point['code']} ({point['confidence']})" for point in points),
        "point": document["point"],
        "first": [document["code"], document["confidence"]],
        "outcome": document["outcome"],
        "final": final_name(document),
        "evidence": document.get("evidence_now"),
    }


def _iocurve(opened: Opened, *words: str) -> str:
    return _run(*opened.prefix, sys.executable, "-m", "iocurve", *words)


def _run(*command: str) -> str:
    """The output of a command; raises with what it complains of."""
    if not shutil.which(command[0]):
        raise RuntimeError(f"{command[0]} is not installed")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}: {re.sub(chr(10), ' ', ran.stderr.strip())}")
    return ran.stdout


def _rows(records: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table."""
    lines = []
    for record in records:
        row = ROWS[record["row"]]
        if "problem" in record:
            problem = " ".join(record["problem"].split())
            lines.append(tables.line((row.setting, problem, "", "", "", "not measured")))
            continue
        points = ", ".join(f"{name} {count}" for name, count in Counter(record["points"]).most_common())
        confirmed = f"{record['outcome']}: {record['final'] or 'inconclusive'}"
        right, judged = ", ".join(sorted(row.right)), f"{JUDGED[record['judged']]} (at {record['commit']})"
        lines.append(tables.line((row.setting, points, record["point"], confirmed, right, judged)))
    return lines


if __name__ == "__main__":
    sys.exit(main())
