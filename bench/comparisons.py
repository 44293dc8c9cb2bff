"""The comparisons: the null engine, files by io_uring, NFS, the embedded volume."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import servers
from bench.measure import Duration, Side, compare, run_to_end
from bench.processes import LINTED
from bench.servers import IOCURVE, Server
from bench.socket_limit import build, limit_name, limit_sides

NFS_LOAD = Path(__file__).parents[1] / "target/debug/examples/nfs_load"
IOCURVE_FIO = (str(IOCURVE), "fio")
ONE_CORE = ("taskset", "--cpu-list", "0")
LAYOUT_TIMEOUT_SECONDS = 300

PEER_FIO_NFS = "IOCURVE_PEER_FIO_NFS"
"""Environment variable: path of a fio with the nfs engine, which Debian's lacks; without it that side is skipped."""


@dataclass(frozen=True)
class Settings:
    """Rounds, times and sizes of the measurements."""

    rounds: int
    duration: Duration
    file_mib: int
    directory: Path
    """Directory of the file for io_uring; its storage determines that comparison."""
    cores: int = 2
    """Client and server of a comparison share this many, whatever the machine has."""

    @property
    def pinned(self) -> tuple[str, ...]:
        """Starts a program on these cores."""
        return ("taskset", "--cpu-list", f"0-{self.cores - 1}")

    @property
    def one_core_a_job(self) -> tuple[str, ...]:
        """Options of fio."""
        return (f"--cpus_allowed=0-{self.cores - 1}", "--cpus_allowed_policy=split")


@dataclass(frozen=True)
class Comparison:
    """One table of the result."""

    name: str
    about: str
    measure: Callable[[Settings], list[dict[str, Any]]]


def measure_null(settings: Settings) -> list[dict[str, Any]]:
    job = (
        *("--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--iodepth=32"),
        f"--size={settings.file_mib}m",
    )
    sides = [
        Side("fio", (*ONE_CORE, fio_path(), *job)),
        Side("iocurve", (*ONE_CORE, *IOCURVE_FIO, *job)),
    ]
    return compare(sides, settings.rounds, settings.duration)


def measure_uring(settings: Settings) -> list[dict[str, Any]]:
    file = settings.directory / "iocurve-bench.data"
    job = (
        *("--name=uring", "--ioengine=io_uring", "--rw=randread", "--bs=4k", "--iodepth=64", "--direct=1"),
        *(f"--filename={file}", f"--size={settings.file_mib}m"),
    )
    sides = [
        Side("fio", (fio_path(), *job)),
        Side("iocurve", (*IOCURVE_FIO, *job)),
        Side("fio, registered", (fio_path(), *job, "--fixedbufs", "--registerfiles")),
    ]
    write_file(file, settings.file_mib)
    try:
        return compare(sides, settings.rounds, settings.duration)
    finally:
        file.unlink()


def measure_nfs_v3(settings: Settings, depth: int, jobs_per_core: int) -> list[dict[str, Any]]:
    """fio, if it has the nfs engine, and iocurve."""
    fio_nfs = peer_fio_nfs()
    fio = [Client("fio", (fio_nfs,), is_libnfs=True)] if fio_nfs else []
    return measure_nfs([*fio, OUR_CLIENT], settings, depth, jobs_per_core)


def measure_nfs(clients: Sequence[Client], settings: Settings, depth: int, jobs_per_core: int) -> list[dict[str, Any]]:
    """Every client on every available server; each job is a connection and a file."""
    jobs = jobs_per_core * settings.cores
    build()
    with ExitStack() as stack:
        targets = {"volume": stack.enter_context(servers.volume("--profile=unlimited", prefix=settings.pinned))}
        if shutil.which("ganesha.nfsd") and os.geteuid() == 0:
            started = servers.ganesha("mem", settings.directory, prefix=settings.pinned)
            targets = {"ganesha": stack.enter_context(started), **targets}
        for target in targets.values():
            run_to_end(OUR_CLIENT.job(target, "write", "1m", 4, jobs, settings), LAYOUT_TIMEOUT_SECONDS)
        sides = [
            Side(
                f"{client.name} → {name}",
                client.job(target, "randread", "4k", depth, jobs, settings),
                target.pid,
                limit_name("randread", "4k"),
            )
            for name, target in targets.items()
            for client in clients
        ]
        sides += limit_sides("randread", "4k", depth, jobs, settings.pinned, settings.file_mib)
        return compare(sides, settings.rounds, settings.duration)


VOLUME_LOADS = (
    ("randread", "4k", 64),
    ("randread", "8k", 64),
    ("read", "64k", 16),
    ("read", "256k", 16),
    ("read", "1m", 8),
    ("randwrite", "4k", 64),
    ("write", "256k", 16),
)
"""Loads of the embedded volume: access, block size, and depth of each job; there is one a core."""

CHECKED_MIB = 64
"""Largest part of each file that is verified."""


def measure_volume(settings: Settings) -> list[dict[str, Any]]:
    """Our client on the embedded volume; the first side is its 4 KiB reads from nfs-ganesha, if that is installed."""
    build()
    with ExitStack() as stack:
        target = stack.enter_context(servers.volume("--profile=unlimited", prefix=settings.pinned))
        checked = [_check_data(target, block, min(settings.file_mib, CHECKED_MIB)) for block in (4 << 10, 256 << 10)]
        targets = {"volume": target}
        if shutil.which("ganesha.nfsd") and os.geteuid() == 0:
            started = servers.ganesha("mem", settings.directory, prefix=settings.pinned)
            targets = {"ganesha": stack.enter_context(started), **targets}
        for target in targets.values():
            fill(target, settings)
        sides = [
            side
            for name, target in targets.items()
            for side in load_sides(name, target, VOLUME_LOADS if name == "volume" else VOLUME_LOADS[:1], settings)
        ]
        sides += volume_limits(settings)
        return [{**side, "data_checked": checked} for side in compare(sides, settings.rounds, settings.duration)]


def fill(target: Server, settings: Settings) -> None:
    """Writes the files of :func:`load_sides`."""
    run_to_end(OUR_CLIENT.job(target, "write", "1m", 4, settings.cores, settings), LAYOUT_TIMEOUT_SECONDS)


def load_sides(
    name: str, target: Server, loads: Sequence[tuple[str, str, int]], settings: Settings, client: Client | None = None
) -> list[Side]:
    """A client's loads on a server, each with its limit."""
    return [
        Side(
            f"{access} {block} → {name}",
            (
                *(client or OUR_CLIENT).job(target, access, block, depth, settings.cores, settings),
                *settings.one_core_a_job,
            ),
            target.pid,
            limit_name(access, block),
        )
        for access, block, depth in loads
    ]


def volume_limits(settings: Settings) -> list[Side]:
    """The loads by sockets alone; writes by sockets that store, too."""
    return [
        side
        for access, block, depth in VOLUME_LOADS
        for side in limit_sides(access, block, depth, settings.cores, settings.pinned, settings.file_mib)
    ]


def _check_data(server: Server, block_bytes: int, file_mib: int) -> str:
    """Writes two files block by block, reads them back in a second pass and compares; an error if a byte differs."""
    # The packages of `make compile`, so that nothing is compiled with other features a second time.
    build = (*LINTED, "build", "--quiet", "--locked", "--workspace", "--example=nfs_load")
    run_to_end(build, LAYOUT_TIMEOUT_SECONDS)
    address = ("127.0.0.1", str(server.port), str(server.mount_port), server.export)
    options = ("check", "16", "1", "2", str(block_bytes), "0", f"files={file_mib}")
    return run_to_end((str(NFS_LOAD), *address, *options), LAYOUT_TIMEOUT_SECONDS).output.strip()


@dataclass(frozen=True)
class Client:
    name: str
    command: tuple[str, ...]
    is_libnfs: bool
    version: str = "3"

    def job(self, server: Server, rw: str, block: str, depth: int, jobs: int, settings: Settings) -> tuple[str, ...]:
        url = server.libnfs_url if self.is_libnfs else server.url_of(self.version)
        return (
            *(*settings.pinned, *self.command, "--name=nfs", "--ioengine=nfs", f"--nfs_url={url}"),
            *(f"--rw={rw}", f"--bs={block}", f"--iodepth={depth}", f"--numjobs={jobs}", f"--size={settings.file_mib}m"),
            "--group_reporting",
        )


OUR_CLIENT = Client("iocurve", IOCURVE_FIO, is_libnfs=False)
OUR_CLIENT_V41 = replace(OUR_CLIENT, name="iocurve, v4.1", version="4.1")


def write_file(path: Path, mib: int) -> None:
    with path.open("xb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def fio_path() -> str:
    """The installed fio. Raises ``RuntimeError``."""
    path = shutil.which("fio")
    if path is None:
        raise RuntimeError("fio is not installed; on Debian: apt-get install fio")
    return path


def peer_fio_nfs() -> str | None:
    path = os.environ.get(PEER_FIO_NFS)
    if path and not shutil.which(path):
        raise RuntimeError(f"{PEER_FIO_NFS} names {path}, which is not an executable file")
    return path or None


COMPARISONS = {
    comparison.name: comparison
    for comparison in (
        Comparison(
            "null",
            "The cost of the loop: null engine, 4 KiB, depth 32, every latency recorded, one core",
            measure_null,
        ),
        Comparison("uring", "A file by io_uring: 4 KiB random reads, O_DIRECT, depth 64", measure_uring),
        Comparison(
            "nfs",
            "NFSv3, client and server on the same cores: 4 KiB random reads, 2 jobs a core at depth 16",
            partial(measure_nfs_v3, depth=16, jobs_per_core=2),
        ),
        Comparison(
            "nfs-deep",
            "NFSv3, client and server on the same cores: 4 KiB random reads, a job a core at depth 64",
            partial(measure_nfs_v3, depth=64, jobs_per_core=1),
        ),
        Comparison(
            "nfs41",
            "NFSv3 and NFSv4.1, client and server on the same cores: 4 KiB random reads, a job a core at depth 64",
            partial(measure_nfs, [OUR_CLIENT, OUR_CLIENT_V41], depth=64, jobs_per_core=1),
        ),
        Comparison(
            "volume",
            "The embedded volume and its client on the same cores: a job a core, depth 64 (4k, 8k), 16 (to 256k), 8",
            measure_volume,
        ),
    )
}
