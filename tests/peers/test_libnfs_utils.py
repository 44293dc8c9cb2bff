"""libnfs's tools against the embedded volume."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.servers import Server

pytestmark = pytest.mark.skipif(shutil.which("nfs-cp") is None, reason="needs Debian's libnfs-utils")

SIZES_BYTES = (0, 1, 4095, 4096, 1_048_576, 3_000_001)
"""Sizes around the transfer sizes of the tools and the volume."""


@pytest.fixture
def original(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    file = tmp_path / "original"
    file.write_bytes(random.Random(request.param).randbytes(request.param))
    return file


@pytest.mark.parametrize("original", SIZES_BYTES, indirect=True)
def test_nfs_cp_brings_a_file_there_and_back(shared_volume: Server, original: Path, tmp_path: Path) -> None:
    _tool("nfs-cp", str(original), _url(shared_volume, original.parent.name))
    back = tmp_path / "back"
    _tool("nfs-cp", _url(shared_volume, original.parent.name), str(back))
    assert back.read_bytes() == original.read_bytes()


@pytest.mark.parametrize("original", SIZES_BYTES, indirect=True)
def test_nfs_cat_prints_what_nfs_cp_wrote(shared_volume: Server, original: Path) -> None:
    _tool("nfs-cp", str(original), _url(shared_volume, original.parent.name))
    assert _tool("nfs-cat", _url(shared_volume, original.parent.name)) == original.read_bytes()


@pytest.mark.parametrize("original", [1234], indirect=True)
def test_nfs_ls_lists_names_and_sizes(volume: Server, original: Path) -> None:
    assert _tool("nfs-ls", volume.libnfs_url) == b""
    for name in ("one", "two"):
        _tool("nfs-cp", str(original), _url(volume, name))
    listed = [line.split() for line in _tool("nfs-ls", volume.libnfs_url).decode().splitlines()]
    assert sorted((fields[-1], fields[-2]) for fields in listed) == [("one", "1234"), ("two", "1234")]


@pytest.mark.parametrize(
    ("tool", "old", "new", "error"),
    [("nfs-cat", "?", "/nothing?", b"NFS3ERR_NOENT"), ("nfs-ls", "/vol", "/elsewhere", b"MNT3ERR_NOENT")],
)
def test_a_file_or_an_export_that_is_not_there_is_an_error(
    shared_volume: Server, tool: str, old: str, new: str, error: bytes
) -> None:
    url = shared_volume.libnfs_url.replace(old, new, 1)
    failed = subprocess.run([tool, url], capture_output=True, timeout=60, check=False)
    assert (failed.returncode != 0, error in failed.stderr) == (True, True)


def _url(server: Server, name: str) -> str:
    return server.libnfs_url.replace("?", f"/{name}?", 1)


def _tool(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
