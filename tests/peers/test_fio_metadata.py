"""fio's engines that create, look at and delete files: both tools count the same and leave the same files."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from goldens import cases
from programs import fio_jobs, fio_of

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

ENGINES = ("filecreate", "filestat", "filedelete")
TOOLS = ("iocurve", "fio")


@pytest.mark.parametrize("engine", ENGINES)
@cases("fio/metadata")
def test_iocurve_counts_as_fio_does(job: str, engine: str, tmp_path: Path) -> None:
    ours, theirs = (done(tool, f"{job} --ioengine={engine}", tmp_path) for tool in TOOLS)
    assert ours == theirs


@pytest.mark.parametrize("engine", ENGINES)
def test_each_further_loop_or_second_does_the_operation_again_where_it_can(engine: str, tmp_path: Path) -> None:
    """A deleted file cannot be deleted again: fio fails with ENOENT, and so does iocurve."""
    job = f"--nrfiles=3 --filesize=4k --loops=4 --ioengine={engine}"
    entries = [run(tool, job, tmp_path / tool)[0] for tool in TOOLS]
    failed = engine == "filedelete"
    assert [entry["error"] for entry in entries] == [2 if failed else 0] * 2
    assert failed or [entry["read"]["total_ios"] for entry in entries] == [12, 12]


def test_without_a_size_each_created_file_counts_a_block(tmp_path: Path) -> None:
    ours, theirs = (done(tool, "--nrfiles=7 --rw=write --bs=8k --ioengine=filecreate", tmp_path) for tool in TOOLS)
    assert ours == theirs


def done(tool: str, job: str, place: Path) -> tuple[list[Any], dict[str, int]]:
    counts = [
        (kind, entry[kind]["total_ios"], entry[kind]["io_bytes"], entry[kind]["clat_ns"].get("N", 0))
        for entry in run(tool, job, place / tool)
        for kind in ("read", "write", "trim")
    ]
    return counts, {path.name: path.stat().st_size for path in (place / tool).iterdir()}


def run(tool: str, job: str, directory: Path) -> list[dict[str, Any]]:
    directory.mkdir()
    return fio_jobs(fio_of(tool, ["--name=a", *job.split(), "--output-format=json"], directory).stdout)
