"""Our NFS client against nfs-ganesha and the Linux kernel's server, driven by fio's options."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import servers
from bench.servers import IOCURVE, Server

BLOCK_BYTES = 4096
FILE_BYTES = 4 << 20
BLOCKS = FILE_BYTES // BLOCK_BYTES


@pytest.mark.parametrize("version", ["3", "4"])
@pytest.mark.parametrize("nconnect", [1, 4])
@pytest.mark.parametrize("order", ["write", "randwrite"])
def test_every_block_written_is_in_the_file(
    ganesha: Server, ganesha_directory: Path, order: str, nconnect: int, version: str
) -> None:
    name = f"{order}{nconnect}v{version}"
    job = _fio(ganesha, version, name, f"--rw={order}", "--iodepth=16", f"--nconnect={nconnect}")
    assert (job["write"]["total_ios"], job["write"]["io_bytes"]) == (BLOCKS, FILE_BYTES)
    written = (ganesha_directory / f"{name}.0.0").read_bytes()
    blocks = [written[start : start + BLOCK_BYTES] for start in range(0, len(written), BLOCK_BYTES)]
    assert len(written) == FILE_BYTES
    # Each block is written once with unique bytes: a lost write leaves a hole, a misplaced one a duplicate.
    assert bytes(BLOCK_BYTES) not in blocks
    assert len(set(blocks)) == BLOCKS


@pytest.mark.parametrize("version", ["3", "4"])
@pytest.mark.parametrize("nconnect", [1, 4])
@pytest.mark.parametrize(("order", "depth"), [("read", 1), ("randread", 64)])
def test_a_file_that_is_there_is_read(
    ganesha: Server, ganesha_directory: Path, order: str, depth: int, nconnect: int, version: str
) -> None:
    name = f"{order}{nconnect}v{version}"
    original = bytes(range(256)) * (FILE_BYTES // 256)
    (ganesha_directory / f"{name}.0.0").write_bytes(original)
    job = _fio(ganesha, version, name, f"--rw={order}", f"--iodepth={depth}", f"--nconnect={nconnect}")
    assert (job["read"]["total_ios"], job["read"]["io_bytes"]) == (BLOCKS, FILE_BYTES)
    assert job["write"]["total_ios"] == 0
    assert (ganesha_directory / f"{name}.0.0").read_bytes() == original


@pytest.mark.parametrize("version", ["3", "4"])
def test_an_unknown_export_is_said(ganesha: Server, version: str) -> None:
    elsewhere = f"{ganesha.url.replace(ganesha.export, '/elsewhere', 1)}&version={version}"
    failed = _run("--name=x", f"--nfs_url={elsewhere}", "--rw=read", "--size=4k")
    assert failed.returncode != 0
    assert "/elsewhere" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_verified_data_survive_a_restart_of_ganesha(tmp_path: Path) -> None:
    """Opens are reclaimed by NFSv4.1; every block that was written is read back and compared."""
    if shutil.which("ganesha.nfsd") is None or os.geteuid() != 0:
        pytest.skip("needs root, and Debian's nfs-ganesha and nfs-ganesha-vfs")
    load = ("--rw=randwrite", "--iodepth=16", "--nconnect=2", "--verify=crc32c", "--rate_iops=1500")
    with servers.ganesha("vfs", tmp_path) as server:
        url = f"{server.url}&version=4"
        size = (f"--size={FILE_BYTES}", f"--bs={BLOCK_BYTES}", "--output-format=json")
        command = [str(IOCURVE), "fio", "--ioengine=nfs", "--name=restart", f"--nfs_url={url}", *size, *load]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            file = tmp_path / "restart.0.0"
            _wait_until(lambda: file.exists() and file.stat().st_size > FILE_BYTES // 8)
            _restart(server, tmp_path)
            out, error = running.communicate(timeout=100)
        assert running.returncode == 0, error
        (job,) = json.loads(out)["jobs"]
        assert (job["write"]["total_ios"], job["read"]["total_ios"], job["error"]) == (BLOCKS, BLOCKS, 0)


@pytest.mark.parametrize("version", ["3", "4"])
def test_the_kernels_server_keeps_verified_data(version: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the rig needs root")
    url = f"nfs://$NFS_HOST:$NFS_PORT$NFS_EXPORT?mountport=$MOUNT_PORT&version={version}"
    load = f"--rw=randwrite --verify=crc32c --iodepth=16 --nconnect=4 --size={FILE_BYTES} --bs={BLOCK_BYTES}"
    command = f'{IOCURVE} fio --ioengine=nfs --name=k --output-format=json "--nfs_url={url}" {load}'
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rig = [str(servers.RIG / "kernel-nfs"), "--serve", "--port", str(port), "--", command]
    done = subprocess.run(rig, capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert (job["write"]["total_ios"], job["read"]["total_ios"], job["error"]) == (BLOCKS, BLOCKS, 0)


def _restart(server: Server, directory: Path) -> None:
    """Kills ganesha and starts it again, over the same directory."""
    os.kill(server.pid, signal.SIGKILL)
    _wait_until(lambda: not Path(f"/proc/{server.pid}").exists())
    subprocess.run(
        [servers.RIG / "ganesha", "start", "vfs", directory], stdout=subprocess.DEVNULL, timeout=60, check=True
    )


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _fio(server: Server, version: str, name: str, *options: str) -> dict[str, Any]:
    """The only job in fio's JSON."""
    size = (f"--size={FILE_BYTES}", f"--bs={BLOCK_BYTES}", "--output-format=json")
    done = _run(f"--name={name}", f"--nfs_url={server.url}&version={version}", *size, *options)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert isinstance(job, dict)
    return job


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [IOCURVE, "fio", "--ioengine=nfs", *options], capture_output=True, text=True, timeout=60, check=False
    )
