"""Servers that others wrote restart in mid-load: a verified run of our client goes on, and loses nothing."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.faults.relay import relay
from bench.servers import IOCURVE, RIG, Server, free_ports, start_ganesha, stop_ganesha
from programs import completed, fio_jobs, started, stopped
from reclaims import COMPLETED_IN_THE_NEXT_SESSION, FILES, Reclaims

BLOCKS = 1024
GRACE_SECONDS = 3
VERSIONS = pytest.mark.parametrize("version", ["3", "4"])
JOB = (
    "--ioengine=nfs --name=j --rw=randwrite --verify=crc32c --bs=4k --size=4m --iodepth=8 --nconnect=2 "
    "--thinktime=40ms --thinktime_blocks=8 --output-format=json"
)
"""It writes for five seconds. A rate would be made up for after a kill, and the load end before the next one."""


def _finished(process: subprocess.CompletedProcess[str]) -> None:
    assert process.returncode == 0, process.stderr
    (job,) = fio_jobs(process.stdout)
    assert (job["write"]["total_ios"], job["read"]["total_ios"], job["error"]) == (BLOCKS, BLOCKS, 0)


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("the servers need root")


@pytest.fixture
def restarting_ganesha(tmp_path: Path) -> Iterator[Path]:
    """The directory that nfs-ganesha serves; :func:`_start` starts the server (again)."""
    _need_root()
    if shutil.which("ganesha.nfsd") is None:
        pytest.skip("needs Debian's nfs-ganesha and nfs-ganesha-vfs")
    directory = tmp_path / "served"
    directory.mkdir()
    yield directory
    stop_ganesha()


def _start(directory: Path) -> Server:
    return start_ganesha("vfs", directory, settings={"GRACE": str(GRACE_SECONDS)})


def _kill(pid: int) -> None:
    """Returns once the process has gone: the rig does not start a second one next to it."""
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)


def _run_over_kills(directory: Path, place: Path, pid: int, kills: int, url: str, *more: str) -> None:
    """A verified load on nfs-ganesha, process ``pid``, which is killed meanwhile and started again."""
    with started("fio", *JOB.split(), *more, f"--nfs_url={url}", cwd=place) as load:
        while not any(directory.iterdir()):
            time.sleep(0.05)
        for _ in range(kills):
            time.sleep(1.5)
            assert load.poll() is None, "the load was to be interrupted"
            _kill(pid)
            pid = _start(directory).pid
        _finished(stopped(load))


@VERSIONS
def test_a_verified_run_survives_kills_of_ganesha(restarting_ganesha: Path, version: str, tmp_path: Path) -> None:
    server = _start(restarting_ganesha)
    _run_over_kills(restarting_ganesha, tmp_path, server.pid, 2, f"{server.url}&version={version}")


def test_a_reclaim_from_ganesha_goes_on_in_the_next_session(restarting_ganesha: Path, tmp_path: Path) -> None:
    server = _start(restarting_ganesha)
    reclaims = Reclaims(server.port)
    with relay(server.port) as between:
        between.look = reclaims.look
        url = f"nfs://127.0.0.1/vfs?nfsport={between.port}&version=4"
        _run_over_kills(restarting_ganesha, tmp_path, server.pid, 1, url, f"--nrfiles={FILES}", "--nconnect=1")
    assert reclaims.calls == COMPLETED_IN_THE_NEXT_SESSION


@VERSIONS
def test_a_verified_run_survives_a_restart_of_the_kernels_server(version: str, tmp_path: Path) -> None:
    _need_root()
    url = f"nfs://$NFS_HOST:$NFS_PORT$NFS_EXPORT?mountport=$MOUNT_PORT&version={version}"
    port = free_ports()
    rig = [str(RIG / "kernel-nfs"), "--serve", "--restart", "3", "--port", str(port), "--"]
    command = [*rig, f'{IOCURVE} fio {JOB} "--nfs_url={url}"']
    _finished(completed(command, timeout=110, cwd=tmp_path))
