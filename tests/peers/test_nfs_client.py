"""Our NFS client against nfs-ganesha, driven by fio's options."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.servers import IOCURVE, Server

BLOCK_BYTES = 4096
FILE_BYTES = 4 << 20
BLOCKS = FILE_BYTES // BLOCK_BYTES


@pytest.mark.parametrize("nconnect", [1, 4])
@pytest.mark.parametrize("order", ["write", "randwrite"])
def test_every_block_written_is_in_the_file(
    ganesha: Server, ganesha_directory: Path, order: str, nconnect: int
) -> None:
    name = f"{order}{nconnect}"
    job = _fio(ganesha, name, f"--rw={order}", "--iodepth=16", f"--nconnect={nconnect}")
    assert (job["write"]["total_ios"], job["write"]["io_bytes"]) == (BLOCKS, FILE_BYTES)
    written = (ganesha_directory / f"{name}.0.0").read_bytes()
    blocks = [written[start : start + BLOCK_BYTES] for start in range(0, len(written), BLOCK_BYTES)]
    assert len(written) == FILE_BYTES
    # Each block is written once with unique bytes: a lost write leaves a hole, a misplaced one a duplicate.
    assert bytes(BLOCK_BYTES) not in blocks
    assert len(set(blocks)) == BLOCKS


@pytest.mark.parametrize("nconnect", [1, 4])
@pytest.mark.parametrize(("order", "depth"), [("read", 1), ("randread", 64)])
def test_a_file_that_is_there_is_read(
    ganesha: Server, ganesha_directory: Path, order: str, depth: int, nconnect: int
) -> None:
    name = f"{order}{nconnect}"
    original = bytes(range(256)) * (FILE_BYTES // 256)
    (ganesha_directory / f"{name}.0.0").write_bytes(original)
    job = _fio(ganesha, name, f"--rw={order}", f"--iodepth={depth}", f"--nconnect={nconnect}")
    assert (job["read"]["total_ios"], job["read"]["io_bytes"]) == (BLOCKS, FILE_BYTES)
    assert job["write"]["total_ios"] == 0
    assert (ganesha_directory / f"{name}.0.0").read_bytes() == original


def test_an_unknown_export_is_said(ganesha: Server) -> None:
    elsewhere = ganesha.url.replace(ganesha.export, "/elsewhere", 1)
    failed = _run("--name=x", f"--nfs_url={elsewhere}", "--rw=read", "--size=4k")
    assert failed.returncode != 0
    assert "/elsewhere" in failed.stderr
    assert "Traceback" not in failed.stderr


def _fio(server: Server, name: str, *options: str) -> dict[str, Any]:
    """The only job in fio's JSON."""
    size = (f"--size={FILE_BYTES}", f"--bs={BLOCK_BYTES}", "--output-format=json")
    done = _run(f"--name={name}", f"--nfs_url={server.url}", *size, *options)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert isinstance(job, dict)
    return job


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [IOCURVE, "fio", "--ioengine=nfs", *options], capture_output=True, text=True, timeout=60, check=False
    )
