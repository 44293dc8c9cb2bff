"""Our NFS client against nfs-ganesha and the Linux kernel's server, driven by fio's options."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import servers
from bench.servers import IOCURVE, Server
from programs import completed, fio_jobs

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
    assert (job["read"]["total_ios"], job["read"]["io_bytes"], job["write"]["total_ios"]) == (BLOCKS, FILE_BYTES, 0)
    assert (ganesha_directory / f"{name}.0.0").read_bytes() == original


@pytest.mark.parametrize("version", ["3", "4"])
def test_an_unknown_export_is_said(ganesha: Server, version: str) -> None:
    elsewhere = f"{ganesha.url.replace(ganesha.export, '/elsewhere', 1)}&version={version}"
    failed = _run("--name=x", f"--nfs_url={elsewhere}", "--rw=read", "--size=4k")
    assert failed.returncode != 0
    assert "/elsewhere" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("version", ["3", "4"])
def test_the_kernels_server_keeps_verified_data(version: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the rig needs root")
    url = f"nfs://$NFS_HOST:$NFS_PORT$NFS_EXPORT?mountport=$MOUNT_PORT&version={version}"
    load = f"--rw=randwrite --verify=crc32c --iodepth=16 --nconnect=4 --size={FILE_BYTES} --bs={BLOCK_BYTES}"
    command = f'{IOCURVE} fio --ioengine=nfs --name=k --output-format=json "--nfs_url={url}" {load}'
    port = servers.free_ports()
    rig = [str(servers.RIG / "kernel-nfs"), "--serve", "--port", str(port), "--", command]
    done = completed(rig, timeout=110, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (job,) = fio_jobs(done.stdout)
    assert (job["write"]["total_ios"], job["read"]["total_ios"], job["error"]) == (BLOCKS, BLOCKS, 0)


def _fio(server: Server, version: str, name: str, *options: str) -> dict[str, Any]:
    size = (f"--size={FILE_BYTES}", f"--bs={BLOCK_BYTES}", "--output-format=json")
    done = _run(f"--name={name}", f"--nfs_url={server.url}&version={version}", *size, *options)
    assert done.returncode == 0, done.stderr
    (job,) = fio_jobs(done.stdout)
    return job


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return completed([IOCURVE, "fio", "--ioengine=nfs", *options])
